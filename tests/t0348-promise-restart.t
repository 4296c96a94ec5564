#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# slurmctld is killed while jobs wait that were promised an end: the promise is not later afterwards, although a new one
# would be, nobody starts that breaks it, and its owner is told of it once.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/beside_stock.sh"
need_arena
command -v jq >/dev/null || skip_all 'jq is not installed'
((EUID == 0)) || skip_all "a limit is raised by root"
make_work
start_play arena --nodes 'a40:2x4,a100:1x1'

told() { arena explain "${job[$1]}" --json | jq -r ".promise.$2 // \"none\""; }
promised() { arena history "${job[$1]}" --json | jq '[.events[] | select(.state | startswith("promise"))] | length'; }
ask a 4 60
ask b 4 70
now_run "a b" "two jobs fill the nodes"
ask wide 8 60
ask long 4 100
ok "the wide job is promised an end" wait_until '[[ $(told wide ends_by_s) != none ]]'
due=$(told wide ends_by_s)
ok "one that runs may run for longer" scontrol update JobId="${job[b]}" TimeLimit=80
ok "Slurm has saved its jobs" wait_saved
ok "slurmctld is killed" cluster ctld kill
ok "and starts" cluster ctld start
ok "the job is planned again" wait_until '(($(arena explain "${job[wide]}" --json | jq ".offers | length") > 0))' 40
# What a round makes earlier by less than a second is not written.
ok "the promise is the same" awk -v now="$(told wide ends_by_s)" -v due="$due" 'BEGIN { exit !(now != "none" && now - due < 2 && due - now < 2) }'
like "$(told wide words)" '^ends by .* UTC at the latest' "and told as before"
like "$(arena queue)" 'by [0-9 :-]+' "also in the queue"
wait_until '[[ $(told long behind) != none ]]' || true
is "$(told long behind)" "${job[wide]}" "who stands behind it stands there still"
is "$(promised wide)" 1 "its owner was told once"
ask short 4 5
ok "a job ends" end_of a
now_run "b short" "only who ends in time passes the promised job"
is "$(arena explain "${job[wide]}" --json | jq -c '[.promise.passed[].job]')" "[${job[short]}]" "explain names that one alone"
ok "that one ends" end_of short
now_run b "nobody else does"
ok "the last one before it ends" end_of b
now_run wide "and it starts"
ok "stats counts it as kept" wait_until '[[ $(arena stats --json | jq -c "[.promises.kept, .promises.broken]") == "[1,0]" ]]'
ok "all jobs go" none_left
ok "no node has suffered" clean_nodes
done_testing
