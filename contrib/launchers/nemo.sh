#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# NeMo 2 under Arena: the plan as overrides of a recipe, one task per GPU. Its PreemptionCallback saves on SIGTERM; a recipe
# without it goes on from its last checkpoint.
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=8-64 --arena-elastic
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
eval "$(arena-args --elastic)"
elastic_srun TERM nemo llm pretrain --factory "$recipe" --yes "trainer.num_nodes=$SLURM_JOB_NUM_NODES" \
    "trainer.devices=$((SLURM_NTASKS / SLURM_JOB_NUM_NODES))" "${args[@]}" "$@"
