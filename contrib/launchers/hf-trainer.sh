#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The Trainer of Hugging Face transformers under Arena: the plan goes into a copy of its arguments as JSON, which
# HfArgumentParser reads where the script is given one file. One torchrun per node.
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=8-64
#SBATCH --arena-launcher=hf-trainer@5.12 --time=12:00:00
# usage: sbatch hf-trainer.sh arguments.json SCRIPT
set -euo pipefail
if (($# != 2)); then
    echo "hf-trainer.sh: usage: sbatch hf-trainer.sh arguments.json SCRIPT" >&2
    exit 2
fi
settings=$(arena-args)
ranks=$(arena-args torchrun)
mapfile -t ranks <<<"$ranks"
ours=$SLURM_JOB_ID.arguments.json
jq --arg settings "$settings" 'reduce ($settings | split("\n")[] | split("=")) as [$key, $value]
    (.; setpath($key | split("."); $value | fromjson))' "$1" >"$ours"
exec srun torchrun "${ranks[@]}" "$2" "$ours"
