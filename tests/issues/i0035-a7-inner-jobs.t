#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Jobs that are submitted from inside an Arena job (issue 35, A7), by its batch script and by a rank, see what they see
# inside a stock job that asked for the same, and their srun works: neither the plan nor the memory that Arena chose
# for the outer job is handed down; memory that its user asked for is, as in stock Slurm.
# shellcheck disable=SC2016  # expands in the jobs
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena
start_cluster --arena on --nodes a40:2x2 --profile off   # with DefMemPerCPU
export work
inner=$(script 'env -0 | sort -z | tr "\n" " " | tr "\0" "\n" >"$work/env.$1"; srun -n1 hostname >"$work/host.$1" 2>&1; true')
cat >"$work/submit" <<END
#!/bin/bash
name=\$1; shift
sbatch -W -n1 -t 1 -o /dev/null "\$@" "$inner" "\$name" >/dev/null
END
chmod +x "$work/submit"
outer=$(script '"$work/submit" "$1.script"
[[ $2 != arena-too ]] || "$work/submit" "$1.arena" --arena-model=gpt2 --arena-launcher=env --arena-batch=16 --arena-gpus=1-1
srun -N1 -n1 -c1 --overlap "$work/submit" "$1.rank"')
# A job of its own each: what they are, when and where they run.
own='SLURM_JOB_ID|SLURM_JOBID|SLURM_JOB_SLUID|SLURM_TASK_PID|SLURM_TOPOLOGY_ADDR|TMPDIR|SLURM_JOB_START_TIME|SLURM_JOB_END_TIME'
own+='|SLURM_SRUN_COMM_PORT|SLURM_STEP_LAUNCHER_PORT|SLURM_LAUNCH_NODE_IPADDR|SLURM_MPI_TYPE|SHLVL|_'
# The test's own ARENA_* are no Arena job's: removed at its submission, as documented.
described() { sed -E "/^($own|ARENA_(BUILDDIR|SRCDIR|CLUSTER_DIR|DATA_DIR))=/d" "$work/env.$1"; }

# runs NAME OPTIONS...: an outer job; those inside are named NAME.script and NAME.rank
runs() {
    local name=$1 id
    shift
    id=$(submit -J outer -t 3 -o "$work/out.$name" "$@" "$outer" "$name" "${more-}") || { diag "$id"; return 1; }
    wait_for_state "$id" 'COMPLETED|FAILED' 60 && [[ $(job_state "$id") == COMPLETED ]]
}
# alike NAME: its inner jobs have the environment of those of the stock job $stock
alike() {
    local from
    for from in script rank; do
        is "$(diff <(described "$stock.$from") <(described "$1.$from"))" "" "$1: a job submitted by its $from has the environment that stock Slurm gives it"
    done
}
arena=(--arena-launcher=env --arena-model=bert-large --arena-batch=32 --arena-gpus=2-2 --arena-types=a40)
ok "a stock job submits jobs" runs stock -N1 --ntasks-per-node=2 -c 4 --gres=gpu:a40:2
more="arena-too"
ok "an Arena job of the same shape does, too" runs planned "${arena[@]}" -c 4
more=
stock=stock
alike planned
for from in script rank; do
    is "$(<"$work/host.planned.$from")" "$(<"$work/host.stock.$from")" "planned: srun works in a job submitted by its $from"
done
like "$(<"$work/host.planned.arena")" "^$(hostname)" "and in an Arena job that is submitted from inside"
like "$(<"$work/env.planned.arena")" 'ARENA_PLAN=.*"gpus_per_node":1' "which has a plan of its own"
ok "a stock job of a user who asks for memory" runs stock-mem -N1 --ntasks-per-node=2 -c 4 --gres=gpu:a40:2 --mem=3000
ok "an Arena job of such a user" runs planned-mem "${arena[@]}" -c 4 --mem=3000
stock="stock-mem"
alike planned-mem
# What a watched rank is started with goes, too: the recorder, and the key of the outer job.
ok "a watched job submits jobs" runs watched "${arena[@]}" -c 4 --arena-slowdown=watch
stock=stock
alike watched
done_testing
