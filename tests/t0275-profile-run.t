#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# `arena profile run`: models are measured once per device, the store is asked first, results of a failing device
# are told and listed; `import-comm` and `comm`. The device is a test's (arena-profiler-faulty): invented times.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
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
export ARENA_TEST_FAULT=none
profiler=$ARENA_BUILDDIR/arena-profiler-faulty
comm() { "$profiler" comm --gpu-type h100 --max-bytes 4K "$@" 2>"$work/err"; }
# shellcheck disable=SC2317 # called by refused
typed() { "$profiler" comm --gpu-type "$1" 2>"$work/err"; }
# shellcheck disable=SC2317 # called by refused
topology() { "$profiler" topology "$@" 2>"$work/err"; }
comm --out "$work/ranks.csv" --json >"$work/record.json"
is "$?" 0 "collectives between four ranks of one node are measured"
is "$(jq -r '"\(.measured) \(.wanted) \(.gpus_per_node) \(.device.name) \(.topology|has("gpus"))"' "$work/record.json")" \
    "42 42 4 test device, invented times true" "the record tells of every size, the device and the topology"
is "$(profile import-comm "$work/ranks.csv" | jq .rows)" 42 "the table goes into the store as it is"
is "$(profile comm --gpu-type h100 | jq -c '[.comm[]|[.op,.ranks,.groups]]|length')" 14 \
    "with five collectives of three placements; a send needs two ranks"
is "$(cut -d, -f2-5 "$work/ranks.csv" | grep -c '^all_reduce,2,1,2')" 3 "two pairs at once are among them"
is "$(comm --groups 3 --ops all-to-all --min-bytes 4096 | tail -n 1 | cut -d, -f1-6)" h100,all_to_all,3,1,1,4080 \
    "three ranks divide 4080 of 4096 bytes evenly"
refused 2 'must be RANKS' "a group that is none" comm --groups 1
refused 2 'has no room' "a group larger than the node" comm --groups 8
refused 2 'accepted are all_reduce' "an unknown collective" comm --ops broadcast
refused 2 'gpu_type must be a name' "a GPU type that is no name" typed 'a,b'
refused 2 'must be bytes' "a size that is none" comm --min-bytes 1T
refused 2 'give --out FILE' "--json without --out" comm --json
refused 3 'cannot write there' "a directory that is not there" comm --out "$work/none/x.csv"
export ARENA_TEST_GPUS=1
refused 3 'nobody to talk to' "one GPU" comm
ARENA_TEST_GPUS=none refused 3 'no usable GPU: the driver is not loaded' "no driver" comm
export ARENA_TEST_GPUS=4
refused 2 'has 4 visible GPUs' "more GPUs than there are" comm --gpus 5
export ARENA_TEST_FAULT=lost@30
refused 1 'measured 1 of 42 sizes: NCCL: all-reduce: remote process exited' "a lost rank" comm --out "$work/lost.csv"
is "$(wc -l <"$work/lost.csv")" 2 "what was measured before is kept"
ARENA_TEST_FAULT=nan refused 1 'no usable time' "a broken timer" comm --out "$work/nan.csv"
not_ok "and no table" test -e "$work/nan.csv"
unset ARENA_TEST_FAULT ARENA_TEST_GPUS
like "$("$profiler" topology --json)" '"gpus":\[' "arena-profiler topology shows this node"
echo '<topology' >"$work/broken.xml"
refused 2 "is not hwloc's XML" "a topology that is none" topology --xml "$work/broken.xml"

refused 2 'accepted are cpu and cuda' "an unknown device" comm --device tpu
host_comm() { "$profiler" comm --device cpu --gpu-type emulated --gpus 2 --ops all-reduce --min-bytes 4K --max-bytes "$@" 2>"$work/err"; }
is "$(host_comm 4K | tail -n 1 | cut -d, -f1-6)" emulated,all_reduce,2,1,1,4096 "two ranks of this host measure without a GPU"
is "$(host_comm 4K | tail -n 1 | cut -d, -f11)" node "and say that they are on one node"
refused 3 '2 ranks need .* more than half' "buffers larger than the memory" host_comm 1024G
refused 2 "for an emulated type .emulated-cpu., not 'h100'" "host memory as a GPU" comm --device cpu --gpus 2

# ---- profiles that come with slurm-arena -----------------------------------------------------------------
mkdir -p "$work/data/profiles"
cp "$ARENA_SRCDIR/etc/hardware.yaml" "$work/data/"
"$profiler" run --model gpt2 --batch 8 --max-gpus 1 --hardware A40 --gpu-type a40 --out "$work/data/profiles/a40.json" 2>/dev/null
echo '{' >"$work/data/profiles/broken.json"
jq -c '.device.kind = "cpu"' "$work/data/profiles/a40.json" >"$work/data/profiles/cpu.json"
planned() { ARENA_DATA_DIR=$work/data "$ARENA_BUILDDIR/arena" plan --json --model gpt2 --global-batch 8 --gpu-type "$@" --gpus 1 2>"$work/err" |
    jq -r '.grids[.best].estimate | "\(.source) \(.iteration_s)"'; }
recorded=$(planned A40)
like "$recorded" '^profiled ' "a recorded profile of the hardware entry is used"
like "$(cat "$work/err")" 'broken.json: .*left out' "a file that is none is left out with a sentence"
like "$(cat "$work/err")" "cpu.json: is a CPU's profile" "and so is a CPU's"
like "$(planned A40 --profiles none)" '^analytic ' "--profiles none leaves them out"
like "$(planned A100-SXM-80GB)" '^analytic ' "they speak for no other entry"
mkdir -m 700 "$work/site"
jq -c '.entries[].seconds *= 3' "$work/data/profiles/a40.json" >"$work/slower.json"
"$ARENA_BUILDDIR/arena" profile --store "$work/site/p.db" import "$work/slower.json" >/dev/null
site=$(planned A40 --profiles "$work/site/p.db")
ok "what the site measured wins: $site against $recorded" jq -en "${site#* } > 2 * ${recorded#* }"
jq -c '.nonce = "anothertype00000" | .gpu_type = "other" | .hardware = "A100-SXM-80GB"' "$work/slower.json" >"$work/other.json"
mkdir -m 700 "$work/elsewhere"
"$ARENA_BUILDDIR/arena" profile --store "$work/elsewhere/p.db" import "$work/other.json" >/dev/null
is "$(planned A40 --profiles "$work/elsewhere/p.db")" "$recorded" "a store that knows nothing of the type leaves it to them"

reference=${ARENA_REFERENCE_DATA:-$ARENA_SRCDIR/../shared/data}/arena/comm_tables.csv
if [[ -r $reference ]]; then
    is "$(profile import-comm "$reference" --table 8_a40_8_n_2_d_ib | jq '.rows > 1000')" true "Arena's own tables are read"
else
    skip 1 "the reference data is not here"
fi
done_testing
