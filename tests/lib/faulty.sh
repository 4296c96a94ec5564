# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A cluster whose profile runs and checks measure a device of ours (arena-profiler-faulty): its times are invented, and as slow as
# a file of the node says. Source it after arena.sh.
#   need_faulty              skips the whole test, with the reason, where that program is not built
#   start_faulty OPTIONS...  start_arena of such a cluster; what checks find holds for 600 s. $log is slurmctld's
#   slow_gpu NODE GPU        that one is slow from now on          sound NODE   none is
#   latest NODE              line of $log on the node's latest check
: "${ARENA_BUILDDIR=}" "${ARENA_SRCDIR=}" "${cluster_dir=}" "${work=}"   # of cluster.sh
faulty=$ARENA_BUILDDIR/arena-profiler-faulty log=''

need_faulty() { [[ -x $faulty ]] || skip_all "arena-profiler-faulty is not built (make check builds it)"; }
start_faulty() {
    start_arena --profile on --hardware A40 --arena-set profile.budget_s=4 --arena-set profile.time_limit_s=60 \
        --arena-set slowdown.recheck_s=600 --arena-set slowdown.check_time_limit_s=30 --arena-set slowdown.quarantine=avoid "$@"
    log=$cluster_dir/log/slurmctld.log
    unset "${!SLURM_JOB@}" SLURM_RESTART_COUNT
    mkdir -m 755 "$work/faults"
    cat >"$cluster_dir/arena-profiler" <<END
#!/bin/bash
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc ARENA_TEST_FAULT=none
fault=$work/faults/\$SLURMD_NODENAME
[[ ! -e \$fault ]] || . "\$fault"
while [[ \$1 == run && -e \$fault.gate ]]; do sleep 0.2; done
exec $faulty "\$@"
END
    chmod 755 "$cluster_dir/arena-profiler"
}
slow_gpu() { echo "export ARENA_TEST_FAULT=slow ARENA_TEST_DEVICE=$2" >"$work/faults/$1"; }
sound() { rm -f "$work/faults/$1"; }
latest() { grep "node $1 checked (JobId=" "$log" | tail -n 1; }
