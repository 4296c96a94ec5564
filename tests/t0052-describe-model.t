#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# contrib/describe-model on models of published shape (tests/describe/models.py): parameters, FLOPs by closed formula, bytes
# kept against what torch really keeps, cuts; the file is a model of arena's, beside the built-in one of the same model.
# shellcheck disable=SC2034  # parameters, kept: arrays that are asked by name
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
ARENA_SRCDIR=$(realpath "${ARENA_SRCDIR:-.}")
. "$ARENA_SRCDIR/tests/lib/command.sh"
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc PYTHONDONTWRITEBYTECODE=1
python=/usr/bin/python3 tool=$ARENA_SRCDIR/contrib/describe-model models=$ARENA_SRCDIR/tests/describe/models.py
"$python" -c 'import torch' 2>/dev/null || skip_all 'python3-torch is not installed (contrib/install-deps)'

"$python" "$ARENA_SRCDIR/tests/describe/run.py" "$tool" 2>run.err <<END
gpt2     --input 1x1024:int64 --input targets=1x1024:int64 --name gpt2-described $models:Gpt2
padded   --input 2x1024:int64 --input targets=2x1024:int64 $models:Gpt2 vocab=50304
llama    --input 1x8192:int64 --input 1x8192:int64 $models:Llama
bert     --input 1x512:int64 --input 1x512:int64 $models:Bert
vit      --input 1x3x224x224 $models:Vit
resnet   --input 2x3x224x224 $models:ResNet
convnext --input 1x3x224x224 $models:ConvNext
unet     --input 1x3x224x224 $models:UNet
lstm     --batch 20 --input 35x20:int64 $models:LstmLm
t5       --input 1x512:int64 --input 1x128:int64 $models:T5
mamba    --input 1x16:int64 $models:Mamba
moe      --input 1x64x16 $models:moe
huge     --input 1x512:int64 $models:Gpt2 d=12288 n=96 layers=96
torch    --input 1x16x512 --input 1x16x512 torch.nn:Transformer batch_first=True
fp32     --precision fp32 --input 2x3x224x224 $models:ResNet
looks    --input 1x64x16 $models:moe looks=True
real     --real --input 1x64x16 $models:moe looks=True
small-gpt    --precision fp32 --batch 1 --input 8x64:int64 $models:SmallGpt
recomputed   --precision fp32 --batch 1 --input 8x64:int64 $models:SmallGpt recomputes=True
small-resnet --precision fp32 --batch 1 --input 2x3x64x64 $models:small_resnet
frozen   --input 1x8 $models:frozen
sliced   --input 1x8 $models:Sliced
fft      --input 1x64 $models:Fft
branches --input 1x8 $models:Branches
wrong    --input 1x8 $models:wrong
missing  --input 1x8 $models:nope
no-file  --input 1x8 /nonexistent/model.py:build
no-module --input 1x8 no.such.module:build
shape    --input 1x9 $models:Branches
mixed    --real --input 1x8 $models:Mixed
argument --input 1x8 $models:Branches a=1
no-input $models:Branches
bad-input --input 1xx8 $models:Branches
bad-type --input 1x8:int77 $models:Branches
bad-precision --precision fp9 --input 1x8 $models:Branches
no-colon --input 1x8 resnet50
END
is "$(cat run.err)" '' 'nothing is said but by describe-model'
sum() { awk -v key="$2:" '/- name:/ {n = 1} $1 == "count:" {n = $2} $1 == key {s += n * $2} END {printf "%.0f\n", s}' "$1.yaml"; }
layers() { sum "$1" output_bytes >/dev/null; awk '/- name:/ {++s} $1 == "count:" {s += $2 - 1} END {print s}' "$1.yaml"; }
said() { cat "$1.err"; }
near() { # GOT WANTED PER-MILLE NAME
    ok "$4 ($1, wanted $2)" awk -v got="$1" -v want="$2" -v part="$3" 'BEGIN {exit !(got >= want * (1 - part / 1000) && got <= want * (1 + part / 1000))}'
}

# ---- parameters, as published or counted by hand ------------------------------------------------------------------
while read -r name count; do
    like "$(said "$name")" ": $count parameters" "$name has $count parameters"
    is "$(sum "$name" parameter_bytes)" $((2 * count)) "$name has two bytes of each in bf16"
done <<END
gpt2 124439808
llama 8030261248
bert 335141888
vit 86567656
resnet 25557032
convnext 28589128
unet 31037698
lstm 13987678
t5 222903552
mamba 129135360
huge $((96 * (12 * 12288 * 12288 + 13 * 12288) + 12288 * (50257 + 1024 + 2)))
END
is "$(sum fp32 parameter_bytes)" $((4 * 25557032)) 'fp32 has four'

# ---- FLOPs: published multiplications and additions, or the closed formula -----------------------------------------
near "$(sum resnet forward_flops)" 8180000000 5 'ResNet-50 has its published 4.09 GMACs'
near "$(sum vit forward_flops)" 35200000000 5 'ViT-B/16 has its published 17.6 GMACs'
near "$(sum convnext forward_flops)" 8910000000 5 'ConvNeXt-T has its published 4.46 GMACs'
block() { echo $((24 * $1 * $2 * $2 + 4 * $1 * $1 * $2)); }  # TOKENS WIDTH: a transformer's block of four widths
is "$(sum gpt2 forward_flops)" $((12 * $(block 1024 768) + 2 * 1024 * 768 * 50257)) 'GPT-2 has the FLOPs of its formula'
is "$(sum bert forward_flops)" $((24 * $(block 512 1024) + 2 * 1024 * 1024)) 'so has BERT-large'
is "$(sum llama forward_flops)" $((32 * (2 * 8192 * 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336) + 4 * 8192 * 8192 * 4096) + 2 * 8192 * 4096 * 128256)) \
    'so has Llama 3 with grouped queries'
is "$(sum t5 forward_flops)" $((12 * (2 * 512 * 768 * (4 * 768 + 2 * 3072) + 4 * 512 * 512 * 768) +
    12 * (2 * 128 * 768 * (6 * 768 + 2 * 3072) + 2 * 512 * 768 * 2 * 768 + 4 * 128 * 128 * 768 + 4 * 128 * 512 * 768) + 2 * 128 * 768 * 32128)) \
    'so has T5 with attention over the encoder'
is "$(sum lstm forward_flops)" $((2 * 35 * (2 * 8 * 200 * 200 + 200 * 33278))) 'so have LSTMs'
is "$(sum mamba forward_flops)" $((24 * (2 * 16 * (768 * 3072 + 1536 * 80 + 48 * 1536 + 1536 * 768) + 2 * 19 * 1536 * 4) + 2 * 16 * 768 * 50280)) \
    'so has Mamba, whose scan is no product'
unet=$((2 * 9 * 64 * (3 + 64) * 224 * 224)) width=64 edge=224
for ((i = 0; i < 4; ++i)); do
    unet=$((unet + 2 * 9 * 2 * width * (2 * width + width) * edge * edge / 4 + 2 * 2 * width * width * edge * edge + 2 * 9 * width * (2 * width + width) * edge * edge))
    width=$((2 * width)) edge=$((edge / 2))
done
is "$(sum unet forward_flops)" $((unet + 2 * 64 * 2 * 224 * 224)) 'so has U-Net with transposed convolutions'
is "$(sum moe forward_flops)" $((2 * 64 * 16 * 64 + 3 * (2 * 64 * 64 * 4 + 2 * 64 * 2 * 64 * 256))) 'experts have those of their tokens'
is "$(sum real forward_flops)" "$(sum moe forward_flops)" 'chosen by values, too'

# ---- bytes that are kept: what torch really leaves allocated ------------------------------------------------------
kept() { "$python" "$ARENA_SRCDIR/tests/describe/kept.py" "$models" "$@"; }
near "$(sum small-gpt activation_bytes)" "$(kept SmallGpt 8x64:int64)" 0.1 'a small GPT keeps what torch leaves allocated on the CPU'
near "$(sum small-resnet activation_bytes)" "$(kept small_resnet 2x3x64x64)" 0.1 'so does a small ResNet'
is "$(sed 1d recomputed.yaml)" "$(sed 1d small-gpt.yaml)" 'checkpointing in forward changes nothing: the plan decides what is recomputed'
is "$(awk '/"h.0 to h.11"/ {on = 1} on && /activation/ {print $2; exit}' gpt2.yaml)" $((1024 * 768 * (2 * 16 + 2) + 12 * 1024 * 4 + 4 * 1024 * 4)) \
    'a block of GPT-2 keeps 16 widths of a token, two masks, and sums: no scores'

# ---- operators ------------------------------------------------------------------------------------------------------
operators() { awk -v name="$2" 'index($0, name) {on = 1} on && /operators/ {sub(/ *operators: /, ""); print; exit}' "$1.yaml"; }
token=$((2 * 768)) tokens=1024 # bytes
is "$(operators gpt2 '"h.0 to h.11"')" "[gemm 1024x2304x768, causal_attention 12x12x1024x64, gemm 1024x768x768, gemm 1024x3072x768, gemm 1024x768x3072, \
5 memory $((tokens * (token * (2 * 2 + 2 * 3 + 2 * 4 + 1) + 4 * 4) / 5))]" \
    'a block of GPT-2 has four products, attention, two norms, two sums with their masks, and an activation'
is "$(operators padded '"h.0 to h.11"')" "$(operators gpt2 '"h.0 to h.11"')" 'of one sample, whatever the batch'
like "$(operators gpt2 '"after h.11"')" 'gemm 1024x50257x768, loss 1024x50257' 'a loss is an operator'
like "$(operators resnet '"layer1.1 ')" 'conv 256x64x56x1x1, conv 64x64x56x3x1, conv 64x256x56x1x1, 6 memory' 'a bottleneck has three convolutions, three norms, three activations'
like "$(operators t5 '"encoder.block.0 ')" 'bmm 512x512x64x12' 'products of activations are told from those with weights'

# ---- layers: where a pipeline can be cut ---------------------------------------------------------------------------
while read -r name count; do is "$(layers "$name")" "$count" "$name has $count layers"; done <<END
gpt2 14
llama 34
bert 26
vit 14
resnet 18
convnext 27
t5 27
mamba 26
moe 4
lstm 1
branches 1
torch 14
END
is "$(grep -A1 'h.0 to h.11' gpt2.yaml | tail -n 1)" '    count: 12' 'equal layers are one entry'
is "$(grep -c 'output_bytes: 1572864' gpt2.yaml)" 2 'a hidden state crosses each cut'
is "$(awk '/"downs.3.0"/ {on = 1} on && /output/ {print $2; exit}' unet.yaml)" $((2 * (64 * 224 * 224 + 128 * 112 * 112 + 256 * 56 * 56 + 512 * 28 * 28 + 1024 * 14 * 14))) \
    'in a U-Net what skips layers crosses as well'
like "$(grep -A5 '"downs.3.0"' unet.yaml)" '# 5 tensors' 'and is counted'
is "$(awk '/"decoder.block.1 to/ {on = 1} on && /output/ {print $2; exit}' t5.yaml)" $((2 * (768 * (512 + 128) + 12 * 128 * 128))) \
    'in a T5 so do the state of the encoder and the bias'
exits 0 'a module that prints is described' "$python" "$tool" --input 1x8 --output loud.yaml "$models:Residuals"
is "$(cat out)" '' 'a file that is named gets all of it'
is "$(grep -v '#' loud.yaml | tr -s ' \n' ' ')" "name: \"Residuals\" family: custom precision: bf16 layers: - name: \"layers.0 to layers.2\" count: 3 \
forward_flops: 1152 parameter_bytes: 1248 activation_bytes: 160 operators: [gemm 1x8x8, gemm 1x32x8, gemm 1x8x32, 3 memory 75] output_bytes: 16 - name: \"after layers.2\" \
forward_flops: 32 parameter_bytes: 36 activation_bytes: 16 operators: [gemm 1x2x8] output_bytes: 4 " 'a list in a list is a layer, and what its parent adds belongs to it'
"$python" "$tool" --input 1x8 "$models:Residuals" >printed.yaml 2>printed.err
is "$(cat printed.yaml)" "$(cat loud.yaml)" 'what a module prints is not in the model file'
like "$(cat printed.err)" 'called.*as a library does.*describe-model: Residuals' 'but on standard error'
is "$(grep output sliced.yaml | head -n 1)" '    output_bytes: 16' 'of a tensor that part crosses which later layers read'
like "$(said lstm)" 'one layer, no pipeline' 'a model without a chain says that it is one layer'
like "$(said branches)" 'branches: its children do not run one after the other' 'branches in a list are no chain'

# ---- nothing is guessed ---------------------------------------------------------------------------------------------
like "$(said fft)" 'aten::_fft_r2c .1 calls.: FLOPs unknown' 'an operator of unknown cost is named'
like "$(said branches)" 'does not use unused.weight, unused.bias: counted' 'so are parameters that forward does not use'
like "$(said frozen)" '576 parameters are frozen: family custom has no such' 'so are frozen ones, which a plan would train'
for name in gpt2 llama bert vit resnet convnext unet lstm t5 mamba moe torch; do unlike "$(said "$name")" 'unknown|not use|frozen' "$name has neither"; done
while read -r name pattern; do
    is "$(cat "$name.rc")" 2 "$name is refused"
    like "$(said "$name")" "$pattern" 'in a sentence'
    is "$(cat "$name.yaml")" '' 'and nothing is written'
done <<'END'
looks aten::nonzero.*use --real
wrong returned a int, not a torch.nn.Module
missing has no nope; it has: .*Gpt2
no-file /nonexistent/model.py: no such file
no-module no.such.module: cannot be imported: ModuleNotFoundError
shape forward: RuntimeError: .*9.*8.*models.py:[0-9]+
mixed RuntimeError: .*try --precision fp32
argument Branches: TypeError: .*argument .a.
no-input --input is needed
bad-input 1xx8: want .NAME=.SHAPE
bad-type int77 is no type of torch
bad-precision fp32.*bf16
no-colon resnet50: want MODULE:CALLABLE
END
exits 0 'help is an answer' "$python" "$tool" --help
like "$(cat out)" 'usage: describe-model .*--real' 'on standard output'
exits 3 'a file that cannot be written is the environment' "$python" "$tool" --input 1x8 --output /nonexistent/out.yaml "$models:Branches"
mkdir -p none/torch && echo 'raise ImportError("none here")' >none/torch/__init__.py
ok 'so is a full disk' bash -c '"$@" >/dev/full; (($? == 3))' _ "$python" "$tool" --input 1x8 "$models:Branches"
exits 3 'so is a missing torch' env PYTHONPATH=none "$python" "$tool" --help
like "$(cat err)" 'needs PyTorch 1.13 or later' 'which is said'

# ---- arena takes the files -----------------------------------------------------------------------------------------
planned() { # MODEL TYPE GPUS FIXED: parameters, forward FLOPs of 64 samples, bytes per GPU, seconds
    "$arena" plan --model "$1" --global-batch 64 --gpu-type "$2" --fixed "$3" --json | jq -r '.parameters as $n | .grids[0] | .gpus as $g | .estimate |
        "\($n) \(.tflops_per_gpu * $g * .iteration_s / 3 * 1e12 | round) \(.memory_bytes_per_gpu) \(.iteration_s)"'
}
for name in gpt2 llama bert vit resnet convnext unet lstm t5 mamba moe torch small-gpt; do
    exits 0 "arena plans $name" "$arena" plan --model "$name.yaml" --global-batch 64 --gpu-type H100-SXM-80GB --gpus 8
done
like "$("$arena" plan --model gpt2.yaml --global-batch 64 --gpu-type H100-SXM-80GB --gpus 8)" '^gpt2-described' 'by its name'
ratio() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.3f", a / b}'; }
# torch 1.13 computes BERT's attention by products that are written out, and no vocabulary of 50257 is padded.
# On one GPU: a list may give the stage of the head fewer layers, where a family has equal ones.
while read -r name builtin within type fixed; do
    read -r count flops memory seconds < <(planned "$name.yaml" "$type" "$fixed")
    read -r its_count its_flops its_memory its_seconds < <(planned "$builtin" "$type" "$fixed")
    note "$name beside $builtin: parameters $(ratio "$count" "$its_count"), FLOPs $(ratio "$flops" "$its_flops"), memory $(ratio "$memory" "$its_memory"), iteration $(ratio "$seconds" "$its_seconds")"
    near "$count" "$its_count" 1 "$name has the parameters of $builtin"
    near "$flops" "$its_flops" 20 'its FLOPs'
    near "$memory" "$its_memory" 300 'its memory within 30 %'
    near "$seconds" "$its_seconds" "$within" "its iteration time within $((within / 10)) %"
done <<'END'
gpt2 gpt2 200 A100-SXM-80GB pp=1,dp=1,tp=1,micro_batch=8
padded gpt2 100 A100-SXM-80GB pp=1,dp=1,tp=1,micro_batch=8
padded gpt2 100 H100-SXM-80GB pp=1,dp=1,tp=1,micro_batch=8
llama llama-3-8b 100 B300-SXM-288GB pp=1,dp=1,tp=1,micro_batch=1
resnet resnet-50 100 A100-SXM-80GB pp=1,dp=1,tp=1,micro_batch=32
resnet resnet-50 100 H100-SXM-80GB pp=1,dp=1,tp=1,micro_batch=64
bert bert-large 400 A100-SXM-80GB pp=1,dp=1,tp=1,micro_batch=8
END
done_testing
