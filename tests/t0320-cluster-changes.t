#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The cluster changes under Arena's feet: reconfiguration during rounds, a broken arena.yaml, drained and
# lost nodes, partitions and reservations that come and go, node lists, features, licenses, limits that
# refuse a shape, and preemption by (and of) another partition. Nodes n1-n2 a40 x 4, n3 a100 x 2.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena

# arena GPUS SBATCH-OPTIONS...: a long Arena job
arena() { submit -o /dev/null -t 60 --arena-model=gpt2 --arena-launcher=env --arena-batch=64 --arena-gpus="$1" "${@:2}" --wrap 'sleep 3000'; }
ordinary() { submit -o /dev/null -t 60 "$@" --wrap 'sleep 3000'; }
released() { wait_until "[[ \$(job_field $1 Priority) != 0 && \$(job_field $1 TresPerNode) == gres:gpu:* ]]"; }
clear_jobs() { squeue -h -o %i | xargs -r scancel; wait_until '[[ ! $(squeue -h -o %i) ]]'; }
node_list() { job_field "$1" NodeList; }
threads() { awk '/^Threads:/ { print $2 }' "/proc/$(<"$cluster_dir/run/slurmctld.pid")/status"; }
in_log() { grep -q "$1" "$cluster_dir/log/slurmctld.log"; }
log_count() { grep -c "$1" "$cluster_dir/log/slurmctld.log"; }
answers() { scontrol ping | grep -q 'is UP'; }

start_cluster --nodes a40:2x4,a100:1x2 --arena on --profile off --preempt --conf-extra "Licenses=matlab:1
PartitionName=narrow Nodes=ALL MaxNodes=1 MaxTime=30 State=UP"
log=$cluster_dir/log/slurmctld.log

# ---- reconfigure, arena.yaml ----------------------------------------------------------------------
running=$(arena 4 --exclude=n2,n3)
ok "an Arena job runs" wait_for_state "$running" RUNNING
waiting=$(arena 4 --exclude=n2,n3)
ok "another waits with its shape" released "$waiting"
scontrol reconfigure
wait_until '(( $(log_count "arena: policy") >= 2 ))'
before=$(threads)
# 25.05's slurmctld dies, stock's, too, where nodes of the last reconfigure still register when the next begins.
pause=true
[[ $(slurm_version) != 25.05.* ]] || pause='sleep 1'
reconfigure_often() { local i; for ((i = 0; i < 20; i++)); do scontrol reconfigure && $pause || return 1; done; }
ok "scontrol reconfigure works 20 times in a row" reconfigure_often
ok "slurmctld answers" answers
# Two that come and go: what each leaks twenty leak twentyfold.
ok "its number of threads is what it was ($before)" wait_until "(( \$(threads) <= $before + 2 ))"
is "$(job_state "$running") $(job_state "$waiting")" "RUNNING PENDING" "the jobs are as before"
cp "$cluster_dir/arena.yaml" "$work/good.yaml"
sed -i 's/^interval_s:.*/intervall_s: 1/' "$cluster_dir/arena.yaml"
ok "slurmctld takes a reconfigure with a broken arena.yaml" scontrol reconfigure
ok "an error names file, line and the key that was meant" \
    wait_until 'in_log "error: arena: .*arena.yaml:[0-9]*:[0-9]*: .*interval_s.*stays"'
quick=$(arena 4 --exclude=n1,n3 -t 5)
ok "with the old configuration in force jobs still start" wait_for_state "$quick" RUNNING
sed 's/^interval_s:.*/interval_s: 2\nenabled: false/' "$work/good.yaml" >"$cluster_dir/arena.yaml"
ok "slurmctld takes a mended one" scontrol reconfigure
ok "and the new configuration is in force" wait_until 'in_log "enabled is false"'
cp "$work/good.yaml" "$cluster_dir/arena.yaml"
ok "Arena is switched on again" scontrol reconfigure
scancel "$running" "$quick"
ok "the waiting job starts after all that" wait_for_state "$waiting" RUNNING
is "$(node_list "$waiting")" n1 "on the node that it left open"
ok "the queue empties" clear_jobs

# ---- what a job may use ---------------------------------------------------------------------------
job=$(arena 2 --exclude=n1,n3)
ok "a job that excludes nodes runs" wait_for_state "$job" RUNNING
is "$(node_list "$job")" n2 "on the one that is left"
job=$(arena 2 --constraint=a100)
ok "a job with a feature runs" wait_for_state "$job" RUNNING
is "$(node_list "$job")" n3 "on the node that has it"
like "$(arena 2 -w n1)" 'nodelist cannot be combined with Arena' "a node list is refused in a sentence"
ok "the queue empties" clear_jobs

holder=$(ordinary -L matlab -w n3)
ok "an ordinary job takes the one license" wait_for_state "$holder" RUNNING
job=$(arena 4 --exclude=n2,n3 -L matlab)
ok "an Arena job that needs it waits for licenses" wait_for_reason "$job" '[Ll]icense'
scancel "$holder"
ok "and starts when it is given back" wait_for_state "$job" RUNNING 40
ok "the queue empties" clear_jobs

job=$(arena 1-8 -t 20 -p narrow)
ok "in a partition of MaxNodes=1 a job of 1 to 8 GPUs gets an offer of one node" wait_for_state "$job" RUNNING 60
is "$(job_field "$job" NumNodes)" 1 "one node"
scancel "$job"
full=$(ordinary -N3 --exclusive -p high)
ok "the cluster is full" wait_for_state "$full" RUNNING
picky=$(arena 1-8 -t 20 -p narrow)
ok "a waiting one is released with a shape that the partition allows" released "$picky"
is "$(job_field "$picky" NumNodes)" 1-1 "one node"
scancel "$picky"
wide=$(arena 8 -t 20 -p narrow)
ok "one that needs two nodes waits with the limit as its reason" wait_for_reason "$wide" '^PartitionNodeLimit$'
slow=$(arena 2 -t 40 -p narrow)
ok "one that asks for more than MaxTime, too" wait_for_reason "$slow" '^PartitionTimeLimit$'
other=$(arena 8)
ok "and neither keeps nodes from a job behind them" released "$other"
ok "the queue empties" clear_jobs

# ---- nodes, partitions, reservations --------------------------------------------------------------
ok "n1 drains" scontrol update NodeName=n1 State=DRAIN Reason=test
ok "and n3" scontrol update NodeName=n3 State=DRAIN Reason=test
first=$(arena 4)
ok "a job of four GPUs runs" wait_for_state "$first" RUNNING
is "$(node_list "$first")" n2 "not on a drained node"
second=$(arena 4 --exclude=n3)
ok "the next one waits" wait_until "[[ \$(job_reason $second) =~ Arena|Resources|Nodes_required|ReqNode ]]"
ok "n1 is resumed" scontrol update NodeName=n1 State=RESUME
ok "and the job starts" wait_for_state "$second" RUNNING 30
is "$(node_list "$second")" n1 "there"
scancel "$first"
ok "another node becomes free" wait_until '[[ $(sinfo -h -n n2 -o %T) == idle* ]]'
ok "the slurmd of n1 is lost" cluster node n1 down
ok "the job on it is taken back, planned again and runs" wait_until \
    "[[ \$(job_state $second) == RUNNING && \$(job_field $second Restarts) == 1 ]]" 40
is "$(node_list "$second")" n2 "on the other node"
ok "n1 comes back" cluster node n1 up
is "$(job_state "$second")" RUNNING "which does the job no harm"
ok "n3 is resumed" scontrol update NodeName=n3 State=RESUME
ok "the queue empties" clear_jobs

ok "the partition goes down" scontrol update PartitionName=main State=DOWN
job=$(arena 4)
ok "an Arena job of it waits with a reason" wait_for_reason "$job" '^Arena: .|PartitionDown'
ok "the partition comes up" scontrol update PartitionName=main State=UP
ok "and the job runs" wait_for_state "$job" RUNNING
ok "the queue empties" clear_jobs
ok "a reservation takes n1 and n3" scontrol create reservation ReservationName=away StartTime=now \
    Duration=60 Nodes=n1,n3 Users=root,"$(id -un)"
job=$(arena 4)
ok "an Arena job outside it runs" wait_for_state "$job" RUNNING
is "$(node_list "$job")" n2 "on a node that is not reserved"
inside=$(arena 4 --reservation=away)
ok "one inside it runs" wait_for_state "$inside" RUNNING
is "$(node_list "$inside")" n1 "on the reserved node"
ok "the queue empties" clear_jobs
ok "the reservation is over" scontrol delete ReservationName=away

# ---- preemption -----------------------------------------------------------------------------------
victim=$(arena 4 --exclude=n2,n3)
ok "an Arena job of low priority runs" wait_for_state "$victim" RUNNING
strong=$(ordinary -p high -w n1 --exclusive)
ok "an ordinary job of a higher partition preempts it" wait_for_state "$strong" RUNNING 40
ok "it is requeued and taken back" wait_until \
    "[[ \$(job_state $victim) == PENDING && \$(job_field $victim Restarts) == 1 ]]"
scancel "$strong"
ok "and runs again when the other is gone" wait_for_state "$victim" RUNNING 40
ok "the queue empties" clear_jobs
victim=$(ordinary -w n1 --exclusive --requeue)
ok "an ordinary job of low priority runs" wait_for_state "$victim" RUNNING
strong=$(arena 4 -p high --exclude=n2,n3)
ok "an Arena job of a higher partition preempts it" wait_for_state "$strong" RUNNING 60
is "$(job_field "$strong" TresPerNode) $(job_state "$victim")" "gres:gpu:a40:4 PENDING" \
    "with its shape, and the other waits"
ok "the queue empties" clear_jobs

is "$(grep -c 'internal fault' "$log")" 0 "there was no internal fault in all that"
done_testing
