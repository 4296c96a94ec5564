#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# PyTorch Lightning under Arena: a script of LightningCLI, one task per GPU by srun, whose SLURM_* Lightning reads itself.
# Its data module's batch is ARENA_MICRO_BATCH; its module wraps layers for FSDP, and recomputes them where
# ARENA_RECOMPUTE says full (configure_model). Lightning itself saves on SIGUSR1 and has Slurm requeue the job.
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=8-64 --arena-elastic
#SBATCH --arena-launcher=lightning@2.5 --time=12:00:00
# usage: sbatch lightning.sh SCRIPT [ARGUMENTS OF ITS CLI, such as: fit --config my.yaml]
set -euo pipefail
plan=$(arena-args)
mapfile -t args <<<"$plan"
eval "$(arena-args --elastic)"
elastic_srun own python "$@" "${args[@]}"
