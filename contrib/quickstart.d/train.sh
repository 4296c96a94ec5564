#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The batch script of the quickstart's Arena jobs: what a user's training script looks like, with ranks
# that check the plan instead of training. It asks for no GPUs, nodes or tasks: Arena writes those.
#SBATCH --time=5
echo "job $SLURM_JOB_ID: $SLURM_NTASKS ranks on $SLURM_JOB_NODELIST, $ARENA_PP pipeline stages x $ARENA_DP data x $ARENA_TP tensor parallel"
srun --kill-on-bad-exit=1 "${1:?path of rank.sh}"
