#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# salloc with a plan, in a real cluster: an allocation is planned, shaped and started like a batch job, srun inside starts the ranks of
# its plan, it waits its turn, survives slurmctld's end while it waits and while it runs, and ends as stock Slurm's do.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
start_arena --nodes a40:2x4
asks=(--time=10 --arena-model=gpt2 --arena-launcher=env --arena-batch=64)
id_of() { squeue -h -a -t all -n "$1" -o %i | tail -n 1; }

# ---- the plan ----------------------------------------------------------------------------------------
out=$(timeout 300 salloc -J shell "${asks[@]}" --arena-gpus=8 bash -c 'env | grep "^ARENA_\|^SLURM_NTASKS="; srun -l printenv SLURMD_NODENAME | sort' 2>&1)
is $? 0 "a command runs in an allocation" || diag "$out"
job=$(id_of shell)
like "$(job_field "$job" AdminComment)" '^arena:v1 .*plan=' "its record has the plan"
is "$(job_field "$job" NumNodes)/$(job_field "$job" TresPerNode)" 2/gres:gpu:a40:4 "its shape is the plan's"
like "$out" $'\nARENA_DP=[1-8]\n' "the plan is in the environment"
like "$out" $'\nSLURM_NTASKS=8\n' "and the number of ranks"
is "$(grep -c '^[0-7]: n[12]$' <<<"$out")" 8 "srun without a number starts that many, on both nodes"
ok "it completes" wait_for_state "$job" COMPLETED
out=$(timeout 300 salloc -J code "${asks[@]}" --arena-gpus=1 bash -c 'exit 7' 2>&1)
is $? 7 "its exit code is the command's"
is "$(job_field "$(id_of code)" ExitCode)" "$(timeout 60 salloc -J plain bash -c 'exit 7' >/dev/null 2>&1; job_field "$(id_of plain)" ExitCode)" \
    "and the record's that of a stock allocation"

# ---- it waits ------------------------------------------------------------------------------------------
hog=$(hog a40 4 -w n1)
other=$(hog a40 4 -w n2)
for id in "$hog" "$other"; do ok "the nodes are taken" wait_for_state "$id" RUNNING; done
timeout 600 salloc -J waits "${asks[@]}" --arena-gpus=2 bash -c "echo started >$work/started; while [[ ! -e $work/go ]]; do sleep 0.1; done; srun -l true; echo \$? >$work/srun" \
    >"$work/waits.out" 2>&1 &
client=$!
ok "an allocation waits with its shape" wait_until '[[ $(job_field "$(id_of waits)" AdminComment) == *state=released* ]]'
job=$(id_of waits)
like "$(arena explain "$job")" "JobId=$job" "arena explain knows it"
like "$(arena queue)" "$job" "and so does arena queue"
ok "it is saved" wait_saved
cluster ctld kill && cluster ctld start && cluster wait
is "$(job_state "$job")" PENDING "it waits on after slurmctld was killed"
let_go "$hog"
ok "it starts when there is room" wait_for_state "$job" RUNNING 60
ok "salloc hears of it" wait_until '[[ -e $work/started ]]' 60
is "$(job_field "$job" NodeList)" n1 "where it was planned"
ok "that is saved" wait_saved
cluster ctld kill && cluster ctld start && cluster wait
is "$(job_state "$job")" RUNNING "it runs on after slurmctld was killed"
touch "$work/go"
wait "$client"
is $? 0 "and ends well" || diag "$(<"$work/waits.out")"
is "$(<"$work/srun")" 0 "with its step"
ok "it completes" wait_for_state "$job" COMPLETED

# ---- ends -----------------------------------------------------------------------------------------------
timeout 300 salloc -K -J ends "${asks[@]}" --arena-gpus=1 sleep 1000 >"$work/ends.out" 2>&1 &
client=$!
ok "another runs" wait_until '[[ $(job_state "$(id_of ends)") == RUNNING ]]' 60
job=$(id_of ends)
isnt "$(scontrol requeue "$job" 2>&1)" '' "it cannot be requeued, as a stock one cannot"
ok "it is cancelled" scancel "$job"
wait "$client"
isnt $? 0 "salloc ends"
ok "and the job" wait_for_state "$job" CANCELLED
let_go "$other"
for signal in INT TERM; do
    other=$(hog a40 4 -w n1)
    second=$(hog a40 4 -w n2)
    for id in "$other" "$second"; do ok "the nodes are taken" wait_for_state "$id" RUNNING; done
    salloc -J "gives-up-$signal" "${asks[@]}" --arena-gpus=1 true >"$work/gives-up.out" 2>&1 &
    client=$!
    ok "one waits" wait_until '[[ $(job_state "$(id_of gives-up-'$signal')") == PENDING ]]'
    # Before salloc knows its job it has nothing to cancel, in stock Slurm neither.
    ok "and knows its job" wait_until 'grep -q "Pending job allocation" "$work/gives-up.out"'
    kill -"$signal" "$client"
    wait "$client"
    ok "salloc that gives up while it waits leaves nothing (SIG$signal)" wait_for_state "$(id_of "gives-up-$signal")" CANCELLED
    for id in "$other" "$second"; do let_go "$id"; done
    for id in "$other" "$second"; do wait_for_state "$id" COMPLETED; done
done
ok "no node has suffered" clean_nodes
unlike "$(<"$cluster_dir/log/slurmctld.log")" 'internal fault' "nor has slurmctld"
done_testing
