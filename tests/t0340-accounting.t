#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Accounting enforced by a real slurmdbd: a service user without an association (no profile run, an
# estimate that says why), and limits of an account that an Arena job's shape would break. Arena writes
# the shape in the user's place and may give the job nothing that the user could not have had. Needs root:
# the users of the test are not the operator that runs it.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
need_accounting

start_arena --nodes a40:2x4 --profile on --accounting associations,limits,qos --priority multifactor \
    --arena-set profile.budget_s=20 --arena-set profile.retries=1 --arena-set profile.backoff_s=600
log=$cluster_dir/log/slurmctld.log
in_log() { grep -q "$1" "$log"; }
# account NAME=VALUE...: limits of the account; -1 takes one away. slurmdbd tells slurmctld by itself.
account() { sacctmgr -i modify account main set "$@"; }
known() { wait_until "scontrol show assoc_mgr flags=assoc accounts=main | grep -q '$1'"; }
# as the user, in the account main
ask() { as_user sbatch --parsable --time=10 -o /dev/null --chdir=/ --arena-model=gpt2 --arena-launcher=env --arena-batch=64 --arena-gpus="$1" "${@:2}" "$work/trainer"; }
hold_gpus() { as_user sbatch --parsable --time=60 -o /dev/null --chdir=/ --gres="gpu:a40:$1" -n1 "${@:2}" --wrap 'sleep 3000'; }
asked() { job_field "$1" TresPerNode; }
over() { let_go "$1"; wait_for_state "$1" COMPLETED; }

# ---- associations ---------------------------------------------------------------------------------
of_arena() { scontrol show assoc_mgr flags=assoc users=arena | grep -c 'UserName=arena'; }
ok "the service user of a private cluster has its association" wait_until '(($(of_arena) > 0))'
like "$(arena doctor)" 'ok +association: arena in main' "arena doctor is content"
ok "which a site may lack" sacctmgr -i delete user arena
ok "and slurmctld knows" wait_until '(($(of_arena) == 0))'
like "$(ask 1 2>&1)" 'Invalid account' "a user without an association is refused by Slurm itself"
ok "the user gets an association" sacctmgr -i add user "$arena_user" account=main
ok "and slurmctld knows" wait_until '[[ $(as_user sbatch --test-only --wrap true 2>&1) != *Invalid* ]]'
job=$(ask 1-2)
ok "a job of an unknown model starts although its profile run is refused" wait_started "$job"
like "$(arena_word "$job" source)" '^analytic$' "on the analytic estimate"
like "$(job_field "$job" SystemComment)" 'not measured: a40: .*Invalid account' "and says why in SystemComment"
like "$(arena explain "$job")" 'Not measured, .*a40: .*Invalid account' "and in arena explain"
is "$(squeue -h -n arena-profile -t all -o %i | wc -l)" 0 "no carrier was left behind"
ok "it completes" over "$job"
doctor=$(arena doctor)
like "$doctor" 'FAIL +association: AccountingStorageEnforce=.*, and arena has none: no profile run is accepted' "arena doctor says so, too"
remedy=$(grep -A1 'FAIL  association' <<<"$doctor" | sed -n '2s/^ *//p')
is "$remedy" 'sacctmgr -i add user arena account=main' "and what to do"
ok "the service user gets an association" eval "$remedy"
like "$(arena doctor)" 'ok +association: arena in main' "arena doctor is content"
ok "a reconfigure forgets failed profile runs" scontrol reconfigure
job=$(ask 1-2)
ok "now the next job waits for its profile" wait_for_reason "$job" 'profiling.gpt2'
ok "and starts" wait_started "$job" 1 60
ok "with it" in_log 'profiled gpt2 on a40'
unlike "$(job_field "$job" SystemComment)" 'not measured' "and nothing to explain"
ok "it completes" over "$job"

# ---- who pays for a profile run ---------------------------------------------------------------------
# model SIZE: one of its own, of which nothing is known
model() { printf '%s\n' "name: m$1" 'family: gpt' 'layers: 2' "hidden: $1" 'heads: 4' 'vocab: 1024' 'seq_length: 64' 'precision: fp32' >"$work/m$1.yaml"; }
# for_project SIZE OPTIONS...: a job of one GPU, in the account project
for_project() { as_user sbatch --parsable -A project -o /dev/null --chdir=/ --arena-model="$work/m$1.yaml" --arena-batch=8 --arena-gpus=1 "${@:2}" "$work/trainer"; }
usage() { sshare -n -P -A project -o RawUsage | head -n 1; }
paid() { sacct -a -n -X -P -S now-1hour --name arena-profile -o Account,User,State,ElapsedRaw | grep -qE "^project\|arena\|($1)"; }
model 132
model 136
ok "the user works in another account, too" sacctmgr -i add account project
ok "as does the service user" sacctmgr -i add user "$arena_user,arena" account=project
ok "and slurmctld knows" wait_until '[[ $(as_user sbatch -A project --test-only --wrap true 2>&1) != *Invalid* ]]'
is "$(usage)" 0 "nothing was used in it"
job=$(for_project 132 --time=10)
ok "a job of the account waits for its profile" wait_for_reason "$job" 'profiling.m132'
carrier=$(squeue -h -n arena-profile -t all -o %i | sort -n | tail -n 1)   # its run may be over
is "$(job_field "$carrier" Account)" project "the profile run is in its account"
like "$(job_field "$carrier" UserId)" '^arena\(' "and the service user's job"
ok "it takes its time" wait_until '[[ $(job_field "$carrier" RunTime) > 00:00:00 ]]'
scancel "$job"   # and the run with it, if it is not over
ok "and charged to it in slurmdbd" wait_until 'paid "COMPLETED|CANCELLED"' 60
ok "and in fair share, though the job itself never ran" wait_until '(($(usage) > 0))' 60
ok "the account allows jobs of one minute" sacctmgr -i modify account project set MaxWall=1
ok "and slurmctld knows" wait_until "scontrol show assoc_mgr flags=assoc accounts=project | grep -q 'MaxWallPJ=1'"
job=$(for_project 136 --time=1)
ok "a job whose profile run would break a limit of its account starts" wait_started "$job"
like "$(job_field "$job" SystemComment)" 'not measured: a40: .*AssocMaxWallDurationPerJobLimit' "and says which"
ok "it completes" over "$job"
job=$(as_user sbatch --parsable --time=10 -o /dev/null --chdir=/ --arena-model="$work/m136.yaml" --arena-batch=8 --arena-gpus=1 "$work/trainer")
unlike "$(grep 'no profile run starts on' "$log" | tail -n 1)" 'AssocMaxWall' "nobody else is refused for it"
scancel "$job"

# ---- limits of one job -----------------------------------------------------------------------------
ok "a job may have 8 CPUs" account MaxTRESPerJob=cpu=8
ok "and slurmctld knows" known 'MaxTRESPJ=cpu=8'
job=$(ask 1-8)
ok "a job of 1 to 8 GPUs, of 4 CPUs each, starts" wait_started "$job" 1 40
is "$(asked "$job") $(job_field "$job" NumCPUs)" "gres:gpu:a40:2 8" "with the two GPUs whose CPUs it may have"
ok "it completes" over "$job"
job=$(ask 4)
ok "one of 4 GPUs does not, and the limit is its reason" wait_for_reason "$job" '^Arena: not allowed: AssocMaxCpuPerJobLimit$'
is "$(starts "$job")" 0 "it has not started"
ok "the limit is lifted" account MaxTRESPerJob=cpu=-1
ok "and it starts" wait_started "$job" 1 60
ok "it completes" over "$job"
is "$(grep -c 'error: arena: JobId=.*not allowed' "$log")" 0 "a limit is no error in the log"

# ---- limits of all together, and waiting -----------------------------------------------------------
ok "the account may have 4 GPUs at once" account GrpTRES=gres/gpu=4
ok "and slurmctld knows" known 'GrpTRES=.*,gres/gpu=4('
first=$(hold_gpus 3)
ok "an ordinary job has three" wait_for_state "$first" RUNNING
job=$(ask 1-4)
ok "an Arena job of 1 to 4 takes what is left of the limit" wait_started "$job" 1 40
is "$(asked "$job")" gres:gpu:a40:1 "one GPU, though five are free"
more=$(ask 2)
ok "one of two waits for the limit" wait_for_reason "$more" '^Arena: not allowed: AssocGrpGRES$'
scancel "$first"
ok "and starts as soon as the ordinary job has ended" wait_started "$more"
ok "the first completes" over "$job"
ok "the other completes" over "$more"
ok "the limit is lifted" account GrpTRES=gres/gpu=-1 MaxTRESPerJob=cpu=16
ok "and slurmctld knows" known 'MaxTRESPJ=cpu=16'

full=$(submit -N2 --exclusive -A root -t 30 -o /dev/null --wrap 'sleep 3000')
ok "the cluster is full" wait_for_state "$full" RUNNING
job=$(ask 2-8)
ok "a job that waits is released with a shape that its limit allows" \
    wait_until "[[ \$(job_field $job Priority) != 0 && \$(asked $job) == gres:gpu:a40:[24] ]]" 40   # as its user's past has it
like "$(job_field "$job" NumNodes)" '^1(-1)?$' "on one node"
scancel "$full"
ok "and starts with it" wait_started "$job"
like "$(job_field "$job" NumCPUs)" '^(8|16)$' "within its limit"
ok "it completes" over "$job"
is "$(grep 'underflow' "$log")" "" "slurmctld's own accounts of usage and age come out even"
ok "no node is left drained" clean_nodes

# ---- what Slurm refuses at submission, not only delays ---------------------------------------------------
ok "a QOS denies what is over its limit" sacctmgr -i add qos small MaxTRESPerJob=gres/gpu=2 Flags=DenyOnLimit
ok "the user may have it" sacctmgr -i modify user "$arena_user" set qos+=small
ok "and slurmctld knows" wait_until 'as_user sbatch --test-only --qos=small --wrap true'
like "$(hold_gpus 4 --qos=small 2>&1)" 'violates accounting/QOS policy' "stock refuses 4 GPUs of it"
like "$(ask 4 --qos=small 2>&1)" \
    'at least 4 GPUs are asked for; QOS small \(MaxTRESPerJob gres/gpu=2, DenyOnLimit\) allows a job 2' "so does Arena"
job=$(ask 1-4 --qos=small)
ok "a range within it is accepted and starts" wait_started "$job"
ok "it completes" over "$job"

# ---- nothing is lost when slurmdbd is ------------------------------------------------------------------
ok "slurmdbd is killed" cluster dbd kill
job=$(ask 1)
ok "a job starts without it" wait_started "$job"
ok "slurmdbd starts again" cluster dbd start
ok "the job completes" over "$job"
done_testing
