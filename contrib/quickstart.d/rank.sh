#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# One rank: compares what Arena put into its environment with what slurmctld says about the job
# (scontrol) and with the GPU devices of the node it runs on. Ends 1 with a sentence at the first
# difference.
set -euo pipefail
me="rank ${SLURM_PROCID:?} on ${SLURMD_NODENAME:?}"
wrong() { echo "$me: WRONG: $*"; exit 1; }
same() { [[ $2 == "$3" ]] || wrong "$1: $2 here, but $3 by $4"; }

job=$(scontrol -o show job "$SLURM_JOB_ID")
field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p" <<<"$job"; }

# What slurmctld says: AdminComment=arena:v1 state=.. grid=[2x]4xa40 plan=pp2,dp2,tp1,mb4x16 ...
grid=$(field grid) plan=$(field plan)
[[ $grid =~ ^(([0-9]+)x)?([0-9]+)x([A-Za-z0-9_]+)$ ]] || wrong "AdminComment has no grid: $(field AdminComment)"
nodes=${BASH_REMATCH[2]:-1} per_node=${BASH_REMATCH[3]} type=${BASH_REMATCH[4]}
[[ $plan =~ ^pp([0-9]+),dp([0-9]+),tp([0-9]+),mb([0-9]+)x([0-9]+) ]] || wrong "AdminComment has no plan: $plan"
pp=${BASH_REMATCH[1]} dp=${BASH_REMATCH[2]} tp=${BASH_REMATCH[3]} mb=${BASH_REMATCH[4]} micro=${BASH_REMATCH[5]}

# The plan and the allocation.
same "world size" "$SLURM_NTASKS" $((pp * dp * tp)) "the plan in scontrol"
same "world size" "$SLURM_NTASKS" $((nodes * per_node)) "the grid in scontrol"
same "world size" "$SLURM_NTASKS" "$(field NumTasks)" "NumTasks in scontrol"
same "nodes" "$SLURM_JOB_NUM_NODES" "$nodes" "the grid in scontrol"
same "nodes" "$SLURM_JOB_NUM_NODES" "$(field NumNodes | cut -d- -f1)" "NumNodes in scontrol"
same "TresPerNode" "$(field TresPerNode | sed 's#^gres/#gres:#')" "gres:gpu:$type:$per_node" "the grid in scontrol"

# The environment.
same ARENA_PP "${ARENA_PP-}" "$pp" scontrol
same ARENA_DP "${ARENA_DP-}" "$dp" scontrol
same ARENA_TP "${ARENA_TP-}" "$tp" scontrol
same ARENA_MICRO_BATCH "${ARENA_MICRO_BATCH-}" "$mb" scontrol
same ARENA_NUM_MICRO_BATCHES "${ARENA_NUM_MICRO_BATCHES-}" "$micro" scontrol
same "ARENA_GLOBAL_BATCH" "${ARENA_GLOBAL_BATCH-}" $((mb * micro * dp)) "micro-batch x micro-batches x dp"
stages=$(tr ',' '\n' <<<"${ARENA_STAGE_LAYERS:?}" | wc -l)
same "stages in ARENA_STAGE_LAYERS" "$stages" "$pp" scontrol
from_json() { jq -er "$1" <<<"${ARENA_PLAN:?}" || wrong "ARENA_PLAN is not the JSON of an offer: $ARENA_PLAN"; }
same "ARENA_PLAN gpu_type" "$(from_json .grid.gpu_type)" "$type" scontrol
same "ARENA_PLAN stage_layers" "$(from_json '.plan.stage_layers | map(tostring) | join(",")')" "$ARENA_STAGE_LAYERS" ARENA_STAGE_LAYERS
same "ARENA_PLAN micro_batch" "$(from_json .plan.micro_batch)" "$mb" scontrol

# The devices of this node: what CUDA_VISIBLE_DEVICES counts, and that each is a device of this type.
IFS=, read -ra visible <<<"${CUDA_VISIBLE_DEVICES-}"
same "GPUs in CUDA_VISIBLE_DEVICES" "${#visible[@]}" "$per_node" "the grid in scontrol"
for index in "${visible[@]}"; do
    device=$(dirname "${SLURM_CONF:?}")/dev/$SLURMD_NODENAME/gpu$index
    [[ -c $device ]] || wrong "GPU $index of $SLURMD_NODENAME has no device node $device"
done
[[ $(scontrol -o show node "$SLURMD_NODENAME") == *" Gres=gpu:$type:"* ]] || wrong "$SLURMD_NODENAME has no GPUs of type $type"
((SLURM_LOCALID < per_node)) || wrong "local rank $SLURM_LOCALID has no GPU of its own among $per_node"

echo "$me: ok: $SLURM_NTASKS ranks = pp$pp x dp$dp x tp$tp, GPU ${visible[SLURM_LOCALID]} of ${#visible[@]} $type (fake device)"
