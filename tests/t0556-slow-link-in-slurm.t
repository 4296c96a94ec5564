#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A slow link in a real cluster: arena-train pp2,dp2 on two nodes, a delay on one pair of its ranks. Its chief says so,
# names the pair, and has ranks change roles; the losses stay, to the bit. Two watched jobs side by side on the same
# node, and parks. Figures, and that the time a job tells of its steps is that of its healthy ones: see
# tests/bench/watched-training.
# shellcheck disable=SC2016,SC2034,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/watched.sh"
need_arena
need_mpi_in_slurm
command -v jq >/dev/null || skip_all 'jq is not installed'
[[ -e $ARENA_BUILDDIR/.libs/libarena_slow_link.so ]] || skip_all 'libarena_slow_link.so is not built'
slow_link=$ARENA_SRCDIR/tests/lab/inject/slow-link

start_arena --nodes a40:2x2,l4:1x4 --arena-set slowdown.poll_s=5
store=$cluster_dir/profile-store/profiles.db
prepare_learning 64 32
write_paced 2000 5
delay() { "$slow_link" on --switch "$gates/$1.switch" --ranks "$2" --delay-ms "$3"; }
under_slow_link() { LEARN_UNDER="$work/paced $slow_link run --switch $gates/$1.switch --" learn "$@"; }

# ---- one pair of ranks ---------------------------------------------------------------------------------------------
# Stages are ranks 0, 1 and 2, 3: the pair hands activations over.
link=$(under_slow_link link 100000 --arena-types=a40 --arena-gpus=4 --arena-plan=pp2,dp2,tp1,mb1x6 --arena-slowdown=mitigate)
pair=(--arena-types=l4 --arena-gpus=2 "--arena-plan=pp1,dp2,tp1,mb1x6" --arena-slowdown=watch)
one=$(under_slow_link one 100000 "${pair[@]}")
other=$(under_slow_link other 100000 "${pair[@]}")
ok "a watched job trains on two nodes" wait_until '(($(step_of link) >= 25))' 120
[[ $(step_of link) ]] || diag "$(cat "$gates/link.out")"
begun=$(step_of link)
delay link 1,3 25
ok "a slow iteration is seen" wait_until 'has_event link ".event == \"onset\""' 60
ok "the link between ranks 1 and 3 is named" wait_until 'has_event link ".event == \"verdict\" and .cause == \"communication\" and ([.rank, .peer] | sort) == [1, 3]"' 90
# What others do to four ranks on two processors is not as slow as a delay of 25 ms of each message.
found=$(events link '.event == "verdict" and .cause == "communication" and ([.rank, .peer] | sort) == [1, 3]' | jq -s 'map(.factor) | max')
is "$(events link '.event == "verdict" and .cause == "compute"' | jq -r "select(.factor >= $found) | .rank")" '' "no GPU is found as slow as that link"
figure "first of all" test "$(events link '.event == "verdict"' | head -n 1 | jq -r '"\(.cause) \([.rank, .peer] | sort)"')" = 'communication [1,3]'
ok "ranks change roles" wait_until 'grep -q "\"event\":\"swapped\"" "$gates/link.log"' 90
at=$(jq -r 'select(.event == "swapped").step' "$gates/link.log" | tail -n 1)
ok "twelve steps of it" wait_until '(($(step_of link) >= at + 14))' 120
healthy=$(step_s link 10 "$begun") before=$(step_s link $((begun + 2)) $((at - 1))) after=$(step_s link $((at + 2)) $((at + 13)))
diag "healthy $healthy s, slow $before s, after S3 $after s a step; roles: $(jq -c 'select(.event == "swapped").ranks' "$gates/link.log" | xargs)"
figure "a step takes at most 0.80 of what it took: $(awk -v a="$after" -v b="$before" 'BEGIN { printf "%.2f", a / b }')" \
    awk -v a="$after" -v b="$before" 'BEGIN { exit !(a <= 0.80 * b) }'
figure "and no GPU is ever blamed" test "$(events link '.event == "verdict"' | jq -r .cause | sort -u)" = communication
ok "slurmctld knows" wait_until '[[ $(job_field "$link" AdminComment) == *:communication:x* ]]' 30
like "$(arena slowdown list)" 'n1.*n2|n2.*n1' "arena slowdown list has both ends"
"$slow_link" off --switch "$gates/link.switch"

# ---- two watched jobs on the same node -----------------------------------------------------------------------------
agents() { all_processes | xargs -r ps -o args= -p | grep -c 'arena-watch agent'; }
ok "two watched jobs train side by side" wait_until '(($(step_of one) >= 25 && $(step_of other) >= 25))' 120
is "$(job_field "$one" NodeList) $(job_field "$other" NodeList) $(agents)" "n3 n3 4" "on one node, with an agent each"
delay other 0,1 200
ok "what slows one down is seen" wait_until 'has_event other ".event == \"onset\""' 90
ok "by its own chief" wait_until 'has_event other ".event == \"verdict\""' 90
figure "as its link" test "$(events other '.event == "verdict"' | head -n 1 | jq -r .cause)" = communication
is "$(events one '.event == "verdict" and .cause == "communication" and .factor > 2')" '' "the other one's finds no link so slow"
figure "nor anything else" test -z "$(events one '.event == "verdict"')"
scancel "$other"
ok "one of them is cancelled" wait_for_state "$other" CANCELLED 60
step=$(step_of one)
ok "the other one trains on" wait_until '(($(step_of one) >= step + 20))' 60
ok "watched" wait_until '[[ $(agents) == 3 ]]' 20
scancel "$one"
ok "it is cancelled, too" wait_for_state "$one" CANCELLED 60
ok "neither of their agents is left" wait_until '[[ $(agents) == 2 ]]' 30

# ---- the pair again ------------------------------------------------------------------------------------------------
ok "slurmctld knows that it is over" wait_until 'arena slowdown show "$link" --json | jq -e ".events | map(select(.cause == \"communication\" and (.relief // 0) != 0)) | any(.at + .peer | test(\"n1/1\") and test(\"n2/1\"))" >/dev/null' 300
last=$((at + 20))
ok "it trains on until step $last" wait_until '(($(step_of link) >= last))' 60
scancel "$link"
ok "it is cancelled" wait_for_state "$link" CANCELLED 60
ok "no agent is left" wait_until '[[ $(agents) == 0 ]]' 30
ok "the same training, and nobody disturbs it" alone 4 --pp 2 --dp 2 --steps "$last"
is "$(losses "$work/alone.log" | wc -l)" "$last" "has $last steps"
# A rank that is taken for slow besides is dealt fewer micro-batches, and in another split sums are rounded otherwise, which
# training makes larger step by step.
split=$(split_step link)
same=$((${split:-$((last + 1))} - 1))
is "$(apart link 1 $same)" "0.0e+00 of $same steps" "the job's first $same losses are those, to the bit${split:+: from then on it had another split}"
if [[ $split ]]; then
    off=$(apart link "$split" $((split + 59)))
    ok "and its next ones: $off off" is_near "$off"
fi

# ---- parks ---------------------------------------------------------------------------------------------------------
parks=20
[[ ! ${ARENA_EXACT-} ]] || parks=100
for ((i = 1; i <= parks; i++)); do echo "$i park 0.01s"; done >"$gates/script"
trainer+=(--control "$gates/script")
sed -i "s|--steps|--control $gates/script --steps|" "$work/life"
job=$(learn parks $((parks + 1)) "${pair[@]}")
ok "a watched job is parked before each of $parks steps" wait_for_state "$job" COMPLETED 180
ok "each time it goes on within ten seconds: $(jq -s 'map(select(.event == "unparked").seconds) | max' "$gates/parks.log") s at the most" \
    jq -se "map(select(.event == \"unparked\")) | length == $parks and all(.[]; .seconds <= 10)" "$gates/parks.log"
sed -i "s|--control $gates/script ||" "$work/life"

# ---- steps of one length: a figure ---------------------------------------------------------------------------------
if [[ ${ARENA_QUIET_S-} ]]; then
    # Processors of a virtual machine are faster and slower for minutes, which t0555 has to allow for; this job waits most of
    # the time.
    for node in n1 n2 n3; do arena slowdown clear $node >/dev/null; done
    delay quiet 0,1 150
    job=$(under_slow_link quiet 1000000 --arena-types=l4 --arena-gpus=2 "--arena-plan=pp1,dp2,tp1,mb1x6" --arena-slowdown=mitigate)
    ok "a watched job of steady steps trains" wait_until '(($(step_of quiet) >= 20))' 90
    let_pass "$ARENA_QUIET_S"
    alarms=$(events quiet '.event == "onset"') verdicts=$(events quiet '.event == "verdict"' | wc -l)
    [[ ! $alarms ]] || diag "$alarms"
    is "$(grep -c . <<<"$alarms") $verdicts" "0 0" "in $ARENA_QUIET_S seconds, $(step_of quiet) steps: no alarm, no verdict"
    scancel "$job"
    ok "it is cancelled as well" wait_for_state "$job" CANCELLED 60
fi

# ---- what a job tells of its steps: a figure ----------------------------------------------------------------------
[[ ${ARENA_EXACT-} ]] || { done_testing; exit; }
observed() { arena profile observed --store "$store" --json | jq -r ".observed[] | select(.job == $1).iteration_s"; }
for node in n1 n2 n3; do arena slowdown clear $node >/dev/null; done   # what is held slow teaches nobody
delay clean 0,1 150
clean=$(under_slow_link clean 30 "${pair[@]}")
ok "an undisturbed job" wait_for_state "$clean" COMPLETED 120
# The latest job with a plan is the one that is listed.
ok "tells its time" wait_until '[[ $(observed "$clean") ]]' 30
of_clean=$(observed "$clean")
delay told 0,1 150
told=$(under_slow_link told 75 "${pair[@]}")
ok "another one" wait_until '(($(step_of told) >= 20))' 120
delay told 0,1 400
ok "is slow from now on" wait_until 'has_event told ".event == \"onset\""' 120
ok "for a while" wait_until '(($(step_of told) >= 45))' 120
delay told 0,1 150
ok "and then no more" wait_for_state "$told" COMPLETED 180
ok "it tells its time, too" wait_until '[[ $(observed "$told") ]]' 30
of_told=$(observed "$told")
ok "within 2 % of each other: $of_clean and $of_told s" \
    awk -v a="$of_clean" -v b="$of_told" 'BEGIN { exit !(a > 0 && b > 0 && a / b < 1.02 && b / a < 1.02) }'
done_testing
