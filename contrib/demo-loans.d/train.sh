#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The batch script of the demo's training jobs: a trainer without arithmetic. Each of its steps takes as long as the plan
# that Arena gave it is expected to need, so that it goes faster on more GPUs. Told to leave, it saves and exits; the
# next life goes on from there. What was done since the last save is lost to one that is killed.
# usage: train.sh DIR STEPS   DIR/NAME.steps: steps saved; DIR/NAME.lives: "EPOCH_MS LIFE GPUS NODES STEP" of each start
#SBATCH --time=10
dir=${1:?directory} steps=${2:?steps} name=$SLURM_JOB_NAME
saved=$dir/$name.steps
begin=0
[[ ! -e $saved ]] || read -r begin <"$saved"
step_ms=$(jq -er '.estimate.iteration_s * 1000 | ceil' <<<"${ARENA_PLAN:?not planned by Arena}") || exit 1
now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }
start_ms=$(now_ms)
echo "$start_ms ${SLURM_RESTART_COUNT:-0} $SLURM_NTASKS $SLURM_JOB_NODELIST $begin" >>"$dir/$name.lives"
done_steps() {
    local n=$((begin + ($(now_ms) - start_ms) / step_ms))
    echo $((n < steps ? n : steps))
}
save() { done_steps >"$saved.new" && mv "$saved.new" "$saved"; }
trap 'save; exit 99' USR1
exec {never}<> <(:)   # a wait without a process each time
while (($(done_steps) < steps)); do
    read -rt 0.5 -u "$never"
    save
done
save
