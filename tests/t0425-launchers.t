#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-args and contrib/launchers: what each launcher in each of its versions is told of each plan (golden; ARENA_ARGS is
# rendered by the same code), what it cannot be told is refused, the job scripts hand it on whole, and the PyTorch example
# saves and leaves on a signal and goes on from there.
# shellcheck disable=SC2016,SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
launchers=$(realpath "$ARENA_SRCDIR/contrib/launchers") expected=$ARENA_SRCDIR/tests/launchers/expected
work=$(mktemp -d) || exit 99
PATH=$ARENA_BUILDDIR:$PATH
running=''
trap '[[ ! $running ]] || kill -KILL "$running" 2>/dev/null; rm -rf "$work"' EXIT
unset "${!ARENA_P@}" "${!SLURM_@}" ARENA_GLOBAL_BATCH ARENA_STAGE_LAYERS ARENA_RECOMPUTE
export ARENA_RDZV_HOST=n1 SLURM_JOB_ID=42
# shellcheck disable=SC2054  # a comma of the value
plan=(ARENA_PP=2 ARENA_DP=2 ARENA_TP=1 ARENA_MICRO_BATCH=2 ARENA_NUM_MICRO_BATCHES=4 ARENA_GLOBAL_BATCH=16 ARENA_STAGE_LAYERS=6,6)
args() { env "${plan[@]}" arena-args "$@"; }

# ---- golden --------------------------------------------------------------------------------------
named=() # each launcher at each version that changes something
for launcher in $(arena-args --list); do
    mapfile -t versions < <(arena-args "$launcher" --versions)
    for version in "${versions[@]}"; do named+=("$launcher@$version"); done
    ((${#versions[@]})) || named+=("$launcher")
done
while read -r name pp dp tp mb nmb batch layers recompute zero sp vpp cp ep nodes precision kv lora targets bits etp schedule hsdp; do
    [[ $name != \#* ]] || continue
    plan_of=(ARENA_PP="$pp" ARENA_DP="$dp" ARENA_TP="$tp" ARENA_MICRO_BATCH="$mb" ARENA_NUM_MICRO_BATCHES="$nmb"
        ARENA_GLOBAL_BATCH="$batch" ARENA_STAGE_LAYERS="$layers" ARENA_RECOMPUTE="$recompute" ARENA_ZERO_STAGE="$zero"
        ARENA_SEQUENCE_PARALLEL="$sp" ARENA_VPP="$vpp" ARENA_CP="$cp" ARENA_EP="$ep" SLURM_JOB_NUM_NODES="$nodes"
        ARENA_PRECISION="$precision" ARENA_KV_HEADS="$kv" ARENA_SEQ_LENGTH=2048
        ARENA_LORA_RANK="${lora:-0}" ARENA_LORA_TARGETS="${targets:-attention}" ARENA_BASE_BITS="${bits:-16}"
        ARENA_ETP="${etp:-1}" ARENA_SCHEDULE="${schedule:-1f1b}" ARENA_HSDP="${hsdp:-0}")
    for launcher in "${named[@]}"; do
        printf '%s %s: %s\n' "$name" "$launcher" "$(env "${plan_of[@]}" arena-args "$launcher" 2>&1 | paste -sd' ')"
    done
done <"$ARENA_SRCDIR/tests/launchers/plans" >"$work/got"
[[ ! ${ARENA_GOLDEN_UPDATE-} ]] || cp "$work/got" "$expected"
ok "each launcher is told each plan in its own words, or refused" diff "$expected" "$work/got"
not_ok "a refusal says what cannot be told, nothing else stands in the way" grep -vE ': arena-args: [a-z0-9. -]+ cannot be told [^;]+$|: ([^a]|$)' "$work/got"
is "$(args megatron | wc -l)" 9 "one argument per line"
is "$(ARENA_LAUNCHER=megatron@0.12 args)" "$(args megatron --version 0.12)" "without a name it is the job's launcher"
is "$(args megatron@0.12)" "$(args megatron --version 0.12)" "a version is said either way"
sed 's/--micro-batch-size/--mbs/' "$ARENA_SRCDIR/src/request/launchers/megatron.table" >"$work/own.table"
is "$(args --table "$work/own.table")" "$(args megatron | sed 's/--micro-batch-size/--mbs/')" "a framework of one's own is one more file"

# ---- bad input -----------------------------------------------------------------------------------
# refused CODE SENTENCE COMMAND...
refused() {
    local code=$1 sentence=$2 out rc=0
    shift 2
    out=$("$@" 2>&1 >"$work/stdout") || rc=$?
    is "$rc" "$code" "exit code $code: $sentence"
    like "$out" "$sentence" "says: $sentence"
    is "$(grep -c . <<<"$out")$(wc -c <"$work/stdout")" 10 "in one line, and prints no arguments: $sentence"
}
refused 2 "'horovod' is not one of ddp, env.*torchtitan" args horovod
refused 2 "'../x' is not one of" args ../x
refused 2 'no launcher is named, and ARENA_LAUNCHER is not set' args
refused 3 'missing.table' args --table "$work/missing.table"
printf 'title T\ntasks gpu\n- - colour red\n' >"$work/bad.table"
refused 2 "bad.table:3: unknown feature 'colour': accepted are always flat" args --table "$work/bad.table"
refused 2 '--version needs a value' args megatron --version
refused 2 "'new' is no version of megatron" args megatron --version new
refused 2 'megatron 0.5 is not known: its versions are 0.9 to before' args megatron --version 0.5
refused 2 'torchtitan 1.0 is not known: its versions are 0.2 to before' args torchtitan --version 1.0
refused 2 'env has no versions' args env@1
is "$(ARENA_DATA_DIR=/d arena-args --python)" /d/python "where arena.py is"
for words in 'charliecloud --bind=P' 'apptainer --bind=P:P:ro' 'singularity --bind=P:P:ro' 'enroot --mount=P:P:rbind,ro,x-create=dir' 'podman --volume=P:P:ro --env-host --pid=host --ipc=host --network=host'; do
    read -r runtime mount others <<<"$words"
    is "$(ARENA_DATA_DIR=/d arena-args --mounts "$runtime" | tail -n +2 | paste -sd' ')" "${mount//P//d/python}${others:+ $others}" \
        "what $runtime has to mount"
done
refused 2 '--mounts docker: is none of charliecloud, apptainer' arena-args --mounts docker
refused 2 'ARENA_HSDP=2 shares ZeRO.s states, and ARENA_ZERO_STAGE=0 has none: accepted beside it are 1, 2 and 3' \
    env "${plan[@]}" ARENA_HSDP=2 arena-args megatron
refused 2 'ARENA_HSDP=3 does not divide ARENA_DP=2' env "${plan[@]}" ARENA_HSDP=3 arena-args megatron
refused 2 'ARENA_ETP=2 splits experts that are shared out, and ARENA_EP=1 shares none out' env "${plan[@]}" ARENA_TP=2 ARENA_ETP=2 arena-args megatron
refused 2 'ARENA_SCHEDULE=zbv has two chunks a stage, and ARENA_VPP=1' env "${plan[@]}" ARENA_SCHEDULE=zbv arena-args torchtitan
refused 2 "ARENA_PP is not set to a number .empty.: is this a job of Arena's" arena-args megatron
refused 2 'ARENA_DP is not set to a number .2;x.' env "${plan[@]}" 'ARENA_DP=2;x' arena-args megatron
refused 2 'does not have the 2 stages' env "${plan[@]}" ARENA_STAGE_LAYERS=12 arena-args megatron
refused 2 'is not the global batch of 17' env "${plan[@]}" ARENA_GLOBAL_BATCH=17 arena-args megatron
mixed='{"grid":{"gpu_type":"a40","nodes":1,"gpus_per_node":4,"stages":2},"plan":{"stage_layers":[6,6],"stage_dp":[2,1],"stage_tp":[1,2],
 "micro_batch":2,"num_micro_batches":4,"recompute":"none","zero_stage":0,"sequence_parallel":false},"estimate":{"iteration_s":1,
 "samples_per_s":1,"tflops_per_gpu":1,"memory_bytes_per_gpu":1,"compute_s":1,"tp_comm_s":0,"pp_comm_s":0,"dp_comm_s":0,"bubble_s":0,
 "optimizer_s":0,"source":"analytic","error_bound":0.5}}'
refused 1 'megatron 0.13 cannot be told stages that differ in dp or tp' env "${plan[@]}" "ARENA_PLAN=$mixed" arena-args megatron

# ---- the job scripts, with commands that write down how they were called ----------------------------
mkdir "$work/bin"
for name in srun torchrun python nemo scancel; do
    printf '#!/bin/bash\nprintf "%%s\\n" "%s" "$@" >>"%s/called"\n' "$name" "$work" >"$work/bin/$name"
done
printf '#!/bin/bash\necho n1\n' >"$work/bin/scontrol"
chmod 755 "$work/bin/"*
plan_of=("${plan[@]}" SLURM_JOB_NUM_NODES=2 SLURM_NTASKS=4 SLURM_JOB_NODELIST='n[1-2]' ARENA_LAUNCHER=megatron
    MEGATRON=/opt/megatron PATH="$work/bin:$PATH")
# called SCRIPT ARGUMENT...: the words that reached srun, on one line
called() {
    rm -f "$work/called"
    (cd "$work" && env "${plan_of[@]}" "$launchers/$1" "${@:2}") >"$work/script.out" 2>&1
    paste -sd' ' "$work/called" 2>/dev/null
}
like "$(called megatron.sh --lr 1)" ' TERM bash -c .* python /opt/megatron/pretrain_gpt.py --tensor-model-parallel-size 1 .* --bf16 .* --exit-signal-handler --lr 1$' \
    "megatron.sh hands the plan and its own arguments to pretrain_gpt.py"
plan_of+=(ARENA_LAUNCHER=torchtitan@0.2 ARENA_ZERO_STAGE=1)
like "$(called torchtitan.sh --x)" ' _ end torchrun --nnodes=2 --nproc_per_node=2 .* -m torchtitan.train --x --parallelism.*' \
    "torchtitan.sh starts one torchrun per node"
plan_of+=(ARENA_LAUNCHER=nemo)
like "$(called nemo.sh llama3_8b)" ' _ TERM nemo llm pretrain --factory llama3_8b --yes trainer.num_nodes=2 trainer.devices=2 trainer.strategy' \
    "nemo.sh overrides the recipe"
plan_of+=(ARENA_LAUNCHER=torchrun)
like "$(called torchrun.sh train.py --lr 1)" ' _ ranks torchrun --nnodes=2 --nproc_per_node=2 .*:20042 train.py --lr 1$' "torchrun.sh runs the script"
plan_of+=(ARENA_LAUNCHER=deepspeed)
echo '{"zero_optimization":{"overlap_comm":true},"train_batch_size":1}' >"$work/ds.json"
called deepspeed.sh ds.json train.py >"$work/words"
like "$(<"$work/script.out")" 'cannot be told pipeline stages' "deepspeed.sh refuses a pipeline"
is "$(<"$work/words")" '' "and starts nothing"
plan_of+=(ARENA_PP=1 ARENA_DP=4 ARENA_NUM_MICRO_BATCHES=2 ARENA_STAGE_LAYERS=12 ARENA_ZERO_STAGE=2)
like "$(called deepspeed.sh ds.json train.py)" ' _ ranks torchrun .* train.py --deepspeed --deepspeed_config 42.ds_config.json$' "deepspeed.sh runs the script with a JSON of its own"
is "$(jq -c . "$work/42.ds_config.json")" \
    '{"zero_optimization":{"overlap_comm":true,"stage":2},"train_batch_size":16,"train_micro_batch_size_per_gpu":2,"gradient_accumulation_steps":2,"bf16":{"enabled":true},"fp16":{"enabled":false}}' \
    "in which the plan stands beside what the user wrote"
plan_of+=(ARENA_LAUNCHER=hf-trainer ARENA_ZERO_STAGE=3)
echo '{"output_dir":"out","bf16":false,"fsdp_config":{"transformer_layer_cls_to_wrap":["Block"]}}' >"$work/args.json"
like "$(called hf-trainer.sh args.json train.py)" ' _ ranks=TERM torchrun --nnodes=2 .* train.py 42.arguments.json$' "hf-trainer.sh runs the script with a JSON of its own"
is "$(jq -c . "$work/42.arguments.json")" \
    '{"output_dir":"out","bf16":true,"fsdp_config":{"transformer_layer_cls_to_wrap":["Block"],"version":2,"reshard_after_forward":true,"activation_checkpointing":false},"per_device_train_batch_size":2,"gradient_accumulation_steps":2,"deepspeed":null,"auto_find_batch_size":false,"accelerator_config":{"split_batches":false,"gradient_accumulation_kwargs":{"sync_each_batch":true}},"fsdp":true,"gradient_checkpointing":false,"fp16":false,"enable_jit_checkpoint":true}' \
    "in which the plan stands beside what the user wrote"
plan_of+=(ARENA_LAUNCHER=lightning)
like "$(called lightning.sh train.py fit)" ' _ own python train.py fit --trainer.accelerator=gpu --trainer.num_nodes=2 --trainer.devices=2 .*=FULL_SHARD' \
    "lightning.sh hands the plan to the script's CLI"
mkdir "$work/step" # a srun that runs the second task of the step
printf '#!/bin/bash\nSLURM_NODEID=1 exec "$@"\n' >"$work/step/srun"
printf '#!/bin/bash\nprintf "%%s\\n" "$ACCELERATE_GRADIENT_ACCUMULATION_STEPS" "$@" >"%s/called"\n' "$work" >"$work/step/accelerate"
chmod 755 "$work/step/"*
plan_of+=(ARENA_LAUNCHER=accelerate PATH="$work/step:$work/bin:$PATH")
like "$(called accelerate.sh train.py --lr 1)" '^2 launch --num_machines=2 --num_processes=4 --machine_rank=1 .*=20042 .*=FULL_SHARD .* train.py --lr 1$' \
    "accelerate.sh starts one launch per node, which knows its rank"
plan_of+=(ARENA_ZERO_STAGE=1)
is "$(called accelerate.sh train.py)" '' "and nothing under a plan that cannot be told"
plan_of+=(ARENA_ZERO_STAGE=2 PATH="$work/bin:$PATH")

# ---- SIGUSR1 to all processes of a step, as slurmctld sends it -----------------------------------------
# catches PID [NAME]: whether it catches SIGUSR1 (bit 9 of the caught signals); waits until it does, or has ended, or 2
# minutes. NAME: once it is that program; before, it is a shell that catches what this test does (SIGHUP, bit 0, too), and
# ends as it does. While the program takes the shell's place, its name may stand beside the shell's signals.
catches() {
    local status end=$((SECONDS + 120))
    while status=$(cat "/proc/$1/status" 2>/dev/null) && [[ $status =~ SigCgt:[[:space:]]*([0-9a-f]+) ]]; do
        local caught=$((16#${BASH_REMATCH[1]}))
        if ((caught >> 9 & 1)) && { [[ -z ${2:-} ]] || { [[ $status == "Name:"[[:space:]]"$2"* ]] && ! ((caught & 1)); }; }; then
            return 0
        fi
        ((SECONDS < end)) || return 1
        sleep 0.05
    done
    return 1
}
# begun FILE: waits until FILE has a process's id, for as long as the job script runs
begun() {
    until [[ -s $1 ]]; do
        kill -0 "$running" 2>/dev/null || return 1
        sleep 0.05
    done
}
# launched SCRIPT: runs it as the batch script, beside us
launched() {
    rm -f "$work"/*.pid "$work/told"
    (cd "$work" && exec env "${plan_of[@]}" SLURM_PROCID=0 SLURM_LOCALID=0 STUB="$work" "$launchers/$1" train.py) \
        >"$work/script.out" 2>&1 &
    running=$!
}
ended() { rc=0; wait "$running" || rc=$?; running=''; }
plan_of+=(ARENA_ZERO_STAGE=0 ARENA_LAUNCHER=megatron)
cat >"$work/bin/srun" <<'END'
#!/bin/bash
echo $$ >"$STUB/task.pid" # the task's too: exec
exec "$@"
END
cat >"$work/bin/python" <<'END'
#!/bin/bash
trap 'echo "rank $RANK of $WORLD_SIZE saved" >"$STUB/told"; exit 0' TERM
echo $$ >"$STUB/rank.pid"
for ((i = 0; i < 1200; i++)); do sleep 0.05; done
END
cat >"$work/bin/torchrun" <<'END'
#!/bin/bash
/usr/bin/python3 -c 'import os, signal, sys, time
def leave(*_):
    open(os.environ["ARENA_LEFT_FILE"], "w").close()
    sys.exit(99)
signal.signal(signal.SIGUSR1, leave)
print(os.getpid(), file=open(os.environ["STUB"] + "/rank.pid", "w"), flush=True)
time.sleep(60)' &
wait $!
echo "the agent saw its rank end with $?" >"$STUB/told"
exit 1
END
launched megatron.sh
ok "megatron.sh starts a rank" begun "$work/rank.pid"
ok "below a task that waits for SIGUSR1" catches "$(<"$work/task.pid")"
kill -USR1 "$(<"$work/rank.pid")"
kill -USR1 "$(<"$work/task.pid")"
ended
is "$rc" 99 "told to save, the job leaves with the requeue code"
is "$(cat "$work/told" 2>&1)" "rank 0 of 4 saved" "after its rank was sent SIGTERM"
not_ok "and leaves no file behind" compgen -G "$work/.arena-left.*"
launched megatron.sh
ok "megatron.sh starts again" begun "$work/rank.pid"
ok "with a task that waits" catches "$(<"$work/task.pid")"
kill -KILL "$(<"$work/rank.pid")"
ended
is "$rc" 137 "a rank that dies by itself is no request to come back"
if [[ ! -x /usr/bin/python3 ]]; then skip 4 "python3 is not installed"; else
    launched torchrun.sh
    ok "torchrun.sh starts a rank" begun "$work/rank.pid"
    kill -USR1 "$(<"$work/task.pid")"
    kill -USR1 "$(<"$work/rank.pid")"
    ended
    is "$rc" 99 "told to save, the job leaves with the requeue code"
    is "$(cat "$work/told" 2>&1)" "the agent saw its rank end with 99" "torchrun outlives the signal"
    not_ok "and no file is left" compgen -G "$work/.arena-left.*"
fi

ok "arena-args --elastic prints what the job scripts share" diff "$launchers/elastic.sh" <(arena-args --elastic)
refused 2 "'rank' is not one of: own ranks TERM ranks=TERM end" bash -c 'eval "$(arena-args --elastic)"; elastic_srun rank true'
# died HOW: the exit code of a script whose only task is told, and ends with 0 without having saved
died() {
    env "${plan_of[@]}" STUB="$work" bash -c 'eval "$(arena-args --elastic)"
        elastic_srun "$1" bash -c "kill -USR1 \$PPID; exec sleep 60"' _ "$1" >/dev/null 2>&1
    echo $?
}
is "$(died end)" 143 "end: what knows no signal is ended"
is "$(died TERM)" 143 "TERM: one that dies of SIGTERM has not saved, and does not leave with the requeue code"

# ---- the PyTorch example -------------------------------------------------------------------------
example=$launchers/checkpoint_on_signal.py
saved() { sed -n 's/^saved after step //p' "$1"; }
if ! /usr/bin/python3 -c 'import torch' 2>/dev/null; then skip 6 "python3-torch is not installed"; else
    export CHECKPOINT=$work/c.pt ARENA_GLOBAL_BATCH=8 OMP_NUM_THREADS=1
    STEPS=1000000000 ARENA_LEFT_FILE=$work/left /usr/bin/python3 "$example" >"$work/first" 2>&1 &
    running=$!
    ok "the example starts" catches "$running" python3
    kill -USR1 "$running"
    rc=0
    wait "$running" || rc=$?
    running=''
    is "$rc" 99 "on SIGUSR1 it leaves with the requeue code"
    like "$(<"$work/first")" '^saved after step [0-9]+$' "after it has saved"
    ok "and left a file for torchrun.sh" test -e "$work/left"
    step=$(saved "$work/first")
    ok "it goes on" env STEPS=$((step + 5)) /usr/bin/python3 "$example"
    is "$(/usr/bin/python3 -c 'import torch, sys; print(torch.load(sys.argv[1])["step"])' "$CHECKPOINT")" $((step + 5)) \
        "from there to the end"
fi
done_testing
