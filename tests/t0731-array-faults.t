#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Siblings on one pipeline when things go wrong, in a real cluster: slurmctld killed at ten points of their life, a pipeline
# that is lost twice, two users, limits of an account, and what cannot be shared.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/siblings.sh"
need_siblings
need_accounting
start_siblings --accounting associations,limits,qos --conf-extra MaxArraySize=100001 --conf-extra MaxJobCount=200000
ok "users get an association" sacctmgr -i add user "root,arena,$arena_user" account=main
ok "and slurmctld knows" wait_until '[[ $(as_user sbatch --test-only --wrap true 2>&1) != *Invalid* ]]'
log=$cluster_dir/log/slurmctld.log
kill_slurmctld() { cluster ctld kill && cluster ctld start && cluster wait; }
plan=--arena-plan=pp4,dp1,tp1
# each_step_once ARRAY TASKS STEPS: no step is missing, and none was done twice with another loss
each_step_once() {
    local i
    for ((i = 0; i < $2; ++i)); do
        [[ $(jq -c 'select(has("loss")) | .step' "$work/log.$1.$i" | sort -nu | xargs) == "$(seq -s' ' "$3")" &&
            $(jq -c 'select(has("loss")) | [.step, .loss]' "$work/log.$1.$i" | sort -u | wc -l) == "$3" ]] && continue
        echo "member $i:"
        cat "$work/log.$1.$i"
        return 1
    done
}

# ---- slurmctld is killed at ten points ----------------------------------------------------------------
# What ends in the seconds before a kill is forgotten by stock Slurm, too, and missed by it after many minutes only: no member
# ends before it may, and ends are saved.
export STEPS=150
touch "$work/hold"
array=$(sweep 0-3 "$plan") || BAIL_OUT "no array: $array"
ok "it is saved" wait_saved
ok "1: killed once the array is submitted" kill_slurmctld
ok "a pipeline is made" wait_until '[[ $(carriers RUNNING) ]]' 60
ok "2: killed between the start of the pipeline and its members'" kill_slurmctld
ok "a member runs" wait_until '(( $(tasks_in $array RUNNING) >= 1 ))' 90
ok "3: killed then" kill_slurmctld
ok "all run, or have run" wait_until '(( $(tasks_in $array RUNNING) + $(tasks_in $array COMPLETED) == 4 ))' 90
ok "it is saved" wait_saved
ok "4: killed while they train" kill_slurmctld
rm "$work/hold"
ok "all complete" wait_until '(( $(tasks_in $array COMPLETED) == 4 ))' 120
ok "that is saved" wait_saved
ok "5: killed when the pipeline is to end" kill_slurmctld
ok "it ends" wait_until '[[ ! $(carriers RUNNING) ]]' 90
ok "each step was done once" each_step_once "$array" 4 150

STEPS=8
echo 1000000 >"$work/steps.3"
array=$(sweep 0-3 "$plan")
ok "another array trains" wait_until '(( $(tasks_in $array RUNNING) + $(tasks_in $array COMPLETED) == 4 ))' 90
carrier=$(carriers RUNNING)
ok "it is saved" wait_saved
ok "three complete" wait_until '(( $(tasks_in $array COMPLETED) == 3 ))' 90
ok "that is saved" wait_saved
ok "6: killed then" kill_slurmctld
is "$(task "$array" 3 JobState) $(carriers RUNNING)" "RUNNING $carrier" "the fourth trains on, on the same pipeline"
# While slurmctld is away: of what it heard of and had not saved it would know nothing, as stock Slurm.
serving() { all_processes | xargs -r ps -o pid=,args= -p | sed -n 's/^ *\([0-9]*\) .*arena-train.*--array-serve.*/\1/p'; }
die_unseen() {
    local pids
    pids=$(serving)
    [[ $pids ]] || { echo "no rank of a pipeline runs"; return 1; }
    # shellcheck disable=SC2086 # several
    cluster ctld kill && kill -KILL $pids && cluster ctld start && cluster wait
}
ok "7: killed, and the pipeline dies before it is back" die_unseen
ok "the last one is bound anew or runs alone" wait_until '[[ $(task $array 3 Restarts) == 1 && $(task $array 3 JobState) == RUNNING ]]' 120
ok "it is saved" wait_saved
scontrol update JobId="${array}_3" TimeLimit=30 >/dev/null
ok "8: killed after its limit was changed" kill_slurmctld
ok "it is cancelled" scancel "${array}_3"
ok "9: killed at once" kill_slurmctld
# A slurmctld that has forgotten whom it cancelled hears from the node that a signal has ended the job: failed, as in stock Slurm.
ok "it is over all the same, now or once more" wait_until 'scancel -Q ${array}_3; [[ $(task $array 3 JobState) =~ ^(CANCELLED|FAILED)$ ]]' 60 ||
    diag "$(scontrol -o show job "${array}_3")"
ok "nothing holds the GPUs" wait_until '[[ ! $(carriers RUNNING) ]]' 100
rm "$work/steps.3"
array=$(sweep 0-3 "$plan" --begin=now+4)
scontrol hold "$array"
ok "it is saved" wait_saved
ok "10: killed while the array is held" kill_slurmctld
scontrol release "$array"
ok "released, it completes" wait_until '(( $(tasks_in $array COMPLETED) == 4 ))' 150
ok "each step was done once" each_step_once "$array" 4 8
ok "the pipeline ends" wait_until '[[ ! $(carriers RUNNING) ]]' 90

# ---- what is lost twice is not bound again ------------------------------------------------------------
STEPS=1000000
array=$(sweep 0-1 "$plan")
for life in 1 2; do
    ok "life $life: both train" wait_until "((\$(grep -cx '$((life - 1)) array' <(cat $work/lives.$array.[01] 2>/dev/null)) == 2 && \$(tasks_in $array RUNNING) == 2))" 120
    for i in 0 1; do
        before=$(grep -c '"loss"' "$work/log.$array.$i" 2>/dev/null)
        ok "member $i is taught" wait_until "((\$(grep -c '\"loss\"' $work/log.$array.$i 2>/dev/null) > ${before:-0}))" 60
    done
    scancel --signal=KILL "$(carriers RUNNING)"
done
ok "after two losses one runs by itself" wait_until "grep -qx '2 ' $work/lives.$array.[01]" 120
waiting() { scontrol -o show job "$array" | sed -n 's/^JobId=\([0-9]*\) .* JobState=PENDING .*/\1/p' | head -n 1; }
ok "arena explain says why of the other one" wait_until \
    'arena explain "$(waiting)" 2>&1 | tr -s " \n" " " | grep -q "not bound any more: what trained it with its siblings has ended 2 times"' 60
scancel "$array"
ok "the array is cancelled" wait_until '(( $(tasks_in $array CANCELLED) == 2 ))' 60

# ---- limits of the account --------------------------------------------------------------------------------
export STEPS=4
account() { sacctmgr -i modify account main set "$@" >/dev/null; }
limited() { wait_until "scontrol show assoc_mgr flags=assoc accounts=main | grep -q '$1'"; }
mkdir "$work/theirs"
chown "$arena_user" "$work/theirs"
chmod 755 "$work"
cp "$work/sibling.yaml" "$work/theirs/"
their_sweep() {
    SWEEP_DIR=$work/theirs as_user sbatch --parsable --time=20 -o "$work/theirs/out-%A-%a" --chdir="$work/theirs" --array="$1" --arena-array \
        --arena-launcher=arena-train --arena-model="$work/sibling.yaml" --arena-batch="$2" "${@:3}" "$work/sweep.sh"
}
ok "an account may have one job at a time" account MaxJobs=1
ok "slurmctld knows" limited 'MaxJobs=1('
array=$(their_sweep 0-1 4 "$plan")
ok "its members run one by one" wait_until '(( $(tasks_in $array COMPLETED) == 2 ))' 240
is "$(cat "$work"/theirs/lives."$array".[01] | sort | uniq -c | xargs)" "2 0" "by themselves"
ok "the limit is lifted" account MaxJobs=-1 GrpTRES=gres/gpu=3
ok "an account may have three GPUs" limited 'GrpTRES=.*gres/gpu=3('
array=$(their_sweep 0-1 4 "$plan")
ok "the reason names the limit" wait_until "scontrol -o show job $array | grep -qE 'Reason=[^ ]*(Assoc|Arena: [^=]*Assoc)'" 60
is "$(tasks_in "$array" RUNNING)/$(carriers RUNNING | wc -l)" 0/0 "a pipeline of four does not start"
scancel "$array"
ok "the limit is lifted" account GrpTRES=gres/gpu=-1
ok "slurmctld knows" limited 'GrpTRES=.*gres/gpu=N('

# ---- two users ----------------------------------------------------------------------------------------------
STEPS=1000000
array=$(sweep 0-1 "$plan")
# Another batch: what a limit refused above is not tried again for five minutes.
theirs=$(their_sweep 0-1 2 "$plan")
ok "one array trains" wait_until '(( $(tasks_in $array RUNNING) == 2 ))' 90
first=$(carriers RUNNING)
like "$(job_field "$first" UserId)" "^root" "in a job of its user"
is "$(tasks_in "$theirs" RUNNING)" 0 "the other user's tasks are not in it"
scancel "$array"
ok "once it is over theirs train" wait_until '(( $(tasks_in $theirs RUNNING) == 2 ))' 120
isnt "$(carriers RUNNING)" "$first" "on another pipeline"
like "$(job_field "$(carriers RUNNING)" UserId)" "^$arena_user" "which is their user's"
unlike "$(as_user scontrol -d show job)" "ARENA_ARRAY_KEY" "the key of neither stands in a record"
scancel "$theirs"
ok "it ends" wait_until '[[ ! $(carriers RUNNING) ]]' 100

# ---- what cannot be shared ----------------------------------------------------------------------------------
STEPS=4
like "$(sweep 0-99999 --hold)" '^[0-9]+$' "an array of 100,000 is taken"
huge=$(squeue -h -a -t PD -o %A | sort -n | tail -n 1)
is "$(scontrol -o show job "$huge" | wc -l)" 1 "as one record"
like "$(squeue -h -j "$huge" -o %i)" "_\\[0-99999\\]|_\\[0-[0-9,.]*" "which squeue shows so"
ok "and cancelled" scancel "$huge"
like "$(sweep 0-100001)" 'Invalid job array specification' "one beyond MaxArraySize is refused by Slurm"
sed 's/tied_embedding: false/tied_embedding: true/; s/sibling/tied/' "$work/sibling.yaml" >"$work/tied.yaml"
tied=$(submit --time=20 -o /dev/null --array=0-1 --arena-array --arena-launcher=arena-train --arena-batch=2 --arena-gpus=4 --arena-model="$work/tied.yaml" \
    --wrap 'sleep 1000')
ok "a tied model's tasks run by themselves" wait_until '(( $(tasks_in $tied RUNNING) == 1 ))' 60
waiting=$(scontrol -o show job "$tied" | sed -n 's/^JobId=\([0-9]*\) .* JobState=PENDING .*/\1/p' | head -n 1)
like "$(arena explain "$waiting" | tr -s ' \n' ' ')" 'not bound: the model ties its output head' "arena explain says why"
scancel "$tied"
ok "no node has suffered" clean_nodes
unlike "$(<"$log")" 'internal fault' "nor has slurmctld"
done_testing
