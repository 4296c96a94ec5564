#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# slurmctld is told to stop in the middle of a round that starts many jobs. What it has not started by then waits
# until it is back; what it calls running afterwards has run its script's first line. Before, the round went on, and
# every job that it started then was saved as running, was launched by nobody and held its GPUs to its time limit.
# tests/soak/shutdown-bursts has more turns, other ways to stop, and what stock Slurm loses under the same.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/bursts.sh"
need_arena
jobs=96

make_work
chmod 1777 "$work"
start_burst_cluster arena "$jobs"
# A turn in which the round was over before slurmctld heard of it says nothing: it is played again.
turns=0 why=''
for ((try = 0; try < 12 && turns < 2; try++)); do
    why=$(burst arena "$jobs" term 0 yes && declare -p burst_lost burst_vanished burst_twice burst_ran burst_stop_ms) ||
        BAIL_OUT "the burst: $why"
    eval "$why"
    note "turn $try: $(burst_words)"
    ((burst_ran < jobs)) || continue
    turns=$((turns + 1))
    # A launch that Slurm's agent has just taken up, with a thread for each, and not sent is dropped by it: not known to
    # anybody. On a busy machine two may be.
    ok "turn $try: what Slurm calls running has run, but for two launches on their way at most (not run: ${burst_lost[*]})" \
        test "${#burst_lost[@]}" -le 2
    is "${burst_vanished[*]} ${burst_twice[*]}" " " "turn $try: none has vanished, none ran twice"
done
ok "slurmctld stopped in the middle of a round" test "$turns" -gt 0
done_testing
