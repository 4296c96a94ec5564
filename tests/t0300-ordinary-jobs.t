#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A site that submits only ordinary jobs sees no difference: 200 random jobs start in the same sequence
# under stock Slurm and under ours; nothing of ours acts or speaks; heterogeneous jobs run.
#
# tests/lib/start_order.sh plays them. Which of Slurm's two loops looks first is a race in stock Slurm, and they
# break ties differently: with both on, stock does not repeat itself. tests/bench/start-order -n 3 -j 200 -s 815
# played three times each: stock against stock 132, 132 and 0 of the 200 jobs started in another opening and
# 1963, 1971 and 18 of the 19900 pairs in another order; ours against stock at most 132 and 1971, in six of nine
# comparisons 0 and at most 18. So the first half of the jobs is left to the main loop alone and the second to
# backfill alone (switched by scontrol reconfigure): that is repeated strictly, and compared strictly, opening,
# order and nodes.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/start_order.sh"
need_arena

seed=${ARENA_TEST_SEED:-$((SRANDOM % 30000 + 1))} count=${ARENA_TEST_JOBS:-200}
note "seed $seed (ARENA_TEST_SEED=$seed repeats it), $count jobs"
make_work
results=$work
RANDOM=$seed
random_jobs "$count" >"$results/jobs"
# play_both N: one more play of each, side by side
play_both() {
    local player players=()
    (work='' && play "stock$1" "$seed" 'main backfill' --arena off) >"$results/stock$1.out" 2>&1 & players+=($!)
    (work='' && play "ours$1" "$seed" 'main backfill' --arena on --profile off) >"$results/ours$1.out" 2>&1 & players+=($!)
    for player in "${players[@]}"; do wait "$player" || fail "a cluster played all rounds"; done
    note "$(cat "$results"/{stock,ours}"$1".{note,out})"
}
stock=$results/stock1.starts ours=$results/ours1.starts
play_until_same play_both

is "$(cut -d' ' -f4 "$stock" | sort -u | wc -l)" "$count" "all $count jobs started under stock Slurm, each once"
is "$(cut -d' ' -f3 "$stock" | uniq -c | tr -s '\n ' ' ')" " $((count / 2)) main $((count - count / 2)) backfill " \
    "half of them by the main loop, half by backfill"
ok "seed $seed: the same jobs start in the same sequence on the same nodes under ours" same_play
is "$(cat "${ours%.starts}.backfilled")" "$(cat "${stock%.starts}.backfilled")" \
    "sdiag counts the same number of backfilled jobs"
isnt "$(cut -d' ' -f4 "$stock")" "$(cut -d' ' -f4 "$stock" | sort -n)" \
    "the sequence is not simply that of submission"
is "$(cat "$results"/ours?.arena | sed -E 's/^\[[^]]*\] //' | grep -vE 'scheduler plug-in loaded|policy arena')" "" \
    "our plug-ins write no line while there are only ordinary jobs"

# Heterogeneous jobs: Slurm takes them only from a scheduler called sched/backfill.
start_cluster --nodes a40:2x2 --arena on --profile off
like "$(submit -n1 : -n2 --wrap true)" 'not supported' "Slurm itself refuses a heterogeneous job under sched/arena"
sed -i -e "s|^PluginDir=|&$stage/lib/slurm-arena/as-backfill:|" -e 's|^SchedulerType=.*|SchedulerType=sched/backfill|' \
    "$cluster_dir/slurm.conf"
ok "slurmctld restarts with our plug-in under the name sched/backfill" cluster ctld restart
ok "its nodes come back" cluster wait
het=$(submit -N1 -n1 : -N1 -n2 -o "$work/het" --wrap 'srun --het-group=0,1 true; echo "size $SLURM_HET_SIZE"')
ok "a heterogeneous job is accepted and runs" wait_until "[[ \$(job_state $het | sort -u) == COMPLETED ]]" 30
is "$(cat "$work/het")" "size 2" "with both components"
log=$cluster_dir/log/slurmctld.log
is "$(grep -c ' arena: scheduler plug-in loaded' "$log")" 2 "our plug-in was loaded once by each slurmctld"
unlike "$(cat "$log")" "arena: Slurm's own backfill could not be loaded" "and found Slurm's own backfill behind it"
wide=$(submit -N2 --exclusive -t 10 --wrap 'sleep 1000')
ok "an ordinary job takes both nodes" wait_for_state "$wide" RUNNING
later=$(submit -N2 --exclusive -t 10 --wrap true)
ok "the next one gets a start time from the chained backfill" \
    wait_until "[[ \$(job_field $later StartTime) == 20* ]]"
arena_job=$(submit --arena-model=gpt2 --arena-launcher=env --arena-batch=8 --arena-gpus=1 --time=5 --wrap true)
ok "an Arena job waits there with a shape" wait_until "[[ \$(job_field $arena_job TresPerNode) == gres:gpu:a40:1 ]]"
scancel "$wide"
ok "and runs" wait_for_state "$arena_job" COMPLETED 30

done_testing
