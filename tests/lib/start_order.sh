# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# In which order a Slurm starts a queue of random ordinary jobs: t0300 compares stock with ours by it, and
# tests/bench/start-order measures how far stock itself repeats. Source it after cluster.sh.
#
# Real job ends are noise, so they are played in lock step. A maintenance reservation of all nodes is a
# gate that closes and opens in one RPC. Jobs are submitted behind the closed gate; then, round by round,
# it opens, Slurm passes over the queue until nothing more starts, it closes, and a seeded choice of the
# running jobs is ended. Time limits are distinct multiples of 5 minutes, far more than a play lasts, so
# that no backfill decision hangs on seconds. Not played: ends by time limit, requeue, preemption.
#   random_jobs COUNT            one line of sbatch options per job; set RANDOM first (no subshell: bash
#                                seeds those anew)
#   play NAME SEED LOOPS OPTIONS...   plays $results/jobs on one cluster (private-cluster's OPTIONS), the first
#                                part with the first of LOOPS and so on: main, backfill (the other stands
#                                still) or both. $results/NAME.starts: "opening N LOOP JOB NODES" in order
#   distance A B                 of two files: "jobs of another opening, of other nodes, pairs in another order"
#   play_until_same COMMAND      COMMAND N plays stockN and oursN. What the scheduler does repeats in every play; what a busy
#                                machine does to a pass over the queue does not. So a sequence that differs is played again,
#                                at most twice, and one play of ours that is one of stock's is enough
#   same_play                    sets stock and ours to a pair of plays that are the same, or shows how the first two differ
: "${results=}" "${cluster_dir=}" "${patience=1}"   # of the caller, of cluster.sh
layout=a40:6x4,a100:4x2,cpu:4x0
partitions="PartitionName=left Nodes=n[1-6] State=UP MaxTime=INFINITE
PartitionName=right Nodes=n[7-14] State=UP MaxTime=INFINITE"

random_jobs() {
    local count=$1 i other swap limits=()
    for ((i = 0; i < count; i++)); do
        other=$((RANDOM % (i + 1))) swap=$(((i + 1) * 5))
        limits[i]=${limits[other]-} limits[other]=$swap
    done
    for ((i = 0; i < count; i++)); do
        local job="--time=${limits[i]} --nice=$((RANDOM % 200))"
        case $((RANDOM % 8)) in
            0 | 1) job+=" -p main,left -N$((RANDOM % 2 + 1)) --gres=gpu:a40:$((RANDOM % 4 + 1))" ;;
            2) job+=" -p left -N$((RANDOM % 3 + 1)) --exclusive" ;;
            3) job+=" -p right -N$((RANDOM % 2 + 1)) --gres=gpu:a100:$((RANDOM % 2 + 1))" ;;
            4) job+=" -p left,right -N1 --gres=gpu:1" ;;
            5) job+=" -p right -n$((RANDOM % 12 + 1))" ;;
            6) job+=" -N$((RANDOM % 4 + 1)) --exclusive" ;;
            7) job+=" -n$((RANDOM % 24 + 1)) --mem=$((RANDOM % 40 + 1))G" ;;
        esac
        echo "$job"
    done
}

close_gate() {
    scontrol create reservation ReservationName=gate StartTime=now Duration=infinite Nodes=ALL \
        Flags=maint,ignore_jobs Users=root,"$(id -un)" >/dev/null
}
open_gate() { scontrol delete ReservationName=gate; }

use_loop() {
    local main=1 backfill=1
    case $1 in
        main) sections='Main' backfill=-1 ;;
        backfill) sections='Backfilling' main=-1 ;;
        both) sections='Main Backfilling' ;;
    esac
    # Backfill looks at the whole queue under one lock: by default a pass ends after bf_interval, and lets
    # others in between, so on a busy machine the gate may open, or the pass end, in the middle of the queue.
    sed -i -e "s/sched_interval=[-0-9]*,bf_interval=[-0-9]*/sched_interval=$main,bf_interval=$backfill/" \
        -e '/bf_max_time/!s/^SchedulerParameters=/&bf_max_time=3600,bf_yield_interval=10000000,/' \
        "$cluster_dir/slurm.conf"
    scontrol reconfigure
}
# How often the slowest of the loops in use has passed over the queue.
cycles() {
    sdiag | awk -v sections="$sections" '
        /^Main schedule/ { at = "Main" } /^Backfilling/ { at = "Backfilling" }
        /Total cycles:/ && index(sections, at) && (least == "" || $3 < least) { least = $3 } END { print least }'
}
anything_pending() { (($(squeue -h -t PD -o %i | wc -l) > 1)); }   # the poke is always
# Two whole passes over the queue: the first may have begun before the gate opened.
pass_over_queue() {
    local begin n=0
    begin=$(cycles)
    while (($(cycles) < begin + 2)) && anything_pending; do
        ((n++ < 300 * patience)) || { echo "the loops ($sections) stand still at $(cycles)"; return 1; }
        scontrol update JobId="$poke" Comment="pass $n"   # backfill sleeps until something has changed
        sleep 0.1
    done
}

starts_in_log() {   # "loop job nodes" in order
    sed -nE -e 's/.*sched: Allocate JobId=([0-9]+) NodeList=([^ ]+).*/main \1 \2/p' \
        -e 's/.*_start_job: (HETJOB: )?Started JobId=([0-9]+) in [^ ]+ on ([^ ]+).*/backfill \2 \3/p' \
        "$cluster_dir/log/slurmctld.log"
}

# Ends about seven of eight running jobs: which, is a function of seed and job id alone.
end_some() {
    local running victims=() id
    mapfile -t running < <(squeue -h -t R -o %i | sort -n)
    for id in "${running[@]}"; do
        if (((id * 7919 + seed * 104729) / 7 % 8)); then victims+=("$id"); fi
    done
    ((${#victims[@]})) || victims=("${running[@]}")
    ((${#victims[@]})) || return 0
    scancel "${victims[@]}"
    wait_until "[[ ! \$(squeue -h -t CG -o %i) && \$(squeue -h -t R -o %i | wc -l) == $((${#running[@]} - ${#victims[@]})) ]]" 30
}

# play_part LOOP: submits the jobs it reads and plays until all have started
play_part() {
    local line
    use_loop "$1" || return 1
    while read -r line; do
        # shellcheck disable=SC2086
        submit $line -o /dev/null --wrap 'sleep 3000' >/dev/null || { echo "refused: $line"; return 1; }
    done
    while anything_pending; do
        open_gate
        pass_over_queue || return 1
        close_gate
        opening=$((opening + 1))
        starts_in_log | tail -n +$((known + 1)) | sed "s/^/opening $opening /" >>"$results/$name.starts"
        known=$(wc -l <"$results/$name.starts")
        end_some || { echo "the jobs did not end"; return 1; }
    done
    squeue -h -t R -o %i | xargs -r scancel
    # shellcheck disable=SC2016  # evaluated there
    wait_until '[[ ! $(squeue -h -t R,CG -o %i) ]]'
}

play() {
    local name=$1 seed=$2 loops=$3 opening=0 known=0 loop first=1 size sections=''
    shift 3
    local more=()
    # Since 26.05 backfill says what it starts only to who asks about heterogeneous jobs.
    ! slurm_has 26.05 || more=(--conf-extra DebugFlags=Hetjob --debug verbose)
    start_cluster --nodes "$layout" --conf-extra "$partitions" "${more[@]}" "$@" >"$results/$name.note"
    close_gate
    poke=$(submit --hold --wrap true)
    size=$(wc -w <<<"$loops")
    size=$((($(wc -l <"$results/jobs") + size - 1) / size))
    for loop in $loops; do
        play_part "$loop" < <(tail -n +$first "$results/jobs" | head -n $size) || return 1
        first=$((first + size))
    done
    sdiag | awk '/Total backfilled jobs \(since last slurm start\)/ { print $NF }' >"$results/$name.backfilled"
    grep ' arena: ' "$cluster_dir/log/slurmctld.log" >"$results/$name.arena" || true
}

distance() {
    awk 'FNR == NR { opening[$4] = $2; nodes[$4] = $5; place[$4] = FNR; next }
         { n++; job[n] = $4; later += opening[$4] != $2; elsewhere += nodes[$4] != $5 }
         END { for (i = 1; i < n; i++) for (j = i + 1; j <= n; j++) swapped += place[job[i]] > place[job[j]]
               print later + 0, elsewhere + 0, swapped + 0 }' "$1" "$2"
}

same_play() {
    for stock in "$results"/stock?.starts; do
        for ours in "$results"/ours?.starts; do
            if cmp -s "$stock" "$ours"; then return; fi
        done
    done
    echo "no play of ours is one of stock's; the first of each:"
    diff "$results"/{stock,ours}1.starts
}

play_until_same() {
    local play
    for play in 1 2 3; do
        "$1" $play
        if same_play >/dev/null; then break; fi
        note "play $play: stock and ours differ (openings, nodes, pairs): $(distance "$results"/{stock,ours}$play.starts)"
    done
}
