#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# One user with many models kept the jobs of others waiting beside idle GPUs: profile runs went by the order of the
# queue, also for jobs that no plan fits. Profile runs are of a stand-in here, which takes four seconds and then fails: what
# counts is who has them, when. Needs root: two users.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
can_be_user || skip_all "needs root and a user $arena_user: one alone takes nobody's turn"
command -v jq >/dev/null || skip_all 'jq is not installed'

start_cluster --arena on --nodes a40:3x2 --arena-set profile.budget_s=8 --arena-set profile.time_limit_s=60 \
    --arena-set profile.retries=1
log=$cluster_dir/log/slurmctld.log
chmod 1777 "$work"
printf '%s\n' '#!/bin/bash' 'sleep 4' 'exit 1' >"$cluster_dir/arena-profiler.new"
chmod 755 "$cluster_dir/arena-profiler.new"
mv "$cluster_dir/arena-profiler.new" "$cluster_dir/arena-profiler"
# model NAME HIDDEN LAYERS: its file
model() {
    printf '%s\n' "name: $1" 'family: gpt' "layers: $3" "hidden: $2" 'heads: 4' 'vocab: 1024' 'seq_length: 64' \
        'precision: fp32' >"$work/$1.yaml"
    echo "$work/$1.yaml"
}
runs_of() { grep -c "started on n.: arena: profile $1" "$log"; }
quick=$(script 'true')
ask() { "${@:2}" sbatch --parsable --chdir=/ -t 5 -o /dev/null --arena-model="$1" --arena-batch=8 --arena-gpus=1 "$quick"; }

# ---- models that no GPU holds ---------------------------------------------------------------------
for i in 1 2 3 4; do ask "$(model "huge$i" $((8192 + 128 * i)) 96)" env >/dev/null; done
job=$(ask "$(model fits 64 2)" as_user)
ok "a job behind four that no plan fits starts" wait_for_state "$job" COMPLETED 30
is "$(runs_of huge)" 0 "and no profile run was for those"
scancel -u root

# ---- many models that fit --------------------------------------------------------------------------
for ((i = 0; i < 24; i++)); do ask "$(model "many$i" $((128 + 4 * i)) 2)" env >/dev/null; done
ok "one user has all the profile runs that there are" wait_until "((\$(runs_of many) >= 3))" 30
job=$(ask "$(model other 68 2)" as_user)
ok "another user's job, behind 24, has its profile run" wait_until "((\$(runs_of other) == 1))" 60
# What ran before the job was there is no turn that it had to wait for.
before=$(sed -n "/_slurm_rpc_submit_batch_job: JobId=$job /,/profile other on/p" "$log" | grep -c 'arena: profile many')
ok "behind $before of the 24 of the first user" test "$before" -le 6
ok "and completes" wait_for_state "$job" COMPLETED 60
uid=$(id -u "$arena_user")
ok "arena stats tells whose runs there were" wait_until \
    "arena stats --json | jq -e '[.profiles.users[] | select(.uid == $uid)][0] | .runs_last_hour == 2 and .gpu_s >= 4'" 20
is "$(as_user env SLURM_CONF="$SLURM_CONF" ARENA_CONF="${ARENA_CONF-}" arena stats --json 2>/dev/null | jq -c '[.profiles.users[].uid]')" \
    "[$uid]" "to a user only the own ones"
done_testing
