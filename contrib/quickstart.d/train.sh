#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The batch script of the quickstart's Arena jobs: what a user's training script looks like. It asks for no GPUs, nodes
# or tasks: Arena writes those. Every rank checks the plan, then a small GPT trains under it. An elastic job saves and
# leaves when Arena wants its GPUs, and goes on from there in its next life, in whatever shape that has.
# usage: train.sh DIR TEXT STEPS [more]   more: so many steps in the second life, endless in the first; STEPS 0: no training
#SBATCH --time=5
files=${1:?directory of rank.sh} text=${2:?text to learn} steps=${3:?steps} name=$SLURM_JOB_NAME
life=${SLURM_RESTART_COUNT:-0}
echo "job $SLURM_JOB_ID: $SLURM_NTASKS ranks on $SLURM_JOB_NODELIST, $ARENA_PP pipeline stages x $ARENA_DP data x $ARENA_TP tensor parallel"
srun --kill-on-bad-exit=1 "$files/rank.sh" || exit
((steps)) || exit 0
if [[ ${4-} == more ]]; then
    saved=$(find "$name.saved" -name 'step-*.arena' 2>/dev/null | sort | tail -n 1)
    saved=${saved##*/step-} saved=${saved%.arena}
    if ((life == 0)); then steps=1000000; else steps=$((10#${saved:-0} + steps)); fi
fi
train=(arena-train --device cpu --model "$files/small-gpt.yaml" --data "$text" --steps "$steps" --lr 3e-3
    --checkpoint "$name.saved" --log "$name.log" --quiet)
# Ranks on two cores give way to each other; nodes that are one host talk over loopback.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=lo
if [[ $QUICKSTART_MPI == pmix ]]; then exec srun --mpi=pmix "${train[@]}"; fi
exec srun -N1 -n1 "${train[@]}"   # no MPI: the ranks are threads of one process
