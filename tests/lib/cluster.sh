# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Black-box tests: stages this build once, starts a private cluster for the test, and waits for events
# with limits. Source it after tap.sh. The cluster is stopped when the test ends, however it ends.
#   need_slurm  need_arena          skip the whole test, with the reason, where Slurm or our plug-ins are missing
#   start_cluster [OPTIONS...]      private-cluster start of the staged prefix; Arena, profiling and hardware entries are
#                                   off, on and emulated-cpu unless OPTIONS say otherwise
#   stop_cluster                    (also on exit)
#   cluster WORDS...                private-cluster on this cluster: `cluster ctld kill`, `cluster node n1 down`
#   submit [SBATCH OPTIONS...]      prints the job id, or fails with sbatch's message
#   job_field JOB FIELD             one value of `scontrol -o show job` ("" when the job is unknown)
#   job_state JOB   job_reason JOB
#   wait_until 'COMMAND' [LIMIT]    polls each 50 ms, LIMIT seconds (default 20) of a machine that has nothing
#                                   else to do: every limit counts $ARENA_TEST_PATIENCE times (default 3)
#   let_pass SECONDS                in which something might happen
#   wait_for_state JOB STATE[|STATE] [LIMIT]     wait_for_reason JOB REGEX [LIMIT]
#   wait_saved [LIMIT]              until slurmctld has written the state of all jobs to disk
#   stock_scheduler                 $scheduler_options has the options of start_cluster for Slurm's own scheduler beside
#                                   our submission: behind a link by which sbatch takes it for ours
#   start_slurmctld_with NAME=VALUE...   slurmctld as private-cluster starts it, with more in its environment
#   pause_ms MILLISECONDS           without a process
#   one_thread                      profile runs measure on one thread: of two, each waits for the other while other tests
#                                   have its processor, and the budget ends before the operators do
#   script TEXT                     writes a batch script below $work, prints its path
#   all_processes                   pids that belong to this cluster
: "${ARENA_SRCDIR:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
: "${ARENA_BUILDDIR:=$PWD}"
ARENA_SRCDIR=$(realpath "$ARENA_SRCDIR") ARENA_BUILDDIR=$(realpath "$ARENA_BUILDDIR")
PATH=$PATH:/usr/sbin:/sbin
private_cluster=$ARENA_SRCDIR/contrib/private-cluster
stage=$ARENA_BUILDDIR/stage
# stage_build; its die() and say() are not for tests
top=$ARENA_SRCDIR
# shellcheck source=contrib/build-lib.sh
. "$ARENA_SRCDIR/contrib/build-lib.sh"
build=$ARENA_BUILDDIR
# shellcheck source=contrib/private-cluster.d/stock.sh
. "$ARENA_SRCDIR/contrib/private-cluster.d/stock.sh"
patience=${ARENA_TEST_PATIENCE:-3}
work=''          # scratch directory of this test
cluster_dir=''   # directory of the running cluster

need_slurm() {
    local program
    for program in slurmctld slurmd munged sbatch; do
        command -v "$program" >/dev/null || skip_all "$program is not installed (contrib/install-deps)"
    done
}

need_arena() {
    need_slurm
    grep -q '^S\["HAVE_SLURM_SRC_TRUE"\]=""$' "$ARENA_BUILDDIR/config.status" 2>/dev/null ||
        skip_all "this build has no scheduler plug-in: configure found no Slurm headers (contrib/get-slurm-headers)"
    stage_build || BAIL_OUT "make install into $stage failed, see $ARENA_BUILDDIR/stage.log"
}

make_work() {
    [[ $work ]] && return
    work=$(mktemp -d "${TMPDIR:-/tmp}/arena-test.XXXXXX")
    # Open MPI names shared memory by host, user and job id, which clusters beside each other have in common.
    mkdir -m 1777 "$work/mpi-shared-memory"
    export OMPI_MCA_btl_vader_backing_directory=$work/mpi-shared-memory
    chmod 755 "$work"
    # Shared: t0260 takes it for itself.
    exec 6>"$ARENA_BUILDDIR/.machine.lock" && flock -s 6
    cd "$work" || exit 1   # where sbatch writes slurm-N.out
    trap leave_test EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

scheduler_options=()
stock_scheduler() {
    local stock
    stock=$(stock_plugin_dir) || BAIL_OUT "no sched_backfill.so of Slurm's"
    make_work
    mkdir "$work/scheduler" && ln -s sched_arena.so "$work/scheduler/sched_backfill.so"
    cp "$stock/sched_backfill.so" "$work/scheduler/sched_arena.so" || BAIL_OUT "$stock/sched_backfill.so cannot be copied"
    # shellcheck disable=SC2034  # the test's
    scheduler_options=(--conf-extra SchedulerType=sched/backfill
        --conf-extra "PluginDir=$work/scheduler:$stage/lib/slurm-arena:$stock")
}

leave_test() {
    local rc=$?
    trap - EXIT
    cd / || true
    [[ ! $cluster_dir ]] || "$private_cluster" stop --dir "$cluster_dir" >/dev/null
    [[ ${ARENA_KEEP_WORK-} ]] || rm -rf "$work"
    exit $rc
}

start_cluster() {
    make_work
    cluster_dir=$work/cluster
    local out
    if ! out=$("$private_cluster" start --dir "$cluster_dir" --limit $((60 * patience)) --prefix "$stage" \
        --arena off --profile on --hardware emulated-cpu "$@" 2>&1); then
        diag "failed: private-cluster start $*"$'\n'"$out"
        cluster_dir=''
        BAIL_OUT "the private cluster did not start"
    fi
    note "$out"
    eval "$("$private_cluster" env --dir "$cluster_dir")"
}

start_slurmctld_with() {
    (cd "$cluster_dir/run" && exec env -i PATH="$PATH" LANG=C.UTF-8 HOME="${HOME-/}" TMPDIR="${TMPDIR-/tmp}" \
        ARENA_PRIVATE_CLUSTER="$cluster_dir" SLURM_CONF="$cluster_dir/slurm.conf" ARENA_CONF="$cluster_dir/arena.yaml" \
        ARENA_DATA_DIR="$stage/share/slurm-arena" "$@" \
        "$cluster_dir/bin/slurmctld" </dev/null >>"$cluster_dir/log/slurmctld.out" 2>&1)
    cluster wait
}

stop_cluster() {
    "$private_cluster" stop --dir "$cluster_dir" "$@"
    cluster_dir=''
}

cluster() { "$private_cluster" --dir "$cluster_dir" --limit $((60 * patience)) "$@"; }
all_processes() { cluster pids; }

# Ends of the daemons' logs, shown after each failed assertion.
on_fail() {
    [[ $cluster_dir && -d $cluster_dir/log ]] || return 0
    diag "slurmctld.log ends:"$'\n'"$(tail -n "${ARENA_LOG_LINES:-25}" "$cluster_dir/log/slurmctld.log")"
    [[ ! -s $cluster_dir/log/slurmctld.out ]] || diag "slurmctld printed:"$'\n'"$(tail -n 5 "$cluster_dir/log/slurmctld.out")"
    diag "jobs:"$'\n'"$(timeout 5 squeue -a -o '%i %j %T %r %N' 2>&1)"
}

submit() {
    local out
    out=$(sbatch --parsable "$@" 2>&1) || { echo "$out"; return 1; }
    out=$(tail -n 1 <<<"$out")   # before it, what Arena says of the request
    echo "${out%%;*}"
}

# A client that has no processor for seconds has no answer: it asks again.
record_of() {
    local out
    for _ in 1 2 3; do
        if out=$(scontrol -o show job "$1" 2>&1); then printf '%s\n' "$out"; return; fi
        [[ $out == *'Zero Bytes'* || $out == *'timed out'* ]] || return
    done
}

# `scontrol -o show job` prints KEY=VALUE separated by blanks; a value may hold blanks and '='.
# GRES as 22.05 writes it: gres:gpu:2, not gres/gpu:2.
job_field() {
    record_of "$1" | sed 's#=gres/#=gres:#g' | awk -v key="$2" '{
        n = split($0, word, " ")
        for (i = 1; i <= n; i++) {
            if (word[i] ~ /^[A-Z][A-Za-z:\/]*=/) { if (found) break; found = index(word[i], key "=") == 1 }
            if (found) out = out (out == "" ? "" : " ") word[i]
        }
        if (out != "") print substr(out, length(key) + 2) }'
}
job_state() { squeue -h -a -t all -j "$1" -o %T 2>/dev/null; }
job_reason() { squeue -h -a -t all -j "$1" -o %r 2>/dev/null; }

exec {never}<> <(:)
pause_ms() {
    local seconds
    printf -v seconds '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
    (($1 == 0)) || read -rt "$seconds" -u "$never" || true
}
# A look costs some processes, half of a processor's time if it is taken at each chance: what takes long is looked at
# less often, and late by a tenth of what it took at the most.
wait_until() {
    local begin=${EPOCHREALTIME/./} waited
    local most=$((${2:-20} * patience * 1000000))
    until eval "$1"; do
        waited=$((${EPOCHREALTIME/./} - begin))
        ((waited < most)) || return 1
        pause_ms $((waited < 500000 ? 50 : waited < 10000000 ? waited / 10000 : 1000))
    done
}

one_thread() {
    printf '#!/bin/bash\nexec %q "$@" --threads 1\n' "$stage/libexec/slurm-arena/arena-profiler" >"$cluster_dir/arena-profiler.new" &&
        chmod 755 "$cluster_dir/arena-profiler.new" && mv "$cluster_dir/arena-profiler.new" "$cluster_dir/arena-profiler"
}

let_pass() {
    local end=$((SECONDS + $1))
    wait_until "((SECONDS >= $end))" $(($1 + 5))
}

wait_for_state() {
    wait_until "[[ \$(job_state $1) =~ ^($2)\$ ]]" "${3:-20}" && return
    echo "job $1 is $(job_state "$1") ($(job_reason "$1")) and not $2 after $((${3:-20} * patience)) s"
    return 1
}

wait_for_reason() {
    # shellcheck disable=SC2034  # read by the condition below
    local pattern=$2
    wait_until "[[ \$(job_reason $1) =~ \$pattern ]]" "${3:-20}" && return
    echo "job $1 is $(job_state "$1") ($(job_reason "$1")), no reason like $2 after $((${3:-20} * patience)) s"
    return 1
}

# Slurm writes its state up to 5 s after a change; a kill before that loses the change, stock or not. It
# writes all jobs at once: when a job submitted now is in the file, all that was before is in it too.
wait_saved() {
    local name="saved-$BASHPID-$RANDOM" marker_job file=$cluster_dir/state/job_state
    marker_job=$(submit --hold -J "$name" --wrap true) || { echo "$marker_job"; return 1; }
    scancel "$marker_job"
    wait_until "grep -qa '$name' '$file'" "${1:-30}" && return
    echo "slurmctld has not saved its jobs after $((${1:-30} * patience)) s"
    return 1
}

script() {
    local file
    file=$(mktemp "$work/script.XXXXXX")
    { echo '#!/bin/bash'; printf '%s\n' "$1"; } >"$file"
    chmod 755 "$file"
    echo "$file"
}
