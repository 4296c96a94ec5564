#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The command against a running controller: explain ranks the offers of running and waiting jobs, falls
# back to scontrol's fields without the socket, snapshots repeat the decision, doctor finds this
# installation good and a broken one bad.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh" || exit 99
need_arena
command -v jq >/dev/null || skip_all 'jq is not installed'
make_work
start_cluster --arena on --arena-set policy=fifo --nodes a40:1x4,a100:1x4 --profile off
long=$(script 'sleep 300')

first=$(submit --arena-model=gpt2 --arena-batch=32 --time=10 -o /dev/null "$long")
ok 'the first job runs' wait_for_state "$first" RUNNING
second=$(submit --arena-model=gpt2 --arena-batch=32 --time=10 -o /dev/null "$long")
ok 'the second job runs' wait_for_state "$second" RUNNING
third=$(submit --arena-model=gpt2 --arena-batch=32 --time=10 -o /dev/null "$long")
ordinary=$(submit --gres=none --time=1 -o /dev/null "$long")
# shellcheck disable=SC2317 # called through ok
explained() { arena explain "$1" --json 2>/dev/null | jq -e "$2" >/dev/null; }

ok 'explain knows the running job' wait_until "arena explain $first --json | jq -e '.state == \"running\"' >/dev/null"
ok 'its offers are ranked' explained "$first" '[.offers[].estimate.iteration_s] | length > 3 and . == sort'
ok 'the best offer was taken while all was free' explained "$first" '.chosen == 0'
ok 'the second job took another than the best' explained "$second" '.chosen > 0'
like "$(arena explain "$second")" '->' 'the chosen offer is marked'
like "$(arena explain "$second")" 'is emulated' 'times of a CPU are labelled'
ok 'the third job waits, with a reason' wait_until \
    "arena explain $third --json | jq -e '.state != \"running\" and (.reason | test(\"waits for\"))' >/dev/null"
not_ok 'an ordinary job is not explained' arena explain "$ordinary"

ok 'stats counts the starts' bash -c "arena stats --json | jq -e '.schema_version == 1 and .decisions.starts >= 2 and .faults == 0'"
ok 'a snapshot is saved' arena snapshot save "$work/now"
ok 'its replay lets the third job wait' bash -c \
    "arena snapshot replay '$work/now' --json | jq -e '[.actions[] | select(.job == $third and .kind == \"reshape_and_wait\")] | length == 1'"

sed 's|^socket:.*|socket: /nonexistent/arena.sock|' "$ARENA_CONF" >"$work/elsewhere.yaml"
like "$(arena --config "$work/elsewhere.yaml" explain "$first")" 'grid=4xa.*Read from scontrol' \
    'without the socket explain reads the job fields and says so'

ok 'doctor finds the installation good' arena doctor
sed 's|a100: .*||' "$ARENA_CONF" >"$work/unmapped.yaml"
like "$(arena --config "$work/unmapped.yaml" doctor)" 'bad +gpu:a100: has no hardware entry' \
    'doctor names a GPU type without hardware entry'
not_ok 'and ends in no' arena --config "$work/unmapped.yaml" doctor
done_testing
