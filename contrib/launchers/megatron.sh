#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Megatron-LM under Arena: one task per GPU by srun; stops and comes back on SIGUSR1 with its checkpoint.
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=8-64 --arena-elastic
#SBATCH --arena-launcher=megatron@0.13 --time=12:00:00
# usage: sbatch megatron.sh [ARGUMENTS OF pretrain_gpt.py]     MEGATRON=DIR
set -euo pipefail
plan=$(arena-args)
mapfile -t args <<<"$plan"
export CUDA_DEVICE_MAX_CONNECTIONS=1
eval "$(arena-args --elastic)"
# Megatron-LM saves and leaves on SIGTERM only. torch_dist checkpoints load in any shape.
# shellcheck disable=SC2016  # expands in the task
elastic_srun TERM bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS; exec "$@"' _ \
    python "${MEGATRON:?MEGATRON names the directory of Megatron-LM}/pretrain_gpt.py" "${args[@]}" \
    --save checkpoints --load checkpoints --ckpt-format torch_dist --exit-signal-handler "$@"
