#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A slow process in a real cluster, from its first slow step to its end: arena-train dp2 over two nodes, watched by its
# agents; rank 1 is slowed by two at step 40. Its chief says so, names the rank, deals micro-batches anew; slurmctld
# knows of it; when it is over the split goes back. The losses stay those of a run that nobody disturbs. Then a machine
# that others load: no node is held against. Figures, and ten quiet minutes, are tests/bench/watched-training's.
# shellcheck disable=SC2016,SC2034,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/watched.sh"
need_arena
need_mpi_in_slurm
command -v jq >/dev/null || skip_all 'jq is not installed'
slow_process=$ARENA_BUILDDIR/tests/lab/inject/slow-process
[[ -x $slow_process ]] || skip_all 'tests/lab/inject/slow-process is not built'

poll_s=5
start_arena --nodes a40:2x1 --arena-set slowdown.poll_s=$poll_s
prepare_learning 64 32
write_paced 2000 5
two_nodes=(-N 2 --arena-gpus=2 "--arena-plan=pp1,dp2,tp1,mb1x6")
now_ms() { date +%s%3N; }

# ---- a slow process ------------------------------------------------------------------------------------------------
LEARN_UNDER=$work/paced
job=$(learn slow 100000 "${two_nodes[@]}" --arena-slowdown=mitigate)
ok "a watched job trains on two nodes" wait_until '[[ $(step_of slow) ]]' 60
[[ $(step_of slow) ]] || diag "$(cat "$gates/slow.out")"
ok "its GPUs and links were checked before its first step" wait_until 'grep -q "\"event\":\"checked\"" "$gates/slow.log"' 20
ok "it comes to step 40" wait_until '(($(step_of slow) >= 40))' 120
began=$(now_ms) begun=$(step_of slow)
"$slow_process" --rank 1 --job "$job" 2 2>"$work/inject" &
injection=$!
ok "a slow iteration is seen" wait_until 'has_event slow ".event == \"onset\""' 60
onset=$(events slow '.event == "onset"' | head -n 1)
ok "the culprit is named: rank 1 computes slowly" wait_until 'has_event slow ".event == \"verdict\" and .rank == 1 and .cause == \"compute\""' 120
verdict=$(events slow '.event == "verdict" and .rank == 1 and .cause == "compute"' | head -n 1)
factor=$(jq -r .factor <<<"$verdict")
# The rank that is stopped half of the time holds up whoever talks to it, and what else this machine does is less.
is "$(events slow '.event == "verdict" and .rank != 1 and .peer != 1' | jq -r "select(.factor >= $factor) | .factor")" '' \
    "nothing that has nothing to do with it is found as slow"
figure "about two times: $factor" awk -v f="$factor" 'BEGIN { exit !(f > 1.6 && f < 2.6) }'
figure "and nothing else is" test "$(events slow '.event == "verdict"' | jq -r '"\(.cause) \(.rank)"' | sort -u)" = 'compute 1'
# An earlier one, for the other rank, may be this machine's own doing.
first_split() {
    jq -r --argjson begun "$begun" 'select(.event == "split" and .step > $begun and .micro_batches[1] < .micro_batches[0]) | "\(.step) \(.micro_batches | join(","))"' \
        "$gates/slow.log" | head -n 1
}
ok "micro-batches are dealt anew, fewer for rank 1" wait_until '[[ $(first_split) ]]' 60
read -r at dealt < <(first_split)
diag "before step $at: $dealt"
ok "twelve steps of it" wait_until '(($(step_of slow) >= at + 14))' 120
healthy=$(step_s slow 10 40) before=$(step_s slow $((begun + 2)) $((at - 1))) after=$(step_s slow $((at + 2)) $((at + 13)))
third=$(awk -v t="$began" -v s="$before" 'BEGIN { printf "%.0f", t + 4000 * s }')
told=$(jq -r .t_ms <<<"$onset")
diag "healthy ${healthy} s, slow ${before} s, after S2 ${after} s a step; onset told $((told - third)) ms after the third slow step; injected: $(cat "$work/inject")"
figure "the onset is told within 5 s and a poll of the third slow step" test $((told - third)) -le $((5000 + 1000 * poll_s))
figure "a step takes at most 0.80 of what it took: $(awk -v a="$after" -v b="$before" 'BEGIN { printf "%.2f", a / b }')" \
    awk -v a="$after" -v b="$before" 'BEGIN { exit !(a <= 0.80 * b) }'
place=$(jq -r .at <<<"$verdict")
ok "slurmctld knows: $place" wait_until '[[ $(job_field "$job" AdminComment) == *"$place:compute:x"* ]]' 30
ok "and what is done about it" wait_until '[[ $(job_field "$job" AdminComment) == *" action=S2 "* ]]' 30
like "$(scontrol show node "${place%/*}" | sed -n 's/^ *Extra=//p')" 'arena:v1 slow=[0-9*]+:compute:' "the node keeps it"
like "$(arena slowdown list)" "$place" "arena slowdown list has it"
counted=$(arena stats --json | jq '.slowdown.events')
ok "an event is counted" test "$counted" -ge 1
figure "and one only: $counted" test "$counted" = 1

kill -TERM $injection
wait $injection 2>/dev/null
# What else slows this machine meanwhile may be found as a link, which is another's end; where it is slower than in the pre-check
# for a minute or two, so is rank 1 for that time.
over='.events | map(select(.cause == "compute")) | length > 0 and all(.[]; (.relief // 0) != 0)'
ok "slurmctld knows that it is over" wait_until 'arena slowdown show "$job" --json | jq -e "$over" >/dev/null' 300
ok "the split goes back" wait_until '[[ $(splits slow | tail -n 1) == 6,6 ]]' 120
figure "all of it is over" wait_until 'has_event slow ".event == \"relief\""' 60
back=$(split_step slow tail)
ok "twenty steps more" wait_until '(($(step_of slow) >= back + 20))' 60
figure "steps take what they took before it: $(step_s slow $((back + 2)) $((back + 20))) s" \
    awk -v a="$(step_s slow $((back + 2)) $((back + 20)))" -v h="$healthy" 'BEGIN { exit !(a < 1.15 * h) }'
scancel "$job"
ok "it is cancelled" wait_for_state "$job" CANCELLED 60
last=$(step_of slow)
ok "the same training, and nobody disturbs it" alone 2 --dp 2 --steps "$last"
# In another split sums are rounded otherwise, which training makes larger step by step.
off=$(apart slow 1 $((at + 60)))
ok "its losses are those of a run that nobody disturbed: $off off" is_near "$off"
for node in n1 n2; do arena slowdown clear $node >/dev/null; done
ok "an administrator clears the nodes" wait_until '[[ $(scontrol show nodes) != *slow=* ]]' 15

# ---- nobody is slow: ranks that compute --------------------------------------------------------------------------------
LEARN_UNDER=''
job=$(learn quiet 1000000 "${two_nodes[@]}" --arena-slowdown=mitigate)
ok "another watched job trains" wait_until '(($(step_of quiet) >= 20))' 90
if [[ ${ARENA_QUIET_S-} ]]; then
    let_pass "$ARENA_QUIET_S"
    # The machine itself may be slower for a while, which t0556 does without. An alarm is false where the ten steps after it
    # took as long as healthy ones. "FACTOR HEALTHY AFTER" of each, us a step of 12 times 128 tokens
    around=$(events quiet true | jq -sr 'def median: sort | .[length / 2 | floor];
        [.[] | select(.event == "iterations" and .rank == 0) | [.end_ms, .time_us] | transpose[]] as $steps |
        .[] | select(.event == "onset") | .onset_ms as $at | [$steps[] | select(.[0] > $at)[1]][:10] as $after |
            select(($after | length) == 10) | "\(.factor) \(.healthy * 1e6 * 12 * 128) \($after | median)"')
    false_alarms=$(awk '$3 < 1.05 * $2 { n++ } END { print n + 0 }' <<<"$around")
    ((false_alarms == 0)) || diag "$around"
    alarms=$(events quiet '.event == "onset"' | wc -l) verdicts=$(events quiet '.event == "verdict"' | wc -l)
    ok "in $ARENA_QUIET_S quiet seconds, $(step_of quiet) steps: $alarms alarms, $false_alarms of them while steps took no longer" test "$false_alarms" = 0
    ok "and $verdicts verdicts" test "$verdicts" = 0
fi

# ---- others load the machine ---------------------------------------------------------------------------------------
loops=()
for _ in 1 2; do
    (while :; do :; done) &
    loops+=($!)
done
loaded_s=${ARENA_LOADED_S:-10}
let_pass "$loaded_s"
kill "${loops[@]}"
wait "${loops[@]}" 2>/dev/null
diag "loaded for $loaded_s s: $(events quiet '.event == "onset"' | wc -l) alarms, $(events quiet '.event == "verdict"' | wc -l) verdicts"
is "$(scontrol -o show nodes | grep -cE 'Extra=.* seen=([2-9]|[1-9][0-9])')" 0 "two busy loops: no node is kept from jobs by them"
like "$(sinfo -h -o %T | sort -u | xargs)" '^(allocated|idle|mixed| )+$' "none is drained"
scancel "$job"
ok "it is cancelled, too" wait_for_state "$job" CANCELLED 60
told=$(find "$gates/quiet.watch" -name events.jsonl | tail -n 1)
diag "$("$ARENA_BUILDDIR/arena-lab" slowdown show --accuracy "$gates/quiet.log" --watched "$told" 2>&1)"
figure "iterations by its calls are those that it measured itself" "$ARENA_BUILDDIR/arena-lab" slowdown show --accuracy "$gates/quiet.log" --watched "$told"
done_testing
