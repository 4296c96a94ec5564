#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Bad input is refused at submit: sbatch ends non-zero with exactly one sentence of ours that names what is
# wrong, and no job is left. The stock scheduler runs, so that nothing but submission is tested.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh" || exit 99
need_arena
make_work

cat >"$work/arena.yaml" <<'END'
socket: @DIR@/run/arena.sock
profile:
  user: arena
  enabled: false
  spool: @DIR@/profile-spool
  store: @DIR@/profile-store/profiles.db
gpu_types:   # l4 is left out on purpose
  a40: emulated-cpu
  h100: emulated-cpu
END
stock_scheduler
start_cluster --nodes a40:2x4,h100:1x4,l4:1x2,cpu:1x0 --arena on --profile off --arena-yaml "$work/arena.yaml" \
    "${scheduler_options[@]}" --conf-extra 'PartitionName=plain Nodes=n5' \
    --conf-extra 'PartitionName=l4 Nodes=n4'
forge=$ARENA_BUILDDIR/tests/tools/forge_submit
plain=$(script true)
cd "$work" || BAIL_OUT "no $work"

# refuses NAME REGEX COMMAND...: the rules of this file. REGEX must match our one sentence.
refuses() {
    local name=$1 pattern=$2 out rc sentences
    shift 2
    out=$(timeout 20 "$@" 2>&1 </dev/null)
    rc=$?
    sentences=$(grep -c 'arena: ' <<<"$out")
    if ((rc == 0 || rc == 124)); then fail "$name"; diag "exit $rc: $out"; return; fi
    if ((sentences != 1)); then fail "$name"; diag "$sentences sentences and not one: $out"; return; fi
    if ! grep 'arena: ' <<<"$out" | grep -Eq -- "$pattern"; then
        fail "$name"; diag "no sentence like $pattern: $out"; return
    fi
    # Slurm may add its own "Batch job submission failed"; nothing else.
    if (($(wc -l <<<"$out") > 2)); then fail "$name"; diag "more than two lines: $out"; return; fi
    if [[ $(squeue -h -a) ]]; then fail "$name"; diag "left behind: $(squeue -a)"; scancel -u "$USER"; return; fi
    pass "$name"
}
arena() { local name=$1 pattern=$2; shift 2; refuses "$name" "$pattern" sbatch "$@" "$plain"; }
good=(--arena-model=gpt2 --arena-batch=64) any=("${good[@]}" --arena-launcher=env)

# ---- options ----------------------------------------------------------------------------------
arena "an unknown model is refused" "--arena-model.*nosuchmodel.*built-in" --arena-model=nosuchmodel --arena-batch=8
arena "an empty model is refused" "--arena-model" --arena-model= --arena-batch=8
arena "a missing model is refused" "--arena-model.*missing" --arena-batch=8
arena "a missing batch is refused" "--arena-batch.*missing" --arena-model=gpt2
for batch in 0 -1 1e3 8.5 16777217 99999999999999999999 x; do
    arena "batch $batch is refused" "--arena-batch.*1 to 16777216" --arena-model=gpt2 --arena-batch=$batch
done
arena "a batch that the pinned plan does not divide is refused" "dp3 does not divide" "${good[@]}" --arena-plan=dp3
arena "an empty GPU range is refused" "--arena-gpus.*empty range" "${good[@]}" --arena-gpus=4-2
for range in 0 0-4 -4 x 1-2-3 1-99999999 4294967295 1-; do
    arena "GPU range $range is refused" "--arena-gpus" "${good[@]}" --arena-gpus=$range
done
arena "a GPU range beyond the cluster is refused" "--arena-gpus.*at most 8 a40, 4 h100" "${good[@]}" --arena-gpus=9-64
arena "a GPU range beyond the type is refused" "at most 4 h100" "${good[@]}" --arena-gpus=5-8 --arena-types=h100
arena "a partition without GPUs is refused" "partition plain" "${good[@]}" -p plain
arena "an unknown GPU type is refused" "no GPU type 'v100'.*a40, h100" "${good[@]}" --arena-types=v100
arena "a GPU type given twice is refused" "--arena-types.*twice" "${good[@]}" --arena-types=a40,a40
arena "a malformed type list is refused" "--arena-types" "${good[@]}" --arena-types='a40;reboot'
arena "a GPU type that arena.yaml does not map is refused" "l4.*arena.yaml" "${good[@]}" --arena-types=l4
arena "a partition of unmapped GPUs is refused" "partition l4" "${good[@]}" -p l4
arena "a pin of more stages than layers is refused" "pp16 needs at least 16 layers" "${any[@]}" --arena-plan=pp16
arena "a pin that does not divide the heads is refused" "tp5 does not divide" "${any[@]}" --arena-plan=tp5
arena "a pin of stages is refused for a DDP script, which is the default" \
    "--arena-plan.*launcher ddp cannot be told pipeline stages; accepted: pp1, or another launcher" "${good[@]}" --arena-plan=pp2
arena "as is one of tensor parallelism" "launcher ddp cannot be told tensor parallelism of 2; accepted: tp1" "${good[@]}" --arena-plan=tp2
arena "as are GPUs that do not divide the batch" "--arena-gpus.*3 GPUs do not share out the batch 64 evenly, and under the launcher ddp each has a whole replica" "${good[@]}" --arena-gpus=3
arena "a pin that splits convolutions is refused where the launcher cannot" \
    "--arena-plan.*launcher megatron@0.13 cannot be told convolutions split by tp2; accepted: tp1" \
    --arena-model=wide-resnet-1b --arena-batch=64 --arena-launcher=megatron --arena-plan=tp2
arena "a pin that does not divide the channels is refused" "tp3 does not divide the 320 base channels" \
    --arena-model=wide-resnet-1b --arena-batch=64 --arena-launcher=env --arena-plan=tp3
arena "a pin beyond the cluster is refused" "--arena-plan.*takes 12 GPUs" "${any[@]}" --arena-plan=pp12,dp1,tp1
arena "a pin outside the GPU range is refused" "--arena-gpus=2-4 does not allow" "${any[@]}" --arena-plan=pp2,dp4,tp1 --arena-gpus=2-4
for pin in zz3 pp pp0 pp-1 pp2pp2 pp2,pp2 '' pp99999999999 'pp2;'; do
    arena "pin '$pin' is refused" "--arena-plan" "${good[@]}" --arena-plan="$pin"
done
arena "an unknown launcher is refused" "--arena-launcher.*torchrun" "${good[@]}" --arena-launcher=bash
arena "an unknown precision is refused" "--arena-precision.*bf16" "${good[@]}" --arena-precision=int3
arena "elastic takes yes, no and inplace only" "--arena-elastic.*yes, no or inplace" "${good[@]}" --arena-elastic=perhaps
arena "a bad number of steps is refused" "--arena-steps" "${good[@]}" --arena-steps=-5
arena "a bad sequence length is refused" "--arena-seq-length" "${good[@]}" --arena-seq-length=0
arena "control characters in a value are escaped" 'x\\x0a\\x1b' --arena-model=$'x\n\e[31m' --arena-batch=8
arena "an option given twice is refused" "--arena-batch: given twice, as '64' and as '8'" "${good[@]}" --arena-batch=8
refuses "an option given twice in the script is refused" "--arena-batch: given twice" \
    sbatch "$(script $'#SBATCH --arena-model=gpt2 --arena-batch=8\n#SBATCH --arena-batch=9')"

# ---- kinds of jobs, other options --------------------------------------------------------------
arena "a job array is refused where arrays are off" "array.enabled is false" "${good[@]}" -a 1-3
arena "so is one that asks for it" "array.enabled is false" "${good[@]}" -a 1-3 --arena-array
arena "--arena-array takes yes, no and a size only" "--arena-array.*is not yes, no or an integer from 2 to 1024" "${good[@]}" --arena-array=perhaps
arena "--arena-array without an array is refused" "--arena-array.*--array=0-63" "${good[@]}" --arena-array
refuses "a heterogeneous job is refused" "heterogeneous" sbatch "${good[@]}" -n1 : -n1 "$plain"
refuses "a heterogeneous job with a component of Arena is refused" "heterogeneous" \
    sbatch "$(script $'#SBATCH --arena-model=gpt2 --arena-batch=8\n#SBATCH hetjob\n#SBATCH -n1')"
for option in --gpus=2 --gres=gpu:1 --gpus-per-node=1 '--gpus-per-task=1 -n1' '--gpus-per-socket=1 --sockets-per-node=1'; do
    # shellcheck disable=SC2086
    arena "$option with Arena is refused" "--gpus|--gres" "${good[@]}" $option
done
arena "a node list with Arena is refused" "--nodelist" "${good[@]}" -w n1
arena "an elastic job that may not be requeued is refused" "--no-requeue" "${good[@]}" --arena-elastic --no-requeue

# ---- model files ---------------------------------------------------------------------------------
tiny='family: gpt
layers: 2
hidden: 64
heads: 4
vocab: 1000
seq_length: 128'
model_file() {
    local name=$1 file=$2 pattern=$3
    arena "$name is refused" "--arena-model.*$pattern" --arena-model="$file" --arena-batch=8
}
changed() { printf '%s\n' "$tiny" | sed "$2" >"$work/$1"; echo "$work/$1"; }

model_file "a missing file" "$work/absent.json" absent.json
model_file "a directory" "$work/" "not a regular file|$work"
model_file "an empty file" "$(: >"$work/empty.json"; echo "$work/empty.json")" empty
head -c 70000 /dev/zero | tr '\0' ' ' >"$work/big.json"
model_file "a file of more than 64 KiB" "$work/big.json" '65536|64 KiB|too large'
printf '{"model_type":"gpt2",' >"$work/cut.json"
model_file "malformed JSON" "$work/cut.json" cut.json
head -c 5000 /dev/zero | tr '\0' '[' >"$work/deep.json"
model_file "a deeply nested file" "$work/deep.json" deep.json
head -c 3000 /dev/urandom >"$work/binary.json"
model_file "a binary file" "$work/binary.json" binary.json
printf 'a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n' >"$work/bomb.yaml"
model_file "a YAML file with aliases" "$work/bomb.yaml" bomb.yaml
model_file "NaN" "$(changed nan.yaml 's/hidden: 64/hidden: .nan/')" hidden
model_file "a negative number" "$(changed negative.yaml 's/layers: 2/layers: -2/')" layers
model_file "a huge number" "$(changed huge.yaml 's/layers: 2/layers: 99999999999999999999/')" layers
model_file "infinity" "$(changed infinite.yaml 's/vocab: 1000/vocab: 1e999/')" vocab
model_file "an unknown key" "$(changed key.yaml 's/heads/haeds/')" haeds
# shellcheck disable=SC2016  # sed, not the shell, reads $a
model_file "a key given twice" "$(changed twice.yaml '$a layers: 3')" layers
model_file "an unknown family" "$(changed family.yaml 's/gpt/gtp/')" family
model_file "a hidden size that the heads do not divide" "$(changed heads.yaml 's/heads: 4/heads: 5/')" heads
text_file() { printf '%b\n' "$2" >"$work/$1"; echo "$work/$1"; }
moe='"model_type":"mixtral","hidden_size":64,"intermediate_size":64,"num_attention_heads":4,"num_key_value_heads":4,"num_hidden_layers":2,"max_position_embeddings":64,"vocab_size":100,"num_local_experts":4'
model_file "an unknown architecture" "$(text_file type.json '{"model_type":"rwkv"}')" "model_type is 'rwkv'; accepted: gpt2"
model_file "a config that lacks a fact" "$(text_file lacks.json "{$moe}")" 'lacks num_experts_per_tok'
model_file "more experts per token than there are" "$(text_file topk.json "{$moe,\"num_experts_per_tok\":5}")" 'top_k 5'
model_file "a string for a number" "$(text_file word.json "{$moe,\"num_experts_per_tok\":\"2\"}")" num_experts_per_tok
model_file "a billion layers" "$(changed layers.yaml 's/layers: 2/layers: 1000000000/')" 'layers.*1 to 10000'
model_file "zero layers" "$(changed none.yaml 's/layers: 2/layers: 0/')" 'layers.*1 to 10000'
model_file "more key-value heads than heads" "$(changed kv.yaml 's/heads: 4/heads: 4\nkv_heads: 8/')" 'kv_heads 8'
model_file "a fact of another family" "$(changed foreign.yaml 's/heads: 4/heads: 4\nexperts: 8/')" 'experts is no fact of family gpt'
model_file "a residual network without blocks" "$(text_file net.yaml 'family: wide_resnet\nbase_channels: 64\nimage_size: 224')" 'depth or blocks'
model_file "a custom layer without FLOPs" "$(text_file own.yaml 'family: custom\nlayers:\n  - {parameter_bytes: 1, activation_bytes: 1}')" 'lacks forward_flops'
model_file "Megatron arguments without a vocabulary" "$(text_file a.yaml '--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64')" 'vocab-size'
model_file "a misspelt Megatron argument" "$(text_file b.yaml '--num-layers 2 --hidden-size 64 --num-attention-head 4 --seq-length 64 --vocab-size 99')" "did you mean '--num-attention-heads'"
mkfifo "$work/fifo.json"
model_file "a fifo" "$work/fifo.json" 'not a regular file'
model_file "/dev/zero" /dev/zero 'not a regular file'
model_file "/proc/self/mem" /proc/self/mem /proc/self/mem
printf '%s\n' "$tiny" >"$work/good.yaml"
ln -s "$work/good.yaml" "$work/link.yaml"
if ((EUID == 0)); then
    model_file "a symbolic link named by root" "$work/link.yaml" 'symbolic link'
    printf '%s\n' "$tiny" >"$work/private.yaml"
    chmod 600 "$work/private.yaml"
    chmod 755 "$work"
    refuses "a file that the user may not read is refused" "private.yaml.*(ermission|read)" \
        runuser -u nobody -- env SLURM_CONF="$SLURM_CONF" sbatch --arena-model="$work/private.yaml" --arena-batch=8 "$plain"
else
    skip 2 "needs root, who may not name a link and owns a file that nobody may read"
fi

# ---- #ARENA lines ----------------------------------------------------------------------------------
lines() { local name=$1 pattern=$2; shift 2; refuses "$name" "$pattern" sbatch "$(script "$(printf '%b\n' "$@")")"; }
start='#ARENA model=gpt2 batch=64'
refuses "two conflicting channels are refused" "use one" sbatch "${good[@]}" "$(script "$start")"
lines "more than 64 #ARENA lines are refused" "more than 64" "$(for i in {1..65}; do echo "#ARENA batch=$i"; done)"
lines "binary bytes in an #ARENA line are refused" "line 2.*printable" '#ARENA model=g\0377\01t2 batch=8'
lines "an #ARENA line without a setting is refused" "line 2.*key=value" '#ARENA'
lines "an #ARENA line without '=' is refused" "line 3.*key=value" "$start" '#ARENA elastic'
lines "an unknown #ARENA key is refused" "did you mean 'gpus'" "$start" '#ARENA gpu=2'
lines "an #ARENA key given twice is refused" "batch is given twice" "$start batch=64"
# shellcheck disable=SC2016  # it must not be evaluated
lines "an #ARENA value is never evaluated" "character outside" "$start" '#ARENA types=$(reboot)'
lines "quotes in an #ARENA value are refused" "character outside" "$start" "#ARENA types='a40'"
lines "a path in an #ARENA line is refused" "--arena-model" '#ARENA model=/etc/passwd batch=8'
lines "a file name in an #ARENA line is refused" "--arena-model=FILE" '#ARENA model=good.yaml batch=8'
lines "an #ARENA line beyond 64 KiB is refused" "64 KiB" "#$(head -c 65506 /dev/zero | tr '\0' '#')" "$start"
lines "an #ARENA request without a batch is refused" "#ARENA batch.*missing" '#ARENA model=gpt2'
lines "an #ARENA model with bad heads is refused" "heads" \
    '#ARENA family=gpt layers=2 hidden=64 heads=5 vocab=100 seq-length=64 batch=8'
lines "an #ARENA model with a fact of another family is refused" "experts is no fact" \
    '#ARENA family=gpt layers=2 hidden=64 heads=4 vocab=100 seq-length=64 experts=4 batch=8'
lines "an #ARENA flag that is neither yes nor no is refused" "yes or no" \
    '#ARENA family=gpt layers=2 hidden=64 heads=4 vocab=100 seq-length=64 qk-norm=1 batch=8'
lines "an #ARENA request beyond the cluster is refused" "at most 8 a40" "$start gpus=64"

# ---- forged records -----------------------------------------------------------------------------------
forged() { local name=$1 pattern=$2; shift 2; refuses "$name" "$pattern" "$forge" "$plain" "$@"; }
model='"model":{"family":"gpt","layers":2,"hidden":64,"heads":4,"kv_heads":4,"ffn_hidden":256,"vocab":100,"seq_length":64}'
forged "a record of rubbish is refused" "record.*JSON" ARENA_RECORD=rubbish
forged "an empty record is refused" "record" ARENA_RECORD=
forged "a record of another version is refused" "version" "ARENA_RECORD={\"v\":1,$model,\"batch\":\"8\"}"
forged "a record that is too long is refused" "32768" "ARENA_RECORD={\"v\":2,$model,\"batch\":\"8\"$(head -c 40000 /dev/zero | tr '\0' ' ')}"
forged "a record without a model is refused" "model is missing" 'ARENA_RECORD={"v":2,"batch":"8"}'
forged "a record with an impossible model is refused" "heads" "ARENA_RECORD={\"v\":2,${model/\"heads\":4/\"heads\":5},\"batch\":\"8\"}"
forged "a record with a huge model is refused" "layers" "ARENA_RECORD={\"v\":2,${model/\"layers\":2/\"layers\":1099511627776},\"batch\":\"8\"}"
forged "a record with a huge batch is refused" "batch" "ARENA_RECORD={\"v\":2,$model,\"batch\":\"9223372036854775807\"}"
forged "two records are refused" "more than one" "ARENA_RECORD={\"v\":2,$model,\"batch\":\"8\"}" "ARENA_RECORD={\"v\":2,$model,\"batch\":\"9\"}"
forged "a record with a type that is not there is refused" "v100" "ARENA_RECORD={\"v\":2,$model,\"batch\":\"8\",\"types\":\"v100\"}"

# ---- configuration ---------------------------------------------------------------------------------------
echo 'enabled: false' >>"$cluster_dir/arena.yaml"
arena "a switched-off Arena refuses" "switched off" "${good[@]}"
sed -i '$d' "$cluster_dir/arena.yaml"
job=$(submit --hold "${any[@]}" "$plain")
like "$job" '^[0-9]+$' "a switched-on Arena takes jobs again, without a restart"
scancel "$job"
echo 'nonsense: 1' >>"$cluster_dir/arena.yaml"
job=$(submit --hold "${good[@]}" "$plain")
like "$job" '^[0-9]+$' "a broken arena.yaml leaves the one read before in force"
ok "slurmctld says what is wrong in arena.yaml" grep -q 'arena: .*nonsense' "$cluster_dir/log/slurmctld.log"
scancel "$job"

ordinary=$(submit "$plain")
ok "an ordinary job runs after all this" wait_for_state "$ordinary" COMPLETED
done_testing
