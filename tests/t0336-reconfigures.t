#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Twenty reconfigures with Arena jobs that run, wait and come meanwhile: none is lost, started twice or kept waiting,
# and slurmctld, which since Slurm 23.11 is a new process after each, has no more threads and open files than before.
# shellcheck disable=SC2317 # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh" || exit 99
need_arena

times=20
start_arena --nodes a40:2x2,h100:1x2
log=$cluster_dir/log/slurmctld.log
declare -a running=() waiting=() coming=()
for i in 1 2; do running+=("$(train a40 --arena-gpus=2)"); done
for job in "${running[@]}"; do ok "job $job runs" wait_started "$job"; done
for i in 1 2; do waiting+=("$(train a40 --arena-gpus=2)"); done
for job in "${waiting[@]}"; do ok "job $job waits" wait_for_reason "$job" '^(Arena: |Resources|Priority)'; done

loads() { grep -c ' arena: policy' "$log"; }
ctld() { cat "$cluster_dir/run/slurmctld.pid"; }
threads() { find "/proc/$(ctld)/task" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l; }
files() { find "/proc/$(ctld)/fd" -mindepth 1 2>/dev/null | wc -l; }
no_more_than() { wait_until "(( \$($1) <= $2 ))" 10 || { echo "$1: $($1), before $2"; return 1; }; }
reconfigure() {
    local before
    before=$(loads)
    scontrol reconfigure && wait_until "(( \$(loads) > $before ))"
}
ok "a first reconfigure" reconfigure
ok "slurmctld comes to rest" wait_rounds h100
threads=$(threads) files=$(files)
note "# $threads threads, $files open files"
all_reconfigured() {
    for ((i = 1; i <= times; i++)); do
        ((i % 5)) || coming+=("$(train h100 --arena-gpus=1 -t 5)")
        reconfigure || { echo "the $i. one: $(tail -n 3 "$log")"; return 1; }
    done
}
if all_reconfigured >"$work/said"; then pass "$times more reconfigures"; else fail "$times more reconfigures" "$(<"$work/said")"; fi
ok "it has no more threads than before" no_more_than threads $((threads + 2))   # of Slurm's own, which come and go
ok "nor open files" no_more_than files $((files + 2))
is "${#coming[@]}" $((times / 5)) "jobs came meanwhile"
for job in "${running[@]}"; do
    is "$(job_state "$job") $(starts "$job")" "RUNNING 1" "job $job still runs, in its first life"
    let_go "$job"
done
for job in "${waiting[@]}" "${coming[@]}"; do let_go "$job"; done   # all at once: which of them is first is the policy's
for job in "${waiting[@]}" "${coming[@]}"; do
    ok "job $job gets its turn" wait_for_state "$job" COMPLETED 60
    is "$(starts "$job")" 1 "once"
done
is "$(grep -cE 'Arena is off|internal fault|fatal|switched off' "$log")" 0 "Arena had no fault"
done_testing
