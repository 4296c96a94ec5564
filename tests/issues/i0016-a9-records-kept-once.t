#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A job's record may have 32 KiB. slurmctld held each five times over: a queue of a few thousand such jobs
# took 900 MB. Arena's own share must be small beside what stock Slurm needs for the same jobs.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena
submit_many=$ARENA_BUILDDIR/tests/tools/submit_many
[[ -x $submit_many ]] || skip_all "tests/tools/submit_many is not built"

start_cluster --nodes a40:2x8 --arena on --profile off
# What is freed is given back, so that what is weighed is in use: stock Slurm's buffer for saving its state alone
# (all records once more) would stay with malloc, or not.
cluster kill slurmctld
start_slurmctld_with MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TRIM_THRESHOLD_=65536
count=1000
# Of slurmctld, in KiB: the least within 8 s, for while it saves its state (at most each 5 s) it has that buffer.
memory() {
    for _ in {1..16}; do
        awk '/^VmRSS/ { print $2 }' "/proc/$(<"$cluster_dir/run/slurmctld.pid")/status"
        sleep 0.5
    done | sort -n | head -n 1
}
stat() { "$stage/bin/arena" stats --json 2>/dev/null | python3 -c "import json,sys; d=json.load(sys.stdin)
for k in '$1'.split('.'): d=d[k]
print(int(d))" 2>/dev/null || echo 0; }

blocker=$(submit -N2 --exclusive -t 1000 -o /dev/null --wrap 'sleep 30000')
ok "the nodes are taken" wait_for_state "$blocker" RUNNING
# The first job's plans and caches are not what is measured.
"$submit_many" 4 --kib 28
ok "a few jobs with large records come to Arena" wait_until '(( $(stat jobs.pending) == 4 ))' 60
begin=$(memory)
ok "ordinary held jobs of the same size are submitted" "$submit_many" "$count" --kib 28 --ordinary
stock=$(($(memory) - begin)) begin=$(memory)
ok "Arena jobs are submitted" "$submit_many" "$count" --kib 28
ok "all of them come to Arena" wait_until "(( \$(stat jobs.pending) == count + 4 ))" 60
# shellcheck disable=SC2034  # read by the condition below
rounds=$(stat rounds)
# shellcheck disable=SC2016
ok "rounds go on" wait_until '(( $(stat rounds) >= rounds + 2 )) || ! scontrol update JobId="$blocker" Comment="$RANDOM"' 60
arena=$(($(memory) - begin))
note "slurmctld: $((stock / count)) KiB for each ordinary job, $((arena / count)) KiB for each Arena job"
ok "an Arena job takes little more of slurmctld's memory than an ordinary one" test "$arena" -le $((stock + 32768))
done_testing
