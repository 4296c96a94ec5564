#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A plain DDP script (tests/train/ddp.py, PyTorch, gloo) under the launchers ddp, env and torchrun in a real cluster: the world,
# micro-batch, accumulation and batch that it trains are those that were priced; resized, it goes on from its checkpoint with
# other ones, and trains the same. README's first command is such a job.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/ddp.sh"
need_arena
need_torch
start_cluster --nodes a40:1x4 --arena on --profile off --hardware a40=A40 --arena-set resize.cooldown_s=1
write_ddp_jobs

# ---- README's first command ------------------------------------------------------------------------------------------
said=$(submit_ddp ddp gpt2-xl 512 2>&1) && job=$(tail -n 1 <<<"$said")
like "$said" 'arena: plan dp[124], micro-batch [0-9]+ x [0-9]+: DDP script; for tensor or pipeline parallel plans name a launcher' \
    "sbatch answers with the plan and what it asks of the script"
ok "README's first command trains a plain DDP script" wait_for_state "$job" COMPLETED 60 || diag "$(cat out."$job")"
as_priced "$job" 0 512
is "$(trained "$job" 0 | jq -c '.to')" 2 "its two steps"

# ---- each launcher, resized ------------------------------------------------------------------------------------------
declare -A id
for launcher in ddp env torchrun; do
    id[$launcher]=$(steps=until-resized submit_ddp $launcher tiny.yaml 24 --arena-elastic --arena-gpus=1 2>&1 | tail -n 1)
done
for launcher in ddp env torchrun; do
    job=${id[$launcher]}
    ok "$launcher: it trains" wait_until "[[ -e done.$job.begun ]]" 60 || diag "$(cat out."$job")"
done
for launcher in ddp env torchrun; do
    job=${id[$launcher]}
    ok "$launcher: it is asked to have two GPUs" scontrol update JobId="$job" Comment=arena:gpus=2-2
    ok "$launcher: it ends" wait_for_state "$job" COMPLETED 90 || diag "$(scontrol show job "$job"; cat out."$job")"
    as_priced "$job" 0 24
    as_priced "$job" 1 24
    is "$(trained "$job" 0 | jq .world)/$(trained "$job" 1 | jq .world)" 1/2 "$launcher: on one GPU, then on two"
    is "$(trained "$job" 1 | jq .from)" "$(trained "$job" 0 | jq .to)" "$launcher: from its checkpoint on"
    is "$(job_field "$job" Restarts)" 1 "$launcher: restarted once"
done

# What it has learned is what a run in one go of as many steps learns.
job=${id[ddp]} last=$(trained "${id[ddp]}" 1 | jq .to)
ok "a run in one go trains" env ARENA_MICRO_BATCH=24 ARENA_NUM_MICRO_BATCHES=1 RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 \
    MASTER_PORT=0 /usr/bin/python3 "$ARENA_SRCDIR/tests/train/ddp.py" "$work/alone" "$last"
ok "and learns the same as the resized one" jq -es \
    '.[0] as $a | .[1] as $b | ($a.weight - $b.weight | fabs) < 1e-4 and ($a.loss - $b.loss | fabs) <= 1e-4 + 1e-3 * $a.loss' \
    <(tail -n 1 "$work/alone.json") <(trained "$job" 1)

# ---- what such a script cannot run -----------------------------------------------------------------------------------
like "$(sbatch --parsable --hold --arena-model=llama-2-7b --arena-batch=8 -o /dev/null "$work/ddp.sh" 2>&1)" \
    'arena: .*(fsdp|deepspeed).*would fit' "where it does not fit memory the answer names launchers that would"
example=$ARENA_SRCDIR/contrib/launchers/checkpoint_on_signal.py
like "$(ARENA_TP=2 ARENA_PP=1 /usr/bin/python3 "$example" 2>&1)" 'data parallel and cannot run a plan of ARENA_TP=2: submit with --arena-launcher=ddp' \
    "the shipped example refuses a plan of tensor parallelism"
printf '#!/bin/bash\n# deepspeed\nsrun torchrun train.py\n' >"$work/by-torchrun.sh"
like "$(sbatch --hold --arena-model=gpt2 --arena-batch=8 -o /dev/null "$work/by-torchrun.sh" 2>&1)" \
    'arena: line 3 of the script starts torchrun: --arena-launcher=torchrun\?' "a script that starts torchrun is told its launcher"
done_testing
