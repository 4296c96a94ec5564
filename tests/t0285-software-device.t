#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Our CUDA programs, as nvcc built them, on a device in software (tests/cuda): kernels, products, attention and convolutions
# against references; profiles of several precisions; training on one to four ranks against the CPU's losses; collectives;
# each function of CUDA failing once; and that the device sees what it is there to see.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/tap.sh"
: "${ARENA_SRCDIR:=$(cd "$(dirname "$0")/.." && pwd)}" "${ARENA_BUILDDIR:=$PWD}"
. "$ARENA_SRCDIR/tests/lib/train.sh"
. "$ARENA_SRCDIR/tests/lib/soft_gpu.sh"

# ---- the device sees mistakes ---------------------------------------------------------------------
# ends STATUS MISTAKE
ends() { "$soft/misuse" "$2" >misuse.out 2>&1; [[ $? == "$1" ]] || { cat misuse.out; return 1; }; }
ok "a program without a mistake runs on the software device" ends 0 right
is "$(cat misuse.out)" "" "and nothing is said of it"
ok "a host that touches device memory is ended" ends 86 host-touches
ok "so is a copy beyond a block" ends 86 copy-too-long
ok "so is who uses memory that was freed" ends 86 freed
ok "who reads without waiting for the stream reads poison" ends 85 unordered
ok "an event that is read too early is an error" ends 84 event-too-early
"$soft/misuse" leak 2>misuse.out
like "$(cat misuse.out)" 'leak of 1000 bytes' "memory that stays is told at the end"

# ---- operators against references -----------------------------------------------------------------
for program in test_cuda test_cudnn; do
    "$soft/$program" >out 2>&1; rc=$?
    is "$rc" 0 "$program: every result agrees with its reference"
    isnt "$(grep -c '^ok' out)" 0 "$program: results were compared"
    is "$(grep -v -e '^ok' -e '^1\.\.' out)" "" "$program: nothing leaks or fails"
done

# ---- profiles -------------------------------------------------------------------------------------
for precision in bf16 fp32 tf32 fp16 fp8; do
    soft_model gpt $precision >$precision.yaml
    ok "a model in $precision is profiled" "$soft/arena-profiler-cuda" "${soft_profile[@]}" --model $precision.yaml --out $precision.json
    export ARENA_SOFT_OPEN=1   # once is enough to see who touches device memory
done
{ soft_model llama bf16; echo ffn_hidden: 64; echo kv_heads: 1; } >llama.yaml
ok "so is a llama with shared key and value heads" "$soft/arena-profiler-cuda" "${soft_profile[@]}" --model llama.yaml --out llama.json -v 2>llama.err
is "$(grep leak llama.err)" "" "and nothing of it stays on the device"
is "$(jq -r '.device.kind' bf16.json)" cuda "the profile says that a GPU was measured"
like "$(cat bf16.json)" '"op":"layer"[^}]*"variant":"graph' "whole layers were launched as graphs"

# ---- training -------------------------------------------------------------------------------------
unset ARENA_SOFT_OPEN
# train NAME [ARGUMENT...]: three steps
train() {
    local name=$1; shift
    timeout 100 "$soft/arena-train" --layers 4 --hidden 32 --heads 4 --vocab 128 --seq-length 16 --global-batch 4 --lr 1e-3 \
        --steps 3 --data text --quiet --log "$name" "$@" 2>"$name.err" || { cat "$name.err"; return 1; }
}
# same FILE FILE BOUND: as many losses, each within BOUND of the other
same() {
    paste <(losses "$1") <(losses "$2") | awk -v bound="$3" '{ d = ($2 - $4) / $4; if (d < 0) d = -d; n++
        if (NF != 4 || !(d <= bound)) { print; bad = 1 } } END { exit bad || n != 3 }'
}
ok "three steps on the CPU" train cpu --device cpu
ok "the same on a GPU" train one --device cuda
ok "the losses are the CPU's within 0.2 %" same one cpu 0.002
is "$(cat one.err)" "" "nothing of it stays on the device"
ok "with full recomputation and smaller micro-batches" train full --device cuda --recompute full --micro-batch 2
ok "the losses stay within 0.05 %" same full one 0.0005
export ARENA_SOFT_GPUS=4 ARENA_SOFT_OPEN=1
for plan in '--tp 2 --ranks 2' '--dp 2 --zero 1 --ranks 2' '--pp 2 --ranks 2' '--pp 2 --tp 2 --ranks 4'; do
    # shellcheck disable=SC2086
    ok "as $plan" train plan --device cuda $plan
    ok "$plan: the losses are one GPU's within 0.05 %" same plan one 0.0005
    rm -f plan
done

ARENA_SOFT_FAIL=ncclAllReduce:1=2 timeout 60 "$soft/arena-train" --layers 1 --hidden 32 --heads 4 --vocab 128 --seq-length 16 --global-batch 2 \
    --steps 1 --data text --quiet --device cuda --tp 2 --ranks 2 >fault.out 2>fault.err
is "$?" 3 "a collective that one rank cannot call ends the others, too"
like "$(grep -v leak fault.err)" '^arena-train: NCCL: all-reduce: ' "with NCCL's words"
is "$(grep -vc leak fault.err)" 1 "in one sentence"

# ---- collectives ----------------------------------------------------------------------------------
ARENA_SOFT_GPUS=2 "$soft/arena-profiler-cuda" comm --device cuda --gpu-type soft --budget 10 --max-bytes 64K --factor 16 --out comm.csv 2>comm.err
is "$?" 0 "collectives between two GPUs are measured"
is "$(cut -d, -f2 comm.csv | grep -cE '^(all_reduce|all_gather|reduce_scatter|all_to_all|send)$')" 10 "each operation, in both sizes"
is "$(grep leak comm.err)" "" "and nothing of it stays on the devices"
unset ARENA_SOFT_GPUS

# ---- a call of each function fails -------------------------------------------------------------------------
is "$(faults first profiler "$soft/arena-profiler-cuda" "${soft_profile[@]}" --model bf16.yaml --out fault.json)" "" \
    "arena-profiler: whichever function of CUDA fails, it says one sentence and nothing stays on the device"
is "$(faults first train "${soft_trainer[@]}")" "" "arena-train: the same"
ok "calls of the profiler were counted" test -s profiler.calls
ok "calls of the trainer were counted" test -s train.calls
done_testing
