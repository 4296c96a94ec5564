#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Profiling inside Slurm: every way in which it can go wrong, while nothing is in the store yet (measured
# shapes of one model also speak for similar ones of another); then one carrier job per model and GPU
# type whose Prolog measures as the service user. The user's job must start all the same, on an analytic
# estimate that says so, and no node may be drained. A file `arena-profiler` in the cluster's directory
# (the administrator's) stands in for the measuring program.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena

service_user=arena
((EUID == 0)) || service_user=$(id -un)

# carriers MODEL: how many profiling jobs of a model were ever started
carriers() { grep -c "arena: profile $1 on" "$cluster_dir/log/slurmctld.log"; }
source_of() { job_field "$1" AdminComment | sed -n 's/.*source=\([a-z]*\).*/\1/p'; }
undrained() { [[ ! $(sinfo -h -N -t drain,drained,draining -o %N) ]]; }
# stand_in TEXT: a measuring program of ours for the cluster's Prolog; no argument: the real one again
stand_in() {
    rm -f "$cluster_dir/arena-profiler"
    (($# == 0)) && return
    { echo '#!/bin/bash'; printf '%s\n' "$1"; } >"$cluster_dir/arena-profiler.new"
    chmod 755 "$cluster_dir/arena-profiler.new"
    mv "$cluster_dir/arena-profiler.new" "$cluster_dir/arena-profiler"
}
# model SIZE: a small model of its own, so that nothing is known of it; prints its file
model() {
    cat >"$work/m$1.yaml" <<END
name: m$1
family: gpt
layers: 2
hidden: $1
heads: 4
vocab: 1024
seq_length: 64
precision: fp32
END
    echo "$work/m$1.yaml"
}

start_cluster --arena on --nodes a40:2x2,a100:1x2 --arena-set profile.budget_s=8 \
    --arena-set profile.time_limit_s=60 --arena-set profile.backoff_s=600
quick=$(script 'true')

# ---- who measures, and with what environment ------------------------------------------------------
stand_in "{ id -un; env | cut -d= -f1 | sort | tr '\n' ' '; } >$work/who.tmp; mv $work/who.tmp $work/who; exit 1"
chmod 1777 "$work"
file=$(model 132)
job=$(LD_PRELOAD='' BASH_ENV=/nonexistent SECRET=1 submit --export=ALL,SECRET=1 --arena-model="$file" --arena-batch=8 \
    --arena-gpus=1 --arena-types=a40 -o /dev/null "$quick")
ok "a job whose profiler fails completes" wait_for_state "$job" COMPLETED 60
is "$(head -n 1 "$work/who")" "$service_user" "the profiler ran as the service user"
unlike "$(tail -n +2 "$work/who")" 'SECRET|BASH_ENV|SLURM_CONF|LD_PRELOAD|SLURM_JOB_USER' \
    "and with nothing of the job's environment"
is "$(source_of "$job")" analytic "the analytic estimate stood in and says so"
is "$(carriers m132)" 2 "a failed run was tried once more"
like "$(grep -o 'on n[12]: arena: profile m132' "$cluster_dir/log/slurmctld.log" | sort -u | wc -l)" '^2$' \
    "and that on another node"
ok "no node was drained" undrained

# ---- crash, garbage, silence ----------------------------------------------------------------------
n=136
for what in 'kill -SEGV $$' 'kill -KILL $$' 'exit 0' \
    'while [[ $1 != --out ]]; do shift; done; echo "{\"not\": \"a profile\"" >"$2"' \
    'while [[ $1 != --out ]]; do shift; done; head -c 3000000 /dev/zero >"$2"' \
    'while [[ $1 != --out ]]; do shift; done; ln -sf /etc/passwd "$2"' \
    'while [[ $1 != --out ]]; do shift; done; mkfifo "$2"'; do
    stand_in "$what"
    file=$(model $n)
    job=$(submit --arena-model="$file" --arena-batch=8 --arena-gpus=1 --arena-types=a100 -o /dev/null "$quick")
    ok "a job completes although the profiler does: $what" wait_for_state "$job" COMPLETED 60
    is "$(source_of "$job")" analytic "on the analytic estimate"
    n=$((n + 4))
done
ok "no node was drained by any of them" undrained

# ---- a hanging profiler: the administrator cancels the carrier; the node is drained meanwhile ---------
nap=$((600000 + $$))   # tells its sleep from those of others
stand_in "touch $work/hangs; sleep $nap"
file=$(model 172)
job=$(submit --arena-model="$file" --arena-batch=8 --arena-gpus=1 --arena-types=a100 -o /dev/null "$quick")
ok "a profiler that hangs keeps the job waiting" wait_for_reason "$job" 'profiling_m172|profiling m172' 20
carrier() { squeue -h -n arena-profile -t R,CF,CG -o %A | head -n 1; }
ok "the carrier is a job of the service user" \
    wait_until '[[ $(squeue -h -n arena-profile -o %u | sort -u) == "$service_user" ]]'
ok "the hanging program has started" wait_until "[[ -e $work/hangs ]]"
scontrol update nodename=n3 state=drain reason=test
stand_in 'exit 1'
scancel "$(carrier)"
ok "a cancelled carrier ends" wait_until '[[ ! $(carrier) ]]' 60
scontrol update nodename=n3 state=resume
ok "the waiting job is planned without a profile and completes" wait_for_state "$job" COMPLETED 60
ok "nothing of the hanging profiler is left" wait_until '! pgrep -u "$service_user" -f "sleep $nap" >/dev/null' 20
ok "no node stays drained" undrained

# ---- nobody cancels it: the limit of the run ends it ---------------------------------------------------
cp "$cluster_dir/arena.yaml" "$work/arena.yaml"
sed -i 's/time_limit_s: .*/time_limit_s: 10/; s/budget_s: .*/budget_s: 1/; s/retries: .*/retries: 1/' "$cluster_dir/arena.yaml"
grep -q 'retries' "$cluster_dir/arena.yaml" || sed -i 's/^\( *\)time_limit_s: 10/&\n\1retries: 1/' "$cluster_dir/arena.yaml"
scontrol reconfigure
rm -f "$work/hangs"
stand_in "touch $work/hangs; trap '' TERM; sleep $nap"
job=$(submit --arena-model="$(model 180)" --arena-batch=8 --arena-gpus=1 --arena-types=a100 -o /dev/null "$quick")
ok "a profiler that hangs and ignores TERM has started" wait_until "[[ -e $work/hangs ]]"
ok "it is ended, and the job completes on the analytic estimate" wait_for_state "$job" COMPLETED 90
is "$(source_of "$job")" analytic "which says so"
ok "nothing of the hanging profiler is left" wait_until '! pgrep -u "$service_user" -f "sleep $nap" >/dev/null' 20
ok "no node is drained by it" undrained
cp "$work/arena.yaml" "$cluster_dir/arena.yaml"
scontrol reconfigure

# ---- a cancelled job while it is profiled -----------------------------------------------------------
rm -f "$work/hangs"
stand_in "touch $work/hangs; sleep $nap"
file=$(model 176)
job=$(submit --arena-model="$file" --arena-batch=8 --arena-gpus=1 --arena-types=a100 -o /dev/null "$quick")
ok "the profiler of a job that will be cancelled runs" wait_until "[[ -e $work/hangs ]]"
scancel "$job"
ok "a job can be cancelled while its model is profiled" wait_for_state "$job" CANCELLED
ok "the carrier ends with it" wait_until '[[ ! $(carrier) ]]' 60
is "$(job_state "$job")" CANCELLED "and the cancelled job never comes back"

one_thread
# Two carriers take turns on this host, which other work may slow down: a budget that ends first leaves operators out.
sed -i 's/time_limit_s: .*/time_limit_s: 180/; s/budget_s: .*/budget_s: 45/' "$cluster_dir/arena.yaml"
scontrol reconfigure
# ---- success, once, and again from the store ------------------------------------------------------
file=$(model 128)
first=$(submit --arena-model="$file" --arena-batch=8 --arena-gpus=1 -o /dev/null "$quick")
second=$(submit --arena-model="$file" --arena-batch=8 --arena-gpus=1 -o /dev/null "$quick")
ok "a job of an unknown model waits for its profile and says so" \
    wait_for_reason "$first" 'profiling.m128.on'
ok "the first job completes" wait_for_state "$first" COMPLETED 200
ok "the second job completes" wait_for_state "$second" COMPLETED 200
is "$(source_of "$first")" profiled "its plan rests on measured operators"
is "$(carriers m128)" 2 "two jobs of one model caused one profile run per GPU type"
third=$(submit --arena-model="$file" --arena-batch=8 --arena-gpus=1 -o /dev/null "$quick")
ok "a later job of the same model completes" wait_for_state "$third" COMPLETED 60
is "$(carriers m128)" 2 "and needed no profiling"
is "$(stat -c %a "$cluster_dir"/profile-store/*.db | sort -u)" 600 "the profile store is its owner's alone"

# ---- behind an ordinary job that waits for the same node: only a run that ends before it is to start -------
expected() { [[ $(job_field "$1" StartTime) == 2* ]]; }
blocker=$(submit -w n3 --gres=gpu:1 -t 30 -o /dev/null --wrap 'sleep 3000')
ok "an ordinary job has one of two GPUs for 30 minutes" wait_for_state "$blocker" RUNNING
before=$(submit -w n3 --gres=gpu:2 -t 30 -o /dev/null --wrap 'sleep 3000')
ok "another waits for both, and Slurm expects it to start after that" wait_until 'expected "$before"'
set_limit() { sed -i "s/time_limit_s: .*/time_limit_s: $1/" "$cluster_dir/arena.yaml" && scontrol reconfigure; }
ok "a profile run may take an hour" set_limit 3600
job=$(submit --arena-model="$(model 184)" --arena-batch=8 --arena-gpus=1 --arena-types=a100 -t 1 -o /dev/null "$quick")
ok "an Arena job behind it is backfilled" wait_for_state "$job" COMPLETED 90
is "$(carriers m184)" 0 "without a profile run, which could delay the other"
ok "a profile run may take a minute" set_limit 60
job=$(submit --arena-model="$(model 188)" --arena-batch=8 --arena-gpus=1 --arena-types=a100 -t 1 -o /dev/null "$quick")
ok "the next Arena job behind it is backfilled, too" wait_for_state "$job" COMPLETED 90
is "$(carriers m188)" 1 "and was measured before"
is "$(job_state "$before")" PENDING "while the ordinary job waits for its turn"
scancel "$blocker" "$before"

# ---- forged ---------------------------------------------------------------------------------------
spool=$cluster_dir/profile-spool
like "$(stat -c '%U %a' "$spool")" "^$service_user [0-7]?7[0-5]0$" "only the service user writes the spool"
stand_in 'exit 1'
runs() { arena profile list | wc -l; }
before=$(runs)
sed 's/"nonce":"[^"]*"/"nonce":"forged0000000000"/' <<<"$(arena profile export "$(arena profile list --json |
    grep -o '"nonce":"[^"]*"' | head -n 1 | cut -d'"' -f4)")" >"$spool/forged0000000000.json"
ok "a result that nobody asked for lies in the spool" grep -q '"forged0000000000"' "$spool/forged0000000000.json"
job=$(submit --export=SPANK_ARENA_PROFILE=forged,ARENA_PROFILE=forged -n1 -o "$work/forged.out" "$(script 'env | grep -c ARENA_PROFILE')")
ok "an ordinary job that exports profile variables completes" wait_for_state "$job" COMPLETED
again=$(submit --arena-model="$(model 128)" --arena-batch=8 --arena-gpus=1-2 -o /dev/null "$quick")
ok "Arena plans another job" wait_for_state "$again" COMPLETED 60
is "$(runs)" "$before" "and has imported no result that nobody asked for"
ok "slurmctld answers after all this" scontrol ping
stand_in
done_testing
