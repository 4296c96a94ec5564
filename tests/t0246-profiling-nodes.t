#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A profile run that Slurm does not start on a node that looks free, because its partition gives whole nodes and a job
# has one of the node's GPUs: that costs nobody the profile, and another node is asked at once. Nodes outside the
# partition of profile runs are not asked at all, and a GPU type that has none in it is said to have none. What the
# partition gives no profile run at all is asked for once, not of one node after the other.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena

start_cluster --arena on --nodes a40:3x2,a100:1x2 --arena-set profile.budget_s=40 --arena-set profile.time_limit_s=180 \
    --arena-set profile.partition=measure
one_thread
log=$cluster_dir/log/slurmctld.log
mapfile -t nodes < <(sinfo -h -N -o %N | sort -u)   # the last one has the a100
all=$(IFS=,; echo "${nodes[*]}")

# job SIZE [TYPE]: a job with a small model of its own; its id in $job
job() {
    printf '%s\n' "name: s$1" 'family: gpt' 'layers: 2' "hidden: $1" 'heads: 4' 'vocab: 1024' 'seq_length: 64' \
        'precision: fp32' >"$work/s$1.yaml"
    job=$(submit --arena-model="$work/s$1.yaml" --arena-batch=8 --arena-gpus=1 --arena-types="${2-a40}" -t 5 \
        -o /dev/null "$(script 'true')")
}
# profiled SIZE NODE: what must have become of that job
profiled() {
    ok "the job completes" wait_for_state "$job" COMPLETED 60
    like "$(job_field "$job" AdminComment)" 'source=profiled' "with its profile"
    is "$(grep -o "started on [^ ]*: arena: profile s$1" "$log")" "started on $2: arena: profile s$1" \
        "which ran once, on $2"
}
refusing() { grep -o '[^ ]* is shown free but takes no profile run' "$log" | cut -d' ' -f1 | sort; }

ok "profile runs get whole nodes" scontrol create PartitionName=measure Nodes="$all" OverSubscribe=EXCLUSIVE
other=$(submit -w "${nodes[0]}" --gres=gpu:a40:1 -o /dev/null "$(script 'sleep 600')")
ok "a job has one GPU of ${nodes[0]}" wait_for_state "$other" RUNNING
job 128
profiled 128 "${nodes[1]}"
is "$(refusing)" "${nodes[0]}" "the node that refused is named in the log, once"

ok "only ${nodes[2]} is for profile runs" scontrol update PartitionName=measure Nodes="${nodes[2]}"
job 132
profiled 132 "${nodes[2]}"
is "$(refusing)" "${nodes[0]}" "no other node was asked"
job 136 a100
ok "a job of a type that the partition has not completes" wait_for_state "$job" COMPLETED 60
why='no node that the job may use is in profile.partition measure'
like "$(job_field "$job" AdminComment)" 'source=analytic' "on the analytic estimate"
like "$(scontrol show job "$job")" "SystemComment=.* not measured: a100: $why" "and says why"
is "$(grep -c "nothing is profiled on a100: $why" "$log")" 1 "as the log does"

carriers() { squeue -h -n arena-profile -t all -o %A | wc -l; }
before=$(carriers)
ok "the partition gives a job one CPU of a node" scontrol update PartitionName=measure Nodes="$all" MaxCPUsPerNode=1
job 140
ok "a job completes" wait_for_state "$job" COMPLETED 60
why='Slurm refused the profiling job: Requested node configuration is not available'
like "$(scontrol show job "$job")" "SystemComment=.* not measured: a40: $why" "and says why its model was not measured"
is "$(grep -c "no profile run starts on a40 in partition measure: $why" "$log")" 1 "as the log does"
is "$(carriers)" "$((before + 1))" "and Slurm was asked once"
is "$(refusing)" "${nodes[0]}" "which says nothing of a node"

is "$(grep -c 'profiling for .* failed on' "$log")" 0 "no refusal counts as a failed run"
is "$(squeue -h -n arena-profile -t PD,S,R -o %A)" "" "no profile run is left in the queue"
scancel "$other"
done_testing
