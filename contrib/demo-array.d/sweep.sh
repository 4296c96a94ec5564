#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# One task of the sweep: nothing in it knows of pipelines or siblings.
# usage: sweep.sh RUN STEPS ENDLESS     the task ENDLESS goes on until it is cancelled
rates=(0.0005 0.001 0.002 0.004 0.008 0.0007 0.0015 0.003 0.006 0.012)
task=$SLURM_ARRAY_TASK_ID steps=$2
((task != $3)) || steps=1000000
echo "${ARENA_ARRAY:+shared}" >"$1/life.$task"
srun --mpi=pmix arena-train --device cpu --model "$1/sibling.yaml" --data "$1/text" --steps "$steps" --lr "${rates[task % ${#rates[@]}]}" --seed "$task" --clip 0 \
    --save-every 5 --checkpoint "$1/saved.$task" --log "$1/log.$task"
