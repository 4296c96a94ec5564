#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The Trainer of Hugging Face transformers under Arena: the plan goes into a copy of its arguments as JSON, which
# HfArgumentParser reads where the script is given one file. One torchrun per node. The Trainer of 5.12 saves on SIGTERM
# (enable_jit_checkpoint); the script goes on from there: trainer.train(resume_from_checkpoint=get_last_checkpoint(output_dir)).
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=8-64 --arena-elastic
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
knows=true
[[ $ARENA_LAUNCHER != *@4.* ]] || knows=false
jq --arg settings "$settings" --argjson knows $knows 'reduce ($settings | split("\n")[] | split("=")) as [$key, $value]
    (.; setpath($key | split("."); $value | fromjson))
    | if $knows and (has("enable_jit_checkpoint") | not) then .enable_jit_checkpoint = true else . end' "$1" >"$ours"
eval "$(arena-args --elastic)"
elastic_srun ranks=TERM torchrun "${ranks[@]}" "$2" "$ours"
