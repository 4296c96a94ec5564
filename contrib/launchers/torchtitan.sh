#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# torchtitan under Arena: one task per node, torchrun starts the ranks of the node.
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=8-64
#SBATCH --arena-launcher=torchtitan --time=12:00:00
# usage: sbatch torchtitan.sh [ARGUMENTS OF torchtitan.train]     TORCHTITAN_VERSION=0.2
set -euo pipefail
launchers=${ARENA_LAUNCHERS:-/usr/share/slurm-arena/launchers}
ranks=$("$launchers/arena-args" torchrun)
plan=$("$launchers/arena-args" torchtitan --version "${TORCHTITAN_VERSION:-0.2}")
mapfile -t ranks <<<"$ranks"
mapfile -t args <<<"$plan"
exec srun torchrun "${ranks[@]}" -m torchtitan.train "${args[@]}" "$@"
