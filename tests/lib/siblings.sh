# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Black-box tests of arrays that share a pipeline, in a cluster. Source it after arena.sh and train.sh.
#   need_siblings                 skips where something is missing; before start_siblings
#   start_siblings [OPTIONS...]   a cluster whose GPUs have 10 MB, a model that none of them holds alone, and text to train on
#   sweep ARRAY OPTIONS...        submits an array of it, prints its id; tasks do $STEPS steps, $work/steps.TASK has another number of one,
#                                 and end as $work/exit.TASK says, $work/linger seconds after they have trained and not while there is a $work/hold; their limit
#                                 is 20 minutes, or the option $LIMIT, which may be empty
#   task ARRAY N FIELD            of its record
#   tasks_in ARRAY STATE          how many; carriers [STATE]: ids of the jobs that train members
: "${ARENA_BUILDDIR=}" "${work=}" "${cluster_dir=}"   # of cluster.sh

need_siblings() {
    need_arena
    need_mpi_in_slurm
    command -v jq >/dev/null || skip_all 'jq is not installed'
}

start_siblings() {
    make_work
    cp "$ARENA_SRCDIR"/contrib/demo-array.d/{hardware,sibling}.yaml "$work/"
    write_training_text "$work/text"
    cat >"$work/sweep.sh" <<END
#!/bin/bash
cd \${SWEEP_DIR:-$work}
task=\$SLURM_ARRAY_TASK_ID steps=\$STEPS
[[ ! -e steps.\$task ]] || steps=\$(<steps.\$task)
echo "\${SLURM_RESTART_COUNT:-0} \${ARENA_ARRAY:+array}" >>lives.\$SLURM_ARRAY_JOB_ID.\$task
srun --mpi=pmix arena-train --device cpu --model $work/sibling.yaml --data $work/text --steps \$steps --lr 0.00\$((task + 1)) --seed \$task --clip 0 \\
    --save-every 2 --checkpoint saved.\$SLURM_ARRAY_JOB_ID.\$task --log log.\$SLURM_ARRAY_JOB_ID.\$task
code=\$?
[[ ! -e linger ]] || sleep "\$(<linger)"
while [[ -e $work/hold ]]; do sleep 0.2; done
((code == 0)) && [[ -e exit.\$task ]] && exit "\$(<exit.\$task)"
exit \$code
END
    chmod 755 "$work/sweep.sh"
    export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl=self,vader
    start_arena --nodes a40:1x4 --cpus 20 --hardware small-cpu --arena-set hardware_file="$work/hardware.yaml" --arena-set array.enabled=true \
        --arena-set array.solve_s=0.1 --arena-set array.max_members=12 "$@"
}

sweep() {
    local tasks=$1
    shift
    # shellcheck disable=SC2086 # no limit, or an option
    submit ${LIMIT---time=20} -o "$work/out-%A-%a" --array="$tasks" --arena-array --arena-launcher=arena-train --arena-model="$work/sibling.yaml" \
        --arena-batch=2 "$@" "$work/sweep.sh"
}
task() { job_field "$1_$2" "$3"; }
tasks_in() { scontrol -o show job "$1" 2>/dev/null | grep -c " ArrayTaskId=[0-9]* .* JobState=$2 "; }
carriers() { squeue -h -a -t "${1:-all}" -n arena-array -o %A | sort -n; }
