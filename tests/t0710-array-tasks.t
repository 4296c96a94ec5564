#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Job arrays with --arena-array on a real slurmctld: one record until tasks are split off it, each of which is
# then an Arena job: its mark and request, %K, cancelling, output, exit code, dependencies, requeueing,
# slurmctld killed in between, and, with a slurmdbd, what sacct says of each task. What holds: doc/arrays.md.
# shellcheck disable=SC2016,SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
accounting=()
for program in mariadbd slurmdbd sacctmgr; do
    command -v "$program" >/dev/null || { accounting=(none) && break; }
done
if [[ ${accounting-} || $EUID != 0 ]]; then accounting=(); else accounting=(--accounting associations --priority multifactor); fi
start_arena --nodes a40:2x2,h100:1x1,l4:1x2 --arena-set array.enabled=true --arena-set array.max_members=6 --arena-set resize.checkpoint_grace_s=3 \
    --conf-extra MaxArraySize=100001 "${accounting[@]}"
log=$cluster_dir/log/slurmctld.log

# tasks ARRAY STATE: numbers of its tasks that have a record of their own and are in that state, in order; squeue
# shows waiting ones together, whatever records they have
tasks() {
    scontrol -o show job "$1" 2>/dev/null | sed -n "s/.* ArrayTaskId=\([0-9]*\) .* JobState=$2 .*/\1/p" | sort -n | paste -sd ' '
}
# rest ARRAY: the numbers that its common record stands for
rest() { scontrol -o show job "$1" 2>/dev/null | sed -n 's/.* ArrayTaskId=\([0-9]*[-,][^ ]*\) .*/\1/p'; }
count() { tasks "$1" "$2" | wc -w; }
# id_of ARRAY TASK: the task's own id
id_of() { scontrol -o show job "$1_$2" 2>/dev/null | sed -n 's/^JobId=\([0-9]*\) .*/\1/p'; }
array() { local type=$1 tasks=$2; shift 2; train "$type" --arena-array --array="$tasks" --arena-gpus=1 "$@"; }
records() { scontrol -o show job | grep -c "ArrayJobId=$1 "; }

# ---- one record, split as far as tasks may take turns ----------------------------------------------
array=$(array a40 0-11 -J siblings) || BAIL_OUT "no array: $array"
ok "as many tasks run as the four GPUs take" wait_until '(( $(count $array RUNNING) == 4 ))' 30
is "$(tasks "$array" RUNNING)" '0 1 2 3' "the lowest numbers first"
ok "beside them as many wait as array.max_members allows" wait_until '(( $(count $array PENDING) == 2 ))'
is "$(records "$array")" 7 "six tasks have records, the others one together"
is "$(rest "$array")" 6-11 "which is Slurm's own"
is "$(squeue -h -t PENDING -j "$array" -o %i)" "${array}_[4-11]" "and which squeue shows with those that wait by themselves"
ok "the record says what it waits for" wait_until '[[ $(job_reason $array) == *"Arena: waits for earlier tasks of its array: at most 6 "* ]]'
first=$(id_of "$array" 0)
isnt "$first" "$array" "a task has an id of its own"
like "$(job_field "$first" AdminComment)" '^arena:v1 state=running ' "and Arena's comment"
like "$(arena explain "$first")" 'running' "arena explain knows it"
like "$(<"$gates/$first.env.0")" 'ARENA_PP=1' "its plan is in its environment"
like "$(last_start "$first")" '^0 1 1 1$' "on one GPU"

# ---- slurmctld killed with tasks split, waiting and running --------------------------------------------
states() { scontrol -o show job "$array" | sed 's/.* ArrayTaskId=\([^ ]*\) .* JobState=\([A-Z]*\) .*/\1 \2/' | sort; }
before=$(states)
ok "the state is saved" wait_saved
cluster ctld kill
cluster ctld start
cluster wait
is "$(states)" "$before" "after kill -9 of slurmctld every task is as it was"
is "$(records "$array")" 7 "in as many records"

# ---- tasks are ordinary jobs ------------------------------------------------------------------------
ok "a running task is cancelled by its number" scancel "${array}_1"
ok "and so is one that waits in the common record" scancel "${array}_11"
fifth=$(id_of "$array" 4)
ok "the next task starts in its place" wait_started "$fifth" 1 40
after_four=$(submit --time=1 -o /dev/null --gres=none --dependency="afterok:${array}_4" --wrap true)
after_two=$(submit --time=1 -o /dev/null --gres=none --dependency="afternotok:${array}_2" --wrap true)
let_go "$(id_of "$array" 2)" 3
let_go "$fifth"
ok "afterok of a task is honoured" wait_for_state "$after_four" COMPLETED 40
ok "and afternotok" wait_for_state "$after_two" COMPLETED 40
ok "a task that exits 3 has failed" wait_until '[[ $(scontrol -o show job ${array}_2) == *"JobState=FAILED"*"ExitCode=3:0"* ]]'
requeued=$(id_of "$array" 0)
ok "a task is requeued by its number" scontrol requeue "${array}_0"
is "$(tasks "$array" RUNNING | tr ' ' '\n' | grep -cx 3)" 1 "the others are not"
all_over() { let_running_go; [[ ! $(squeue -h -j "$array" -o %i) ]]; }
let_running_go() {
    local id
    for id in $(squeue -h -a -t RUNNING -j "$array" -o %A); do [[ -e $gates/$id.go ]] || let_go "$id"; done
}
ok "all others come to their end" wait_until all_over 90
is "$(starts "$requeued")" 2 "the requeued one has started twice"
is "$(scontrol -o show job "$array" | grep -c 'JobState=COMPLETED')" 9 "nine completed"
is "$(scontrol -o show job "$array" | grep -c 'JobState=FAILED')" 1 "one failed"
last=$(scontrol -o show job "${array}_10" | sed -n 's/^JobId=\([0-9]*\) .*/\1/p')
is "$last" "$array" "the last task kept the array's id"
is "$(starts "$last")" 1 "and ran once"

# ---- %K ---------------------------------------------------------------------------------------------
throttled=$(array l4 0-4%1 -o "$work/out-%A-%a")
ok "one task of %1 runs" wait_until '(( $(count $throttled RUNNING) == 1 ))' 30
wait_rounds h100
is "$(count "$throttled" RUNNING)" 1 "and no other, although a GPU is free"
is "$(rest "$throttled")" "1-4%1" "the others keep their common record"
scontrol update JobId="$throttled" ArrayTaskThrottle=2
ok "with another limit another task runs" wait_until '(( $(count $throttled RUNNING) == 2 ))' 30
scontrol hold "${throttled}_3"
array=$throttled
all_but_one() { let_running_go; [[ $(squeue -h -j "$throttled" -o '%K') == 3 ]]; }
ok "a task that its user holds keeps nobody waiting" wait_until all_but_one 60
is "$(ls "$work"/out-"$throttled"-* 2>/dev/null | wc -l)" 4 "each of them wrote to its own file"
scontrol release "${throttled}_3"
ok "released, it runs as well" wait_until 'let_running_go; [[ ! $(squeue -h -j $throttled -o %i) ]]' 60

# ---- the last task, whose id is the array's: Arena requeues it alone ------------------------------------
array=$(array l4 0-1 --arena-elastic)
ok "both tasks of an array run" wait_until '(( $(count $array RUNNING) == 2 ))' 30
is "$(id_of "$array" 1)" "$array" "the last one has the array's id"
other=$(id_of "$array" 0)
touch "$gates/$array.deaf"
ok "its user asks for another shape of the last one" scontrol update JobId="${array}_1" Comment=arena:gpus=2
ok "deaf to the signal, it is requeued" wait_until '[[ $(tasks $array PENDING) == 1 ]]' 60
is "$(job_state "$other") $(starts "$other")" "RUNNING 1" "the other one runs on"
let_go "$other"
ok "then it has its place" wait_started "$array" 2 60
like "$(last_start "$array")" '^1 . 1 2$' "with both GPUs"
ok "and ends" wait_until 'let_running_go; [[ ! $(squeue -h -j $array -o %i) ]]' 60

# ---- aftercorr, hold, many --------------------------------------------------------------------------
corresponding=$(array l4 0-1)
follows=$(array l4 0-1 --dependency="aftercorr:$corresponding")
ok "aftercorr: the first array runs" wait_until '(( $(count $corresponding RUNNING) == 2 ))' 30
let_go "$(id_of "$corresponding" 1)"
ok "task 1 of the second starts when task 1 of the first has completed" wait_until '[[ $(tasks $follows RUNNING) == 1 ]]' 40
scancel "$corresponding" "$follows"
held=$(array h100 0-3 --hold)
wait_rounds h100
is "$(records "$held")" 1 "an array that its user holds stays one record"
scontrol release "$held"
ok "released, its first task runs" wait_until '[[ $(tasks $held RUNNING) == 0 ]]' 40
scancel "$held"
many=$(array h100 0-9999)
ok "of 10000 tasks one runs" wait_until '(( $(count $many RUNNING) == 1 ))' 60
is "$(records "$many")" 7 "and the record of the others is one"
scancel "$many"
ok "they are cancelled at once" wait_until '[[ ! $(squeue -h -j $many -o %i) ]]' 60
like "$(array h100 0-200000)" 'Invalid job array specification' "more than MaxArraySize is refused by Slurm"
unlike "$(<"$log")" 'internal fault|array_recs|underflow|task_id_bitmap' "slurmctld complains of no array"
ok "no node has suffered" clean_nodes

# ---- accounting --------------------------------------------------------------------------------------
if ((${#accounting[@]})); then
    accounted() { sacct -n -X -P -S now-1hour --name siblings -o JobID,State,ExitCode | sort -t_ -k2n; }
    wanted="0 COMPLETED|1 CANCELLED|2 FAILED"
    ok "sacct has each of the eleven tasks that began once" wait_until '(( $(accounted | grep -cE "_[0-9]+\|") == 11 ))' 40
    got=$(accounted | sed 's/^[0-9]*_//' | cut -d'|' -f1,2 | sed 's/ by .*//' | tr '|' ' ' | head -n 3 | paste -sd '|')
    is "$got" "$wanted" "with its own state"
    is "$(accounted | grep -c 'COMPLETED|0:0')" 9 "nine completed"
    is "$(accounted | grep -c 'FAILED|3:0')" 1 "one failed with 3"
else
    skip 4 "no slurmdbd can be had"
fi
done_testing
