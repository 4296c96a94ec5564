#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Megatron-LM under Arena: one task per GPU by srun; stops and comes back on SIGUSR1 with its checkpoint.
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=8-64 --arena-elastic
#SBATCH --arena-launcher=megatron --time=12:00:00
# usage: sbatch megatron.sh [ARGUMENTS OF pretrain_gpt.py]     MEGATRON=DIR MEGATRON_VERSION=0.13
set -euo pipefail
launchers=${ARENA_LAUNCHERS:-/usr/share/slurm-arena/launchers}
plan=$("$launchers/arena-args" megatron --version "${MEGATRON_VERSION:-0.13}")
mapfile -t args <<<"$plan"
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT=29400 CUDA_DEVICE_MAX_CONNECTIONS=1
# --exit-signal-handler saves and exits on its signal; torch_dist checkpoints load in any shape.
# shellcheck disable=SC2016  # expands in the task
srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS exec "$@"' _ \
    python "${MEGATRON:?MEGATRON names the directory of Megatron-LM}/pretrain_gpt.py" "${args[@]}" \
    --save checkpoints --load checkpoints --ckpt-format torch_dist --exit-signal-handler "$@" &
steps=$!
stopped=''
# Arena signals SIGUSR1 to the job's steps; where the framework knows SIGTERM only, the batch script passes it on.
trap 'stopped=yes; scancel --signal=TERM "$SLURM_JOB_ID.0"' USR1
wait "$steps" || true
if [[ $stopped ]]; then wait "$steps" || true; exit "${ARENA_REQUEUE_CODE:-99}"; fi
wait "$steps"
