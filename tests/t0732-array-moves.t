#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A pipeline that trains siblings leaves its node, in a real cluster: drained, with slurmctld killed in the midst of it, asked back by
# inference, with ranks that do not listen, slow. Each time its members are bound anew on another node, none of them has lost it, and
# no step is lost or done twice. One that no other node can hold trains on.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/loans.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/siblings.sh"
need_siblings
need_loans
write_loan_tools
start_siblings --nodes a40:2x4 --arena-set loan.enabled=true --arena-set loan.inference_partitions=infer --arena-set loan.source=commands \
    --arena-set resize.cooldown_s=5 --conf-extra 'PartitionName=one Nodes=n1 State=UP' --conf-extra 'PartitionName=two Nodes=n2 State=UP' \
    --conf-extra 'PartitionName=infer Nodes=ALL PriorityTier=100 State=UP MaxTime=INFINITE DefaultTime=60' \
    --conf-extra 'PartitionName=loan PriorityTier=1 State=UP MaxTime=INFINITE DefaultTime=60'
log=$cluster_dir/log/slurmctld.log
kill_slurmctld() { cluster ctld kill && cluster ctld start; }
other() { if [[ $1 == n1 ]]; then echo n2; else echo n1; fi; }
drain() { scontrol update NodeName="$1" State=DRAIN Reason=kernel; }
resume() { scontrol update NodeName="$1" State=RESUME; }
steps() { jq -r 'select(has("loss")).step' "$work/log.$array.$1" 2>/dev/null; }
last_step() { steps "$1" | tail -n 1; }
# serve SIGNAL: to all ranks of pipelines
serve() { all_processes | xargs -r ps -o pid=,args= -p | sed -n 's/^ *\([0-9]*\) .*arena-train.*--array-serve.*/\1/p' | xargs -r kill "-$1"; }
# taught: every member has done steps since this was called
taught() {
    local i had=()
    for i in 0 1 2; do had[i]=$(last_step $i); done
    for i in 0 1 2; do wait_until "(( \$(last_step $i) > ${had[i]:-0} + 1 ))" 60 || return; done
}
# train_in LIFE: all three do, on one pipeline; $carrier and $from are it and its node from then on
all_in() {
    wait_until "[[ \$(cat $work/lives.$array.[012] 2>/dev/null | grep -cx '$1 array') == 3 && \$(tasks_in $array RUNNING) == 3 ]]" 120 && taught
}
train_in() {
    ok "life $1: all three train" all_in "$1"
    carrier=$(carriers RUNNING) from=$(job_field "$carrier" NodeList)
    like "$from" '^n[12]$' "on one pipeline"
}
# moved LIFE WHY: it has left its node in order, for this reason, and all three train on the other one in that life
moved() {
    local old=$carrier node=$from
    ok "$2: the log says so" wait_until "logged 'JobId=$old leaves $node: $2: told to save its members and leave'" 30
    ok "$2: it ends, in order" wait_for_state "$old" COMPLETED 60
    train_in "$1"
    is "$from" "$(other "$node")" "$2: on the other node"
    is "$(cat "$work"/lives."$array".[012] | grep -cvx '[0-9]* array')" 0 "$2: each time on a pipeline"
}
# each_step_once: what was saved is where it went on. Members that had no word of their pipeline for a minute are gone, and did
# not hear of the two steps of its last round.
unheard=0
each_step_once() {
    local i all
    for i in 0 1 2; do
        all=$(steps $i)
        [[ $all ]] && awk -v most=$unheard '$1 <= last { exit bad = 1 } { missed += $1 - last - 1; last = $1 } END { exit bad || missed > most }' <<<"$all" && continue
        echo "member $i:" $all
        return 1
    done
}

# ---- drained ----------------------------------------------------------------------------------------------------------
export STEPS=1000000
# Members are back when their pipeline is over, and not before.
echo 3 >"$work/linger"
# In one partition with both nodes they would have a pipeline on each.
array=$(sweep 0-2 -p one,two --arena-elastic --arena-plan=pp4,dp1,tp1) || BAIL_OUT "no array: $array"
train_in 0
first=$carrier
drain "$from"
moved 1 drained
like "$(arena array list)" "JobId=$first over \\(COMPLETED\\)" "arena array list has the first"
resume "$(other "$from")"

# In the midst of it slurmctld is killed: what ends in the seconds before that is forgotten by stock Slurm, too, so nobody does.
ok "it is saved" wait_saved
serve STOP
stopped=$SECONDS
drain "$from"
ok "it is told again" wait_until "logged 'JobId=$carrier leaves $from: drained'" 30
like "$(job_field "$carrier" Reason)" "^Arena:.leaves.$from:.drained\$" "its record says why"
like "$(arena array list)" "JobId=$carrier leaving" "arena array list says that it leaves"
ok "that is saved" wait_saved
ok "slurmctld is killed" kill_slurmctld
ok "and is back" wait_until '[[ $(job_state "$carrier") ]]'
is "$(job_state "$carrier") $(tasks_in "$array" RUNNING)" "RUNNING 3" "with all of it as it was"
serve CONT
((SECONDS - stopped < 55)) || unheard=2
moved 2 drained
resume "$(other "$from")"

# What has ended twice under its members would be bound no more: none of these counts.
drain "$from"
moved 3 drained
ok "each step was done once" each_step_once

# ---- there is no other node -----------------------------------------------------------------------------------------------
member=$(scontrol -o show job "${array}_0" | sed 's/^JobId=\([0-9]*\) .*/\1/')
drain "$from"
ok "the other one is drained, too: arena explain says that it stays" wait_until \
    "arena explain $member | tr -s ' \\n' ' ' | grep -q 'JobId=$carrier trains it with its siblings, and leaves $from: drained, but stays: no other node can hold it'"
ok "they train on" taught
is "$(carriers RUNNING)" "$carrier" "on the same pipeline"
ok "one comes back by its user's wish" scontrol requeue "${array}_2"
ok "and waits for it to leave" wait_until '[[ $(scontrol -o show job ${array}_2) == *" Reason=Arena:_waits:_its_array"?"s_JobId=${carrier}_leaves_$from:_drained,_but_stays"* ]]'
resume "$(other "$from")"
ok "the other one is back: it leaves" wait_for_state "$carrier" COMPLETED 60
was=$from
train_in 4
is "$from" "$(other "$was")" "on that node"
resume "$was"

# ---- asked back by inference --------------------------------------------------------------------------------------------------
ok "the node is offered, which ends nothing" said loan offer "$from"
ok "and asked back" said loan reclaim "$from" deadline=200
like "$(answer .preempted)" "[[,]${carrier}[],]" "the pipeline is among those that are announced"
is "$(answer '[.short, .why]')" '[0,""]' "and nobody has to be cancelled by hand"
was=$from old=$carrier
ok "the log says so" wait_until "logged 'JobId=$old gives $was back to infer by .*: told to save its members and leave'" 30
ok "inference has the node" wait_for_state "$(submit -p infer -o /dev/null -J infer --time=60 -w "$was" --gres=gpu:a40:4 "$work/trainer")" RUNNING 60
is "$(job_state "$old")" COMPLETED "when the pipeline has ended, in order"
ok "it is home" is_home "$was"
train_in 5
is "$from" "$(other "$was")" "on the other node"
scancel -n infer
ok "each step was done once" each_step_once

# One whose ranks do not listen.
rm "$work/linger"
serve STOP
was=$from old=$carrier
ok "the node is offered" said loan offer "$from"
asked=$(date +%s)
ok "and asked back, with ranks that are stopped" said loan reclaim "$from" deadline=50
ok "it is cancelled in time" wait_until "logged 'JobId=$old gives $was back to infer by .*: cancelled'" 60
ok "the node is home" is_home "$was" 60
ok "before the deadline" test "$(logged_at "JobId=$old gives $was back to infer by .*: cancelled")" -lt $((asked + 50))
figure "and was back by then" test "$(ask stats | jq -c .loan.late_returns)" = 0
train_in 6

# ---- slow ----------------------------------------------------------------------------------------------------------------------
moves=$(arena stats --json | jq .slowdown.moves)
scontrol update NodeName="$from" Extra='arena:v1 slow=1:compute:2.10 seen=2'
moved 7 'GPU 1 computes 2.1 times slower'
is "$(arena stats --json | jq .slowdown.moves)" $((moves + 1)) "arena stats counts the move"
scontrol update NodeName="$(other "$from")" Extra=
scancel "$array"
ok "the array is cancelled" wait_until '(( $(tasks_in $array CANCELLED) == 3 ))' 60
ok "its pipeline ends" wait_until '[[ ! $(carriers RUNNING) ]]' 100
ok "no node has suffered" clean_nodes
unlike "$(<"$log")" 'internal fault' "nor has slurmctld"
done_testing
