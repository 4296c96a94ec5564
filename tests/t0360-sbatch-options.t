#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Every option of sbatch(1) that can delay, bound or place a job: a job of Arena's with one fixed shape
# has stock's outcome (state, reason, partition, time limit, and what its record keeps of the option), or
# is refused with a sentence that names the option. doc/sbatch-options.md has the table; its rows name
# the cases here. Nodes n1-n20 have 8 GPUs of type a40 each.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena

common=(-t 20 -o /dev/null -c2)
# What is said at submission may come after the id.
arena() {
    local out
    out=$(sbatch --parsable "${common[@]}" --arena-model=gpt2 --arena-launcher=env --arena-batch=64 --arena-gpus=1 --arena-types=a40 "$@" 2>&1) ||
        { echo "$out"; return 1; }
    grep -xE '[0-9]+' <<<"$out"
}
stock() { submit "${common[@]}" -N1 -n1 --gres=gpu:a40:1 "$@"; }
show() { scontrol -o show job; }

# ---- cases: name | options | what stock makes of it (a regular expression) -----------------------------
names=() options=() wanted=() stock_jobs=() arena_jobs=()
# same NAME OPTIONS WANTED [REFUSAL]: submits both; the outcomes are compared when all have settled. Later releases
# may refuse at submission, with REFUSAL: then they refuse both.
same() {
    local by_stock by_arena
    # shellcheck disable=SC2086  # options are words
    by_stock=$(stock $2 --wrap "${wrap:-sleep 3000}") by_arena=$(arena $2 --wrap "${wrap:-sleep 3000}")
    if [[ ${4-} && $by_stock == *[!0-9]* ]]; then
        like "$by_stock" "$4" "$1: stock refuses"
        like "$by_arena" "$4" "$1: and Arena lets it refuse"
        return
    fi
    names+=("$1") options+=("$2") wanted+=("$3") stock_jobs+=("$by_stock") arena_jobs+=("$by_arena")
    [[ ${stock_jobs[-1]}${arena_jobs[-1]} != *[!0-9]* ]] || diag "$1: ${stock_jobs[-1]} / ${arena_jobs[-1]}"
}
# refused NAME OPTIONS REGEX: Arena refuses with a sentence
refused() {
    local out
    # shellcheck disable=SC2086
    if out=$(arena $2 --wrap true); then
        fail "$1: refused" "JobId=$out was accepted"
        scancel "$out"
    else
        like "$out" "$3" "$1: refused with a sentence"
    fi
}
# said NAME OPTIONS REGEX: accepted, and a line says what Arena chooses instead
said() {
    # shellcheck disable=SC2086
    like "$(sbatch "${common[@]}" --arena-model=gpt2 --arena-launcher=env --arena-batch=64 --arena-gpus=1 $2 --wrap true 2>&1)" "$3" "$1: said at submission"
}

# State, then the reason of a waiting job, or partition and time limit of a running one.
outcomes() {
    show | awk '
        function field(key,   at, rest) {
            at = index(" " $0, " " key "=")
            if (!at) return ""
            rest = substr($0, at + length(key) + 1)
            sub(/ [A-Z][A-Za-z:\/]*=.*/, "", rest)
            return rest
        }
        {
            reason = field("Reason")
            gsub(/_/, " ", reason)
            sub(/^Arena: (not (startable|allowed): )?/, "", reason)
            out = field("JobState")
            if (out == "PENDING") out = out " " reason
            # Chance decides which of the two loops of Slurm starts a job: with the one limit or the other.
            limit = field("TimeMin") == "N/A" ? field("TimeLimit") : "between --time-min and --time"
            if (out == "RUNNING") out = out " " field("Partition") " " limit
            print field("JobId") "|" out
        }'
}
declare -A outcome=()
outcome_of() { echo "${outcome[$1]-}"; }
settle() {
    local i good=1 job what
    while IFS='|' read -r job what; do outcome[$job]=$what; done < <(outcomes)
    for i in "${!names[@]}"; do
        [[ ${outcome[${stock_jobs[i]}]-} =~ ^(${wanted[i]})$ && ${outcome[${arena_jobs[i]}]-} == "${outcome[${stock_jobs[i]}]}" ]] || good=0
    done
    ((good))
}

# What a record keeps of the options; of a waiting job without the shape, which Arena has still to write.
record() {
    scontrol -o show job "$1" 2>/dev/null | tr ' ' '\n' |
        grep -E '^(JobName|GroupId|MCS_label|Nice|Account|QOS|WCKey|Requeue|Restarts|Reboot|TimeMin|Deadline|Partition|ExcNodeList|Features|Prefer|ClusterFeatures|Licenses|Network|BurstBuffer|BatchFeatures|Power|Contiguous|CoreSpec|ThreadSpec|OverSubscribe|DelayBoot|Socks/Node|Switches|Reservation|Dependency|GresEnforceBind|KillOInInvalidDependent|CpusPerTres|NetworkBits|ReqNodeList|MinTmpDiskNode)=|^ReqB:S:C:T=' |
        sort
    # Bound to their sockets, GPUs get as many CPUs as are free there.
    [[ $2 != RUNNING* ]] || scontrol -o show job "$1" | tr ' ' '\n' | grep -E '^(NumNodes|NumTasks|CPUs/Task)='
    [[ $2 != RUNNING* || $3 == gres-flags ]] || scontrol -o show job "$1" | tr ' ' '\n' | grep '^NumCPUs='
}
compare() {
    local i stock arena
    ok "every case settles" wait_until settle "${SETTLE:-60}"
    settle || true   # ok runs what it checks in a shell of its own
    for i in "${!names[@]}"; do
        stock=$(outcome_of "${stock_jobs[i]}") arena=$(outcome_of "${arena_jobs[i]}")
        like "$stock" "^(${wanted[i]})$" "${names[i]}: stock"
        is "$arena" "$stock" "${names[i]}: Arena"
        [[ $stock != @(PENDING|RUNNING)* ]] ||
            is "$(record "${arena_jobs[i]}" "$stock" "${names[i]}")" "$(record "${stock_jobs[i]}" "$stock" "${names[i]}")" "${names[i]}: the record keeps it"
    done
}
nodes_are() { # NAME CASE REGEX: both jobs of the case stand there
    local i
    for i in "${!names[@]}"; do
        [[ ${names[i]} != "$1" ]] || like "$(job_field "${stock_jobs[i]}" NodeList) $(job_field "${arena_jobs[i]}" NodeList)" "^$2 $2$" "$1: on these nodes"
    done
}

start_cluster --nodes a40:20x8 --cpus 32 --arena on --profile off --conf-extra "Licenses=lic:1
DefMemPerCPU=100
SchedulerParameters=bf_interval=1,bf_resolution=1
PartitionName=pa Nodes=n1 State=UP
PartitionName=pshort Nodes=n2 State=UP MaxTime=10
PartitionName=pdown Nodes=n3 State=DOWN
PartitionName=phigh Nodes=n4 State=UP PriorityTier=10
PartitionName=pmaint Nodes=n12 State=UP"
scontrol update NodeName=n5 AvailableFeatures=fa,fb ActiveFeatures=fa,fb
scontrol update NodeName=n6 AvailableFeatures=fa,fc ActiveFeatures=fa,fc
scontrol update NodeName=n7 AvailableFeatures=fb,fc ActiveFeatures=fb,fc
scontrol update NodeName=n8,n10 AvailableFeatures=fd ActiveFeatures=fd
scontrol update NodeName=n[1-2,4-10] Weight=100   # taken last by jobs that may run anywhere
scontrol create reservation ReservationName=rsv Nodes=n11 StartTime=now Duration=infinite Users="$(id -un)" >/dev/null
scontrol create reservation ReservationName=mending Nodes=n12 StartTime=now+20minutes Duration=60 Users="$(id -un)" Flags=maint >/dev/null

# ---- what others depend on ----------------------------------------------------------------------------
base=$(stock -J single -L lic:1 --wrap 'sleep 3000')
bad=$(stock --wrap 'exit 1')
good=$(stock --wrap true)
ok "a job runs, with the license" wait_for_state "$base" RUNNING
ok "a job has failed" wait_for_state "$bad" FAILED
ok "a job has completed" wait_for_state "$good" COMPLETED

run='RUNNING main 00:20:00'
# ---- time ----------------------------------------------------------------------------------------------
same begin "--begin=now+1hour" "PENDING BeginTime"
same hold "--hold" "PENDING JobHeldUser"
same time "-t 7" "RUNNING main 00:07:00"
at=$(date -d +90minutes +%FT%T)
same deadline "--deadline=$at" "$run"
at=$(date -d +1859seconds +%FT%T)   # the limit is what is left at the start, in whole minutes
same "deadline without time" "-t 0 --deadline=$at" "RUNNING main 00:30:00" "time limit is invalid"
same "deadline that cannot be kept" "--deadline=now+5minutes" "DEADLINE" "time limit is invalid"
same "time-min" "--time-min=5" "RUNNING main between .*"
same "time-min, MaxTime" "-p pshort --time-min=5" "RUNNING pshort between .*"
same "time-min, reservation" "-p pmaint --time-min=5" "RUNNING pmaint between .*"
same "time, MaxTime" "-p pshort" "PENDING PartitionTimeLimit"
# ---- dependencies -----------------------------------------------------------------------------------------
same "dependency after" "-d after:$base" "$run"
same "dependency afterany" "-d afterany:$base" "PENDING Dependency"
same "dependency afterok" "-d afterok:$good" "$run"
same "dependency afterok of a failed job" "-d afterok:$bad" "PENDING DependencyNeverSatisfied"
same "dependency afternotok" "-d afternotok:$bad" "$run"
same "dependency or" "-d afterok:$bad?afterany:$good" "$run"
same "dependency and" "-d afterok:$good,afterany:$base" "PENDING Dependency"
same "dependency singleton" "-J single -d singleton" "PENDING Dependency"
same "kill-on-invalid-dep" "-d afterok:$bad --kill-on-invalid-dep=yes" "CANCELLED"
# ---- place -----------------------------------------------------------------------------------------------
same "partition" "-p pa" "RUNNING pa 00:20:00"
same "partition list" "-p pdown,pshort,pa" "RUNNING pa 00:20:00"
same "partition tier" "-p pa,phigh" "RUNNING phigh 00:20:00"
same "partition down" "-p pdown" "PENDING PartitionDown"
same "exclude" "-x n[1-8,10-20]" "$run"
same "constraint and" "-C fa&fb" "$run"
same "constraint or" "-C fb|fc -x n7" "$run"
same "constraint, from left to right" "-C fa&fb|fc -x n[5-6]" "$run"
same "constraint with parentheses" "-C (fb|fc)&fa" "$run"
same "prefer" "--prefer=fc -x n7" "$run"
same "reservation" "--reservation=rsv" "$run"
same "exclusive" "--exclusive -x n[1-13]" "$run"
same "exclusive user" "--exclusive=user -x n[1-13]" "$run"
same "exclusive mcs" "--exclusive=mcs -x n[1-13]" "$run"
same "oversubscribe" "-s" "$run"
same "contiguous" "--contiguous" "$run"
same "switches" "--switches=1@00:01" "$run"
same "core-spec" "-S 1" "$run"
same "thread-spec" "--thread-spec=1" "$run"
same "extra-node-info" "-B 1:1" "$run"
same "sockets-per-node" "--sockets-per-node=1" "$run"
same "cores-per-socket" "--cores-per-socket=1" "$run"
same "threads-per-core" "--threads-per-core=1" "$run"
same "hint" "--hint=nomultithread" "$run"
same "spread-job" "--spread-job" "$run"
same "use-min-nodes" "--use-min-nodes" "$run"
same "distribution" "-m cyclic" "$run"
same "gres-flags" "--gres-flags=enforce-binding" "$run"
same "overcommit" "-O" "$run"
same "cluster-constraint" "--cluster-constraint=x" "$run"
same "mcs-label" "--mcs-label=x" "$run"
# ---- rights, order, what else a record keeps ------------------------------------------------------------------
same "licenses" "-L lic:1" "PENDING Licenses"
same "account, qos, wckey" "-A acct -q normal --wckey=key" "$run"
same "nice" "--nice=7" "$run"
same "no-requeue" "--no-requeue" "$run"
same "requeue" "--requeue" "$run"
same "signal, open-mode, no-kill" "--signal=B:USR1@60 --open-mode=append --no-kill" "$run"
power=--power=level   # 24.11's --help has it, too, but not its sbatch
[[ $(sbatch --test-only --power=level --wrap true 2>&1) != *unrecognized* ]] || power=''
same "delay-boot, power, network, profile" "--delay-boot=1 $power --profile=none" "$run"
same "bb, bbf" "--bb=capacity=1" "$run"
same "propagate, mem-bind, gpu-freq, gpu-bind" "--propagate=NONE --mem-bind=none --gpu-freq=low --gpu-bind=none" "$run"
same "get-user-env" "--get-user-env=1S" "$run" "doesn't allow an argument"
same "batch" "-C fd --batch=fd" "$run"
((EUID != 0)) || ! id daemon >/dev/null 2>&1 || same "uid, gid" "--uid=daemon --gid=$(id -gn daemon) -D /" "$run"

compare
nodes_are exclude n9
nodes_are "constraint and" n5
nodes_are "constraint or" 'n[56]'
nodes_are "constraint, from left to right" n7
nodes_are "constraint with parentheses" 'n[56]'
nodes_are prefer n6
nodes_are reservation n11

# ---- refused ------------------------------------------------------------------------------------------------
refused array "-a 0-3" "job array cannot be an Arena job"
refused nodelist "-w n1" "--nodelist cannot be combined with Arena"
refused "gpus" "-G 1" "--gpus cannot be combined with Arena"
refused "gres" "--gres=gpu:1" "--gres .* cannot be combined with Arena"
refused "gpus-per-node" "--gpus-per-node=1" "--gpus-per-node.* cannot be combined with Arena"
refused "gpus-per-task" "--gpus-per-task=1 -n1" "--gpus-per-task cannot be combined with Arena"
refused "gpus-per-socket" "--gpus-per-socket=1 --sockets-per-node=1" "--gpus-per-socket cannot be combined with Arena"
refused "constraint with brackets" "-C [fa|fb]" "--constraint with brackets or counts"
refused "constraint with counts" "-C fa*1&fb*1" "--constraint with brackets or counts"
refused "mincpus" "--mincpus=3" "--mincpus cannot be combined with Arena"
((EUID != 0)) || refused "priority" "--priority=5" "--priority cannot be combined with Arena"

refused "mem-per-gpu" "--mem-per-gpu=1G" "[Mm]emory|mem-per-gpu|GPU"
refused "invalid partition" "-p nosuch" "[Pp]artition"
refused "invalid reservation" "--reservation=nosuch" "[Rr]eservation"
refused "invalid feature" "-C nosuch" "[Ff]eature"
refused "invalid license" "-L nosuch" "[Ll]icense"

# ---- chosen by Arena, and said so ---------------------------------------------------------------------------
said "nodes" "-N 2" "numbers of nodes and tasks are chosen by Arena"
said "ntasks" "-n 3" "numbers of nodes and tasks are chosen by Arena"
said "ntasks-per-node" "--ntasks-per-node=2" "numbers of nodes and tasks are chosen by Arena"
said "ntasks-per-socket" "--ntasks-per-socket=1" "numbers of nodes and tasks are chosen by Arena"
said "ntasks-per-core" "--ntasks-per-core=1" "numbers of nodes and tasks are chosen by Arena"

# ---- deadline of a job that has to wait -------------------------------------------------------------------------
squeue -h -o %i | xargs -r scancel
# shellcheck disable=SC2016  # evaluated by wait_until
ok "the queue empties" wait_until '[[ ! $(squeue -h -o %i) ]]'
full=$(submit -o /dev/null -t 20 -p pa --exclusive --wrap 'sleep 3000')
ok "a partition is full" wait_for_state "$full" RUNNING
late_stock=$(stock -p pa -t 1 --deadline=now+80seconds --wrap 'sleep 3000')
late_arena=$(arena -p pa -t 1 --deadline=now+80seconds --wrap 'sleep 3000')
ok "stock's job is over when it cannot end in time" wait_for_state "$late_stock" DEADLINE 40
ok "so is Arena's" wait_for_state "$late_arena" DEADLINE 40
is "$(job_reason "$late_arena")" "$(job_reason "$late_stock")" "with the same reason"
done_testing
