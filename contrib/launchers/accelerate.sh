#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# accelerate under Arena: one `accelerate launch` per node. A script with Accelerator() shards as planned; its batch is
# ARENA_MICRO_BATCH, and with ZeRO 3 it passes GradientAccumulationPlugin(sync_each_batch=True). On SIGUSR1 it saves and leaves,
# as checkpoint_on_signal.py does; without that leave --arena-elastic out.
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=8-64 --arena-elastic
#SBATCH --arena-launcher=accelerate@1.6 --time=12:00:00
# usage: sbatch accelerate.sh SCRIPT [ARGUMENTS]
set -euo pipefail
# Accelerator(gradient_accumulation_steps=...) in the script yields to it.
export ACCELERATE_GRADIENT_ACCUMULATION_STEPS=$ARENA_NUM_MICRO_BATCHES
arena-args >/dev/null # a plan that cannot be told ends the job here, once
# The rank of a node is known in its task alone.
# shellcheck disable=SC2016  # expands in the task
task='plan=$(arena-args) && mapfile -t args <<<"$plan" && exec accelerate launch "${args[@]}" "$@"'
eval "$(arena-args --elastic)"
elastic_srun ranks bash -c "$task" _ "$@"
