#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A data parallel PyTorch script under Arena with arena.py (arena.py(7)): watched, split around a slow GPU, moved and resumed. Without
# an argument it is pytorch_arena.py, which is beside this script where it was installed. One rank per GPU, by srun.
#SBATCH --arena-model=./config.json --arena-batch=512 --arena-gpus=1-32 --arena-elastic --arena-slowdown=mitigate
#SBATCH --time=12:00:00
# usage: sbatch pytorch.sh [SCRIPT [ARGUMENTS]]
set -euo pipefail
python_path=$(arena-args --python)
export PYTHONPATH=$python_path${PYTHONPATH:+:$PYTHONPATH}
(($#)) || set -- "$python_path/../launchers/pytorch_arena.py"
eval "$(arena-args --elastic)"
# Its exit code says whether the job comes back; under --arena-elastic=inplace it may go on here with another plan.
while :; do
    code=0
    srun python3 "$@" || code=$?
    elastic_next "$code"
done
