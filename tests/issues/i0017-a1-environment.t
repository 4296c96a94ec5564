#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The environment of a started Arena job is that of the same shape asked of stock Slurm, variable by variable, in the
# batch script and in each task of a step, but for what Arena documents (spank_arena(8)): ARENA_*, and for launchers whose ranks
# srun starts what torch.distributed reads of a rank.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena

start_cluster --arena on --nodes a40:2x2 --profile off
dump=$(script "env -0 | sort -z | tr '\\n' ' ' | tr '\\0' '\\n' >\"$work/batch.\$SLURM_JOB_ID\"
srun bash -c 'env -0 | sort -z | tr \"\\n\" \" \" | tr \"\\0\" \"\\n\" >\"$work/task.\$SLURM_JOB_ID.\$SLURM_PROCID\"'")

# What is a job's own: its id, when and where it ran, its ports, pids and sockets.
own='SLURM_JOB_ID|SLURM_JOBID|SLURM_JOB_SLUID|SLURM_TASK_PID|SLURM_SRUN_COMM_PORT|SLURM_STEP_LAUNCHER_PORT|SLURM_TOPOLOGY_ADDR|TMPDIR'
own+='|SLURM_JOB_START_TIME|SLURM_JOB_END_TIME|SLURM_LAUNCH_NODE_IPADDR|SLURM_MPI_TYPE|SHLVL|_'
added='RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT'
# described FILE: without these
described() { sed -E "/^($own)=/d; /^($added)=/d; /^ARENA_/d" "$1"; }

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
    last=$at
    is "$(cd "$work" && echo task."$at".* | sed "s/\\.$at\\./ /g")" "$(cd "$work" && echo task."$stock".* | sed "s/\\.$stock\\./ /g")" \
        "$name: as many tasks"
    for file in "batch.$at" $(cd "$work" && echo "task.$at".*); do
        is "$(diff <(described "$work/${file/.$at/.$stock}") <(described "$work/$file"))" "" \
            "$name: $file has stock Slurm's environment"
    done
}
model=(--arena-model=gpt2 --arena-batch=16) by_env=("${model[@]}" --arena-launcher=env)
alike "two nodes" "${by_env[@]}" --arena-gpus=4-4 --arena-types=a40 -c 4 -t 10 --mem=3000 -- \
    -N 2 --ntasks-per-node=2 -c 4 --gres=gpu:a40:2 -t 10 --mem=3000
# ranks FILE...: what each has of a rank, in one line
ranks() { sed -nE "s/^(SLURM_PROCID|SLURM_LOCALID|$added)=(.*)/\\1=\\2/p" "$@" | sort | paste -sd' '; }
place=127.0.0.1   # NodeAddr: nothing resolves n1 (i0035-a3-rendezvous.t)
[[ ! $(getent ahosts n1 | grep -v '^127\.') ]] || place=n1
port=$(sed -n 's/^MASTER_PORT=//p' "$work/task.$last.0")
like "$port" '^[0-9]{4,5}$' "its ranks have a port to meet at"
for rank in 0 1 2 3; do
    is "$(ranks "$work/task.$last.$rank")" \
        "LOCAL_RANK=$((rank % 2)) MASTER_ADDR=$place MASTER_PORT=$port RANK=$rank SLURM_LOCALID=$((rank % 2)) SLURM_PROCID=$rank WORLD_SIZE=4" \
        "rank $rank knows its place"
done
unlike "$(<"$work/batch.$last")" "(^|
)($added)=" "the batch script is no rank"
mine=$(MASTER_PORT=12345 RANK=7 submit -o /dev/null "${by_env[@]}" --arena-gpus=2-2 --arena-types=a40 -t 10 "$dump")
ok "a job with a port of its own completes" wait_for_state "$mine" COMPLETED 60
like "$(ranks "$work/task.$mine.1")" 'MASTER_PORT=12345 RANK=7 ' "and keeps what its user set"
alike "one GPU" "${by_env[@]}" --arena-gpus=1-1 --arena-types=a40 -c 2 -t 10 --mem=3000 -- -N 1 --ntasks-per-node=1 -c 2 --gres=gpu:a40:1 -t 10 --mem=3000
alike "one task per node" "${model[@]}" --arena-gpus=4-4 --arena-types=a40 --arena-launcher=torchrun -c 3 -t 10 --mem=3000 -- \
    -N 2 --ntasks-per-node=1 -c 6 --gres=gpu:a40:2 -t 10 --mem=3000
unlike "$(<"$work/task.$last.0")" "(^|
)($added)=" "torchrun sets these for its ranks itself"
done_testing
