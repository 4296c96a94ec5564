#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A device that fails in every way we know: the run ends by itself, says why, never writes half a result,
# and what was measured before the fault stays. The device is a test's (arena-profiler-faulty): invented times.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
: "${ARENA_SRCDIR:=$(cd "$(dirname "$0")/.." && pwd)}" "${ARENA_BUILDDIR:=$PWD}"
profiler=$ARENA_BUILDDIR/arena-profiler-faulty arena=$ARENA_BUILDDIR/arena
[[ -x $profiler && -x $arena ]] || skip_all "arena-profiler-faulty is not built (make check builds it)"
command -v jq >/dev/null || skip_all "jq is not installed"
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc
work=$(mktemp -d "${TMPDIR:-/tmp}/arena-faults-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -m 700 "$work/spool" "$work/store"

request() { # [MODEL [BUDGET]]
    "$profiler" request --model "${1:-gpt2}" --batch 8 --max-gpus 1 --hardware A40 --gpu-type a40 --budget "${2:-60}"
}
# run FAULT REQUEST OUT [OPTION...]: exit code in $code; a limit far above any that the profiler keeps itself
run() {
    local fault=$1 request=$2 out=$3
    shift 3
    (ARENA_TEST_FAULT=$fault timeout -s KILL 300 "$profiler" run --request "$request" --out "$out" "$@"; exit $?) 2>"$work/err"
    code=$?
}
field() { jq -r ".$2" "$work/$1.json"; }
key_of_nonce() { jq -r .nonce <<<"$1"; }

# ---- no fault -------------------------------------------------------------------------------------
run none "$(request)" "$work/good.json" --json >"$work/stream"
is "$code $(field good status)" "0 complete" "a device without a fault gives a complete profile"
total=$(field good wanted)
is "$(field good 'entries|length')" "$total" "with every operator of the plans"
is "$(jq -r .event "$work/stream" | sort | uniq -c | tr -s ' \n' ' ')" " 1 begin 1 end $total operator " \
    "--json tells of the begin, of each operator, and of the end"
is "$(field good reused)" 0 "nothing was known before"
ok "the profile says what direct measurement would have cost" jq -e '.direct_seconds > 0' "$work/good.json"
for bound in 'all(.entries[]; .spread <= 0.01)' 'all(.entries[]; .repeats >= 6)'; do
    ok "each time is known within 1 %: $bound" jq -e "$bound" "$work/good.json"
done

is "$(jq -c '[.state.clock_mhz, .state.power_limit_w, .place.pci, .place.numa_node, .place.switches[0], .place.nics[0]]' "$work/good.json")" \
    '[1410,300,"0000:17:00.0",1,"0000:16:00.0","mlx5_0"]' "the profile says the device's state and where it sits"
mkdir -m 700 "$work/shown"
"$arena" profile --store "$work/shown/p.db" import "$work/good.json" >/dev/null
like "$("$arena" profile --store "$work/shown/p.db" show "$(field good nonce)")" \
    'in 0000:17:00.0, NUMA node 1, below PCI switch 0000:16:00.0, beside mlx5_0' "and arena profile show tells people"

# ---- re-use ----------------------------------------------------------------------------------------
run none "$(request)" "$work/again.json" --reuse "$work/good.json" -v
is "$code $(field again status) $(field again 'entries|length') $(field again reused)" "0 complete 0 $total" \
    "the same model again measures nothing"
is "$(field again direct_seconds)" "$(field good direct_seconds)" "and prices direct measurement as before"
like "$(cat "$work/err")" '\(100 %\)' "and says what was re-used"
run none "$(request gpt2-medium)" "$work/medium.json" --reuse "$work/good.json"
ok "a model of another width re-uses little" test "$((5 * $(field medium reused)))" -lt "$(field medium wanted)"
printf 'name: deep\nfamily: gpt\nlayers: 24\nhidden: 768\nheads: 12\nvocab: 50257\nseq_length: 1024\nprecision: fp32\n' >"$work/deep.yaml"
printf 'name: flat\nfamily: gpt\nlayers: 12\nhidden: 768\nheads: 12\nvocab: 50257\nseq_length: 1024\nprecision: fp32\n' >"$work/flat.yaml"
run none "$(request "$work/flat.yaml")" "$work/flat.json"
run none "$(request "$work/deep.yaml")" "$work/deep.json" --reuse "$work/flat.json"
is "$code $(field deep 'entries|length') $(field deep reused)" "0 0 $(field deep wanted)" \
    "a deeper model of the same widths re-uses all"
jq '.device.driver = "2"' "$work/good.json" >"$work/other.json"
run none "$(request)" "$work/none.json" --reuse "$work/other.json"
is "$code" 2 "a profile of another driver is refused"
like "$(cat "$work/err")" 'was measured on .*nothing of it can be re-used' "with a sentence"
not_ok "and nothing is written" test -e "$work/none.json"

# ---- faults ----------------------------------------------------------------------------------------
run hang@200 "$(request gpt2 3)" "$work/hang.json"
is "$code $(field hang status)" "0 partial" "a device that hangs: what was measured stays"
like "$(field hang reason)" 'the budget ended during [a-z_]+/' "the watchdog ended the run and names the operator"
run hang "$(request gpt2 1)" "$work/hang.json"
is "$code $(field hang status) $(field hang 'entries|length')" "1 failed 0" "a hang at once: failed, no entry"
run oom "$(request)" "$work/oom.json"
is "$code $(field oom status)" "1 failed" "no memory for any operator: failed"
like "$(field oom reason)" 'out of memory' "and says so"
run oom@100 "$(request)" "$work/oom.json"
is "$code $(field oom status)" "0 partial" "no memory for some operators: partial"
run lost@100 "$(request)" "$work/lost.json"
is "$code $(field lost status)" "0 partial" "a GPU that falls off the bus: what was measured stays"
like "$(field lost reason)" 'fell off the bus' "and the reason is the driver's"
run lost "$(request)" "$work/lost.json"
is "$code $(field lost status)" "1 failed" "lost from the beginning: failed"
run busy "$(request)" "$work/busy.json"
is "$code" 3 "a GPU that another process uses is not measured"
is "$(cat "$work/err")" "arena-profiler: GPU 0000:17:00.0 is in use, so nothing was measured: process 4711 (python3)" \
    "and the sentence names the process"
not_ok "nothing is written" test -e "$work/busy.json"
run slow "$(request)" "$work/slow.json"
is "$code $(field slow status) $(field slow 'entries|length')" "1 failed 0" "a device a hundred times slower than its entry: failed"
like "$(field slow reason)" '100 times slower than hardware entry A40' "and says how much"
for fault in nan zero; do
    run $fault "$(request)" "$work/$fault.json"
    is "$code $(field $fault status)" "1 failed" "a timer that says $fault: failed"
    like "$(field $fault reason)" 'no usable time' "and says so"
done
run nan@100 "$(request)" "$work/nan.json"
is "$code $(field nan status)" "0 partial" "a timer that breaks later: partial"
ok "with times that are numbers" jq -e '(.entries|length) > 0 and all(.entries[]; .seconds > 0)' "$work/nan.json"

# ---- places that cannot be written ------------------------------------------------------------------
run none "$(request)" "$work/nowhere/x.json"
is "$code" 3 "a directory that is not there is found out first"
is "$(cat "$work/err")" "arena-profiler: $work/nowhere: cannot write there: No such file or directory" "with a sentence"
(
    ulimit -f 1 # KiB: the write fails as on a full disk
    trap '' XFSZ
    run none "$(request)" "$work/full.json"
    exit "$code"
)
is $? 3 "a full disk: exit 3"
is "$(find "$work" -name 'full.json*' | wc -l)" 0 "and no half-written file stays"

# ---- kill -9 at 50 points: the Prolog's last step makes a result of it, the store takes each once ------
kills=0 finished=0 imported=0 twice=0
for point in $(seq 1 13 650); do
    text=$(request) nonce=$(key_of_nonce "$text")
    run "kill@$point" "$text" "$work/part.json" --progress "$work/spool"
    [[ $code == 137 ]] && kills=$((kills + 1))
    SPANK_ARENA_PROFILE=$text "$profiler" finish --request-env SPANK_ARENA_PROFILE --part "$work/part.json" \
        --log "$work/err" --exit-code "$code" --spool "$work/spool" 2>/dev/null
    status=$(jq -r '.status + " " + (.entries|length|tostring)' "$work/spool/$nonce.json")
    [[ $status == "failed 0" || ($code == 0 && $status == "complete $total") ]] && finished=$((finished + 1))
    "$arena" profile --store "$work/store/p.db" import "$work/spool/$nonce.json" >/dev/null && imported=$((imported + 1))
    "$arena" profile --store "$work/store/p.db" import "$work/spool/$nonce.json" >/dev/null 2>&1 || twice=$((twice + 1))
    rm -f "$work/part.json"
done
ok "most of 50 points met a run ($kills kills)" test "$kills" -ge 30
is "$finished" 50 "each became a failed result without entries, or was over before"
is "$imported $twice" "50 50" "the store takes each result once: its seconds are charged once"
is "$("$arena" profile --store "$work/store/p.db" verify)" "ok    every row of the profile store" "the store is whole"
is "$(find "$work/spool" -name '*.progress' -o -name '*.new' | wc -l)" 0 "no progress and no half file stays in the spool"

# ---- kill -9 in the middle of an import ---------------------------------------------------------------
hits=0 left=0
for i in $(seq 50); do
    nonce=$(printf 'killedimport%08d' "$i")
    jq -c ".nonce = \"$nonce\"" "$work/good.json" >"$work/i.json"
    "$arena" profile --store "$work/store/p.db" import "$work/i.json" >/dev/null 2>&1 &
    pid=$!
    [[ $((i % 5)) == 0 ]] || sleep "0.00$((i % 10))"
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    [[ $? == 137 ]] && hits=$((hits + 1))
    rows=$("$arena" profile --store "$work/store/p.db" show "$nonce" --json 2>/dev/null | jq 'select(.entries)|.entries|length')
    [[ -z $rows || $rows == "$total" ]] || left=$((left + 1))
done
note "$hits of 50 imports were killed"
is "$left" 0 "an import that was killed left all of its operators or none"
is "$("$arena" profile --store "$work/store/p.db" verify)" "ok    every row of the profile store" "and the store is whole"
done_testing
