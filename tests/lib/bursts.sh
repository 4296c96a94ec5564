# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Bursts of submissions into which slurmctld is told to stop, for tests/soak/shutdown-bursts and its short form.
# Source it after cluster.sh.
#   start_burst_cluster arena|stock JOBS     a cluster on which JOBS jobs of one GPU run at once
#   burst arena|stock JOBS HOW DELAY_MS AT_START   submits, stops slurmctld, starts it again and judges:
#       $burst_lost      ids that Slurm calls running and whose script never ran a line
#       $burst_vanished  ids that were accepted and that Slurm does not know any more
#       $burst_twice     ids whose script ran twice
#       $burst_ran       how many ran over the stop     $burst_stop_ms   how long slurmctld took to stop
#     then cancels all. DELAY_MS counts from the last submission; AT_START yes: all may start at once, and it
#     counts from the first start in Slurm's log.
#   burst_words                              the same as text
: "${work=}" "${cluster_dir=}"    # of cluster.sh
burst_lost=() burst_vanished=() burst_twice=() burst_ran=0 burst_stop_ms=0

start_burst_cluster() {
    local nodes=$((($2 + 7) / 8)) options=(--arena off)
    [[ $1 != arena ]] || options=(--arena on --profile off)
    start_cluster --nodes "a40:${nodes}x8" "${options[@]}"
    cat >"$work/job" <<'END'
#!/bin/bash
echo "$SLURM_JOB_ID" >>"$1/ran.$SLURM_JOB_ID"
sleep 3600
END
    chmod 755 "$work/job"
}

# Arena starts nothing in the first seconds after a restart: a burst that fell into them would prove nothing.
wait_for_starts() {
    local probe
    probe=$(submit_burst "$1" 1)
    wait_until "[[ -e $work/ran.$probe ]]" 30 || { echo "nothing starts: $(squeue -h)"; return 1; }
    clear_queue
}

clear_queue() {
    scancel -Q --me
    # shellcheck disable=SC2016  # evaluated by wait_until
    wait_until '[[ ! $(squeue -h -o %i) ]]' 60 || { echo "jobs remain: $(squeue -h)"; return 1; }
}

# Not one by one: the first would have been started before the last is there.
submit_burst() {
    local options=(--time=60 -o /dev/null --chdir=/)
    if [[ $1 == arena ]]; then
        options+=(--arena-model=gpt2 --arena-launcher=env --arena-batch=64 --arena-gpus=1)
    else
        options+=(--gres=gpu:a40:1 --ntasks=1)
    fi
    seq "$2" | xargs -P 4 -I{} sbatch --parsable "${options[@]}" "$work/job" "$work" 2>>"$work/refusals"
}

stop_controller() {
    local pid=$2
    case $1 in
        term) kill "$pid" ;;
        twice) kill "$pid"; sleep 0.02; kill "$pid" 2>/dev/null || true ;;
        reconfigure) scontrol reconfigure & sleep 0.02; kill "$pid" ;;
        shutdown) scontrol shutdown ;;
        controller) scontrol shutdown slurmctld ;;
    esac
    while kill -0 "$pid" 2>/dev/null; do sleep 0.005; done
}

# All jobs of the burst may start from the same moment on, so that one round or one pass starts them all.
open_at_once() {
    local log=$cluster_dir/log/slurmctld.log size
    size=$(stat -c %s "$log")
    scontrol update PartitionName=main State=UP || return
    submit --hold -o /dev/null --wrap true >/dev/null &   # a change of a partition alone makes no round
    # Read by this shell: a grep would tell when the round is over.
    local line
    while read -rt 60 line; do
        [[ ! $line =~ arena:\ JobId=[0-9]+\ started\ on|sched:\ Allocate\ JobId= ]] || break
    done < <(exec tail -c +$((size + 1)) -f "$log")
    kill $! 2>/dev/null || true
}

restart_controller() {
    cluster ctld start || return
    local n
    if [[ $1 == shutdown ]]; then
        for ((n = 1; n <= ($2 + 7) / 8; n++)); do cluster node "n$n" up || return; done
    fi
    cluster wait
}

now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }

burst() {
    local half=$1 jobs=$2 how=$3 delay_ms=$4 at_start=$5 ids pid at
    rm -f "$work"/ran.*
    wait_for_starts "$half" || return
    pid=$(pgrep -f "^$cluster_dir/bin/slurmctld")
    [[ $at_start == no ]] || scontrol update PartitionName=main State=DOWN
    ids=$(submit_burst "$half" "$jobs")
    [[ $at_start == no ]] || open_at_once
    pause_ms "$delay_ms"
    at=$(now_ms)
    stop_controller "$how" "$pid" >/dev/null 2>&1
    burst_stop_ms=$(($(now_ms) - at))
    restart_controller "$how" "$jobs" >/dev/null || { echo "slurmctld did not come back"; return 1; }
    judge_burst "$ids"
    clear_queue
}

# A launch that left takes a moment to arrive; one that has arrived is waited for on the slowest machine.
# shellcheck disable=SC2317  # evaluated by wait_until
all_ran() { # JOBS [COMMAND]: but for those for which COMMAND JOB fails
    local id
    for id in $(squeue -h -t R -o %A -j "$1" 2>/dev/null); do [[ -e $work/ran.$id ]] || ! "${2-true}" "$id" || return 1; done
}
# shellcheck disable=SC2317
has_arrived() { grep -qs "Launching batch job $1 for UID" "$cluster_dir"/log/slurmd*.log; }

judge_burst() {
    local id state states running
    running=$(squeue -h -t R -o %A | paste -sd,)
    burst_lost=() burst_vanished=() burst_twice=() burst_ran=0
    [[ ! $running ]] || wait_until "all_ran $running" 5 || wait_until "all_ran $running has_arrived" 60 || true
    states=$(squeue -h -t all -o '%A %T')
    for id in $1; do
        state=$(awk -v id="$id" '$1 == id { print $2 }' <<<"$states")
        [[ $state ]] || burst_vanished+=("$id")
        [[ ,$running, == *,$id,* ]] || continue
        if [[ ! -e $work/ran.$id ]]; then
            [[ $state != RUNNING ]] || burst_lost+=("$id")
        else
            burst_ran=$((burst_ran + 1))
            (($(wc -l <"$work/ran.$id") == 1)) || burst_twice+=("$id")
        fi
    done
}

burst_words() {
    echo "$burst_ran ran, ${#burst_lost[@]} called running never ran, ${#burst_vanished[@]} vanished," \
        "${#burst_twice[@]} ran twice; stopped after $burst_stop_ms ms"
}
