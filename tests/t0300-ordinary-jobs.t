#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A site that submits only ordinary jobs sees no difference: 200 random jobs start in the same sequence
# under stock Slurm and under ours; nothing of ours acts or speaks; heterogeneous jobs run.
#
# Method: real job ends are noise, so this test plays them in lock step. A maintenance reservation of all
# nodes is a gate that closes and opens in one RPC. Jobs are submitted behind the closed gate; then, round
# by round, it opens, Slurm passes over the queue until nothing more starts, it closes, and a seeded choice
# of the running jobs is ended. Which of Slurm's two loops looks first is a race in stock Slurm, and they
# break ties differently; so the first half of the jobs is left to the main loop alone and the second to
# backfill alone (switched by scontrol reconfigure). Time limits are distinct multiples of 5 minutes, far
# more than the test lasts, so that no backfill decision hangs on seconds. The starts of one opening are
# simultaneous: they are compared as a set, with their nodes. Not played: ends by time limit, requeue,
# preemption.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena

seed=${ARENA_TEST_SEED:-$((SRANDOM % 30000 + 1))} count=${ARENA_TEST_JOBS:-200}
note "seed $seed (ARENA_TEST_SEED=$seed repeats it), $count jobs"
layout=a40:6x4,a100:4x2,cpu:4x0
partitions="PartitionName=left Nodes=n[1-6] State=UP MaxTime=INFINITE
PartitionName=right Nodes=n[7-14] State=UP MaxTime=INFINITE"

# One line of sbatch options per job. Callers set RANDOM first (no subshell here: bash seeds those anew).
random_jobs() {
    local i other swap limits=()
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

# use_loop main|backfill: the other one stands still.
use_loop() {
    local main=1 backfill=-1
    [[ $1 == main ]] || { main=-1 backfill=1; }
    sed -i "s/sched_interval=[-0-9]*,bf_interval=[-0-9]*/sched_interval=$main,bf_interval=$backfill/" \
        "$cluster_dir/slurm.conf"
    scontrol reconfigure
    section=$([[ $1 == main ]] && echo 'Main schedule' || echo 'Backfilling')
}
cycles() { sdiag | awk -v section="$section" 'index($0, section) { on = 1 } on && /Total cycles:/ { print $3; exit }'; }
anything_pending() { (($(squeue -h -t PD -o %i | wc -l) > 1)); }   # the poke is always
# Two whole passes over the queue: the first may have begun before the gate opened.
pass_over_queue() {
    local begin n=0
    begin=$(cycles)
    while (($(cycles) < begin + 2)) && anything_pending; do
        ((n++ < 300)) || { echo "the $section loop stands still at $(cycles)"; return 1; }
        scontrol update JobId="$poke" Comment="pass $n"   # backfill sleeps until something has changed
        sleep 0.1
    done
}

log=''
starts() {   # "loop job nodes" in order
    sed -nE -e 's/.*sched: Allocate JobId=([0-9]+) NodeList=([^ ]+).*/main \1 \2/p' \
        -e 's/.*sched\/backfill: _start_job: Started JobId=([0-9]+) in [^ ]+ on ([^ ]+).*/backfill \1 \2/p' "$log"
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

# play_half LOOP: submits the jobs it reads and plays until all have started
play_half() {
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
        starts | tail -n +$((known + 1)) | sort -k2,2n | sed "s/^/opening $opening /" >>"$results/$name.starts"
        known=$(wc -l <"$results/$name.starts")
        end_some || { echo "the jobs did not end"; return 1; }
    done
    squeue -h -t R -o %i | xargs -r scancel
    wait_until '[[ ! $(squeue -h -t R,CG -o %i) ]]'
}

# play NAME OPTIONS...: the whole sequence on one cluster; results in $results/NAME.*
play() {
    local name=$1 opening=0 known=0
    shift
    start_cluster --nodes "$layout" --conf-extra "$partitions" "$@" >"$results/$name.note"
    log=$cluster_dir/log/slurmctld.log
    close_gate
    poke=$(submit --hold --wrap true)
    play_half main < <(head -n $((count / 2)) "$results/jobs") || return 1
    play_half backfill < <(tail -n +$((count / 2 + 1)) "$results/jobs") || return 1
    sdiag | awk '/Total backfilled jobs \(since last slurm start\)/ { print $NF }' >"$results/$name.backfilled"
    grep ' arena: ' "$log" >"$results/$name.arena" || true
}

make_work
results=$work
RANDOM=$seed
random_jobs >"$results/jobs"
rounds=()
(work='' && play stock --arena off) >"$results/stock.out" 2>&1 & rounds+=($!)
(work='' && play ours --arena on --profile off) >"$results/ours.out" 2>&1 & rounds+=($!)
for player in "${rounds[@]}"; do wait "$player" || fail "a cluster played all rounds"; done
note "$(cat "$results"/{stock,ours}.{note,out})"

is "$(cut -d' ' -f4 "$results/stock.starts" | sort -u | wc -l)" "$count" "all $count jobs started under stock Slurm, each once"
is "$(cut -d' ' -f3 "$results/stock.starts" | uniq -c | tr -s '\n ' ' ')" " $((count / 2)) main $((count - count / 2)) backfill " \
    "half of them by the main loop, half by backfill"
ok "seed $seed: the same jobs start in the same sequence on the same nodes under ours" \
    diff "$results/stock.starts" "$results/ours.starts"
is "$(cat "$results/ours.backfilled")" "$(cat "$results/stock.backfilled")" \
    "sdiag counts the same number of backfilled jobs"
isnt "$(cut -d' ' -f4 "$results/stock.starts")" "$(cut -d' ' -f4 "$results/stock.starts" | sort -n)" \
    "the sequence is not simply that of submission"
is "$(sed -E 's/^\[[^]]*\] //' "$results/ours.arena" | grep -vE 'scheduler plug-in loaded|policy fifo')" "" \
    "our plug-ins write no line while there are only ordinary jobs"

# Heterogeneous jobs: Slurm takes them only from a scheduler called sched/backfill.
start_cluster --nodes a40:2x2 --arena on --profile off
like "$(submit -n1 : -n2 --wrap true)" 'not supported' "Slurm itself refuses a heterogeneous job under sched/arena"
sed -i -e "s|^PluginDir=|&$stage/lib/slurm-arena/as-backfill:|" -e 's|^SchedulerType=.*|SchedulerType=sched/backfill|' \
    "$cluster_dir/slurm.conf"
ok "slurmctld restarts with our plug-in under the name sched/backfill" cluster ctld restart
ok "its nodes come back" cluster wait
het=$(submit -N1 -n1 : -N1 -n2 -o "$work/het" --wrap 'srun --het-group=0,1 true; echo "size $SLURM_HET_SIZE"')
ok "a heterogeneous job is accepted and runs" wait_until "[[ \$(job_state $het | sort -u) == COMPLETED ]]" 30
is "$(cat "$work/het")" "size 2" "with both components"
log=$cluster_dir/log/slurmctld.log
is "$(grep -c ' arena: scheduler plug-in loaded' "$log")" 2 "our plug-in was loaded once by each slurmctld"
unlike "$(cat "$log")" "arena: Slurm's own backfill could not be loaded" "and found Slurm's own backfill behind it"
wide=$(submit -N2 --exclusive -t 10 --wrap 'sleep 1000')
ok "an ordinary job takes both nodes" wait_for_state "$wide" RUNNING
later=$(submit -N2 --exclusive -t 10 --wrap true)
ok "the next one gets a start time from the chained backfill" \
    wait_until "[[ \$(job_field $later StartTime) == 20* ]]"
arena_job=$(submit --arena-model=gpt2 --arena-batch=8 --arena-gpus=1 --time=5 --wrap true)
ok "an Arena job waits there with a shape" wait_until "[[ \$(job_field $arena_job TresPerNode) == gres:gpu:a40:1 ]]"
scancel "$wide"
ok "and runs" wait_for_state "$arena_job" COMPLETED 30

done_testing
