#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Jobs that are requeued as soon as they run, again and again: each life starts. Before, a job whose requeue and next
# start fell into one second failed: slurmd took its new credential for the one that the requeue had revoked.
# shellcheck disable=SC2016  # conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
jobs=8 turns=6

start_arena --nodes a40:1x$jobs --cpus 16
ids=()
for ((n = 0; n < jobs; n++)); do ids+=("$(train a40 --arena-gpus=1 --requeue)"); done
# Each on its own, in whatever part of a second it has started.
again() {
    local id done_ over=0
    for id in "${ids[@]}"; do
        done_=$(starts "$id")
        if ((done_ > turns)) || [[ $(job_state "$id") == FAILED ]]; then over=$((over + 1)); continue; fi
        [[ ! -s $gates/$id.starts || ${asked[$id]-} == "$done_" ]] || { scontrol requeue "$id" && asked[$id]=$done_; } 2>/dev/null
    done
    ((over == jobs))
}
declare -A asked=()
ok "$jobs jobs are requeued $turns times each" wait_until again 120
is "$(grep -c 'Killing non-startable batch JobId' "$cluster_dir/log/slurmctld.log")" 0 "slurmd refused no start of theirs"
for id in "${ids[@]}"; do is "$(job_state "$id") $(starts "$id")" "RUNNING $((turns + 1))" "and each has started after each requeue"; done
scancel "${ids[@]}"
done_testing
