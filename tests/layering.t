#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Arrows point down only: nothing in src/ and planner/ includes a Slurm, CUDA or NCCL header, and the
# lower layers do not include the higher ones. Checks the #include lines, and first that it can fail.
set -u
cd "${ARENA_SRCDIR:-$(dirname "$0")/..}" || exit 99
failed=0
n=0

# hits PATTERN DIRECTORY...: the #include lines below the directories that match
hits() {
    local pattern=$1
    shift
    grep -rnE --include='*.h' --include='*.cc' --include='*.cu' \
        "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]($pattern)" "$@"
}
result() { # STATUS NAME
    n=$((n + 1))
    if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; failed=1; fi
}
forbid() { # NAME PATTERN DIRECTORY...
    local name=$1 found
    shift
    found=$(hits "$@") && printf '# %s\n' "${found//$'\n'/$'\n'# }"
    [ -z "$found" ]
    result $? "$name"
}

foreign='slurm/|src/(common|slurmctld|slurmd|plugins|interfaces)/|cuda|cublas|cudnn|nccl|nvml|hwloc|cblas|openblas|dnnl|plugin/|profiler/|train/|mpi\.h'

self=$(mktemp -d) || exit 99
trap 'rm -rf "$self"' EXIT
for header in '<slurm/slurm.h>' '"src/slurmctld/slurmctld.h"' '<cuda_runtime.h>' '<nccl.h>' '<mpi.h>' '"train/comm.h"'; do
    echo "# include $header" >"$self/x.cc"
    hits "$foreign" "$self" >/dev/null
    result $? "the check sees $header"
done
forbid 'src/ and planner/ know no Slurm, CUDA or NCCL' "$foreign" src planner
forbid 'train/ knows no Slurm or command' 'slurm/|plugin/|cli/|policy/|sim/|store/' train
mapfile -t host_side < <(find train -type f ! -name 'cuda_*' ! -name 'nccl_*')
forbid "train/ knows CUDA and NCCL in its CUDA back-end alone" '[^>"]*(cuda|nccl)' "${host_side[@]}"
forbid 'planner/ builds on src/core only' 'cli/|policy/|sim/|store/|CLI/' planner
forbid 'core/ builds on itself only' 'cli/|policy/|sim/|store/|planner/|CLI/' src/core
forbid 'policy/ builds on core only' 'cli/|sim/|store/|planner/|CLI/|nlohmann' src/policy
forbid 'store/ builds on core only' 'cli/|policy/|sim/|planner/|CLI/' src/store
echo "1..$n"
exit $failed
