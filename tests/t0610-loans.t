#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Nodes of inference in a real Slurm: lent to a job that can leave them, and back by the deadline; who was announced is
# who is preempted; no node is in two owners' use, looked at each fifth of a second. slurmctld killed at each step,
# reconfigured, restarted; a job deaf to its signal; a user's hold and a drain in mid-reclaim; a node that dies; a job
# that ends in time; requests that cannot be. Many cycles with many jobs: tests/soak/loan-cycles.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/loans.sh"
need_loans

start_loans --conf-extra "$(loan_partitions)" --arena-set loan.users=daemon --arena-set promise_slack=0
node_of() { job_field "$1" NodeList; }
kill_slurmctld() { cluster ctld kill && cluster ctld start; }
lend() { said loan offer "$1" && is_lent "$1"; }

fill_training

# ---- what cannot be ------------------------------------------------------------------------------------------
ok "the first round has been" round_has_been
for case in 'offer n99|no node is called n99' 'offer n1|node n1 is in none of loan.inference_partitions' 'offer n8 until=5|is over already' \
    'offer n[8|is no list of nodes' 'offer n8,n8|n8' 'reclaim 1|asked back: 1 node; lent: 0' 'reclaim n8|node n8 is not lent' \
    'reclaim 1 deadline=0|deadline=0 is not accepted'; do
    pattern=${case#*|}
    # shellcheck disable=SC2086  # words
    ok "refused: loan ${case%|*}" refused loan ${case%|*}
done
is "$(ask loan list | jq -c .leases)" '[]' "and nothing was changed"
if can_be_user; then
    like "$(as_user "$work/ask" "$cluster_dir/run/arena.sock" loan offer n8)" '"code":2.*only root, SlurmUser and whom arena.yaml lists' \
        "a user who is not listed is refused"
    like "$(runuser -u daemon -- "$work/ask" "$cluster_dir/run/arena.sock" loan offer n99)" 'no node is called n99' "a listed one is heard"
else
    skip 2 "needs root and a user $arena_user"
fi
for how in '' --arena-loan; do
    out=$(sbatch -p loan ${how:+--arena-model=gpt2 --arena-launcher=env --arena-batch=64 $how} -o /dev/null --wrap true 2>&1)
    like "$out" 'arena-loan.*arena-elastic' "a job that cannot leave is refused in partition loan ($how)"
done

# ---- there and back --------------------------------------------------------------------------------------------
job=$(willing)
is "$(job_field "$job" Partition)" train,loan "a willing job is in both partitions"
ok "it waits" wait_until "[[ \$(arena_word $job state) =~ held|released ]]"
ok "n8 is offered" said loan offer n8
is "$(answer .leases)" '[{"id":"L1","node":"n8"}]' "the answer names the lease"
pattern='node n8 has a lease already: L1'
ok "and is not offered twice" refused loan offer n8
ok "n8 is lent" is_lent n8
like "$(scontrol show node n8)" 'Extra=arena:v1 loan=L1 state=lent' "its Extra says so"
ok "the job starts there" wait_started "$job"
is "$(node_of "$job")" n8 "on the lent node"
is "$(arena_word "$job" lent)" n8 "AdminComment says which"
waits=$(infer -w n8)
ok "inference waits for it meanwhile" wait_for_reason "$waits" 'ReqNodeNotAvail|Resources|Priority|reserved'
isnt "$(job_state "$waits")" RUNNING "it is not let in"
ok "n8 is asked back" said loan reclaim n8 deadline=120
is "$(answer '[.preempted, .scaled_in, .short]')" "[[$job],[],0]" "the job that has no other node is announced"
ok "inference has it" wait_for_state "$waits" RUNNING 60
ok "n8 is home" is_home n8
is "$(reservations)/$(scontrol show node n8 | sed -n 's/^ *Extra=//p')" / "nothing is left of the lease"
is "$(wc -l <"$gates/$job.signals")" 1 "the job was told once"
is "$(job_field "$job" Restarts)" 1 "and is preempted"
ok "the log says why" logged "JobId=$job gives n8 back to infer by "
let_go "$waits"

# A round may not have seen the start yet when the node is asked back.
ok "two nodes are lent" lend "n[7-8]"
ok "the job starts on one" wait_started "$job" 2 60
ok "both are asked back" said loan reclaim 2 deadline=120
is "$(answer .preempted)" "[$job]" "the job is announced at once"
ok "they are home" is_home 'n[7-8]' 60
is "$(ask stats | jq -c '.loan | [.returns, .late_returns, .preemptions]')" '[3,0,2]' "arena stats counts returns, none late, and preemptions"

# ---- slurmctld is killed at each step ----------------------------------------------------------------------------
ok "Slurm has saved that the job waits" wait_saved
ok "n8 is offered" said loan offer n8
ok "slurmctld is killed once that is answered" kill_slurmctld
ok "and n8 is lent" is_lent n8
ok "the job starts there" wait_started "$job" 3 60
ok "it is saved" wait_saved
ok "slurmctld is killed while it is lent" kill_slurmctld
ok "the partition has it again" is_lent n8
scontrol reconfigure
ok "after reconfigure, too" is_lent n8
ok "slurmctld is restarted" eval 'cluster ctld restart && cluster wait'
ok "after that, too" is_lent n8
is "$(starts "$job")/$(job_state "$job")" 3/RUNNING "its job was not touched"
touch "$gates/$job.deaf"
waits=$(infer -w n8)
ok "the job of inference is saved" wait_saved
asked=$(date +%s)
ok "n8 is asked back from a job that is deaf" said loan reclaim n8 deadline=40
ok "slurmctld is killed once that is answered" kill_slurmctld
ok "n8 is returning" wait_until '[[ $(reservations) == arena_reclaim_L* ]]'
ok "inference has it all the same" wait_for_state "$waits" RUNNING 60
ok "n8 is home" is_home n8
rm "$gates/$job.deaf"
ok "Arena has ended it before the deadline" test "$(logged_at "JobId=$job requeued: no checkpoint before the deadline")" -lt $((asked + 40))
figure "and it was back by then" test "$(ask stats | jq -c .loan.late_returns)" = 0
let_go "$waits"

# ---- hands -------------------------------------------------------------------------------------------------------
ok "n8 is lent again" lend n8
ok "the job starts there" wait_started "$job" 4 60
# Meanwhile one dies: it takes half a minute until it counts as gone.
ok "n6 is lent" lend n6
cluster node n6 down >/dev/null
touch "$gates/$job.deaf"
ok "n8 is asked back" said loan reclaim n8 deadline=16
ok "the job is told" wait_until "(( \$(wc -l <$gates/$job.signals) >= 4 ))"
scontrol update NodeName=n8 State=DRAIN Reason=mine
ok "its user holds it, an administrator drains the node" scontrol hold "$job"
ok "n8 is home all the same" is_home n8 60
rm "$gates/$job.deaf"
like "$(scontrol show node n8)" 'DRAIN' "and drained as it was"
ok "n7 is lent" lend n7
ok "the job stays held" wait_until "[[ \$(job_state $job)\$(job_reason $job) == PENDINGJobHeld* ]]"
scontrol update NodeName=n8 State=RESUME
ok "until its user releases it" scontrol release "$job"
ok "then it starts on n7" wait_started "$job" 5 60
ok "n6 has died: its lease ends, and it is told" wait_until 'logged "node n6 is down or drained: its lease L[0-9]* ends"' 90
ok "nothing is left of it" is_home n6
cluster node n6 up >/dev/null
scontrol update PartitionName=loan Nodes=n1
ok "an administrator takes it out of the partition: the lease is broken" wait_until 'is_state n7 broken'
is "$(job_state "$job")/$(reservations | sed 's/[0-9]*$//')" RUNNING/arena_loan_L "its job runs on, and the node is inference's after it"
let_go "$job"
ok "the job completes" wait_for_state "$job" COMPLETED 60
ok "then the node is inference's" wait_until '[[ ! $(reservations) ]]' 40
scontrol update NodeName=n7 Extra=

# ---- who ends in time is let end -----------------------------------------------------------------------------------
ok "n8 is lent once more" lend n8
job=$(train a40 -p train --arena-gpus=8 --arena-elastic --arena-loan --arena-steps=1)
ok "a job of one step, which takes minutes, starts there" wait_started "$job" 1 60
needs() { arena explain "$job" --json | jq '.work.needs_s / 60'; }
ok "its time limit says so, too: its step is believed" scontrol update JobId="$job" TimeLimit="$(needs)"
ok "and the scheduler has read it" wait_until '[[ $(arena explain "$job" --json | jq -r .work.from) == steps ]]'
ok "n8 is asked back in a quarter of an hour" said loan reclaim n8 deadline=900
is "$(answer '[.preempted, .scaled_in, .ending, .short]')" "[[],[],[$job],0]" "the job is announced as one that ends in time"
waits=$(infer -w n8)
ok "the node is returning" is_state n8 returning
rounds=$(ask stats | jq .rounds)
ok "rounds later" wait_until "(( \$(ask stats | jq .rounds) >= $rounds + 5 ))" 60
is "$(job_state "$job")/$(starts "$job")/$(cat "$gates/$job.signals" 2>/dev/null)" RUNNING/1/ "it runs on, and was told nothing"
let_go "$job"
ok "it completes" wait_for_state "$job" COMPLETED 60
ok "inference has the node then" wait_for_state "$waits" RUNNING 60
ok "which is home" is_home n8
let_go "$waits"

# ---- who was promised an end is stopped last, and told if that breaks it -------------------------------------------
promises() { ask stats | jq -c ".promises.$1"; }
head=$(train a40 -p train --arena-gpus=8)
second=$(willing)
ok "of two that wait the first is promised an end" wait_until '[[ $(arena explain $head --json | jq .promise.ends_by_s) =~ ^[0-9] ]]'
ok "n8 is lent to the other one" lend n8
ok "which starts there" wait_started "$second" 1 60
scancel "$head"
job=$(willing)
ok "one that comes later is promised an end" wait_until '[[ $(arena explain $job --json | jq .promise.ends_by_s) =~ ^[0-9] ]]'
kept=$(promises kept) broken=$(promises broken) returned=$(promises broken_by.nodes_returned)
ok "and n7 is lent to it" lend n7
ok "it starts there" wait_started "$job" 1 60
ok "in time" wait_until "(( \$(promises kept) == $kept + 1 ))"
ok "one node is asked back" said loan reclaim 1 deadline=120
is "$(answer .preempted)" "[$second]" "the job that was promised nothing is announced"
scancel "$second"
ok "its node is home" is_home n8 60
ok "the other one is asked back" said loan reclaim 1 deadline=120
is "$(answer .preempted)" "[$job]" "now the promised one is announced"
ok "its node is home" is_home n7 60
past_its_start() { arena explain "$job" --json | jq -e '.promise.slurm_start_s + 15 < now'; }
ok "it is too late to end in time" wait_until 'past_its_start >/dev/null' 60
let_go "${hogs[0]}"
ok "it starts again when a node of training's is free" wait_started "$job" 2 60
ok "its promise is broken" wait_until "(( \$(promises broken) == $broken + 1 ))"
is "$(promises broken_by.nodes_returned) $(promises kept)" "$((returned + 1)) $kept" "arena stats says by what, and counts it once"
like "$(arena history "$job")" 'promise broken.*started again too late to end by .*: it gave lent nodes back' "arena history says why"
like "$(arena explain "$job" | tr -s ' \n' ' ')" 'was to end by .*, and started too late for that, for it gave lent nodes back' "so does arena explain"
let_go "$job"

for id in "${hogs[@]}"; do let_go "$id"; done
stop_looking
ok "owners were looked at often" test "$looks" -gt 50
is "$two" '' "no node was in two owners' use"
is "$(grep -c 'Arena is off\|internal fault' "$log")" 0 "Arena had no fault"
done_testing
