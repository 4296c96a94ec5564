#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A data parallel script (DDP) under Arena by torchrun: it gets plans of whole replicas only, by --arena-plan below; leave that out for a
# script that reads all of ARENA_* (fsdp: name that launcher instead). With checkpoint_on_signal.py
# it is elastic: the signal goes to all processes of the step; the ranks save and leave, torchrun ignores it.
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=1-8 --arena-elastic
#SBATCH --arena-launcher=torchrun --arena-plan=pp1,tp1,zero0,none --time=12:00:00
# usage: sbatch torchrun.sh SCRIPT [ARGUMENTS]
set -uo pipefail
ranks=$(arena-args torchrun) || exit
mapfile -t ranks <<<"$ranks"
# torchrun ends with 1 whatever its ranks end with: a file says that they saved and left because they were told to.
eval "$(arena-args --elastic)"
elastic_srun ranks torchrun "${ranks[@]}" "$@"
