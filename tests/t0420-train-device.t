#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-train on another device: which one is taken and how that is said; and all that lies between the layers and a
# GPU, over a device that is emulated on the host (memory of its own, bf16, fp32 masters): it learns what fp32 learns,
# under every kind of plan, and either goes on from the other's checkpoints.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
build=${ARENA_BUILDDIR:-.}
for program in arena-train arena-train-emulated; do
    [[ -x $build/$program ]] || skip_all "$program is not built"
done
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
unset ARENA_PLAN ARENA_GLOBAL_BATCH "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}"
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc

awk 'BEGIN { x = 7; c = 40; for (i = 0; i < 20000; i++) { x = (x * 1103515245 + 12345) % 2147483648
    c = x % 97 < 12 ? 32 + int(x / 97) % 90 : 32 + (c % 16 * 5 + 3) % 90; printf "%c", c } }' >"$work/text"
small=(--layers 3 --hidden 32 --heads 4 --vocab 128 --seq-length 32 --global-batch 8 --lr 1e-3 --data "$work/text" --quiet)
cpu=("$build/arena-train" --device cpu "${small[@]}")
far=("$build/arena-train-emulated" "${small[@]}")
losses() { jq -r 'select(has("loss")) | .loss' "$1"; }
# same FILE FILE BOUND: as many losses, each within BOUND of the other; says the largest difference
same() {
    paste <(losses "$1") <(losses "$2") | awk -v bound="$3" '{ d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > most) most = d; n++
        if (NF != 2 || !(d <= bound)) { print "step " NR ": " $0; bad = 1 } }
        END { printf "# %d steps, largest difference %.2g of %g\n", n, most, bound; exit bad || !n }'
}

# ---- which device --------------------------------------------------------------------------------
is "$("${cpu[@]}" --steps 0 --log "$work/where" && jq -r .device "$work/where")" cpu "the log says that it is the CPU"
like "$("$build/arena-train" --device cpu "${small[@]/--quiet/--seed=1}" --steps 0 | head -n 1)" ' on cpu; ' "the first line says it"
like "$("$build/arena-train" --device gpu "${small[@]}" --steps 0 2>&1)" 'cpu' "another word is refused with what is accepted"
# Without a driver whatever this machine has: no library of CUDA's is found.
if [[ -x $build/arena-train-cuda ]] && ldconfig -p | grep -q 'libcuda\.so\.1'; then
    skip 3 "this machine has a CUDA driver: tests/gpu/run says what holds there"
else
    out=$("$build/arena-train" --device cuda "${small[@]}" --steps 1 2>&1) rc=$?
    is "$rc" 3 "--device cuda without a GPU is no CPU run: exit code 3"
    like "$out" '^arena-train: --device cuda: (this build has no arena-train-cuda|no usable GPU)' "and the sentence says what is missing"
    is "$(grep -c . <<<"$out")" 1 "in one line"
fi
is "$("${far[@]}" --device cpu --steps 0 2>&1)" "arena-train: --device: is arena-train's; this program trains on GPUs" "the GPU half is no CPU program"

# ---- bf16 with fp32 masters ----------------------------------------------------------------------
ok "50 steps in fp32 on the CPU" "${cpu[@]}" --steps 50 --log "$work/cpu"
ok "50 steps on the emulated device" "${far[@]}" --steps 50 --log "$work/far"
is "$(jq -r 'select(.event == "start") | .device' "$work/far")" emulated "its log says what it is"
ok "its losses are those of fp32 within 0.5 %" same "$work/far" "$work/cpu" 0.005
nok() { ! "$@"; }
ok "and are no fp32" nok same "$work/far" "$work/cpu" 1e-6
for plan in '--pp 3' '--dp 2 --zero 1 --micro-batch 2' '--tp 2' '--pp 2 --stage-layers 1,2 --dp 2 --tp 2 --zero 1 --recompute full' \
    '--pp 2 --dp 2 --untied --recompute selective'; do
    rm -f "$work/plan" "$work/one"
    wanted=$work/far
    if [[ $plan == *--untied* ]]; then
        "${far[@]}" --steps 50 --untied --log "$work/one" && wanted=$work/one
    fi
    # shellcheck disable=SC2086
    ok "50 steps as $plan" "${far[@]}" --steps 50 $plan --log "$work/plan"
    ok "the losses are those of one rank within 0.2 %" same "$work/plan" "$wanted" 0.002
done

# FLOPs of 8 samples, forward and twice that backward: 3 layers of 2 s (4 h^2 + 2 h f) + 4 s^2 h, logits 2 s h v
ok "where the GPU's peak is known the log has MFU" env ARENA_EMULATED_NAME='NVIDIA H100 80GB HBM3' "${far[@]}" --steps 3 --log "$work/mfu"
ok "which is the model's FLOPs over the peak and the time" jq -es 'map(select(has("loss"))) | length == 3 and
    all(.mfu * .iteration_s * 989.4e12 / (8 * 3 * (3 * (2 * 32 * (4 * 32 * 32 + 2 * 32 * 128) + 4 * 32 * 32 * 32) + 2 * 32 * 32 * 128)) - 1 |
        fabs < 1e-6)' "$work/mfu"
like "$(ARENA_EMULATED_NAME='NVIDIA H100 80GB HBM3' "$build/arena-train-emulated" "${small[@]/--quiet/--seed=1}" --steps 1 | tail -n 1)" \
    'step 1 loss [0-9.]+ .* tokens/s MFU [0-9.]+ %$' "and the step's line ends in it"

# ---- checkpoints know no device ------------------------------------------------------------------
# onward NAME FIRST-PROGRAM... -- SECOND-PROGRAM...: 25 steps by the first, 25 more by the second
onward() {
    local name=$1 first=()
    shift
    while [[ $1 != -- ]]; do first+=("$1") && shift; done
    shift
    "${first[@]}" --steps 25 --checkpoint "$work/$name" --log "$work/$name.log" &&
        "$@" --steps 50 --checkpoint "$work/$name" --log "$work/$name.log" && same "$work/$name.log" "$work/cpu" 0.005
}
ok "the emulated device goes on from the CPU's checkpoint" onward there "${cpu[@]}" --pp 2 -- "${far[@]}" --dp 2 --zero 1
ok "the CPU goes on from the emulated device's" onward back "${far[@]}" --tp 2 --dp 2 --zero 1 -- "${cpu[@]}" --pp 3
# Masters are whole, whoever of the replicas owns them: weights that nobody has trained come back to the bit.
"${cpu[@]}" --steps 0 --checkpoint "$work/cpu-0"
for plan in '' '--dp 2 --zero 1' '--pp 3 --tp 2'; do
    # shellcheck disable=SC2086
    "${far[@]}" --steps 0 $plan --checkpoint "$work/far-0$plan"
    ok "first weights of the emulated device${plan:+ as $plan} are those of the CPU to the bit" \
        cmp "$work/cpu-0/step-0000000000.arena" "$work/far-0$plan/step-0000000000.arena"
done
done_testing
