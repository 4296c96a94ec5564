#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# torchtitan under Arena: one task per node, torchrun starts the ranks of the node. It knows no signal to save on: told to
# leave it ends at once, and goes on from its last checkpoint (--checkpoint.interval).
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=8-64 --arena-elastic
#SBATCH --arena-launcher=torchtitan@0.2 --time=12:00:00
# usage: sbatch torchtitan.sh [ARGUMENTS OF torchtitan.train]
set -euo pipefail
ranks=$(arena-args torchrun)
plan=$(arena-args)
mapfile -t ranks <<<"$ranks"
mapfile -t args <<<"$plan"
eval "$(arena-args --elastic)"
elastic_srun end torchrun "${ranks[@]}" -m torchtitan.train "$@" "${args[@]}" # a word for recompute may end the line
