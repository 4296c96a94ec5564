# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Plain PyTorch jobs under agents and a chief, without Slurm: four ranks of tests/arena_py/plain.py on two nodes that are this machine.
# Source it after tap.sh, with ARENA_SRCDIR and ARENA_BUILDDIR set.
#   start_plain NAME KIND     starts it; its files are $plain/NAME.*, its pids in plain_pids
#   steps_of NAME             how many steps it has done
#   told NAME FILTER          what its chief told, as JSON lines
#   has_told NAME COUNT       more than COUNT words on who is slow: a suspect, or that nobody can tell
#   is_known NAME             its chief has looked at healthy steps often enough to tell who is slow, and nothing is slow
#   fault NAME [WORDS]        what is slow from now on, or nothing
#   stop_plain NAME           ends it
#   free_port                 a port of this machine that nobody has
# DEVICE_S, LENGTHS: of plain.py.
: "${ARENA_BUILDDIR=}" "${ARENA_SRCDIR=}" "${plain=}"
declare -gA plain_pids=()
plain_jobs=0

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
start_plain() {
    local name=$1 kind=$2 rank key port pids=()
    key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    port=$(free_port)
    plain_jobs=$((plain_jobs + 1))
    mkdir -p "$plain/$name.watch"
    for rank in 0 1 2 3; do
        env -u SLURM_CONF SLURM_JOB_ID=$(($$ % 100000 * 100 + plain_jobs)) SLURM_STEP_ID=0 SLURM_NODEID=$((rank / 2)) SLURMD_NODENAME=n$((rank / 2 + 1)) \
            RANK=$rank LOCAL_RANK=$((rank % 2)) WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 \
            ARENA_WATCH_KEY="$key" ARENA_WATCH_CHIEF=127.0.0.1 ARENA_WATCH_LOG_DIR="$plain/$name.watch" ARENA_WATCH_POLL_S="${POLL_S:-0.5}" \
            PYTHONPATH="$ARENA_SRCDIR/contrib/python" "$ARENA_BUILDDIR/arena-watch" run -- \
            /usr/bin/python3 -m arena "$ARENA_SRCDIR/tests/arena_py/plain.py" "$plain/$name" "$kind" >>"$plain/$name.out" 2>&1 &
        pids+=($!)
    done
    plain_pids[$name]="${pids[*]}"
}
steps_of() { cat "$plain/$1.steps" 2>/dev/null || echo 0; }
told() { cat "$plain/$1.watch"/arena-watch-*/log_*/events.jsonl 2>/dev/null | jq -c "select($2)"; }
words_of() { told "$1" '.event == "suspect" or .event == "no_check"'; }
has_told() { (($(words_of "$1" | wc -l) > $2)); }
is_known() { [[ $(told "$1" '.event == "look" or .event == "onset" or .event == "relief"' | tail -n 1 | jq '.kept // 0') -ge 3 ]]; }
fault() { echo "${*:2}" >"$plain/$1.slow"; }
stop_plain() {
    local rc=0 pid
    touch "$plain/$1.stop"
    for pid in ${plain_pids[$1]}; do wait "$pid" || rc=$?; done
    return $rc
}
