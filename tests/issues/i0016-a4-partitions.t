#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Several partitions. A job's nodes were planned over all its partitions at once: with one node in each,
# two nodes were planned, and refused as stale for ever without a word; and a partition whose limits the
# job broke kept it out of the others. Each case is a job of Arena's and a stock job of the same shape.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena

arena() { submit -o /dev/null --arena-model=gpt2 --arena-launcher=env --arena-batch=64 "$@" --wrap 'sleep 3000'; }
stock() { submit -o /dev/null -N1 -n1 -c2 --gres=gpu:a40:1 "$@" --wrap 'sleep 3000'; }
started_in() { job_field "$1" Partition; }
outcome() {
    if [[ $(job_state "$1") == RUNNING ]]; then
        echo "RUNNING $(started_in "$1") $(job_field "$1" NodeList) $(job_field "$1" TimeLimit)"
    else
        echo "$(job_state "$1") $(job_reason "$1")"
    fi
}
comes_to() { wait_until "[[ \$(outcome $1) == '$2' ]]" || true; is "$(outcome "$1")" "$2" "$3"; }
# same OPTIONS WANTED NAME: both jobs, and what is wanted of both
same() {
    local stock arena name=$3
    # shellcheck disable=SC2086  # options are words
    arena=$(arena --arena-gpus=1 $1) stock=$(stock $1)
    comes_to "$stock" "$2" "$name: stock"
    comes_to "$arena" "$2" "$name: Arena"
    scancel "$stock" "$arena"
    wait_until "[[ ! \$(squeue -h -j $stock,$arena -o %i 2>/dev/null) ]]"
}

start_cluster --nodes a40:4x4 --cpus 16 --arena on --profile off --conf-extra "
PartitionName=pa Nodes=n1 State=UP
PartitionName=pb Nodes=n2 State=UP
PartitionName=pshort Nodes=n1 State=UP MaxTime=5
PartitionName=pdown Nodes=n1 State=DOWN
PartitionName=pone Nodes=n[1-2] State=UP MaxNodes=1
PartitionName=ptwo Nodes=n[3-4] State=UP MinNodes=2
PartitionName=pfew Nodes=n4 State=UP MaxCPUsPerNode=8
PartitionName=phigh Nodes=n3 State=UP PriorityTier=10"

# ---- nodes of two partitions are never mixed -------------------------------------------------------
job=$(arena -t 20 -p pa,pb --arena-gpus=4-8)
ok "a job of 4 to 8 GPUs in two partitions of one node each starts" wait_for_state "$job" RUNNING
is "$(job_field "$job" NumNodes) $(started_in "$job") $(job_field "$job" NodeList)" "1 pa n1" "in one of them, the first"
second=$(arena -t 20 -p pa,pb --arena-gpus=4)
ok "the next one starts" wait_for_state "$second" RUNNING
is "$(started_in "$second") $(job_field "$second" NodeList)" "pb n2" "in the other"
third=$(arena -t 20 -p pa,pb --arena-gpus=4)
ok "a third waits with its shape" wait_until "[[ \$(job_field $third Priority) != 0 && \$(job_field $third TresPerNode) == gres:gpu:a40:4 ]]"
scancel "$second"
ok "and starts" wait_for_state "$third" RUNNING
is "$(started_in "$third") $(job_field "$third" NodeList)" "pb n2" "where a node is free"
scancel "$job" "$third"

# ---- each partition's own limits, in Slurm's order ---------------------------------------------------
same "-t 20 -p pshort,pb" "RUNNING pb n2 00:20:00" "a partition with a shorter MaxTime is passed over"
same "-t 20 -p pb,pa" "RUNNING pb n2 00:20:00" "the first of the list"
same "-t 20 -p pb,phigh" "RUNNING phigh n3 00:20:00" "a higher PriorityTier goes first"
same "-t 20 -p pdown,pb" "RUNNING pb n2 00:20:00" "a partition that is DOWN is passed over"
same "-t 20 -p pdown" "PENDING PartitionDown" "nothing but a partition that is DOWN"
same "-t 20 -p pshort" "PENDING PartitionTimeLimit" "nothing but a partition with a shorter MaxTime"
same "-t 20 -p ptwo,pb" "RUNNING pb n2 00:20:00" "a partition of two nodes at least is passed over by one node"
same "-p pshort" "RUNNING pshort n1 00:05:00" "without --time the partition's limit is taken"

job=$(arena -t 20 -p pone --arena-gpus=4-8)
ok "a job of 4 to 8 GPUs starts where a job may have one node" wait_for_state "$job" RUNNING
is "$(job_field "$job" NumNodes)" 1 "on one node"
scancel "$job"
job=$(arena -t 20 -p ptwo --arena-gpus=2-8)
ok "a job of 2 to 8 GPUs starts where a job has to have two nodes" wait_for_state "$job" RUNNING
is "$(job_field "$job" NumNodes)" 2 "on two nodes"
scancel "$job"
job=$(arena -t 20 -p pfew --arena-gpus=4)
ok "a job of 4 GPUs starts where a job may have half of a node's CPUs" wait_for_state "$job" RUNNING
is "$(job_field "$job" NumCPUs)" 8 "with an even share of those"
scancel "$job"

# ---- a partition that goes down while a job waits -------------------------------------------------------
full=$(stock -t 20 -p pb --exclusive)
ok "pb is full" wait_for_state "$full" RUNNING
job=$(arena -t 20 -p pb --arena-gpus=1)
ok "a job waits with its shape" wait_until "[[ \$(job_field $job Priority) != 0 && \$(job_field $job TresPerNode) == gres:gpu:a40:1 ]]"
scontrol update PartitionName=pb State=DOWN
ok "its partition goes down, and that is its reason" wait_for_reason "$job" '^PartitionDown$'
scontrol update PartitionName=pb State=UP
scancel "$full"
ok "when it is up again the job starts" wait_for_state "$job" RUNNING

is "$(grep -c 'arena: .*not started\|not startable' "$cluster_dir/log/slurmctld.log")" 0 "Slurm has refused no start"
done_testing
