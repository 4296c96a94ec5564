#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# NeMo 2 under Arena: the plan as overrides of a recipe, one task per GPU.
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=8-64
#SBATCH --arena-launcher=nemo@2.2 --time=12:00:00
# usage: sbatch nemo.sh RECIPE [OVERRIDES]
set -euo pipefail
if (($# < 1)); then
    echo "nemo.sh: usage: sbatch nemo.sh RECIPE [OVERRIDES]; RECIPE is the factory of a recipe, such as llama3_8b" >&2
    exit 2
fi
recipe=$1
shift
plan=$(arena-args)
mapfile -t args <<<"$plan"
exec srun nemo llm pretrain --factory "$recipe" --yes "trainer.num_nodes=$SLURM_JOB_NUM_NODES" \
    "trainer.devices=$((SLURM_NTASKS / SLURM_JOB_NUM_NODES))" "${args[@]}" "$@"
