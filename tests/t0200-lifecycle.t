#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# An Arena job's life: taken in, held with a reason, planned, rewritten, started with its plan in the
# environment; pins and comments; begin time, dependency, hold and time limit stay the user's.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena

# One GPU type per case: no case waits for another.
start_arena --nodes big:2x4,pin:1x4,cpin:1x4,cgpu:1x4,coff:1x4,cbad:1x4,beg:1x2,dep:1x2,hold:1x2,lim:1x2

# ---- what must wait is submitted first -----------------------------------------------------------
declare -A hogs jobs
for type in cpin cgpu coff cbad lim; do hogs[$type]=$(hog "$type" 1 --exclusive); done
for type in cpin cgpu coff cbad lim; do wait_for_state "${hogs[$type]}" RUNNING; done
begin_at=$(($(date +%s) + 6))
jobs[beg]=$(train beg --begin="now+6")
for type in cpin cgpu coff cbad lim; do jobs[$type]=$(train "$type"); done
jobs[hold]=$(train hold --hold)
first=$(train dep --arena-gpus=1)
after_ok=$(train dep --arena-gpus=1 --dependency="afterok:$first")
after_bad=$(train dep --arena-gpus=1 --dependency="afternotok:$first" --kill-on-invalid-dep=no)
after_killed=$(train dep --arena-gpus=1 --dependency="afternotok:$first" --kill-on-invalid-dep=yes)

# ---- the whole way -------------------------------------------------------------------------------
if command -v jq >/dev/null; then
    rank=$ARENA_SRCDIR/contrib/quickstart.d/rank.sh
    whole=$(submit --time=10 -o "$work/whole.out" --arena-model=gpt2 --arena-launcher=env --arena-batch=64 --arena-types=big \
        "$(script "srun --kill-on-bad-exit=1 bash $rank")")
    ok "a job with a model and a batch starts and completes" wait_for_state "$whole" COMPLETED 40
    is "$(grep -c ': ok: ' "$work/whole.out")" "$(job_field "$whole" NumTasks)" \
        "every rank finds its environment equal to the plan in scontrol and to its devices"
    [[ $tap_failed == 0 ]] || diag "$(cat "$work/whole.out")"
else
    skip 2 "jq is not installed"
    whole=$(train big)
    let_go "$whole"
    wait_for_state "$whole" COMPLETED 40
fi
like "$(job_field "$whole" AdminComment)" \
    '^arena:v1 state=[a-z]+ grid=([0-9]+x)?[0-9]+xbig plan=pp[0-9]+,dp[0-9]+,tp[0-9]+,mb[0-9]+x[0-9]+(,[a-z]+[0-9]*)* est=[0-9.e+]+s source=analytic' \
    "AdminComment tells grid, plan, estimate and its source"
ok "once it is over, how its time went, too" \
    wait_until "[[ \$(job_field $whole AdminComment) == *' lives=1 waited='*' moved=0s running=1.000'* ]]" ||
    diag "$(job_field "$whole" AdminComment)"
like "$(job_field "$whole" SystemComment)" '^arena offers: ' "SystemComment lists the offers"
like "$(job_field "$whole" TresPerNode)" '^gres:gpu:big:[1-4]$' "TresPerNode is rewritten to the chosen GPU type"
is "$(job_field "$whole" Restarts)" 0 "nothing of it was a restart"

jobs[pin]=$(train pin --arena-plan=pp2,dp2,tp1)
ok "a pinned job starts" wait_started "${jobs[pin]}"
like "$(arena_word "${jobs[pin]}" plan)" '^pp2,dp2,tp1,' "a pinned job gets exactly its pin"
is "$(last_start "${jobs[pin]}")" "0 4 1 4" "and as many tasks, nodes and GPUs as the pin has ranks"
is "$(grep -E '^ARENA_(PP|DP|TP)=' "$gates/${jobs[pin]}.env.0" | sort | tr '\n' ' ')" "ARENA_DP=2 ARENA_PP=2 ARENA_TP=1 " \
    "the script's environment has the pin"

# ---- comments while it waits ---------------------------------------------------------------------
for type in cpin cgpu coff cbad lim; do
    ok "the job for $type waits while an ordinary job has the GPUs" wait_for_reason "${jobs[$type]}" '^(Arena: |Resources|Priority)'
done
ok "Comment=arena:plan is taken" scontrol update JobId="${jobs[cpin]}" Comment=arena:plan=pp1,dp1,tp2
ok "Comment=arena:gpus is taken" scontrol update JobId="${jobs[cgpu]}" Comment=arena:gpus=3-3
ok "Comment=arena:off is taken" scontrol update JobId="${jobs[coff]}" Comment=arena:off
like "$(scontrol update JobId="${jobs[cbad]}" Comment=arena:warp=9 2>&1)" 'Invalid argument' \
    "a wrong comment is refused"
ok "a time limit can be changed while the job waits" scontrol update JobId="${jobs[lim]}" TimeLimit=7
ok "a wrong comment appears in the pending reason" wait_for_reason "${jobs[cbad]}" \
    "^Arena: update refused: Comment: 'warp' is not known; accepted are "
not_ok "a pin of more stages than layers is refused" scontrol update JobId="${jobs[cbad]}" Comment=arena:plan=pp64,dp1,tp1
ok "and says why in the pending reason" wait_for_reason "${jobs[cbad]}" \
    '^Arena: update refused: Comment=arena:plan: pp64 needs at least 64 layers; gpt2 has 12'
ok "a mended comment is taken" scontrol update JobId="${jobs[cbad]}" Comment=arena:gpus=2
ok "and the refusal leaves the reason" wait_until "[[ \$(job_reason ${jobs[cbad]}) != *refused* ]]"
for type in cpin cgpu coff cbad lim; do let_go "${hogs[$type]}"; done
ok "the job pinned by Comment starts" wait_started "${jobs[cpin]}"
like "$(arena_word "${jobs[cpin]}" plan)" '^pp1,dp1,tp2,' "with the plan of its Comment"
is "$(last_start "${jobs[cpin]}")" "0 2 1 2" "and two ranks"
ok "the job with Comment=arena:gpus=3-3 starts" wait_started "${jobs[cgpu]}"
is "$(last_start "${jobs[cgpu]}")" "0 3 1 3" "on three GPUs"
ok "the job with Comment=arena:off starts" wait_started "${jobs[coff]}"
is "$(grep -c '^ARENA_P' "$gates/${jobs[coff]}.env.0")" 0 "without a plan"
like "$(job_field "${jobs[coff]}" AdminComment)" 'state=off' "and says so"
ok "the job with the changed time limit starts" wait_started "${jobs[lim]}"
is "$(job_field "${jobs[lim]}" TimeLimit)" "00:07:00" "with the changed limit"
ok "the job with the mended comment starts" wait_started "${jobs[cbad]}"
is "$(last_start "${jobs[cbad]}")" "0 2 1 2" "as the mended comment says"

# ---- what stays the user's -----------------------------------------------------------------------
is "$(starts "${jobs[hold]}")" 0 "a job submitted with --hold has not started"
is "$(job_reason "${jobs[hold]}")" JobHeldUser "its reason is the user's hold"
ok "scontrol release is taken" scontrol release "${jobs[hold]}"
ok "and lets Arena start it" wait_started "${jobs[hold]}"
like "$(arena_word "${jobs[hold]}" plan)" '^pp' "with a plan"

ok "the job that others depend on runs" wait_started "$first"
is "$(starts "$after_ok"),$(starts "$after_bad")" "0,0" "jobs with a dependency have not started"
ok "the reason of a depending job is its dependency" wait_for_reason "$after_ok" '^Dependency$'
let_go "$first"
ok "afterok: it starts when the other completed" wait_started "$after_ok"
ok "afternotok: it never can, and its reason says so" wait_for_reason "$after_bad" '^DependencyNeverSatisfied$'
ok "afternotok with --kill-on-invalid-dep is cancelled" wait_for_state "$after_killed" CANCELLED
is "$(starts "$after_bad"),$(starts "$after_killed")" "0,0" "and neither started"

ok "a job with --begin starts" wait_started "${jobs[beg]}"
started_at=$(awk '{ print $NF }' "$gates/${jobs[beg]}.starts")
ok "not before its time" test "${started_at:-0}" -ge "$begin_at"

# ---- the end -------------------------------------------------------------------------------------
for type in pin cpin cgpu coff cbad lim hold beg; do
    let_go "${jobs[$type]}"
done
let_go "$after_ok" 3
for type in pin cpin cgpu coff cbad lim hold beg; do
    ok "the job for $type completes" wait_for_state "${jobs[$type]}" COMPLETED
    is "$(starts "${jobs[$type]}")" 1 "and started once"
done
ok "a job whose script fails is FAILED and stays so" wait_for_state "$after_ok" FAILED
is "$(starts "$after_ok")" 1 "and started once"
scancel "$after_bad"
ok "no node is left drained" clean_nodes

done_testing
