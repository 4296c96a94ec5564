#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The environment of a started Arena job is that of the same shape asked of stock Slurm, variable by variable, in the
# batch script and in each task of a step, but for what Arena documents: ARENA_* (spank_arena(8)).
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena

start_cluster --arena on --nodes a40:2x2 --profile off
dump=$(script "env -0 | sort -z | tr '\\n' ' ' | tr '\\0' '\\n' >\"$work/batch.\$SLURM_JOB_ID\"
srun bash -c 'env -0 | sort -z | tr \"\\n\" \" \" | tr \"\\0\" \"\\n\" >\"$work/task.\$SLURM_JOB_ID.\$SLURM_PROCID\"'")

# What is a job's own: its id, when and where it ran, its ports, pids and sockets.
own='SLURM_JOB_ID|SLURM_JOBID|SLURM_TASK_PID|SLURM_SRUN_COMM_PORT|SLURM_STEP_LAUNCHER_PORT|SLURM_TOPOLOGY_ADDR|TMPDIR'
own+='|SLURM_JOB_START_TIME|SLURM_JOB_END_TIME|SLURM_LAUNCH_NODE_IPADDR|SLURM_MPI_TYPE|SHLVL|_'
# described FILE: without these
described() { sed -E "/^($own)=/d; /^ARENA_/d" "$1"; }

# alike NAME ARENA-OPTIONS -- STOCK-OPTIONS: the same shape by Arena and without it
alike() {
    local name=$1 ours=() stock file at
    shift
    while [[ $1 != -- ]]; do ours+=("$1"); shift; done
    shift
    at=$(submit -J env -o /dev/null "${ours[@]}" "$dump")
    ok "$name: the Arena job completes" wait_for_state "$at" COMPLETED 60
    stock=$(submit -J env -o /dev/null "$@" "$dump")
    ok "$name: so does stock Slurm's" wait_for_state "$stock" COMPLETED 60
    is "$(cd "$work" && echo task."$at".* | sed "s/\\.$at\\./ /g")" "$(cd "$work" && echo task."$stock".* | sed "s/\\.$stock\\./ /g")" \
        "$name: as many tasks"
    for file in "$work/batch.$at" "$work/task.$at".*; do
        is "$(diff <(described "${file/.$at/.$stock}") <(described "$file"))" "" \
            "$name: ${file##*/} has stock Slurm's environment"
    done
}
model=(--arena-model=gpt2 --arena-batch=16)
alike "two nodes" "${model[@]}" --arena-gpus=4-4 --arena-types=a40 -c 4 -t 10 --mem=3000 -- \
    -N 2 --ntasks-per-node=2 -c 4 --gres=gpu:a40:2 -t 10 --mem=3000
alike "one GPU" "${model[@]}" --arena-gpus=1-1 --arena-types=a40 -c 2 -t 10 --mem=3000 -- -N 1 --ntasks-per-node=1 -c 2 --gres=gpu:a40:1 -t 10 --mem=3000
alike "one task per node" "${model[@]}" --arena-gpus=4-4 --arena-types=a40 --arena-launcher=torchrun -c 3 -t 10 --mem=3000 -- \
    -N 2 --ntasks-per-node=1 -c 6 --gres=gpu:a40:2 -t 10 --mem=3000
done_testing
