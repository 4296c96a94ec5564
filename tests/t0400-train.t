#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-train from outside: what it refuses and how, the same losses as an independent NumPy script, with ranks as
# threads and as MPI processes, and that signals end a run in a way that it goes on from.
# shellcheck disable=SC2016,SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/mpi.sh"
train=${ARENA_BUILDDIR:-.}/arena-train
[[ -x $train ]] || skip_all "arena-train is not built"
work=$(mktemp -d) || exit 99
running=''
trap '[[ ! $running ]] || kill -KILL "$running" 2>/dev/null; rm -rf "$work"' EXIT
unset ARENA_PLAN ARENA_GLOBAL_BATCH "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}"

# 20,000 bytes below 128 that follow from one another, a few of them by chance.
awk 'BEGIN { x = 7; c = 40; for (i = 0; i < 20000; i++) { x = (x * 1103515245 + 12345) % 2147483648
    c = x % 97 < 12 ? 32 + int(x / 97) % 90 : 32 + (c % 16 * 5 + 3) % 90; printf "%c", c } }' >"$work/text"
small=(--device cpu --layers 3 --hidden 32 --heads 4 --vocab 128 --seq-length 32 --global-batch 8 --lr 1e-3 --data "$work/text")
losses() { jq -r 'select(has("loss")) | .loss' "$1"; }
# same FILE FILE: as many losses, each within 1e-4 of the other
same() {
    paste <(losses "$1") <(losses "$2") | awk '{ d = ($1 - $2) / $2; n++; if (NF != 2 || d > 1e-4 || d < -1e-4) { print "step " NR ": " $0; bad = 1 } }
        END { if (!n) { print "no losses"; bad = 1 } exit bad }'
}
# refused CODE SENTENCE ARGUMENT...
refused() {
    local code=$1 sentence=$2 out rc=0
    shift 2
    out=$("$train" "$@" 2>&1 >/dev/null) || rc=$?
    is "$rc" "$code" "exit code $code: $sentence"
    like "$out" "$sentence" "says: $sentence"
    is "$(grep -c . <<<"$out")" 1 "in one line: $sentence"
}

# ---- bad input -----------------------------------------------------------------------------------
refused 2 'pp2 x dp2 x tp1 takes 4 ranks, but this run has 3' "${small[@]}" --steps 1 --pp 2 --dp 2 --ranks 3
refused 2 'tensor parallelism of 3 does not divide 4 heads' "${small[@]}" --steps 1 --tp 3
refused 2 'stages of 1,1 layers; the model has 3' "${small[@]}" --steps 1 --pp 2 --stage-layers 1,1
refused 2 '"1,x" is no list of layers per stage' "${small[@]}" --steps 1 --pp 2 --stage-layers 1,x
refused 2 'micro-batch 3 x 2 micro-batches x dp1 is not the global batch of 8' "${small[@]}" --steps 1 --micro-batch 3
refused 2 'family llama; arena-train trains GPT-2 alone' --model llama-7b --global-batch 8 --data "$work/text" --steps 1
refused 3 'missing: cannot be opened: No such file' "${small[@]}" --steps 1 --data "$work/missing"
head -c 20 "$work/text" >"$work/short"
refused 2 'short: has 20 tokens; one sample takes 33' "${small[@]}" --steps 1 --data "$work/short"
refused 2 'is not below the vocabulary of 100' "${small[@]}" --steps 5 --vocab 100 --pp 3
refused 3 'cannot be made: No such file' "${small[@]}" --steps 1 --checkpoint "$work/no/where"
export ARENA_PLAN='{'
refused 2 'ARENA_PLAN: ' "${small[@]}" --steps 1
unset ARENA_PLAN
offer='{"grid":{"gpu_type":"a40","nodes":1,"gpus_per_node":2,"stages":2},"plan":{"stage_layers":[1,2],"stage_dp":[1,1],"stage_tp":[1,1],
"micro_batch":2,"num_micro_batches":4,"recompute":"full","zero_stage":0,"sequence_parallel":false,"vpp":1,"cp":1,"ep":1},"estimate":{"iteration_s":1,"samples_per_s":8,
"tflops_per_gpu":1,"memory_bytes_per_gpu":1,"compute_s":1,"tp_comm_s":0,"pp_comm_s":0,"dp_comm_s":0,"bubble_s":0,"optimizer_s":0,
"source":"analytic","error_bound":0.5}}'
export ARENA_PLAN=$offer
refused 2 'ARENA_PLAN: is set and says the plan; leave out' "${small[@]}" --steps 1 --pp 2
refused 2 'this run has 4' "${small[@]}" --steps 1 --ranks 4
unset ARENA_PLAN

# ---- the same losses -----------------------------------------------------------------------------
ok "50 steps on one rank" "$train" "${small[@]}" --steps 50 --log "$work/one"
is "$(losses "$work/one" | wc -l)" 50 "the log has 50 losses"
ok "it learns" awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(last < first - 1) }' <(losses "$work/one")
ok "50 steps under ARENA_PLAN, two uneven stages" env ARENA_PLAN="$offer" ARENA_GLOBAL_BATCH=8 "$train" "${small[@]}" --steps 50 --log "$work/two"
ok "the losses are those of one rank" same "$work/two" "$work/one"
like "$(head -n 1 "$work/two")" 'pp2,dp1,tp1,mb2x4,full, stages of 1,2 layers' "the log says the plan"
# Large enough that every loop is split between threads.
wide=("${small[@]}" --hidden 64 --seq-length 128 --micro-batch 8 --steps 8 --quiet)
ok "8 steps of a wider model" "$train" "${wide[@]}" --log "$work/wide"
ok "the same on three threads" "$train" "${wide[@]}" --threads 3 --log "$work/threads"
ok "the losses on three threads are those of one" same "$work/threads" "$work/wide"
if ! /usr/bin/python3 -c 'import numpy' 2>/dev/null; then skip 3 "python3-numpy is not installed"; else
    ok "the first weights are saved" "$train" "${small[@]}" --steps 0 --checkpoint "$work/first" --quiet
    numpy() { /usr/bin/python3 "$ARENA_SRCDIR/tests/train/gpt_numpy.py" "$work/first/step-0000000000.arena" "$work/text" 50 1e-3 |
        jq -c '{loss: .}' >"$work/numpy" && same "$work/one" "$work/numpy"; }
    ok "a NumPy script at the same weights has the same losses" numpy
    if ! /usr/bin/python3 -c 'import torch' 2>/dev/null; then skip 1 "python3-torch is not installed (564 MB: not in contrib/install-deps)"; else
        pytorch() { /usr/bin/python3 "$ARENA_SRCDIR/tests/train/gpt_pytorch.py" "$work/first/step-0000000000.arena" "$work/text" 50 1e-3 |
            awk '{ print "{\"loss\":" $1 "}" }' >"$work/pytorch" && same "$work/one" "$work/pytorch"; }
        ok "PyTorch at the same weights has the same losses" pytorch
    fi
fi

# ---- MPI -----------------------------------------------------------------------------------------
if ! grep -q '#define HAVE_MPI 1' "${ARENA_BUILDDIR:-.}/config.h"; then skip 8 "this build has no MPI"
elif ! command -v mpirun >/dev/null; then skip 8 "mpirun is not installed"; else
    for plan in '--pp 2 --dp 2 --zero 1' '--tp 2 --dp 2' '--pp 2 --tp 2 --recompute selective'; do
        rm -f "$work/mpi"
        # shellcheck disable=SC2086
        ok "MPI: four ranks as $plan" "${mpi[@]}" -n 4 "$train" "${small[@]}" --steps 50 $plan --log "$work/mpi" --quiet
        ok "MPI: the losses of $plan are those of one rank" same "$work/mpi" "$work/one"
    done
    out=$("${mpi[@]}" -n 3 "$train" "${small[@]}" --steps 1 --pp 2 2>&1); rc=$?
    is "$rc" 2 "MPI: a plan for two ranks on three is refused with 2"
    is "$(grep -c 'takes 2 ranks, but this run has 3' <<<"$out")" 1 "MPI: and one sentence"
fi

# ---- signals -------------------------------------------------------------------------------------
# stepped: whether the run that is going on has done a step; waits until it has, or has ended
stepped() {
    until grep -q '"loss"' "$work/live" 2>/dev/null; do
        kill -0 "$running" 2>/dev/null || return 1
        sleep 0.05
    done
}
last_step() { jq -s 'map(select(has("loss")).step) | max' "$1"; }
saved_step() { basename "$(find "$work/saved" -name '*.arena' | sort | tail -n 1)" .arena | sed 's/step-0*//'; }
# threads_that_meet PID SIGNAL: how many do not block it. One that computes must: the kernel would lay the handler's frame
# on the heap, for oneDNN's GEMM kernels have something else in the stack pointer.
threads_that_meet() {
    local task blocked n=0 main='not the main one'
    for task in "/proc/$1"/task/*; do
        blocked=$(awk '/^SigBlk/ { print $2 }' "$task/status" 2>/dev/null)
        [[ $blocked ]] || continue   # it has ended
        if (((16#$blocked >> ($(kill -l "$2") - 1)) & 1)); then continue; fi
        n=$((n + 1))
        [[ ${task##*/} != "$1" ]] || main='the main one'
    done
    echo "$n of them $main"
}
for signal in USR1 TERM; do
    rm -rf "$work/saved" "$work/live"
    # Whoever starts it, as arena-train itself on a machine with GPUs, may block the signals. (OpenBLAS starts its threads
    # before main.)
    OPENBLAS_NUM_THREADS=1 env --block-signal=USR1 --block-signal=TERM "$train" "${small[@]}" --steps 1000000 --pp 2 --threads 2 --checkpoint "$work/saved" --log "$work/live" --quiet >"$work/out" 2>&1 &
    running=$!
    ok "$signal: a run of two stages starts" stepped
    is "$(threads_that_meet "$running" "$signal")" "1 of them not the main one" "$signal: one thread meets it, which does not compute"
    kill -s "$signal" "$running"
    rc=0
    wait "$running" || rc=$?
    running=''
    is "$rc" 99 "$signal: it ends with 99"
    is "$(saved_step)" "$(last_step "$work/live")" "$signal: the checkpoint is that of the last step"
    step=$(saved_step)
    ok "$signal: another plan goes on" "$train" "${small[@]}" --steps $((step + 3)) --dp 2 --checkpoint "$work/saved" --log "$work/next" --quiet
    is "$(losses "$work/next" | wc -l)" 3 "$signal: with the next step"
    like "$(jq -c 'select(.event == "resumed") | .step' "$work/next")" "^$step\$" "$signal: and the log says from where"
    rm -f "$work/next"
done

done_testing
