#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# `arena profile run`: models are measured once per device, the store is asked first, results of a failing device
# are told and listed; `import-comm` and `comm`. The device is a test's (arena-profiler-faulty): invented times.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
: "${ARENA_SRCDIR:=$(cd "$(dirname "$0")/.." && pwd)}" "${ARENA_BUILDDIR:=$PWD}"
[[ -x $ARENA_BUILDDIR/arena-profiler-faulty && -x $ARENA_BUILDDIR/arena ]] ||
    skip_all "arena-profiler-faulty is not built (make check builds it)"
command -v jq >/dev/null || skip_all "jq is not installed"
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc ARENA_PROFILER=$ARENA_BUILDDIR/arena-profiler-faulty
work=$(mktemp -d "${TMPDIR:-/tmp}/arena-run-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -m 700 "$work/store" "$work/files"
store=$work/store/p.db
profile() { "$ARENA_BUILDDIR/arena" --json profile --store "$store" "$@" 2>"$work/err"; }
run() { profile run --hardware A40 --gpu-type a40 --batch 8 --max-gpus 2 "$@"; }
code_of() { "$@" >"$work/out"; echo $?; }

printf 'name: flat\nfamily: gpt\nlayers: 12\nhidden: 768\nheads: 12\nvocab: 50257\nseq_length: 1024\nprecision: bf16\n' >"$work/flat.yaml"
sed 's/flat/deep/; s/layers: 12/layers: 36/' "$work/flat.yaml" >"$work/deep.yaml"
first=$(run "$work/flat.yaml" "$work/deep.yaml")
is "$(jq -c '[.runs[].status]' <<<"$first")" '["complete","complete"]' "two models are measured"
is "$(jq '.runs[0].reused' <<<"$first")" 0 "the first in full"
is "$(jq '.runs[1].reused == .runs[1].wanted and .runs[1].measured == 0' <<<"$first")" true \
    "a deeper model of the same widths not at all"
again=$(run gpt2 "$work/flat.yaml")
is "$(jq '.runs[1].measured' <<<"$again")" 0 "another day the store is asked first"
is "$(profile list | jq '.runs|length')" 4 "all four runs are in the store"
ok "each with what direct measurement would have cost" jq -e 'all(.runs[]; .direct_seconds > 0)' <(profile list)
is "$(profile verify | jq .ok)" true "and the store is whole"
is "$("$ARENA_BUILDDIR/arena" plan --model "$work/flat.yaml" --global-batch 8 --gpu-type A40 --gpus 2 --profiles "$work/store/p.db" --json |
    jq -r '.grids[.best].estimate.source')" profiled "arena plan uses them"

# ---- as files, for a node that cannot reach the store -----------------------------------------------
files=$(profile run --hardware A40 --gpu-type a100 --batch 8 --max-gpus 2 --out-dir "$work/files" "$work/flat.yaml" "$work/deep.yaml")
is "$(jq '[.runs[].measured > 0]|tostring' <<<"$files")" '"[true,false]"' "with --out-dir a run re-uses the one before"
is "$(find "$work/files" -name 'a100-*.json' | wc -l)" 2 "and leaves files"
is "$(code_of profile import "$work/files/a100-flat.json")" 0 "which can be imported"

# ---- what cannot work --------------------------------------------------------------------------------
refused() { # EXIT-CODE WORDS NAME COMMAND...
    local wanted=$1 words=$2 name=$3
    shift 3
    is "$(code_of "$@")" "$wanted" "$name: exit $wanted"
    like "$(jq -r .error.message "$work/out") $(cat "$work/err")" "$words" "$name: a sentence"
}
refused 2 'give models by name or file' "no model" run
refused 2 'not both' "models and --zoo" run --zoo gpt2
refused 2 'no-such-model' "an unknown model" run no-such-model
refused 2 'A4o' "an unknown hardware entry" profile run --hardware A4o gpt2
refused 3 'cannot write there' "an output directory that is not there" run --out-dir "$work/none" gpt2
mkdir -m 777 "$work/open"
store=$work/open/p.db
refused 3 'writable by group or others' "a store where others may write" run gpt2
store=$work/store/p.db
export ARENA_TEST_FAULT=lost
refused 1 'fell off the bus' "a device that is lost" run gpt2-medium
is "$(profile list | jq -r '.runs[0].status')" failed "the failed run is listed"
export ARENA_TEST_FAULT=none ARENA_PROFILER=$work/nothing
refused 3 'cannot be run' "no profiler" run gpt2

# ---- collectives -------------------------------------------------------------------------------------
cat >"$work/comm.csv" <<'END'
gpu_type,op,ranks,nodes,groups,bytes,min_s,median_s,p95_s
a40,all_reduce,4,1,1,1024,1e-5,2e-5,3e-5
a40,all_reduce,4,1,1,1073741824,1e-2,2e-2,3e-2
END
is "$(profile import-comm "$work/comm.csv" | jq .rows)" 2 "a table of collectives is imported"
is "$(profile comm | jq -c '.comm[0]|[.op,.ranks,.buffers,(.bus_bytes_per_s|floor)]')" '["all_reduce",4,2,80530636800]' \
    "and shown with the bus bandwidth of its largest buffer"
is "$("$ARENA_BUILDDIR/arena" profile --store "$work/store/p.db" comm --csv | wc -l)" 3 "--csv writes every row"
echo 'a40,all_reduce,4,3,1,1024,1e-5,2e-5,3e-5' >>"$work/comm.csv"
refused 2 'line 4: ranks must be' "a row out of range" profile import-comm "$work/comm.csv"
reference=${ARENA_REFERENCE_DATA:-$ARENA_SRCDIR/../shared/data}/arena/comm_tables.csv
if [[ -r $reference ]]; then
    is "$(profile import-comm "$reference" --table 8_a40_8_n_2_d_ib | jq '.rows > 1000')" true "Arena's own tables are read"
else
    skip 1 "the reference data is not here"
fi
done_testing
