#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A few kill -9 of slurmctld at random moments under Arena and ordinary jobs, beside the same kills under
# stock Slurm: nothing is lost, repeated or drained that a kill within 6 s does not explain, and not more
# than under stock. The long run is tests/soak/kill9.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena

seed=${ARENA_TEST_SEED:-7}
export ARENA_SRCDIR ARENA_BUILDDIR
# 3: stock Slurm itself did what the soak cannot explain, so that this run judges nobody.
for ((rc = 3, try = 0; rc == 3 && try < 3; try++)); do
    out=$(bash "$ARENA_SRCDIR/tests/soak/kill9" --kills 4 --jobs 8 --gap 10 --seed $((seed + try)) --json 2>&1)
    rc=$?
    note "$out"
done
is "$rc" 0 "kills with seed $((seed + try - 1)) do Arena's jobs no more harm than stock Slurm's"
arena=$(grep '^arena: seed' <<<"$out")
like "$arena" 'arena: seed [0-9]+, 4 kills, ([89]|[1-9][0-9]+) jobs' "all kills and at least 8 jobs took part"
# A log that the judge cannot read has no jobs that a kill could have met.
like "$out" 'arena: a kill met a job ([1-9][0-9]* times within 6 s|0 times within 6 s of a change, [1-9])' \
    "kills met jobs in Slurm's log"
like "$arena" 'outside allowed 0, not explained by a kill 0' "every Arena job ran within its types and counts"
done_testing
