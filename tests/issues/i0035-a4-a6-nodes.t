#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Nodes as sites have them. A node with two GPU types was never planned: a job for one of them waited for ever
# beside idle GPUs. Free GPUs in pieces were not used: a job of 4 waited for a whole node where stock Slurm's
# --gpus=4 starts on two halves. And what no node can ever give was accepted. Each beside what stock does.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena

start_cluster --nodes mix:1x2a100+2h100,a40:2x4 --arena on --profile off --hardware a40=A40 \
    --hardware a100=A100-SXM-80GB --hardware h100=H100-SXM --arena-set reserve_depth=0 --conf-extra "
EnforcePartLimits=ALL
PartitionName=one Nodes=n[2-3] MaxNodes=1 State=UP"

# ask TYPES GPUS OPTIONS...: an Arena job; stock OPTIONS...: an ordinary one
ask() { submit -t 10 -o /dev/null --arena-model=gpt2 --arena-batch=64 --arena-types="$1" --arena-gpus="$2" "${@:3}" --wrap 'sleep 3000'; }
stock() { submit -t 10 -o /dev/null "$@" --wrap 'sleep 3000'; }
starts() { wait_for_state "$1" RUNNING; }
tres() { job_field "$1" TresPerNode; }
none() { scancel -u "$(id -un)" -s KILL; scancel -u "$(id -un)"; wait_until '[[ ! $(squeue -h -t RUNNING,COMPLETING,PENDING) ]]'; }

# ---- a node with two GPU types --------------------------------------------------------------------
first=$(ask h100 2) second=$(ask a100 1)
ok "a job for the second type of a node with two starts" starts "$first"
is "$(job_field "$first" NodeList) $(tres "$first")" "n1 gres:gpu:h100:2" "on that node, with GPUs of that type"
ok "and one for the first type beside it" starts "$second"
is "$(job_field "$second" NodeList) $(tres "$second")" "n1 gres:gpu:a100:1" "with GPUs of that"
third=$(ask h100 1)
ok "the next one for a type that is in use waits" wait_for_reason "$third" 'waits for 1xh100'
ok "an ordinary job has the last GPU of the other" starts "$(stock --gres=gpu:a100:1)"
fourth=$(ask a100 1)
ok "which then is in use, too" wait_for_reason "$fourth" 'waits for 1xa100'
scancel "$first"
ok "who waited for a type starts when that is free" starts "$third"
like "$(arena snapshot save 2>/dev/null)" '"same_node": ?true' "a snapshot says that the entries are one node"
doctor=$(arena doctor 2>&1)
like "$doctor" 'ok +gpu:h100' "arena doctor knows both types"
ok "all jobs go" none

# ---- free GPUs in pieces ----------------------------------------------------------------------------
for node in n2 n3; do ok "half of $node is taken" starts "$(stock --gres=gpu:a40:2 -w $node)"; done
job=$(stock --gpus=a40:4)
ok "stock's --gpus=4 starts on two halves" starts "$job"
is "$(job_field "$job" NumNodes)" 2 "of two nodes"
scancel "$job"
job=$(ask a40 4)
ok "so does a job of Arena's" starts "$job"
is "$(job_field "$job" NumNodes) $(tres "$job")" "2 gres:gpu:a40:2" "with the same number on each"
scancel "$job"
ok "one GPU more of n2 is taken" starts "$(stock --gres=gpu:a40:1 -w n2)"
squeue -h -t RUNNING -w n3 -o %i | xargs -r scancel
ok "one GPU of n3 is" starts "$(stock --gres=gpu:a40:1 -w n3)"
job=$(ask a40 4)
ok "pieces of 1 and 3 are one job, too" starts "$job"
is "$(job_field "$job" NumNodes) $(job_field "$job" TresPerTask)" "2 gres:gpu:a40:1" "with a GPU for each task"
ok "all jobs go" none

# ---- what no node can ever give ---------------------------------------------------------------------
# refused TEXT NAME OPTIONS...: at submission, with a sentence
refused() {
    local out
    out=$(sbatch -o /dev/null "${@:3}" --wrap true 2>&1) && out="accepted: $out"
    like "$out" "$1" "$2"
}
# Planned by sbatch in 0.3 s: a busy machine may need another try.
llama() {
    out=$(sbatch -o /dev/null --arena-model=llama-3-8b --arena-batch=16 --arena-gpus=1 --wrap true 2>&1) || return 0
    none
    return 1
}
if wait_until llama; then pass "a model that fits no GPU is refused"; else fail "a model that fits no GPU is refused" "$out"; fi
like "$out" 'no plan fits on any node of this cluster: .*memory: the smallest plan needs [0-9.]+ GiB per GPU, [0-9.]+ GiB more than the [0-9.]+ GiB' \
    "with its bytes"
like "$(sbatch -p one --gres=gpu:a40:4 -N2 --wrap true 2>&1)" 'Node count|limit' "stock refuses two nodes where MaxNodes is 1 and limits are enforced"
refused '8 GPUs take at least 2 nodes here; partition one \(MaxNodes, EnforcePartLimits=ALL\) allows a job 1' \
    "so does Arena" -p one --arena-model=gpt2 --arena-batch=64 --arena-gpus=8 --arena-types=a40
job=$(ask a40 4-8 -p one)
ok "a range that has a count within the limit is accepted and starts" starts "$job"
is "$(job_field "$job" NumNodes)" 1 "within it"
done_testing
