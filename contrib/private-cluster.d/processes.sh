# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# private-cluster: starts daemons, waits for them, finds exactly what belongs to the cluster and stops it.
# Sourced.
# shellcheck disable=SC2154  # the variables of the options are private-cluster's
# ---- processes ----------------------------------------------------------------------------------
# Starts a daemon with the environment by which stop finds it again, and none of the caller's open files.
launch() {
    (
        local fd
        for fd in /proc/self/fd/*; do
            fd=${fd##*/}
            if ((fd > 2)) && [[ -e /proc/self/fd/$fd ]]; then eval "exec $fd>&-"; fi
        done
        cd "$dir/run" || exit
        exec env -i PATH="$PATH" LANG=C.UTF-8 HOME="${HOME-/}" TMPDIR="${TMPDIR-/tmp}" \
            ARENA_PRIVATE_CLUSTER="$dir" SLURM_CONF="$dir/slurm.conf" ARENA_CONF="$dir/arena.yaml" \
            ${prefix:+ARENA_DATA_DIR="$prefix/share/slurm-arena"} "$@" </dev/null >>"$dir/log/${1##*/}.out" 2>&1
    )
}

start_munged() {
    launch "$dir/bin/munged" --key-file="$dir/munge/key" --socket="$dir/run/munge.socket" \
        --pid-file="$dir/munge/munged.pid" --log-file="$dir/munge/munged.log" \
        --seed-file="$dir/munge/munged.seed" --num-threads=4 --force ||
        die "munged did not start: $(tail -n 3 "$dir/munge/munged.log" "$dir/log/munged.out" 2>/dev/null)"
}

start_slurmctld() { launch "$dir/bin/slurmctld"; }
start_slurmd() { launch "$dir/bin/slurmd" -N "$1"; }

# Polls the command in $2.. until it is true or $1 seconds have passed.
wait_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.05
    done
}

# Of the files of /proc on stdin those of processes of the users that this cluster's daemons run as. Anybody can give a
# process any name and environment; a set-user-id program, too, whose real user is the one who runs it.
of_cluster_users() {
    local file status real users
    local -A file_of=()
    users=" $EUID $(id -u "${slurm_user:-$me}" 2>/dev/null) $(id -u "${service_user:-$me}" 2>/dev/null) "
    while read -r file; do file_of[${file%/*}]=$file; done
    ((${#file_of[@]})) || return 0
    # Each in one read: between two of them a process that changes its state changes the place of every line.
    printf '%s/status\0' "${!file_of[@]}" | xargs -0 grep -Hs '^Uid:' | while IFS=$' \t:' read -r status _ real _; do
        [[ $users != *" $real "* ]] || echo "${file_of[${status%/*}]}"
    done || true
}

# The pid of a daemon of this cluster by its command line (pid files come late and may be lost).
daemon_pid() {
    local file
    while read -r file; do
        file=${file%/environ}
        [[ $(tr '\0' ' ' 2>/dev/null <"$file/cmdline") == "$dir/bin/$* " ]] && { echo "${file#/proc/}"; return 0; }
    done < <(grep -lszFx "ARENA_PRIVATE_CLUSTER=$dir" /proc/[0-9]*/environ | of_cluster_users)
    return 1
}
ctld_answers() { scontrol ping 2>/dev/null | grep 'is UP' >/dev/null; }
# A daemon on its way into the background forks a second time, maybe between the list of processes and the look at each:
# it is in the next list.
gone() { ! daemon_pid "$@" >/dev/null && ! daemon_pid "$@" >/dev/null; }
nodes_ready() {
    local states
    states=$(sinfo -h -N -o '%N %T' 2>/dev/null | sort -u) &&
        [[ $(awk '$2 ~ /^(idle|mixed|allocated|completing|reserved|planned)-?$/' <<<"$states" | wc -l) == "$node_count" ]]
}
node_is() { [[ $(sinfo -h -n "$1" -o %T | head -n 1) == "$2"* ]]; }

# A node that was set DOWN comes back when it registers; RESUME helps one that registered before.
node_registers() {
    scontrol update NodeName="$1" State=RESUME >/dev/null 2>&1 || true
    node_is "$1" idle || node_is "$1" mixed || node_is "$1" allocated
}

set_down() { scontrol update NodeName="$1" State=DOWN Reason="slurmd stopped by private-cluster"; }
# An answer to a ping that was under way as slurmd ended brings a node back once more, within two seconds.
keep_down() {
    local end=$((SECONDS + 3))
    while ((SECONDS < end)); do
        node_is "$1" down || set_down "$1"
        sleep 0.1
    done
}

show_logs() {
    local file
    for file in "$dir"/log/{slurmctld.out,slurmctld.log,slurmd.out,slurmd.n1.log}; do
        if [[ -s $file ]]; then echo "--- $file"; tail -n 15 "$file"; fi
    done >&2
}

# What carries the marks of this cluster, as files of /proc: daemons and job steps have it in their environment; jobs have
# our SLURM_CONF and a job id (a user's shell with `env` loaded has no job id and is left alone).
marked_files() {
    (
        set +e
        grep -lszFx "ARENA_PRIVATE_CLUSTER=$dir" /proc/[0-9]*/environ
        grep -lszFx "SLURM_CONF=$dir/slurm.conf" /proc/[0-9]*/environ | xargs -r grep -lsz '^SLURM_JOB_ID='
        grep -lsz "slurmstepd: \[" /proc/[0-9]*/cmdline | while read -r f; do
            [[ $(readlink "${f%/cmdline}/cwd") != "$dir"/* ]] || echo "$f"
        done
        true
    )
}
pids_of_files() { sed -n 's|^/proc/\([0-9]*\)/.*|\1|p'; }

# What belongs to this cluster: of its daemons' users, and all below them, whoever that runs as and whatever environment
# it has built.
own_pids() { with_descendants "$(marked_files | of_cluster_users | pids_of_files)"; }
# With whatever else carries its marks: left by a job of another user, or somebody's who only says so. That is ended, and
# not waited for.
all_marked() { with_descendants "$(marked_files | pids_of_files)"; }

# These processes and all below them, this one and those above it left out.
with_descendants() {
    ps -e -o pid= -o ppid= | awk -v self=$$ -v roots="${1//$'\n'/ }" '
        BEGIN { n = split(roots, r, " "); for (i = 1; i <= n; i++) own[r[i]] = 1 }
        { parent[$1] = $2 }
        END {
            for (p = self; p > 1; p = parent[p]) delete own[p]
            do { more = 0
                 for (p in parent) if (!(p in own) && (parent[p] in own) && p != self) { own[p] = 1; more = 1 }
            } while (more)
            for (p = self; p > 1; p = parent[p]) delete own[p]
            for (p in own) if (p in parent) print p
        }'
}

# All that runs on one node: its slurmd and its steps, which write to the same log, and all below them.
node_pids() {
    local pid roots=''
    while read -r pid; do
        if grep -qFx "$dir/log/slurmd.$1.log" <<<"$(readlink "/proc/$pid/fd/"* 2>/dev/null)"; then roots+=" $pid"; fi
    done < <(own_pids)
    with_descendants "$roots"
}

none_left() { [[ ! $(own_pids) ]]; }
no_jobs() { [[ ! $(squeue -h -o %i -t all --states=R,CG,CF,S,ST 2>/dev/null) ]]; }

stop_processes() {
    local pids
    if ctld_answers; then
        scancel -Q --user="$me" 2>/dev/null || true
        if ((EUID == 0)) || [[ $slurm_user == "$me" ]]; then
            squeue -h -o %i 2>/dev/null | xargs -r scancel -Q 2>/dev/null || true
        fi
        wait_until 5 no_jobs || true
    fi
    mapfile -t pids < <(all_marked)
    kill ${pids[@]+"${pids[@]}"} 2>/dev/null || true
    wait_until 8 none_left && return 0
    mapfile -t pids < <(own_pids)
    kill -9 ${pids[@]+"${pids[@]}"} 2>/dev/null || true
    wait_until 5 none_left || die "still running: $(own_pids | tr '\n' ' ')"
}
