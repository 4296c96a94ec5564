#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The judge of tests/soak/kill9 on runs made up here: what a kill less than 6 s after a change explains is
# explained, and everything that an Arena that loses, repeats or drains by itself would show is not.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
: "${ARENA_SRCDIR:=$(cd "$(dirname "$0")/.." && pwd)}"

# judged FACTS: the verdicts without reasons, one line
judged() { tr ';' '\n' <<<"$1" | awk -f "$ARENA_SRCDIR/tests/soak/judge.awk" | awk '!/^count/ { print $1, $2, $3 }' | paste -sd';'; }
job='job 0 7 1 arena 1 2 a40;submit 1000 7'
started='change 2000 7 start;ran 2100 0 7 0 1 1 n1'
over='ended 4100 0 7;change 4200 7 end'

is "$(judged "$job;$started;$over;kill 30000 30100 29000 31000;recovered 30500 7")" "" "a job that runs once is nothing to tell"
is "$(judged "$job;kill 3000 3100 500 4000")" "lost 0 explained" "a submission of 2 s that is not on disk may be forgotten"
is "$(judged "$job;kill 3000 3100 2500 4000")" "lost 0 UNEXPLAINED" "a submission that is on disk may not"
is "$(judged "$job;kill 7001 7101 500 8000")" "lost 0 UNEXPLAINED" "nor one that is 6 s old"
is "$(judged "$job;kill 6900 7000 500 8000;recovered 7500 7")" "lost 0 UNEXPLAINED" "a job that came back must end"
is "$(judged "$job;change 9000 7 start;kill 9500 9600 9200 9900;recovered 9700 7;queue 7 RUNNING None")" \
    "lost 0 explained" "a launch may be cut off on its way"
is "$(judged "$job;change 9000 7 start;kill 8950 9050 8900 9900;recovered 9700 7;queue 7 RUNNING None")" \
    "lost 0 explained" "and so may one of a slurmctld that is dying"
is "$(judged "$job;change 9000 7 start;kill 15001 15101 9200 15900;recovered 15700 7;queue 7 RUNNING None")" \
    "lost 0 UNEXPLAINED" "but not 6 s later"

again='ran 12000 0 7 1 1 1 n1;ended 14000 0 7;change 14100 7 end'
is "$(judged "$job;$started;kill 3000 3100 1500 3500;recovered 3300 7;$again")" "repeated 0 explained" \
    "a start that is not on disk may be repeated"
is "$(judged "$job;change 2000 7 start;ran 2100 0 7 0 1 1 n1;kill 7000 7100 6500 7500;recovered 7300 7;$again")" \
    "repeated 0 UNEXPLAINED" "one that is on disk may not"
is "$(judged "$job;$started;$over;kill 6000 6100 3000 6500;recovered 6300 7;$again")" "repeated 0 explained" \
    "an end that is not on disk may be repeated"
is "$(judged "$job;$started;$over;kill 6000 6100 5500 6500;recovered 6300 7;$again")" "repeated 0 UNEXPLAINED" \
    "one that is on disk may not"
is "$(judged "$job;$started;$over;$again")" "repeated 0 UNEXPLAINED" "nor one without a kill"

left='left 4100 0 7;change 4200 7 end'
is "$(judged "$job;$started;$left;$again")" "" "a job that left at Arena's signal runs once more"
is "$(judged "$job;$started;$left;ran 12000 0 7 1 1 1 n1;left 15000 0 7;ran 19000 0 7 2 1 1 n1")" "lost 0 UNEXPLAINED" \
    "and must end in the end"
is "$(judged "$job;$started;$left;queue 7 PENDING JobHeldAdmin")" "lost 0 UNEXPLAINED" "one that does not come back is lost"
is "$(judged "$job;$started;$left;kill 6000 6100 3000 6500;recovered 6300 7;queue 7 PENDING JobHeldAdmin")" "lost 0 explained" \
    "but where a kill undid that it left"
is "$(judged "$job;$started;preempted 9000 7;$again")" "" "one that Slurm took off for inference runs once more"
is "$(judged "$job;$started;preempted 13000 7;$again")" "repeated 0 UNEXPLAINED" "but not before it is"
is "$(judged "$job;$started;$over;mixed 3000 n4;mixed 3500 n4;late 4000 n5;broken 5000 n4")" \
    "mixed n4 UNEXPLAINED;late n5 UNEXPLAINED;broken n4 UNEXPLAINED" "what no loan may do is told once of each node"
is "$(judged "$job;change 2000 7 start;ran 2100 0 7 0 1 4 n1;$over")" "outside 0 UNEXPLAINED" "more GPUs than allowed are seen"
is "$(judged "$job;change 2000 7 start;ran 2100 0 7 0 1 1 n4;$over")" "outside 0 UNEXPLAINED" "another GPU type is seen"
is "$(judged "refused 3")" "refused 3 UNEXPLAINED" "a refused submission is seen"

is "$(judged "$job;$started;$over;drain 5000 n1 Duplicate jobid")" "drained n1 UNEXPLAINED" "a drained node without a kill is seen"
is "$(judged "$job;$started;$over;kill 3000 3100 2500 3500;recovered 3300 7;drain 5000 n1 Arena broke it")" \
    "drained n1 UNEXPLAINED" "and one for another reason than Slurm's own"
second='job 1 7 0 arena 1 1 a40;submit 5000 7;change 6000 7 start;ran 8000 1 7 0 1 1 n1;ended 9000 1 7'
is "$(judged "$job;$started;kill 3000 3100 500 3500;$second;drain 6500 n1 Duplicate jobid;ended 4100 0 7")" \
    "drained n1 explained" "an id that was given out twice drains a node, with stock Slurm too"
done_testing
