#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What a watched job says of slow GPUs and links: who may say it, what cannot be, how often, to a slurmctld that is away;
# where it is shown; and who may clear a node. Needs root: two users.
# shellcheck disable=SC2016,SC2317  # functions are called by ok; conditions are evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
can_be_user || skip_all "needs root and a user $arena_user: others' reports are refused"
command -v jq >/dev/null || skip_all 'jq is not installed'
start_arena --nodes a40:2x2,a100:1x1,h100:1x1,l4:1x2
log=$cluster_dir/log/slurmctld.log
unset "${!SLURM_JOB@}" SLURM_RESTART_COUNT

# ask USER TYPE GPUS [OPTIONS...]: a job of that user, prints its id
ask() {
    local user=$1 type=$2 gpus=$3
    shift 3
    "$user" sbatch --parsable --chdir=/ -t 60 -o /dev/null --arena-model=gpt2 --arena-launcher=env --arena-batch=64 --arena-types="$type" \
        --arena-gpus="$gpus" "$@" "$work/trainer"
}
as_root() { "$@"; }
watched=$(ask as_user a40 4 --arena-slowdown=mitigate --comment='a note of its user')
bare=$(ask as_user a100 1)
roots=$(ask as_root h100 1 --arena-slowdown=watch)
wrong=$(ask as_user l4 1 --arena-slowdown=watch)
for job in $watched $bare $roots $wrong; do ok "JobId=$job runs" wait_started "$job" 1 40; done
mapfile -t nodes < <(scontrol show hostnames "$(job_field "$watched" NodeList)")
is "${#nodes[@]}" 2 "the watched job has two nodes"
now=$(date +%s)
is "$(sed -n 's/^ARENA_SLOWDOWN=//p' "$gates/$watched.env.0")" mitigate "its script finds ARENA_SLOWDOWN"
is "$(grep -c '^ARENA_SLOWDOWN=' "$gates/$bare.env.0")" 0 "one that is not watched does not"

# slow USER JOB WORDS...: the command as in that job
slow() {
    local user=$1 job=$2
    shift 2
    "$user" env SLURM_JOB_ID="$job" SLURM_CONF="$SLURM_CONF" PATH="$PATH" "$stage/bin/arena" slowdown report --onset "$now" --steps 100 "$@" 2>&1
}
# text [KEY=VALUE...]: a report as it travels, with these in place of its own
text() {
    local text="life=0;onset=$now;at=${nodes[0]}/1;cause=compute;factor=2.1;action=S2;lost_s=0;steps=100" pair
    for pair; do text=$(sed -E "s#(^|;)${pair%%=*}=[^;]*#\1$pair#" <<<"$text"); done
    echo "arena:slow;$text"
}
counted() { arena stats --json | jq -r ".slowdown.$1"; }
# refused_by_ctld WHY JOB TEXT: whoever goes around the command meets the same rules, and the log says which
refused_by_ctld() {
    not_ok "slurmctld refuses: $1" as_user scontrol update JobId="$2" Comment="$3"
    ok "and says so in its log" wait_until "grep -qE 'JobId=$2 report refused: .*$1' '$log'" 10
}

# ---- what cannot be --------------------------------------------------------------------------------
before=$(job_field "$watched" AdminComment)
for case in "--at ${nodes[0]}/1 --cause compute --factor nan|--factor: takes a number above 1" \
    "--at ${nodes[0]}/1 --cause compute --factor 1e300|--factor: takes a number above 1" \
    "--at ${nodes[0]}/1 --cause compute --factor 2 --lost-s -1|--lost-s: takes seconds" \
    "--at ${nodes[0]} --peer ${nodes[1]} --cause compute --factor 2|--peer: is the other end of a link" \
    "--at ${nodes[0]}/99999 --cause compute --factor 2|--at: .* is not NODE or NODE/GPU" \
    "--at ${nodes[0]} --cause disk --factor 2|--cause: .disk. is not one of compute, communication" \
    "--at ${nodes[0]} --cause communication --factor 2|--peer: takes another node" \
    "--at ${nodes[0]}/1 --cause compute --factor 2 --relief 5|--relief: takes seconds"; do
    # shellcheck disable=SC2086  # words
    out=$(slow as_user "$watched" ${case%%|*}); is "$?" 2 "exit code 2: ${case%%|*}"
    like "$out" "${case#*|}" "and a sentence"
done
refused_by_ctld 'not accepted in a report' "$wrong" "$(text factor=nan)"
refused_by_ctld 'is no report' "$wrong" "$(text)$(printf ' %.0s' {1..600})"
refused_by_ctld 'is no node of it' "$wrong" "$(text)"
refused_by_ctld 'has 2 GPUs, none of index 2' "$watched" "$(text at="${nodes[0]}/2")"
refused_by_ctld 'GPU 1 of .* is not one of its own' "$wrong" "$(text at="$(job_field "$wrong" NodeList)/1")"
refused_by_ctld '4 of its steps were watched, and nothing counts before 5' "$watched" "$(text steps=4)"
refused_by_ctld 'in its life 0, not 5' "$wrong" "$(text life=5)"
refused_by_ctld 'before its start' "$wrong" "$(text onset=1000000000)"
refused_by_ctld 'is not watched' "$bare" "$(text at="$(job_field "$bare" NodeList)/0")"
out=$(slow as_user 4000000 --at n1/0 --cause compute --factor 2); is "$?" 2 "a job that is not there: exit code 2"
is "$(job_field "$watched" AdminComment)" "$before" "none of it is shown"
is "$(counted events)" 0 "or counted as an event"

# ---- another user's job ------------------------------------------------------------------------------
place=$(job_field "$roots" NodeList)/0
for ((i = 0; i < 8; i++)); do out=$(slow as_user "$roots" --at "$place" --cause compute --factor 2); rc=$?; done
is "$rc" 2 "of another user's job: exit code 2"
like "$out" 'slurmctld refuses the report' "and a sentence"
ok "slurmctld's log says why" grep -qE "JobId=$roots report refused: not its user's|Security violation, JOB_UPDATE RPC from uid" "$log"
ok "its user still may: a stranger takes no turn from it" slow as_root "$roots" --at "$place" --cause compute --factor 1.5
ok "root may of a user's" slow as_root "$watched" --at "${nodes[1]}/0" --cause compute --factor 1.2 --relief "$now"

# ---- one that is taken ---------------------------------------------------------------------------------
like "$(slow as_user "$watched" --at "${nodes[0]}/1" --cause compute --factor 2.1 --action S2)" \
    "^JobId=$watched ${nodes[0]}/1:compute:x2.1; reported" "its user's is taken"
shown="slow=${nodes[0]}/1:compute:x2.1 action=S2 lost=0s"
ok "AdminComment shows it" wait_until "[[ \$(job_field $watched AdminComment) == '$before $shown' ]]" 20
is "$(job_field "$watched" Comment)" 'a note of its user' "the user's comment stays"
like "$(arena explain "$watched")" "Watched for slow GPUs and links \(mitigate\): $shown \(arena slowdown show $watched\)" "so does arena explain"
unlike "$(arena explain "$bare")" 'Watched' "which says nothing of a job that is not watched"
out=$(slow as_user "$watched" --at "${nodes[0]}" --peer "${nodes[1]}" --cause communication --factor 3 --action S4)
ok "a link is worse" wait_until "[[ \$(arena_word $watched slow) == ${nodes[0]}+${nodes[1]}:communication:x3.0 ]]" 20
is "$(counted events)" 4 "there were four events"
is "$(counted open)" 3 "three go on"

# ---- who sees what, and may what -----------------------------------------------------------------------
user_arena() { as_user env SLURM_CONF="$SLURM_CONF" ARENA_CONF="$cluster_dir/arena.yaml" "$stage/bin/arena" "$@" 2>&1; }
like "$(arena slowdown list)" "$watched +${nodes[0]}/1 +compute +x2.1 .* S2 .* goes on" "arena slowdown list is a table"
is "$(arena slowdown list | awk 'length($0) > 100')" "" "in 100 columns"
like "$(user_arena slowdown show "$watched")" 'is watched: mitigate' "a user sees the own job"
out=$(user_arena slowdown show "$roots"); is "$?" 1 "another's: exit code 1"
like "$out" 'does not speak of it: over, or not yours' "and a sentence"
for verb in clear check; do
    out=$(user_arena slowdown "$verb" "${nodes[0]}"); is "$?" 1 "a user may not $verb a node: exit code 1"
    like "$out" "only root and SlurmUser may say \"slowdown $verb\"; you are uid $(id -u "$arena_user")" "and a sentence"
    out=$(arena slowdown "$verb" nowhere 2>&1); is "$?" 1 "nor root one of which nothing is known"
    like "$out" 'nowhere: nothing slow is known of it' "and a sentence"
done
is "$(counted open)" 3 "nothing came of that"
ok "root has a node checked" arena slowdown check "${nodes[0]}"
like "$(arena slowdown list)" "${nodes[0]}: a check is asked for" "the list says so"
ok "root takes it for healthy" arena slowdown clear "${nodes[0]}"
ok "and AdminComment shows it no more" wait_until "[[ \$(job_field $watched AdminComment) == '$before lost=0s' ]]" 10
is "$(counted open)" 1 "one goes on"

# ---- nobody knows what --------------------------------------------------------------------------------
out=$(slow as_root "$roots" --cause unknown --factor 1.95 --lost-s 3); is "$?" 0 "steps that nobody can explain are reported"
ok "AdminComment shows it" wait_until "[[ \$(arena_word $roots slow) == steps:unknown:x1.9 || \$(arena_word $roots slow) == steps:unknown:x2.0 ]]" 20
like "$(arena slowdown show "$roots")" "JobId=$roots: its steps take 1.95 times as long as before, which has cost .* so far; which GPU or link is slow is not known" "and arena slowdown show says so, and what it costs"
like "$(arena slowdown list)" "$roots +not known +unknown +x1.9" "arena slowdown list, too"
is "$(scontrol show node "${place%/*}" | grep -c 'slow=[^ ]*unknown')" 0 "which is held against no node"
out=$(slow as_root "$roots" --cause unknown --factor 1.95 --lost-s 3 --relief "$now"); is "$?" 0 "until it is over"
out=$(slow as_root "$roots" --at "$place" --cause unknown --factor 2); is "$?" 2 "it has no place: exit code 2"

# ---- too many ------------------------------------------------------------------------------------------
# One scontrol that is told many updates sends them as fast as slurmctld answers.
awk -v line="update JobId=$watched Comment=$(text at="${nodes[1]}/1")" \
    'BEGIN { for (i = 0; i < 100000; i++) { l = line; sub(/lost_s=0/, "lost_s=" i % 50, l); print l } }' >"$work/flood"
taken=$(counted reports) lines=$(grep -c 'report refused' "$log")
timeout 10 runuser -u "$arena_user" -- env SLURM_CONF="$SLURM_CONF" scontrol <"$work/flood" >"$work/flood.out" 2>&1 &
flood=$!
ok "meanwhile another job's report is taken" slow as_root "$roots" --at "$place" --cause compute --factor 1.5 --relief "$(date +%s)"
wait "$flood"
left_out=$(counted over_rate)
diag "of a flood of 10 s $left_out reports were left out"
ok "hundreds are left out ($left_out)" test "$left_out" -gt 300
ok "few are taken" test $(($(counted reports) - taken)) -le 9
is "$(($(grep -c 'report refused' "$log") - lines))" 0 "Arena's log has no line of them"
for ((i = 0, rc = 0; i < 8 && rc == 0; i++)); do out=$(slow as_user "$watched" --at "${nodes[0]}/1" --cause compute --factor 2.1); rc=$?; done
is "$rc" 1 "who comes too soon is told: exit code 1"
like "$out" 'too many reports' "and a sentence"

# ---- slurmctld is away ---------------------------------------------------------------------------------
ok "all of it is saved" wait_saved
ok "slurmctld is killed" cluster ctld kill
out=$(slow as_root "$roots" --at "$place" --cause compute --factor 4); is "$?" 3 "nobody answers: exit code 3"
slow as_root "$roots" --at "$place" --cause compute --factor 4 --wait 120 >"$work/waits" &
waits=$!
ok "it comes back" cluster ctld start
wait "$waits"
is "$?" 0 "and who waited for it has the report taken"
ok "which is shown" wait_until "[[ \$(arena_word $roots slow) == $place:compute:x4.0 ]]" 20

# ---- not watched any more ------------------------------------------------------------------------------
ok "its user wants no watch any more" as_root scontrol update JobId="$roots" Comment=arena:slowdown=off
out=$(slow as_root "$roots" --at "$place" --cause compute --factor 5); is "$?" 2 "then its reports are refused"
for job in $watched $bare $roots $wrong; do let_go "$job"; done
for job in $watched $bare $roots $wrong; do ok "JobId=$job ends" wait_for_state "$job" COMPLETED; done
begin=$SECONDS
out=$(slow as_user "$watched" --at "${nodes[0]}/1" --cause compute --factor 2 --wait 60); is "$?" 2 "of a job that is over nothing is taken"
ok "and nobody waits for it" test $((SECONDS - begin)) -lt 20
ok "what was lost stays in the record" wait_until "[[ \$(job_field $watched AdminComment) == *' state=completed '*' lost='* ]]" 10
done_testing
