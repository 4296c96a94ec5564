#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena loan offer, reclaim, list: what they say on the socket, what they make of the answers, and what they refuse
# before anybody is asked. Who answers here is a script with the answers of the contract; t06xx ask a real slurmctld.
# shellcheck disable=SC2317  # functions that ok and wait_until call
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
arena=${ARENA_BUILDDIR:-.}/arena
[ -x "$arena" ] || BAIL_OUT "$arena is not built"
for program in jq python3; do command -v $program >/dev/null || skip_all "$program is not installed"; done
work=$(mktemp -d "${TMPDIR:-/tmp}/arena-loan.XXXXXX") || exit 99
cd "$work" || exit 99
cat >scheduler.py <<'END_OF_SCHEDULER'
import os, socket
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind("new")
    listener.listen()
    os.rename("new", "socket")
    while True:
        with listener.accept()[0] as client:
            line = client.makefile().readline()
            with open("asked", "a") as asked:
                asked.write(line)
            with open("answer") as answer:
                client.sendall(answer.read().encode())
END_OF_SCHEDULER
python3 scheduler.py &
scheduler=$!
trap 'kill $scheduler 2>/dev/null; wait $scheduler 2>/dev/null; rm -rf "$work"' EXIT
for ((i = 0; i < 200; i++)); do [[ -S socket ]] && break; sleep 0.05; done
printf 'socket: %s/socket\n' "$work" >arena.yaml
export ARENA_CONF=$work/arena.yaml TZ=UTC

# says CODE NAME ANSWER WORDS...: the scheduler has that answer; what was said to it is in $asked
says() {
    local want=$1 name=$2 rc=0
    printf '%s\n' "$3" >answer
    shift 3
    : >asked
    "$arena" "$@" >out 2>err </dev/null || rc=$?
    asked=$(cat asked)
    if ((rc == want)); then pass "$name"; return; fi
    fail "$name"
    diag "exit $rc, not $want: $*"$'\n'"$(head -c 4000 out err)"
}

# ---- offer -------------------------------------------------------------------------------------------
lent='{"schema_version":1,"leases":[{"id":"L7","node":"n7"},{"id":"L8","node":"n8"}]}'
says 0 "nodes are offered" "$lent" loan offer 'n[7-8]'
is "$asked" 'loan offer n[7-8]' "as they were named"
is "$(cat out)" $'n7: lent to training by lease L7\nn8: lent to training by lease L8' "the answer is told"
says 0 "until a moment" "$lent" loan offer n7,n8 --until now+2hours
now=$(date +%s) until_s=${asked##*until=}
like "$asked" '^loan offer n7,n8 until=[0-9]+$' "which goes as epoch seconds"
ok "in two hours" test $((until_s - now)) -ge 7190 -a $((until_s - now)) -le 7200
says 0 "or a day" "$lent" loan offer n7 --until "$(($(date +%Y) + 1))-01-02T03:04:05"
is "${asked##*until=}" "$(date -d "$(($(date +%Y) + 1))-01-02T03:04:05" +%s)" "which is the same moment for date(1)"
says 0 "as JSON" "$lent" --json loan offer n7,n8
ok "the plug-in's own" jq -e '.schema_version == 1 and .leases[1].id == "L8"' out
says 0 "a message come again" '{"schema_version":1,"leases":[]}' loan offer n7
like "$(cat out)" 'lent already' "says so"

# ---- reclaim -----------------------------------------------------------------------------------------
back='{"schema_version":1,"returning":[{"id":"L7","node":"n7","deadline":1790000300}],"preempted":[12,15],"scaled_in":[9],"ending":[21],"short":0,"why":""}'
says 0 "nodes are asked back by number" "$back" loan reclaim 1
is "$asked" 'loan reclaim 1' "by the site's deadline"
is "$(cat out)" 'n7: comes back by 2026-09-21 14:18:20 UTC (lease L7)
preempted: JobId=12, JobId=15
scaled in: JobId=9
let run, since they end in time: JobId=21' "which node, by when, and at whose cost"
says 0 "or by name and deadline" "${back/12,15/}" loan reclaim 'n[7,9]' --deadline 90
is "$asked" 'loan reclaim n[7,9] deadline=90' "both are said"
like "$(cat out)" 'No job is preempted' "that nobody is preempted is said, too"
says 1 "where nodes are short it ends in 1" "${back/\"short\":0,\"why\":\"\"/\"short\":2,\"why\":\"only n7 is lent\"}" loan reclaim 3
like "$(cat out)" '2 nodes short: only n7 is lent' "and says how many, and why"
says 1 "with --json as well" "$(jq -c '.short = 1' <<<"$back")" --json loan reclaim 2
ok "whose document is whole" jq -e '.preempted == [12, 15] and .short == 1' out

# ---- list --------------------------------------------------------------------------------------------
many=$(jq -nc '{schema_version: 1, enabled: true, source: "demand", partition: "loan", problem: "", leases: [
    {id: "L7", node: "n7", partition: "infer", state: "lent", since: 1790000000, jobs: [range(100000; 100030)], why: ""},
    {id: "L8", node: "inference-node-008", partition: "inference-a", state: "returning", since: 1790000000,
     deadline: 1790000300, jobs: [], why: "inference wants three nodes back; the job on it was told to save its state and to go"},
    {id: "L1234", node: "n9", partition: "infer", state: "lent", since: 1790000000, until: 1790086400, jobs: [3], why: ""}]}')
says 0 "leases are listed" "$many" loan list
is "$asked" 'loan list' "by one question"
is "$(awk 'length($0) > 100' out)" "" "in 100 columns"
like "$(cat out)" "lent by inference's own demand, to partition loan" "how nodes are lent is said"
like "$(cat out)" 'L7 +n7 +infer +lent +2026-09-21 14:13:20 +when asked for +100000' "a lease without an end"
like "$(cat out)" 'L8 +inference-node-008 +inference-a +returning +2026-09-21 14:13:20 +2026-09-21 14:18:20 +-' "one that ends"
like "$(cat out)" 'why inference wants three' "and why, below it"
like "$(cat out)" 'L1234 +n9 .* 2026-09-22 14:13:20 +3' "one with an end of its own"
says 0 "as JSON" "$many" loan list --json
is "$(jq -Sc . out)" "$(jq -Sc . <<<"$many")" "the plug-in's own"
says 0 "nothing is lent" '{"schema_version":1,"enabled":false,"source":"commands","partition":"loan","leases":[],"problem":"partition loan does not exist"}' loan list
like "$(tr '\n' ' ' <out)" 'Nothing is lent anew: loan.enabled .*problem: partition loan does not exist No node is lent' "is said with the problem"

# ---- refusals and answers that cannot be ------------------------------------------------------------
says 2 "what the plug-in refuses" '{"schema_version":1,"error":{"code":2,"text":"nowhere is no node of an inference partition"}}' loan offer nowhere
is "$(cat err)" "arena: nowhere is no node of an inference partition" "is its sentence"
says 1 "its code is the exit code" '{"schema_version":1,"error":{"code":1,"text":"only root may"}}' loan reclaim 1
says 3 "no JSON" 'hello' loan list
like "$(cat err)" 'gave no answer' "is no answer"
for answer in '{"schema_version":1}' '{"schema_version":1,"leases":[{"id":7}]}' '{"schema_version":1,"enabled":true,"source":"demand","partition":"loan","leases":[{"id":"L7","node":"n7","since":-1}]}' \
    '{"error":{"code":9,"text":"x"}}' '{"error":7}'; do
    says 3 "an answer that cannot be: $answer" "$answer" loan list
    is "$(wc -l <err)" 1 "is one sentence"
done

# refused NAME PATTERN WORDS...: by exit code 2 and one sentence, and nobody was asked
refused() {
    local name=$1 pattern=$2
    shift 2
    says 2 "$name" "$back" "$@"
    is "$(wc -l <err):$(wc -c <out):$asked" "1:0:" "in one sentence, and nobody is asked"
    like "$(cat err)" "$pattern" "which says what is wrong"
}
refused "no node" 'is required|is needed' loan offer
for list in '' ',' 'n1,' 'n[1' 'n[2-1]' 'n 1' 'n1;x'; do
    refused "no list of nodes: '$list'" "no list of nodes such as n1,n\[4-7\]" loan offer "$list"
done
refused "more nodes than there can be" 'more than 4096 nodes' loan offer 'n[0-99999]'
refused "a list that is too long" 'of 5[0-9]* characters: give at most 4000' loan offer "$(seq -f 'node%05g' -s, 1 500)x"
refused "a node twice" 'n2 is there twice' loan offer n2,n2
refused "a list of nodes with a hole" 'no list of nodes' loan reclaim n1,,n2
for number in 0 99999999999; do refused "$number nodes" "\"$number\" is no number of nodes" loan reclaim $number; done
refused "an empty number of nodes" 'no list of nodes' loan reclaim ''
for deadline in 0 nan NaN inf -5 1.5 1e3 '' ' 9' 9999999; do
    refused "a deadline of '$deadline'" "deadline|no option" loan reclaim 1 --deadline="$deadline"
done
for moment in 25:00 yesterday nan '' now+0 2026-02-30; do
    refused "until '$moment'" '\-\-until: ".*" is no time; give HH:MM' loan offer n7 --until "$moment"
done
refused "until what is over" '\-\-until: "2001-01-01" is over' loan offer n7 --until 2001-01-01
refused "loan alone" 'list \| offer \| reclaim|offer' loan

kill $scheduler && wait $scheduler 2>/dev/null
: >asked
"$arena" loan list >out 2>err
is $? 3 "nobody answers: exit code 3"
like "$(cat err)" 'does not answer.*; run it on the controller' "and what to do"
done_testing
