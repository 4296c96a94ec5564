#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# An elastic job that dies of the signal by which Arena tells it to save is requeued, not FAILED, and who waits for its end
# sees none; its own failures stay failures. The job scripts of contrib/launchers save and come back.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/movers.sh"
need_arena

kinds=("${unknowing[@]}" "${knowing[@]}")
nodes=() more=(usr2 fails down killed)
for kind in "${kinds[@]}" "${more[@]}"; do nodes+=("${kind//-/}:1x2"); done
make_work
write_movers
gates=$work/gates
mkdir -m 1777 "$gates"
gate_hooks
start_cluster --arena on --profile off --nodes "$(IFS=,; echo "${nodes[*]}")" --arena-set resize.checkpoint_grace_s=60 "${hook_options[@]}"
declare -A job
for kind in "${kinds[@]}"; do job[$kind]=$(move_job "$kind" "${kind//-/}"); done
job[usr2]=$(move_job plain usr2 --signal=USR2@60)
# Told to leave, they fail when they are let.
cat >"$work/movers/late" <<'END'
#!/bin/bash
: >"$MOVER_STATE/$SLURM_JOB_ID.up.${SLURM_RESTART_COUNT:-0}.0"
srun -n1 bash -c 'cd "$MOVER_STATE"; trap ": >$SLURM_JOB_ID.told; until [[ -e $SLURM_JOB_ID.go ]]; do sleep 0.1; done; exit 1" USR1
    : >"$SLURM_JOB_ID.up.${SLURM_RESTART_COUNT:-0}.1"; while :; do sleep 0.2; done'
END
chmod 755 "$work/movers/late"
for kind in down killed; do job[$kind]=$(move_job late $kind); done
after_ok=$(submit -o /dev/null --dependency="afterok:${job[loop]}" --wrap true)
after_not_ok=$(submit -o /dev/null --dependency="afternotok:${job[loop]}" --wrap true)
like "$(submit --arena-model=gpt2 --arena-batch=8 --arena-elastic --signal=KILL@60 --wrap true)" \
    'elastic.* signal of --signal, and KILL cannot; accepted: USR1, USR2, TERM' "a signal that no job can obey is refused"

history_of() { arena history "$1" --json 2>/dev/null; }
left() { history_of "$1" | jq '[.events[] | select(.state == "left")] | length'; }
moves=${ARENA_MOVES:-2}
for kind in "${kinds[@]}"; do ok "$kind: runs on two GPUs" ranks_up "$kind" "${job[$kind]}" 0; done
for ((move = 1; move <= moves; move++)); do
    for kind in "${kinds[@]}"; do
        scontrol update JobId="${job[$kind]}" Comment="arena:gpus=$(gpus_after $move)-$(gpus_after $move)"
    done
    for kind in "${kinds[@]}"; do ok "$kind: comes back from move $move" ranks_up "$kind" "${job[$kind]}" $move; done
done
for kind in "${kinds[@]}"; do
    is "$(job_state "${job[$kind]}") $(job_field "${job[$kind]}" Restarts)" "RUNNING $moves" "$kind: runs, and was restarted by moves only"
done
for kind in "${unknowing[@]}" torchtitan; do
    is "$(left "${job[$kind]}")" "$moves" "$kind: each move without a checkpoint is one event of its history"
    like "$(arena explain "${job[$kind]}")" '[Ll]eft 2 times without a checkpoint: goes on from its last one; Arena moves it no more by itself' \
        "$kind: explain says so"
done
for kind in "${knowing[@]}"; do
    [[ $kind != torchtitan ]] || continue
    is "$(left "${job[$kind]}")" 0 "$kind: left with a checkpoint each time"
    ok "$kind: and went on from it" test "$(step_of "${job[$kind]}")" -gt 0
done
is "$(job_reason "$after_ok"),$(job_reason "$after_not_ok")" "Dependency,Dependency" "who waits for the job's end, good or bad, goes on waiting"

# ---- another signal --------------------------------------------------------------------------------
ok "usr2: runs" ranks_up plain "${job[usr2]}" 0
scontrol update JobId="${job[usr2]}" Comment=arena:gpus=1-1
ok "usr2: a job that names another signal is told by that" ranks_up plain "${job[usr2]}" 1
like "$(<"$work/movers/state/${job[usr2]}.out")" 'User defined signal 2' "usr2: and dies of it"

# ---- what stays a failure, and what outlives slurmctld ------------------------------------------------
printf '#!/bin/bash\nsrun -n1 false\n' >"$work/movers/failing" && chmod 755 "$work/movers/failing"
failing=$(move_job failing fails)
ok "a job that fails unasked is FAILED" wait_for_state "$failing" FAILED
state=$work/movers/state
for kind in down killed; do
    ok "$kind: runs" wait_until "[[ -e $state/${job[$kind]}.up.0.1 ]]"
    scontrol update JobId="${job[$kind]}" Comment=arena:gpus=1-1
done
for kind in down killed; do ok "$kind: is told to leave" wait_until "[[ -e $state/${job[$kind]}.told ]]"; done
ok "which is on disk" wait_saved
touch "$gates/epilog.$(job_field "${job[killed]}" NodeList)" "$state/${job[killed]}.go"
ok "killed: fails; an epilog keeps it completing" wait_for_state "${job[killed]}" COMPLETING
ok "which is on disk, too" wait_saved
cluster ctld kill
rm "$gates"/epilog.*
touch "$state/${job[down]}.go"
ok "slurmctld starts again" cluster ctld start
for kind in down killed; do
    ok "$kind: is requeued and starts again" wait_until "[[ -e $state/${job[$kind]}.up.1.0 ]]" 60
    is "$(job_field "${job[$kind]}" Restarts)" 1 "$kind: once"
done
for kind in "${kinds[@]}"; do is "$(job_state "${job[$kind]}")" RUNNING "$kind: still runs"; done
is "$(job_state "$failing")" FAILED "what failed stays"
ok "no node is left drained" clean_nodes
done_testing
