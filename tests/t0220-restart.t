#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# slurmctld is killed, restarted and reconfigured with Arena jobs in every state: none is lost, run
# twice or stuck, and mark and plan are as before. Then nodes fail under running jobs, one by an orderly
# end, one by command, and two really: kill -9 of all that runs there, found out by slurmctld itself.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena

cases=(held waiting uheld aheld begin depend starting running checkpointing own off completing requeued)
nodes=''
for case in "${cases[@]}"; do nodes+="$case:1x2,"; done
node_of() { local i; for i in "${!cases[@]}"; do [[ ${cases[i]} != "$1" ]] || echo "n$((i + 1))"; done; }

make_work
gate_hooks
start_arena --nodes "${nodes}probe:1x1,fail:2x2,down:2x2,head:3x2,tail:3x2" --arena-set resize.checkpoint_grace_s=600 \
    "${hook_options[@]}"

# ---- a job in every state -------------------------------------------------------------------------
declare -A job hogs before
touch "$gates/prolog.$(node_of starting)"
for case in held waiting; do hogs[$case]=$(hog "$case" 2); done
for case in held waiting; do wait_for_state "${hogs[$case]}" RUNNING; done
first=$(train held)
other=$(train depend)
for case in "${cases[@]}"; do
    options=()
    case $case in
        uheld | aheld) options=(--hold) ;;
        begin) options=(--begin=now+1hour) ;;
        depend) options=("--dependency=afterok:$other") ;;
        checkpointing) options=(--arena-elastic --arena-gpus=2 "--export=ALL,MODE=steps") ;;
        off) options=(--comment=arena:off) ;;
    esac
    job[$case]=$(train "$case" "${options[@]}")
done
touch "$gates/${job[checkpointing]}.deaf"
for case in running checkpointing own off completing requeued; do wait_started "${job[$case]}"; done
wait_ranks "${job[checkpointing]}" 2
scontrol update JobId="${job[checkpointing]}" Comment=arena:gpus=1
let_go "${job[own]}" 99 0
scontrol hold "${job[aheld]}"
for case in completing requeued; do touch "$gates/epilog.$(node_of "$case")"; done
let_go "${job[completing]}" 0 0
scontrol requeue "${job[requeued]}"

at_stage() {
    case $1 in
        held) wait_for_reason "${job[held]}" '^Arena: waits for' ;;
        waiting) wait_until "[[ \$(arena_word ${job[waiting]} state) == released ]]" ;;
        uheld) wait_for_reason "${job[uheld]}" '^JobHeldUser$' ;;
        aheld) wait_for_reason "${job[aheld]}" '^JobHeldAdmin$' ;;
        begin) wait_for_reason "${job[begin]}" '^BeginTime$' ;;
        depend) wait_for_reason "${job[depend]}" '^Dependency$' ;;
        starting) wait_for_state "${job[starting]}" 'CONFIGURING|RUNNING' ;;
        running | off) wait_for_state "${job[$1]}" RUNNING ;;
        checkpointing) wait_until "[[ -e '$gates/${job[checkpointing]}.signals' ]]" ;;
        own) wait_for_state "${job[own]}" SPECIAL_EXIT ;;
        completing | requeued) wait_for_state "${job[$1]}" COMPLETING ;;
    esac
}
for case in "${cases[@]}"; do ok "$case: the job gets to this state" at_stage "$case"; done

# ---- three ways to interrupt the controller -------------------------------------------------------
# What is to stay the same: state, reason, plan and shape, restarts, starts of the script.
facts() {
    local id=${job[$1]}
    echo "$(job_state "$id") | $(job_reason "$id") | $(job_field "$id" AdminComment) | $(job_field "$id" TresPerNode)" \
        "| $(job_field "$id" NumTasks) tasks | $(job_field "$id" Restarts) restarts | $(starts "$id") starts"
}
interrupt() {
    case $1 in
        kill) wait_saved 30 && cluster ctld kill && cluster ctld start && cluster wait ;;
        restart) cluster ctld restart && cluster wait ;;
        reconfigure) scontrol reconfigure ;;
    esac && wait_rounds probe
}
ok "rounds go on" wait_rounds probe
for case in "${cases[@]}"; do before[$case]=$(facts "$case"); note "$case: ${before[$case]}"; done
for way in kill restart reconfigure; do
    ok "$way: slurmctld and its rounds go on" interrupt "$way"
    for case in "${cases[@]}"; do
        wait_until "[[ \$(facts $case) == \"\${before[$case]}\" ]]" 20
        is "$(facts "$case")" "${before[$case]}" "$way: the job in state $case is as before"
    done
done

# ---- everything goes on as if nothing had been ----------------------------------------------------
for case in held waiting; do let_go "${hogs[$case]}"; done
scancel "$first"
let_go "$other"
rm -f "$gates/${job[checkpointing]}.deaf"
let_go "${job[checkpointing]}" 99 0
rm -f "$gates"/prolog.* "$gates"/epilog.*
scontrol update JobId="${job[begin]}" StartTime=now
for case in uheld aheld own; do ok "$case: is released" scontrol release "${job[$case]}"; done
finish() {
    local id=${job[$1]} lives=1
    case $1 in own | checkpointing | requeued) lives=2 ;; esac
    wait_started "$id" "$lives" || return
    let_go "$id"
    wait_for_state "$id" COMPLETED && [[ $(starts "$id") == "$lives" ]] && return
    echo "started $(starts "$id") times, not $lives"
    return 1
}
for case in "${cases[@]}"; do ok "$case: the job completes after as many starts as due" finish "$case"; done
is "$(last_start "${job[checkpointing]}")" "1 1 1 1" "the checkpointed job got its new plan"
ok "no node is left drained" clean_nodes

# ---- nodes fail -----------------------------------------------------------------------------------
for case in fail down; do job[$case]=$(train "$case" --arena-gpus=2); done
for case in fail down; do ok "$case: a job runs on one of two nodes" wait_started "${job[$case]}"; done
host() { job_field "${job[$1]}" BatchHost; }
failed=$(host fail) downed=$(host down)
ok "the slurmd of its node dies" cluster node "$failed" down
ok "another node is set down under a running job" scontrol update NodeName="$downed" State=DOWN Reason=test
for case in fail down; do
    ok "$case: the job is requeued, taken back and started again" wait_started "${job[$case]}" 2 40
    is "$(last_start "${job[$case]}")" "1 2 1 2" "$case: with a plan"
done
isnt "$(host fail)" "$failed" "on the other node"
ok "the node comes back" cluster node "$failed" up
# Its slurmd lives and has registered again meanwhile, or this brings it back.
scontrol update NodeName="$downed" State=RESUME 2>/dev/null
for case in fail down; do
    let_go "${job[$case]}"
    ok "$case: the job completes" wait_for_state "${job[$case]}" COMPLETED
    is "$(starts "${job[$case]}")" 2 "$case: after two starts"
done
ok "no node is left drained" clean_nodes

# ---- nodes die ------------------------------------------------------------------------------------
# Each job runs on two of three nodes; one loses the node of its script, the other the other one.
declare -A dead
sed -i 's/^SlurmdTimeout=.*/SlurmdTimeout=20/' "$cluster_dir/slurm.conf" && scontrol reconfigure
for case in head tail; do job[$case]=$(train "$case" --arena-gpus=4); done
for case in head tail; do ok "$case: a job runs on two of three nodes" wait_started "${job[$case]}"; done
dead[head]=$(host head)
dead[tail]=$(scontrol show hostnames "$(job_field "${job[tail]}" NodeList)" | grep -vx "$(host tail)")
for case in head tail; do ok "$case: $case node ${dead[$case]} dies" cluster node "${dead[$case]}" kill; done
for case in head tail; do
    ok "$case: the job is requeued, taken back and started again" wait_started "${job[$case]}" 2 60
    is "$(last_start "${job[$case]}")" "1 4 2 2" "$case: with a plan for two nodes"
    unlike " $(scontrol show hostnames "$(job_field "${job[$case]}" NodeList)" | tr '\n' ' ')" " ${dead[$case]} " \
        "$case: not on the dead one"
    ok "$case: the node comes back" cluster node "${dead[$case]}" up
    let_go "${job[$case]}"
    ok "$case: the job completes" wait_for_state "${job[$case]}" COMPLETED
    is "$(starts "${job[$case]}") $(job_field "${job[$case]}" Restarts)" "2 1" "$case: after two starts"
done
ok "no node is left drained" clean_nodes

done_testing
