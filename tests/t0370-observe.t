#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# mode: observe. The same jobs, a third of them with --arena-* options, start in the same sequence on the same nodes
# under stock Slurm and beside an observing Arena: nobody is held, no priority is changed, nothing is measured; the
# diary has what would have been. Then observe -> act -> observe by one word and scontrol reconfigure.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/start_order.sh"
: "${cluster_dir=}"   # of cluster.sh
need_arena
make_work

# ---- the same starts ------------------------------------------------------------------------------------
seed=${ARENA_TEST_SEED:-$((SRANDOM % 30000 + 1))} count=${ARENA_TEST_JOBS:-60}
note "seed $seed (ARENA_TEST_SEED=$seed repeats it), $count jobs"
results=$work
RANDOM=$seed
# Of jobs that ask for GPUs every second one says what it trains; stock Slurm knows no such words.
random_jobs "$count" | awk '
    /gres=gpu/ && n++ % 2 { $0 = $0 " --arena-model=gpt2 --arena-batch=32 --arena-launcher=env" }
    { print }' >"$results/jobs"
without_arena() {
    local words=() word out
    for word in "$@"; do [[ $word == --arena-* ]] || words+=("$word"); done
    out=$(sbatch --parsable "${words[@]}" 2>&1) || { echo "$out"; return 1; }
    echo "${out%%;*}"
}
# What the plug-ins did to jobs, at the end of the play.
watch_play() {
    arena --json stats >"$results/$1.stats" 2>&1
    scontrol -o show job | grep -o 'Priority=[0-9]* ' | sort -u >"$results/$1.priorities"
}
play_both() {
    local player players=()
    (work='' && submit() { without_arena "$@"; } && play "stock$1" "$seed" 'main backfill' --arena off) >"$results/stock$1.out" 2>&1 & players+=($!)
    (work='' && play "ours$1" "$seed" 'main backfill' --arena on --profile on --arena-set mode=observe && watch_play "ours$1") >"$results/ours$1.out" 2>&1 & players+=($!)
    for player in "${players[@]}"; do wait "$player" || fail "a cluster played all rounds"; done
    note "$(cat "$results"/{stock,ours}"$1".{note,out})"
}
play_until_same play_both
is "$(cut -d' ' -f4 "$results/stock1.starts" | sort -u | wc -l)" "$count" "all $count jobs started under stock Slurm, each once"
ok "seed $seed: the same jobs start in the same sequence on the same nodes beside an observing Arena" same_play
did=$(grep -h ' arena: ' "$results"/ours?.arena | sed -E 's/^\[[^]]*\] //')
isnt "$(grep -c 'observing: JobId=[0-9]* would start now on' <<<"$did")" 0 "Arena says what it would have started"
is "$(grep -vE 'observing: |scheduler plug-in loaded|policy arena' <<<"$did")" "" "and does nothing: no hold, no start, no carrier"
like "$(cat "$results/ours1.stats")" '"observe":' "arena stats has the diary"
like "$(grep -v Priority=0 "$results/ours1.priorities")" 'Priority' "priorities are Slurm's"

# ---- one word -------------------------------------------------------------------------------------------
say_mode() { sed -i "s/^mode:.*/mode: $1/" "$cluster_dir/arena.yaml" && scontrol reconfigure; }
log() { cat "$cluster_dir/log/slurmctld.log"; }
observed() { arena --json stats | jq -r ".observe.$1"; }
work_of() { script "trap 'exit 0' TERM; echo \"advice=\$ARENA_ADVICE plan=\$ARENA_PLAN\"; while [[ ! -e $work/go-\$1 ]]; do sleep 0.2; done"; }
job_script=$(work_of)
start_cluster --nodes a40:2x4 --arena on --profile off --arena-set mode=observe --arena-set interval_s=1
ok "the log says that Arena observes" wait_until "log | grep -q 'mode is observe, Slurm schedules all jobs'"

said=$(sbatch --arena-model=gpt2 --arena-batch=32 --arena-launcher=env --arena-gpus=1 --time=30 -o "$work/plain.out" "$job_script" plain 2>&1)
like "$said" 'Arena only observes on this cluster: Slurm schedules the job with --nodes=1 --gres=gpu:a40:1, for it asks for no GPUs' \
    "a job that asks for no GPUs is told which it gets"
plain=$(grep -o '[0-9]*$' <<<"$said")
ok "Slurm starts it" wait_for_state "$plain" RUNNING
is "$(job_field "$plain" TresPerNode)" "gres:gpu:a40:1" "with these"
ok "its environment has the advice, and no plan" \
    wait_until "grep -qE '^advice=grid=1?x?a40 plan=pp1,dp1,tp1,mb[0-9x,a-z]* est=.*s source=[a-z]* plan=\$' $work/plain.out"
full=$(submit --arena-model=gpt2 --arena-batch=32 --arena-launcher=env --arena-gpus=4 --gres=gpu:a40:4 -N1 --time=30 -o "$work/full.out" "$job_script" full)
ok "one with GPUs of its own starts with these" wait_for_state "$full" RUNNING
is "$(job_field "$full" TresPerNode)" "gres:gpu:a40:4" "whatever the plan has"
# An ordinary job whose script says what it trains, waits in Slurm. The plan does not go on before its run shows something.
trains=$(script 'exec torchrun --nproc_per_node=4 run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 8')
asif=$(submit --gres=gpu:a40:4 -N1 --time=20 -o "$work/asif.out" "$trains")
gone=$(submit --gres=gpu:a40:4 -N1 --time=20 -o "$work/gone.out" "$trains")
ok "ordinary jobs whose script names a model are planned as if they had asked" \
    wait_until "[[ \$(arena explain --json $gone | jq -r .observe.as_if) == true && \$(arena explain --json $asif | jq -r .observe.words) == 'would have started '* ]]"
is "$(job_field "$asif" AdminComment)|$(job_field "$asif" TresPerNode)" "|gres:gpu:a40:4" "and nothing is written to them"
ok "both are cancelled while they are planned" scancel "$gone" "$asif"
ok "they are planned no more" wait_until "[[ \$(arena queue --json | jq '[.. | .job? // empty] | index($gone) // index($asif)') == null ]]"
ok "and the plan goes on" wait_until '[[ $(observed "behind_s < 10") == true ]]'
waits=$(submit --arena-model=gpt2 --arena-batch=32 --arena-launcher=env --arena-gpus=1 --gres=gpu:a40:4 -N1 --time=20 -o "$work/waits.out" "$job_script" waits)
ok "one waits, as Slurm has it" wait_for_reason "$waits" 'Resources|Priority'
isnt "$(job_field "$waits" Priority)" 0 "not held"
ok "Arena would have started it on what is left" \
    wait_until "[[ \$(arena explain --json $waits | jq -r .observe.words) == 'would have started '*' ago on '*a40*'; Slurm has it wait' ]]"
unlike "$(scontrol -o show job "$waits")" 'Arena:' "no reason of Arena's is shown"
odd=$(submit --arena-model=no-such-model --arena-batch=32 --gres=gpu:a40:1 --time=1 --wrap true)
like "$odd" 'no-such-model' "a model that nobody knows is refused by sbatch itself"

say_mode watch
ok "another word is refused with those that there are, and Arena goes on observing" wait_until "grep -q 'mode: \"watch\" is not accepted; give one of act, observe: the configuration in force stays' $cluster_dir/log/slurmctld.log"

ok "act: one word and a reconfigure" say_mode act
ok "Arena takes the waiting job" wait_until "[[ \$(job_field $waits TresPerNode) != gres:gpu:a40:4 ]]"
ok "and starts it on what is free" wait_for_state "$waits" RUNNING
ok "with a plan" wait_until "grep -q 'plan={' $work/waits.out"
is "$(job_state "$plain") $(job_state "$full")" "RUNNING RUNNING" "those that run go on"
held=$(submit --arena-model=gpt2 --arena-batch=32 --arena-launcher=env --arena-gpus=4 --time=20 -o "$work/held.out" "$job_script" held)
late=$(submit --arena-model=gpt2 --arena-batch=32 --arena-launcher=env --arena-gpus=4 --time=20 -o "$work/late.out" "$job_script" late)
ok "the next one is Arena's" wait_until "[[ \$(job_field $held AdminComment) == arena:v1* && \$(job_field $late Priority) == 0 ]]"
mine=$(submit --hold --arena-model=gpt2 --arena-batch=32 --arena-launcher=env --arena-gpus=1 --time=20 --wrap true)
freed=$(submit --hold --arena-model=gpt2 --arena-batch=32 --arena-launcher=env --arena-gpus=1 --time=20 --wrap true)
ok "two are held by their user" wait_until "[[ \$(job_field $mine AdminComment)\$(job_field $freed AdminComment) == *by=user*by=user* ]]"

ok "observe again" say_mode observe
ok "who was held by Arena is Slurm's" wait_until "[[ \$(job_field $late Priority) != 0 && \$(job_field $late TresPerNode) == gres:gpu:a40:4 ]]"
is "$(job_field "$mine" Priority)" 0 "who was held by its user still is"
touch "$work"/go-{plain,full,waits}
ok "jobs that end leave their GPUs to Slurm's" wait_for_state "$late" RUNNING 40
touch "$work"/go-{held,late}
ok "all end" wait_for_state "$late" COMPLETED
ok "a user releases what he held" scontrol release "$freed"
ok "it runs" wait_for_state "$freed" COMPLETED 40
is "$(job_field "$freed" TresPerNode)" gres:gpu:a40:1 "with the GPUs that it gets from Arena: an acting one had left it without"
ok "the diary has what is over in both worlds" wait_until '(($(observed jobs) >= 1))'
before=$(observed jobs)
ok "Slurm has written its state" wait_saved
ok "slurmctld is killed" cluster ctld kill
ok "and started again" cluster ctld start
ok "its nodes come back" cluster wait
like "$(observed jobs)" "^($before|$((before + 1))|$((before + 2))|$((before + 3)))$" "loses nothing of it"
ok "act again" say_mode act
ok "the user's own hold stands" wait_until "[[ \$(job_field $mine Priority) == 0 ]]"
ok "its release lets Arena plan it" scontrol release "$mine"
ok "and it runs" wait_for_state "$mine" COMPLETED 40

done_testing
