#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A waiting Arena job is held in Slurm's eyes: squeue --start said N/A of it, its priority is 0, and nobody
# said where it stands. `arena queue` tells place, who is ahead and the expected start, squeue --start the time.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena
# Policy fifo: its order is that of the places.
start_cluster --nodes a40:1x4 --arena on --profile off --arena-set policy=fifo --conf-extra SchedulerParameters=enable_user_top

arena="$stage/bin/arena"
epoch() { date -d "$1" +%s 2>/dev/null || echo 0; }
job_start() { epoch "$(squeue -h --start -j "$1" -o %S)"; }
job() { submit -o /dev/null --arena-model=gpt2 --arena-launcher=env --arena-batch=64 --arena-gpus=4-4 -t "$1" "${@:2}" --wrap 'sleep 3000'; }
# queue_field JOB KEY: of arena queue --json; "" when it is not there
queue_field() { "$arena" queue --json | python3 -c "import json,sys
for j in json.load(sys.stdin)['jobs']:
    if j.get('job') == $1 and j.get('$2') is not None: print(j['$2'])"; }
near() { local difference=$(($1 - $2)); ((${difference#-} <= $3)); }

blocker=$(submit -N1 --exclusive -t 10 -o /dev/null --wrap 'sleep 30000')
ok "the node is taken for ten minutes" wait_for_state "$blocker" RUNNING
first=$(job 20) second=$(job 30) third=$(job 40)
free_at=$(epoch "$(job_field "$blocker" EndTime)")
ok "squeue --start knows when the first starts" wait_until '(( $(job_start "$first") > 0 ))'
note "$(squeue --start)"
ok "when the node is free" near "$(job_start "$first")" "$free_at" 120
ok "the second starts when the first has run its twenty minutes" wait_until 'near "$(job_start "$second")" $((free_at + 1200)) 240'
ok "the third after both" wait_until 'near "$(job_start "$third")" $((free_at + 3000)) 360'
note "$("$arena" queue)"
is "$(queue_field "$first" place) $(queue_field "$second" place) $(queue_field "$third" place)" "1 2 3" \
    "arena queue tells their places"
is "$(queue_field "$first" behind)|$(queue_field "$third" behind)" "|$second" "and who is ahead"
is "$(queue_field "$second" expected_grid)" 4xa40 "and what they are to start with"
like "$("$arena" queue "$second")" "$second .*$first .*~ .*4xa40" "as text, of one job"
# The first is released with its shape: Slurm reserves for it. The others stay held.
ok "a job that has an expected start stays held" test "$(job_field "$second" Priority)" = 0

# scontrol top changes nice values; it refuses held jobs without asking a plug-in. Nice itself works.
like "$(scontrol top "$third" 2>&1)" "held" "scontrol top refuses held jobs"
scontrol update JobId="$first" Nice=100
scontrol update JobId="$second" Nice=100
ok "larger nice values of the others let a job go first" wait_until '[[ $(queue_field "$third" place) == 1 ]]'
scancel "$blocker"
ok "and it starts first" wait_for_state "$third" RUNNING
is "$(job_state "$first") $(job_state "$second")" "PENDING PENDING" "before the others"
ok "who runs is not in the queue" wait_until '[[ ! $(queue_field "$third" place) ]]'
done_testing
