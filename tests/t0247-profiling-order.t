#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A job that can start, and behind it one whose model is to be measured first: the one GPU is the first one's. The
# profile run used to take it before anything was decided.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena

start_cluster --arena on --nodes a40:1x1 --arena-set profile.budget_s=40 --arena-set profile.time_limit_s=180
one_thread
log=$cluster_dir/log/slurmctld.log
chmod 1777 "$work"

# job SIZE SCRIPT OPTIONS...: a job with a small model; its id in $job
job() {
    printf '%s\n' "name: q$1" 'family: gpt' 'layers: 2' "hidden: $1" 'heads: 4' 'vocab: 1024' 'seq_length: 64' \
        'precision: fp32' >"$work/q$1.yaml"
    job=$(submit --arena-model="$work/q$1.yaml" --arena-batch=8 --arena-gpus=1 -t 5 -o /dev/null "${@:3}" "$2")
}

quick=$(script 'true')
patient=$(script "for ((i = 0; i < 1800; i++)); do [[ ! -e $work/gate ]] || exit 0; sleep 0.1; done")
job 128 "$quick"
ok "a model is measured" wait_for_state "$job" COMPLETED 60
like "$(job_field "$job" AdminComment)" 'source=profiled' "and its job ran with that profile"

anchor=$(submit -H -o /dev/null "$quick")
job 128 "$patient" --dependency=afterany:"$anchor"
first=$job
job 132 "$quick" --dependency=afterany:"$anchor"
second=$job
ok "two jobs can start at once" scancel "$anchor"
ok "the first, of the measured model, runs" wait_for_state "$first" RUNNING 30
is "$(grep -c 'arena: profile q132' "$log")" 0 "and no profile run of the second went before it"
touch "$work/gate"
ok "the first completes" wait_for_state "$first" COMPLETED 30
ok "and the second" wait_for_state "$second" COMPLETED 60
done_testing
