#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What people and machines do to a job, to slurmctld and to the node while the job's model is profiled:
# hold, release, time limit, requeue, kill -9 of slurmctld, failure and death of the carrier's node. The measuring
# program is the real one, kept waiting at a gate.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena

start_cluster --arena on --nodes a40:1x2,a100:2x2 --arena-set profile.budget_s=40 --arena-set profile.time_limit_s=240
chmod 1777 "$work"
cat >"$cluster_dir/arena-profiler" <<END
#!/bin/bash
nonce=\$(sed 's/.*"nonce":"\([A-Za-z0-9]*\)".*/\1/' <<<"\$SPANK_ARENA_PROFILE")
echo 'arena-progress 1 12 40 20.0 58.0' >"\$nonce.new" && mv "\$nonce.new" "\$nonce.progress" # in the spool
touch "$work/waits.\$SLURMD_NODENAME"
for ((i = 0; i < 1200; i++)); do
    [[ ! -e "$work/gate" ]] || exec "$stage/libexec/slurm-arena/arena-profiler" "\$@" --threads 1
    sleep 0.1
done
END
chmod 755 "$cluster_dir/arena-profiler"
quick=$(script 'true')

# model SIZE: a small model of its own; prints its file
model() {
    printf '%s\n' "name: r$1" 'family: gpt' 'layers: 2' "hidden: $1" 'heads: 4' 'vocab: 1024' 'seq_length: 64' \
        'precision: fp32' >"$work/r$1.yaml"
    echo "$work/r$1.yaml"
}
carrier() { squeue -h -n arena-profile -t R,CF,CG -o %A | head -n 1; }
# profiled SIZE TYPE: a job whose profiling has begun; its id in $job
profiled() {
    rm -f "$work"/waits.* "$work/gate"
    job=$(submit --arena-model="$(model "$1")" --arena-batch=8 --arena-gpus=1 --arena-types="$2" -t 10 -o /dev/null "$quick")
    ok "r$1: profiling begins" wait_until "compgen -G '$work/waits.*' >/dev/null" 30
    ok "r$1: the job says so" wait_for_reason "$job" "profiling.r$1" 20
}
rounds() { "$stage/bin/arena" stats --json 2>/dev/null | grep -o '"rounds":[0-9]*' | cut -d: -f2; }
two_rounds() { local before; before=$(rounds) && wait_until "(( \$(rounds) >= $before + 2 ))"; }
held_by() { wait_for_reason "$job" "^JobHeld$1\$" 10; }

# ---- hold, time limit, release, while the carrier runs and after it ----------------------------------
profiled 128 a40
ok "and how far it is" wait_for_reason "$job" '^Arena:.profiling.r128.on.a40.\(JobId=[0-9]+\).12/40,.about.1.min$' 30
ok "a time limit can be changed" scontrol update JobId="$job" TimeLimit=20
is "$(job_field "$job" TimeLimit)" 00:20:00 "and takes effect"
ok "an administrator can hold the job" scontrol hold "$job"
ok "and the hold shows" held_by Admin
touch "$work/gate"
ok "profiling ends" wait_until '[[ ! $(carrier) ]]' 60
ok "the result is imported" wait_until "grep -q 'profiled r128 on a40' '$cluster_dir/log/slurmctld.log'" 20
ok "rounds go on" two_rounds
is "$(job_state "$job")" PENDING "the held job does not start"
ok "and is still held by the administrator" held_by Admin
ok "it can be released" scontrol release "$job"
ok "and completes" wait_for_state "$job" COMPLETED 30

# ---- hold and release before the result; requeue of a job that never ran ------------------------------
profiled 132 a40
ok "a hold in the middle" scontrol uhold "$job"
ok "shows as the user's" held_by User
ok "a release in the middle" scontrol release "$job"
not_ok "a job that never ran cannot be requeued" scontrol requeue "$job"
touch "$work/gate"
ok "the job completes with its profile" wait_for_state "$job" COMPLETED 60
like "$(job_field "$job" AdminComment)" 'source=profiled' "which it waited for"

# ---- slurmctld is killed while the carrier runs ---------------------------------------------------------
profiled 136 a40
ok "slurmctld saves the jobs" wait_saved
ok "slurmctld is killed" cluster ctld kill
ok "and starts again" cluster ctld start
ok "its nodes answer" cluster wait
touch "$work/gate"
ok "the job completes" wait_for_state "$job" COMPLETED 90
is "$(grep -c 'arena: profile r136 on' "$cluster_dir/log/slurmctld.log")" 1 "after one profile run"

# ---- the carrier's node fails -----------------------------------------------------------------------------
profiled 140 a100
node=$(squeue -h -j "$(carrier)" -o %N)
ok "the carrier's node $node fails" scontrol update nodename="$node" state=down reason=test
ok "its carrier ends" wait_until '[[ ! $(squeue -h -n arena-profile -w '"$node"' -t R,CF -o %A) ]]' 30
touch "$work/gate"
ok "the job completes, profiled or estimated" wait_for_state "$job" COMPLETED 90
scontrol update nodename="$node" state=resume 2>/dev/null   # it may have returned to service by itself
ok "the node comes back" wait_until "[[ \$(sinfo -h -n $node -o %T) == idle ]]" 60

# ---- and dies: all that runs there is killed, and slurmctld finds out by itself ---------------------------
sed -i 's/^SlurmdTimeout=.*/SlurmdTimeout=20/' "$cluster_dir/slurm.conf" && scontrol reconfigure
profiled 148 a100
dying=$(carrier)
node=$(squeue -h -j "$dying" -o %N)
rm -f "$work"/waits.*
ok "the carrier's node $node dies" cluster node "$node" kill
ok "its carrier ends" wait_for_state "$dying" NODE_FAIL 60
ok "another begins on the other node" wait_until "compgen -G '$work/waits.*' >/dev/null" 40
touch "$work/gate"
ok "the job completes" wait_for_state "$job" COMPLETED 90
like "$(job_field "$job" AdminComment)" 'source=profiled' "with its profile"
is "$(job_field "$job" Restarts)" 0 "and was never started before"
ok "the node comes back" cluster node "$node" up

# ---- a run ends with the last job that wants it; cancelled jobs stay cancelled ---------------------------------------------------------------------------
profiled 144 a40
other=$(submit --arena-model="$(model 144)" --arena-batch=8 --arena-gpus=1 --arena-types=a40 -t 10 -o /dev/null "$quick")
ok "another job waits for the same run" wait_for_reason "$other" 'profiling.r144' 20
failures() { grep -c 'profiling for .* failed' "$cluster_dir/log/slurmctld.log"; }
run=$(carrier) before=$(failures)
scancel "$job"
ok "a job is cancelled while it is profiled" wait_for_state "$job" CANCELLED
ok "rounds go on" two_rounds
is "$(carrier)" "$run" "its run goes on for the other job"
scancel "$other"
ok "the run ends with that" wait_until '[[ ! $(carrier) ]]' 30
ok "rounds go on" two_rounds
is "$(failures)" "$before" "which is no failure"
is "$(job_state "$job")" CANCELLED "and the job does not come back"
is "$(sinfo -h -N -t drain,drained,draining,down -o %N)" "" "no node is drained or down"
done_testing
