#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# An array of twelve that one pipeline trains, in a real cluster: each member is a Slurm job of its own that can be cancelled, fails by
# itself, is waited for; its share of the pipeline is counted; a pipeline that is killed loses no step; what is not bound says why;
# siblings keep Slurm's order.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/siblings.sh"
need_siblings
start_siblings --arena-set array.wait_s=10 --conf-extra 'PartitionName=short Nodes=ALL State=UP MaxTime=60'

# ---- twelve on one pipeline --------------------------------------------------------------------------
export STEPS=4
echo 1000000 >"$work/steps.7"
echo 3 >"$work/exit.5"
array=$(sweep 0-11) || BAIL_OUT "no array: $array"
after_four=$(submit --time=1 -o /dev/null --gres=none --dependency="afterok:${array}_4" --wrap true)
ok "a job of its user trains it" wait_until '[[ $(carriers RUNNING) ]]' 60
carrier=$(carriers)
like "$(job_field "$carrier" AdminComment)" '^arena:v1 state=running members=12 plan=pp4 est=.*s bubble=[0-9]+%' "which says how many members, and how"
like "$(job_field "$carrier" TresPerNode)" "gpu:a40:4\$" "with four GPUs"
ok "one member trains for ever" wait_until '[[ $(task $array 7 JobState) == RUNNING ]]' 60
like "$(scontrol -o show job "${array}_7")" " AdminComment=arena:v1 state=running array=$carrier member=7/12 T=[0-9.]*s " "a member says whose it is"
unlike "$(task "$array" 7 TresPerNode)" "gpu" "it has no GPU of its own"
is "$(task "$array" 7 NumCPUs)" 1 "and one CPU"
ok "ten members complete" wait_until '(( $(tasks_in $array COMPLETED) == 10 ))' 120
ok "member 5 exits 3" wait_until '[[ $(task $array 5 JobState) == FAILED ]]' 60
is "$(task "$array" 5 ExitCode) $(tasks_in "$array" FAILED)" "3:0 1" "and only it has failed"
ok "afterok of a member is honoured" wait_for_state "$after_four" COMPLETED 40
for life in 1 2; do
    ok "member 7 is requeued by its user" scontrol requeue "${array}_7"
    ok "and comes back to its pipeline, which was not lost" wait_until "grep -qx '$life array' $work/lives.$array.7" 60
done
ok "member 7 is cancelled" scancel "${array}_7"
ok "it alone" wait_until '[[ $(task $array 7 JobState) == CANCELLED ]]' 40
is "$(carriers | wc -l)" 1 "one pipeline has trained them all"
ok "it ends when nobody needs it" wait_for_state "$carrier" COMPLETED 60
is "$(cat "$work"/lives."$array".* | sort | uniq -c | xargs)" "12 0 array 1 1 array 1 2 array" "each lived in the array, and once but for that one"
is "$(losses "$work/log.$array.3" | cut -d' ' -f1 | xargs)" '1 2 3 4' "a member's log has its steps"
like "$(<"$work/out-$array-3")" 'step 4' "and so has its own output"
shares() { arena array list --json | jq "[.carriers[] | select(.job == $1).members[].gpu_s] | add"; }
elapsed() { job_field "$1" StartTime | xargs -I{} date -d {} +%s; }
# They are settled in the round after its end.
ok "a member's record has its share" wait_until '[[ $(scontrol -o show job ${array}_3) == *"/12 T="*" gpu_s="* ]]'
seconds=$(($(date -d "$(job_field "$carrier" EndTime)" +%s) - $(elapsed "$carrier")))
ok "shares of its members are all of its GPU-seconds: $(shares "$carrier") of $((4 * seconds))" \
    awk -v s="$(shares "$carrier")" -v all=$((4 * seconds)) 'BEGIN { exit !(all > 0 && s >= 0.98 * all && s <= 1.02 * all) }'
like "$(arena array list)" "JobId=$carrier over \\(COMPLETED\\)" "arena array list has it"

# ---- %K ----------------------------------------------------------------------------------------------
rm "$work"/steps.7 "$work"/exit.5
array=$(sweep 0-7%4 --arena-plan=pp4,dp1,tp1)
all_done() {   # in a shell of its own
    tasks_in "$array" RUNNING >>"$work/most"
    (($(tasks_in "$array" COMPLETED) == 8))
}
ok "eight tasks of %4 complete" wait_until all_done 120
is "$(sort -n "$work/most" | tail -n 1)" 4 "four at a time, and never more"
like "$(cat "$work"/lives."$array".* | sort -u)" '^0 array$' "on a pipeline"

# ---- the pipeline is killed --------------------------------------------------------------------------
ok "the pipelines before are over" wait_until '[[ ! $(carriers RUNNING) ]]' 60
export STEPS=60
array=$(sweep 0-3 --arena-plan=pp4,dp1,tp1)
ok "four more train" wait_until '[[ -e $work/log.$array.2 && $(losses $work/log.$array.2 | wc -l) -ge 3 ]]' 90
carrier=$(carriers RUNNING)
scancel --signal=KILL "$carrier"
ok "their pipeline is killed: they complete all the same" wait_until '(( $(tasks_in $array COMPLETED) == 4 ))' 180
isnt "$(carriers | tail -n 1)" "$carrier" "on another one"
for i in 0 1 2 3; do
    is "$(jq -r 'select(has("loss")).step' "$work/log.$array.$i" | sort -nu | xargs)" "$(seq -s' ' 60)" "member $i has done each step"
    resumed=$(jq -r 'select(.event == "resumed").step' "$work/log.$array.$i" | tail -n 1)
    is "$(jq -c 'select(has("loss")) | [.step, .loss]' "$work/log.$array.$i" | sort -u | wc -l)" 60 "from step ${resumed:-0}, none twice with another loss"
done

# ---- a partition with a longest time ------------------------------------------------------------------
ok "their pipeline ends" wait_until '[[ ! $(carriers RUNNING) ]]' 60
before=$(carriers | wc -l)
STEPS=4
array=$(LIMIT='' sweep 0-2 -p short --arena-plan=pp4,dp1,tp1)
ok "three without --time where MaxTime is 60 complete" wait_until '(( $(tasks_in $array COMPLETED) == 3 ))' 120
is "$(cat "$work"/lives."$array".* | sort | uniq -c | xargs)" "3 0 array" "on a pipeline, in one life"
is "$(task "$array" 0 TimeLimit)" 01:00:00 "each with the partition's limit"
carrier=$(carriers | tail -n 1)
is "$(($(carriers | wc -l) - before)) $(job_field "$carrier" TimeLimit)" '1 01:00:00' "which their one pipeline has, too"
ok "it ends" wait_until '[[ ! $(carriers RUNNING) ]]' 60
array=$(LIMIT=--time=60 sweep 0-1 -p short --arena-plan=pp4,dp1,tp1)
ok "two with --time=60 complete" wait_until '(( $(tasks_in $array COMPLETED) == 2 ))' 120
is "$(cat "$work"/lives."$array".* | sort | uniq -c | xargs)" "2 0 array" "on a pipeline"
echo 1000000 >"$work/steps.1"
array=$(LIMIT=--time=1 sweep 0-1 -p short --arena-plan=pp4,dp1,tp1)
ok "one that trains beyond its limit ends with it" wait_until '[[ $(task $array 1 JobState) == TIMEOUT ]]' 150
rm "$work/steps.1"

# ---- Slurm's order ---------------------------------------------------------------------------------------
rounds_pass() {
    local rounds
    rounds=$(arena stats --json | jq .rounds)
    wait_until "(( \$(arena stats --json | jq .rounds) >= $rounds + 3 ))"
}
alone() { # alone MINUTES: one on all four GPUs, until it is let go
    submit --time="$1" -o /dev/null --arena-launcher=arena-train --arena-model="$work/sibling.yaml" --arena-batch=2 --arena-gpus=4 "$work/trainer"
}
ok "no pipeline is left" wait_until '[[ ! $(carriers RUNNING) ]]' 60
full=$(hog a40 4)
ok "an ordinary job has all GPUs" wait_for_state "$full" RUNNING
above=$(alone 60)
echo 1000000 | tee "$work/steps.0" >"$work/steps.1"
array=$(LIMIT=--time=10 sweep 0-1 --arena-plan=pp4,dp1,tp1)
ok "a long job waits, and behind it siblings for minutes" wait_until '[[ $(arena explain $above --json | jq .promise.ends_by_s) =~ ^[0-9] && $(squeue -h -r -t PD -j $array | wc -l) == 2 ]]'
ok "rounds go by" rounds_pass
let_go "$full"
ok "the GPUs are free: the long job has them" wait_started "$above"
is "$(carriers RUNNING)$(tasks_in "$array" RUNNING)" 0 "and no pipeline has passed it"
let_go "$above"
ok "then the siblings train" wait_until '(( $(tasks_in $array RUNNING) == 2 ))' 60
carrier=$(carriers RUNNING)
below=$(alone 1)
ok "a short one waits behind them" wait_until '[[ $(arena_word $below state) =~ held|released ]]'
ok "rounds go by" rounds_pass
is "$(carriers RUNNING) $(tasks_in "$array" RUNNING) $(job_state "$below")" "$carrier 2 PENDING" "their pipeline gives way to nobody below"
scancel "$array" "$below"
rm "$work"/steps.[01]
ok "all are gone" wait_until '[[ ! $(squeue -h -t PD,R,CG) ]]' 60

# ---- what is not bound, and why --------------------------------------------------------------------------
sed 's/hidden: 96/hidden: 16/; s/sibling/fits/' "$work/sibling.yaml" >"$work/fits.yaml"
small=$(submit --time=20 -o /dev/null --array=0-1 --arena-array --arena-launcher=arena-train --arena-batch=2 --arena-model="$work/fits.yaml" \
    --wrap 'sleep 1000')
ok "tasks of a model that fits one device run by themselves" wait_until '(( $(tasks_in $small RUNNING) == 2 ))' 60
scancel "$small"
small=$(submit --time=20 -o /dev/null --array=0-5 --arena-array --arena-launcher=arena-train --arena-batch=2 --arena-gpus=1 --arena-model="$work/fits.yaml" \
    --wrap 'sleep 1000')
ok "others wait" wait_until '(( $(tasks_in $small RUNNING) == 4 && $(tasks_in $small PENDING) == 2 ))' 60
waiting=$(scontrol -o show job "$small" | sed -n 's/^JobId=\([0-9]*\) .* JobState=PENDING .*/\1/p' | head -n 1)
like "$(arena explain "$waiting" | tr -s ' \n' ' ')" 'Siblings: not bound: a member fits one device' "arena explain says why they share nothing"
scancel "$small"
noted=$(sbatch -o /dev/null --array=0-1 --arena-array --arena-launcher=megatron --arena-batch=2 --arena-model="$work/sibling.yaml" --wrap true 2>&1)
like "$noted" 'each task of the array runs by itself: launcher megatron trains no siblings' "another launcher is noted"
like "$(sweep 0-1 --arena-array=1)" "'1' is not yes, no or an integer from 2 to 1024" "a size is two at least"
scancel --me
ok "no node has suffered" clean_nodes
unlike "$(<"$cluster_dir/log/slurmctld.log")" 'internal fault' "nor has slurmctld"
done_testing
