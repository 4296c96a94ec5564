#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What gains a place is what Slurm enforces: --arena-steps becomes the job's time limit; a longer --time is kept,
# and then the steps give no place. What the user's last jobs used of what they said is known after a restart of
# slurmctld. Only limits and words are looked at: how fast the machine is changes neither. Two GPUs of one type.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
command -v jq >/dev/null || skip_all 'jq is not installed'

start_arena --nodes a40:1x2
printf '%s\n' 'name: small' 'family: gpt' 'layers: 2' 'hidden: 128' 'heads: 4' 'vocab: 1024' 'seq_length: 64' \
    'precision: fp32' >"$work/small.yaml"
# ask OPTIONS...: a job that may have one GPU or two; its id in $job, what was said in $said. sbatch looks for plans for
# a third of a second, and says so where that was too short: asked again then.
ask() {
    local try
    for try in {1..40}; do
        job=$(sbatch --parsable -o /dev/null --arena-model="$work/small.yaml" --arena-batch=64 --arena-launcher=env \
            --arena-gpus=1-2 "$@" "$work/trainer" 2>"$work/said") || { cat "$work/said"; return 1; }
        said=$(<"$work/said")
        [[ $said != *'; best '* || $said == *'best found '* ]] || return 0
        scancel "$job"
    done
    echo "no whole estimate in $try tries: $said"
    return 1
}
limit() { job_field "$1" TimeLimit; }
# minutes TEXT: [D-]HH:MM:SS
minutes() {
    local days=0 text=$1 hours mins
    [[ $text != *-* ]] || { days=${text%%-*} text=${text#*-}; }
    IFS=: read -r hours mins _ <<<"$text"
    echo $((days * 1440 + 10#$hours * 60 + 10#$mins))
}
work_of() { arena explain "$1" --json 2>/dev/null | jq -r ".work$2"; }
knows() { wait_until "[[ \$(work_of $1 .words) != null ]]"; }
over() { let_go "$1"; wait_for_state "$1" COMPLETED; }

full=$(hog a40 2)
ok "the GPUs are taken" wait_for_state "$full" RUNNING

# ---- what a job gets -------------------------------------------------------------------------------------------
ask --arena-steps=1
short=$job
like "$said" 'arena: the time limit is [0-9]+ minutes?, twice the time of 1 iteration on the slowest GPUs' "a job of one step is told its time limit"
one=$(minutes "$(limit "$short")")
like "$said" "the time limit is $one minutes" "which it has"
ok "a few minutes: to start, and for one small step" test "$one" -ge 2 -a "$one" -le 5
ok "Arena plans it" knows "$short"
like "$(work_of "$short" .words)" '^1 step, as its limit of .* enforces$' "and believes its step, as its limit enforces"
like "$(arena explain "$short")" 'Work: 1 step, as its limit of .* enforces' "as arena explain says"
is "$(work_of "$short" '.needs_s / 60')" "$one" "what it was given is what the scheduler has it need"

# So many steps that they take about half of the default of an hour at most: more than the one.
slow=$(arena explain "$short" --json | jq '[.offers[].estimate.iteration_s] | max')
steps=$(jq -n "1500 / $slow | floor")
wanted=$(jq -n "($steps * $slow * 2 + 70) / 60 | ceil")
ask --arena-steps="$steps"
many=$job
ok "$steps steps of $slow s have $wanted minutes, to a thousandth" \
    test "$((1000 * $(minutes "$(limit "$many")") / wanted))" -ge 980 -a "$(minutes "$(limit "$many")")" -le $((wanted + 1))
ok "Arena plans it" knows "$many"
is "$(work_of "$many" .from)" steps "they are believed"
ask --arena-steps=$((steps * 10))
is "$(limit "$job")" 01:00:00 "more than the partition's default is not given"
ok "Arena plans it" knows "$job"
is "$(work_of "$job" .from)" steps "and they are believed within it: Slurm ends the job before"
scancel "$job"
ask
is "$(limit "$job")" 01:00:00 "a job without steps has the default"
unlike "$said" 'time limit is|place goes' "and is told nothing of it"
ok "Arena plans it" knows "$job"
is "$(work_of "$job" .words)" "limit of 60.0 min" "its limit is its work"
scancel "$job"

# ---- who says one step and wants an hour ---------------------------------------------------------------------------
ask --arena-steps=1 --time=1:00:00
liar=$job
is "$(limit "$liar")" 01:00:00 "--time is kept"
like "$said" "arena: --time of 60.0 min is longer than the $one minutes for 1 iteration: the job's place goes by its limit; --time=$one or less to be placed by its steps" \
    "and its user is told what it costs, and what to do"
ok "Arena plans it" knows "$liar"
is "$(work_of "$liar" .from)" limit "the limit is its work"
like "$(arena explain "$liar")" 'Work: limit of 60.0 min; its steps are not believed: the limit is longer than they need' "as arena explain says"
ok "what policies see is saved" arena snapshot save "$work/now"
left() { jq ".snapshot.jobs[] | select(.job == $1) | .remaining_iterations" "$work/now"; }
is "$(left "$liar")" 0 "they see the limit of the liar alone"
is "$(left "$short")" 1 "and of the honest job its step"
ask --arena-steps=1 --time="$one"
unlike "$said" 'place goes' "--time as it was told gives the place back"
ok "Arena plans it" knows "$job"
is "$(work_of "$job" .from)" steps "by its step"
scancel "$job"
scontrol update JobId="$liar" TimeLimit="$one"
ok "so does a limit that is lowered later" wait_until "[[ \$(work_of $liar .from) == steps ]]"
scontrol update JobId="$liar" TimeLimit=60
ok "and one that is raised takes it again" wait_until "[[ \$(work_of $liar .from) == limit ]]"

# ---- the past -------------------------------------------------------------------------------------------------------
scancel "$short" "$many"
let_go "$full"
ok "the GPUs are free" wait_for_state "$full" COMPLETED
ok "the liar runs" wait_started "$liar"
ok "and ends" over "$liar"
for n in {2..5}; do
    ask --time=1000
    ok "job $n of 1000 minutes runs" wait_started "$job"
    ok "and ends" over "$job"
done
ok "arena history says what was used" wait_until "arena history $job | grep -q 'used 0.01 or less of its time limit'"
like "$(arena history "$liar")" 'used [0-9.]+( or less)? of its time limit' "of the liar, too"
full=$(hog a40 2)
ok "the GPUs are taken again" wait_for_state "$full" RUNNING
ask --time=1000
ok "Arena plans a job of the user's" knows "$job"
like "$(work_of "$job" .words)" "^limit of 16.7 h; x 0.01: what the last 5 jobs of uid $EUID used of theirs$" \
    "and knows what the last ones used"
restart() { wait_saved && cluster ctld kill && cluster ctld start && cluster wait; }
ok "slurmctld is killed, and starts again" restart
ok "it is known still" wait_until "[[ \$(work_of $job .past.jobs) == 5 ]]" 60
scancel "$job"

# ---- order: value ------------------------------------------------------------------------------------------------------
echo 'order: value' >>"$cluster_dir/arena.yaml"
ok "the site takes everybody at his word" scontrol reconfigure
ask --arena-steps=1
is "$(limit "$job")" 01:00:00 "nobody's limit is shortened"
unlike "$said" 'time limit is|place goes' "nor spoken of"
ok "Arena plans it" wait_until "arena explain $job --json | jq -e '.offers | length > 0' >/dev/null"
is "$(work_of "$job" '')" null "and nothing is said of what is believed"
scancel "$job"
let_go "$full"
done_testing
