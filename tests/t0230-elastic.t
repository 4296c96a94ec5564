#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Resizing an elastic job: signal, checkpoint, exit with the requeue code, restart with the new plan and
# never in the same second; what happens to jobs that are late, deaf, finished or cancelled meanwhile.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena

# One GPU type per case. deaf and cancelled jobs must outlast the others' checkpoints,
# on a slow machine too.
grace_s=60
start_arena --nodes step:1x4,batch:1x4,late:1x4,stub:1x4,fin:1x4,fail:1x4,can:1x4,rigid:1x4,same:1x4,own:1x4,hup:1x4 \
    --arena-set resize.checkpoint_grace_s=$grace_s
cases=(step batch late stub fin fail can rigid same own)
declare -A job

for case in "${cases[@]}"; do
    options=(--arena-elastic --arena-gpus=4)
    [[ $case != rigid ]] || options=(--arena-gpus=4)
    [[ $case == batch ]] || options+=("--export=ALL,MODE=steps")
    job[$case]=$(train "$case" "${options[@]}")
done
for case in late stub fin fail can; do touch "$gates/${job[$case]}.deaf"; done
touch "$gates/${job[stub]}.stubborn"
for case in "${cases[@]}"; do
    ok "$case: runs on four GPUs" wait_started "${job[$case]}"
    [[ $case == batch ]] || wait_ranks "${job[$case]}" 4
done

# ---- the wish for another size --------------------------------------------------------------------
asked_at=$(date +%s)
for case in "${cases[@]}"; do
    range=1-2
    [[ $case != same ]] || range=2-4
    [[ $case != own ]] || continue
    scontrol update JobId="${job[$case]}" Comment=arena:gpus=$range
done
signalled() { wait_until "[[ -e '$gates/${job[$1]}.signals' ]]"; }
for case in step batch late stub fin fail can; do ok "$case: its processes get the checkpoint signal" signalled "$case"; done
let_go "${job[fin]}" 0 0
let_go "${job[fail]}" 7 0
let_go "${job[own]}" 99 0
scancel "${job[can]}"

# ---- what comes of it -----------------------------------------------------------------------------
started_at() { awk -v life="$2" '$1 == life { print $NF }' "$gates/${job[$1]}.starts"; }
ended_at() { sed -n "s/.*\[\([^]]*\)\..*_job_complete: JobId=${job[$1]} .*/\1/p" "$cluster_dir/log/slurmctld.log" | head -n 1; }
for case in step batch fail; do
    ok "$case: it starts again" wait_started "${job[$case]}" 2
    is "$(last_start "${job[$case]}")" "1 2 1 2" "$case: with the new plan"
    [[ $case != fail ]] || continue   # an error before the deadline: it left, without a checkpoint
    ranks=4
    [[ $case == step ]] || ranks=1
    is "$(wc -l <"$gates/${job[$case]}.signals")" "$ranks" "$case: each of its processes was signalled once"
    like "$(arena_word "${job[$case]}" grid)" "^2x$case\$" "$case: scontrol shows the new plan"
    is "$(sed -n 's/^ARENA_PLAN=.*"gpus_per_node":\([0-9]*\).*/\1/p' "$gates/${job[$case]}.env.1")" 2 \
        "$case: so does its environment"
    end=$(date -d "$(ended_at "$case")" +%s)
    ok "$case: not in the second of its end" test "$(started_at "$case" 1)" -gt "$end"
done
ok "fin: a job that ends with 0 instead is COMPLETED" wait_for_state "${job[fin]}" COMPLETED
ok "can: a cancelled job is CANCELLED" wait_for_state "${job[can]}" CANCELLED
ok "own: the requeue code of a job that nobody signalled is Slurm's business" wait_for_state "${job[own]}" SPECIAL_EXIT
for case in late stub; do
    ok "$case: no checkpoint before the deadline: requeued and started again" wait_started "${job[$case]}" 2 40
    is "$(last_start "${job[$case]}")" "1 2 1 2" "$case: with the new plan"
    ok "$case: not before the deadline" test "$(started_at "$case" 1)" -ge $((asked_at + grace_s))
done
for case in rigid same; do
    ok "$case: is still in its first life" test "$(starts "${job[$case]}")" = 1
    ok "$case: was not signalled" test ! -e "$gates/${job[$case]}.signals"
    is "$(job_state "${job[$case]}")" RUNNING "$case: runs"
done
is "$(starts "${job[own]}"),$(job_state "${job[own]}")" "1,SPECIAL_EXIT" "own: it was left alone"
ok "own: its user releases it" scontrol release "${job[own]}"
ok "own: then it starts again" wait_started "${job[own]}" 2

# ---- a second resize, and the end -----------------------------------------------------------------
scontrol update JobId="${job[step]}" Comment=arena:plan=pp1,dp4,tp1
ok "step: a second wish, for more, is followed too" wait_started "${job[step]}" 3
is "$(last_start "${job[step]}")" "2 4 1 4" "step: on four GPUs again"
for case in step batch late stub fail rigid same own; do
    let_go "${job[$case]}"
    ok "$case: completes" wait_for_state "${job[$case]}" COMPLETED
done
ok "rounds go on" wait_rounds hup
is "$(starts "${job[fin]}"),$(starts "${job[can]}")" "1,1" "what ended did not come back"
is "$(job_state "${job[fin]}"),$(job_state "${job[can]}")" "COMPLETED,CANCELLED" \
    "and kept its state"
ok "no node is left drained" clean_nodes

done_testing
