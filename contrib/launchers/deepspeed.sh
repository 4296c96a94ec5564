#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Plain DeepSpeed under Arena: the plan goes into a copy of its JSON configuration, which can say ZeRO and batches; no
# stages and no tensor parallelism. Megatron-DeepSpeed is another launcher: megatron-deepspeed. On SIGUSR1 the script saves and
# leaves, as checkpoint_on_signal.py does; without that leave --arena-elastic out.
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=8-64 --arena-elastic
#SBATCH --arena-launcher=deepspeed --time=12:00:00
# usage: sbatch deepspeed.sh ds_config.json SCRIPT [ARGUMENTS]
set -euo pipefail
if (($# < 2)); then
    echo "deepspeed.sh: usage: sbatch deepspeed.sh ds_config.json SCRIPT [ARGUMENTS]" >&2
    exit 2
fi
config=$1 script=$2
shift 2
settings=$(arena-args)
ranks=$(arena-args torchrun)
mapfile -t ranks <<<"$ranks"
ours=$SLURM_JOB_ID.ds_config.json
jq --arg settings "$settings" 'reduce ($settings | split("\n")[] | split("=")) as [$key, $value]
    (.; setpath($key | split("."); $value | fromjson))' "$config" >"$ours"
eval "$(arena-args --elastic)"
elastic_srun ranks torchrun "${ranks[@]}" "$script" --deepspeed --deepspeed_config "$ours" "$@"
