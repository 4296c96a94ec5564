#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A data parallel script (DDP) under Arena by torchrun: it gets plans of whole replicas only, by --arena-plan below; leave that out for a
# script that reads all of ARENA_* (fsdp: name that launcher instead). With checkpoint_on_signal.py
# it is elastic: SIGUSR1 goes to all processes of the step; the ranks save and leave, torchrun ignores it.
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=1-8 --arena-elastic
#SBATCH --arena-launcher=torchrun --arena-plan=pp1,tp1,zero0,none --time=12:00:00
# usage: sbatch torchrun.sh SCRIPT [ARGUMENTS]
set -uo pipefail
ranks=$(arena-args torchrun) || exit
mapfile -t ranks <<<"$ranks"
# torchrun ends with 1 whatever its ranks end with: a file says that they saved and left because they were told to.
export ARENA_LEFT_FILE=$PWD/.arena-left.$SLURM_JOB_ID
rm -f "$ARENA_LEFT_FILE"
# A script that handles the signal replaces the ignoring that its ranks inherit.
# shellcheck disable=SC2016  # expands in the task
srun bash -c 'trap "" USR1; exec torchrun "$@"' _ "${ranks[@]}" "$@"
code=$?
if [[ -e $ARENA_LEFT_FILE ]]; then rm -f "$ARENA_LEFT_FILE"; exit "${ARENA_REQUEUE_CODE:-99}"; fi
exit "$code"
