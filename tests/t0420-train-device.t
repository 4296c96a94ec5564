#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-train on another device: which one is taken and how that is said; and all that lies between the layers and a
# GPU, over a device that is emulated on the host (memory of its own, bf16, fp32 masters): it learns what fp32 learns,
# under every kind of plan, and either goes on from the other's checkpoints.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
build=${ARENA_BUILDDIR:-.}
for file in arena-train tests/train/emulated_device.so; do
    [[ -x $build/$file ]] || skip_all "$file is not built"
done
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
unset ARENA_PLAN ARENA_GLOBAL_BATCH "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}"
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc

awk 'BEGIN { x = 7; c = 40; for (i = 0; i < 20000; i++) { x = (x * 1103515245 + 12345) % 2147483648
    c = x % 97 < 12 ? 32 + int(x / 97) % 90 : 32 + (c % 16 * 5 + 3) % 90; printf "%c", c } }' >"$work/text"
small=(--layers 3 --hidden 32 --heads 4 --vocab 128 --seq-length 32 --global-batch 8 --lr 1e-3 --data "$work/text" --quiet)
cpu=("$build/arena-train" --device cpu "${small[@]}")
# Where the program looks for CUDA's module, and the linker for CUDA's driver, lies the emulated device.
mkdir -p "$work/bin" "$work/driver" && cp "$build/arena-train" "$work/bin/" &&
    cp "$build/tests/train/emulated_device.so" "$work/bin/arena-train-cuda.so" && ln -s "$work/bin/arena-train-cuda.so" "$work/driver/libcuda.so.1"
on_device=(env LD_LIBRARY_PATH="$work/driver" "$work/bin/arena-train")
far=("${on_device[@]}" --device cuda "${small[@]}")
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
# refused SENTENCE ARGUMENT...: --device cuda is no CPU run, but exit code 3 and one sentence
refused() {
    local sentence=$1 out rc=0
    shift
    out=$("$@" --device cuda "${small[@]}" --steps 1 2>&1) || rc=$?
    is "$rc" 3 "exit code 3: $sentence"
    like "$out" "^arena-train: $sentence" "says: $sentence"
    is "$(grep -c . <<<"$out")" 1 "in one line: $sentence"
}
if ldconfig -p | grep -q 'libcuda\.so\.1'; then
    skip 3 "this machine has a CUDA driver: tests/gpu/run says what holds there"
else
    refused '--device cuda: no usable GPU' "$work/bin/arena-train"
fi
refused '--device cuda: no usable GPU: CUDA sees no device' env ARENA_EMULATED_GPUS=0 "${on_device[@]}"
# where NAME ARGUMENT...: the device of a run, as its log says it
where() {
    rm -f "$work/where"
    "$@" "${small[@]}" --steps 0 --log "$work/where" && jq -r .device "$work/where"
}
is "$(where "${on_device[@]}")" emulated "one rank goes to the device unasked"
is "$(where "${on_device[@]}" --device cpu)" cpu "and stays on the CPU when told so"
is "$(where env ARENA_EMULATED_GPUS=1 "${on_device[@]}" --dp 2 --ranks 2)" cpu "two ranks stay on the CPU where there is one"
like "$(ARENA_EMULATED_GPUS=1 "${on_device[@]}" "${small[@]/--quiet/--seed=1}" --steps 0 --dp 2 --ranks 2 | head -n 1)" \
    ' on cpu \(2 ranks here, 1 GPU visible\); ' "and the first line says why"

# ---- the module ----------------------------------------------------------------------------------
# with_module PLACE: a program that has its module there
with_module() {
    rm -rf "$work/other"
    mkdir -p "$work/other/bin" "$(dirname "$work/other/$1")" && cp "$build/arena-train" "$work/other/bin/" &&
        cp "$build/tests/train/emulated_device.so" "$work/other/$1"
    other=(env LD_LIBRARY_PATH="$work/driver" "$work/other/bin/arena-train")
}
with_module bin/.libs/arena-train-cuda.so
is "$(where "${other[@]}")" emulated "a build directory's module is found"
with_module libexec/slurm-arena/arena-train-cuda.so
is "$(where "${other[@]}")" emulated "a staged tree's module is found"
chmod o+w "$work/other/libexec/slurm-arena"
refused "$work/other/libexec/slurm-arena: others may write to it" "${other[@]}"
with_module bin/arena-train-cuda.so
LC_ALL=C sed -i 's/arena-train [0-9]/arena-train x/' "$work/other/bin/arena-train-cuda.so"
refused "$work/other/bin/arena-train-cuda.so: is of arena-train x.*, this program is arena-train [0-9]" "${other[@]}"
echo "no module" >"$work/other/bin/arena-train-cuda.so"
refused "$work/other/bin/arena-train-cuda.so: cannot be opened: " "${other[@]}"

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

# What ranks are told between two steps: of masters that are sharded, and that are not.
printf '%s\n' '5 swap 0 3' '9 swap 1 2' '20 swap 1 0' >"$work/swaps"
printf '%s\n' '5 split 3,5' '20 split 7,1' >"$work/splits"
for plan in '--pp 2 --dp 2 --zero 1' '--dp 2 --tp 2'; do
    rm -f "$work/plan" "$work/told"
    # shellcheck disable=SC2086
    "${far[@]}" --steps 30 $plan --log "$work/plan"
    # shellcheck disable=SC2086
    ok "30 steps as $plan, whose ranks change roles" "${far[@]}" --steps 30 $plan --control "$work/swaps" --log "$work/told"
    ok "the losses are the same to the bit: masters travel, not what bf16 leaves of them" same "$work/told" "$work/plan" 0
    rm -f "$work/told"
    # shellcheck disable=SC2086
    ok "30 steps as $plan, split anew" "${far[@]}" --steps 30 $plan --control "$work/splits" --log "$work/told"
    ok "the losses are the same within 0.2 %" same "$work/told" "$work/plan" 0.002
done

# FLOPs of 8 samples, forward and twice that backward: 3 layers of 2 s (4 h^2 + 2 h f) + 4 s^2 h, logits 2 s h v
ok "where the GPU's peak is known the log has MFU" env ARENA_EMULATED_NAME='NVIDIA H100 80GB HBM3' "${far[@]}" --steps 3 --log "$work/mfu"
ok "which is the model's FLOPs over the peak and the time" jq -es 'map(select(has("loss"))) | length == 3 and
    all(.mfu * .iteration_s * 989.4e12 / (8 * 3 * (3 * (2 * 32 * (4 * 32 * 32 + 2 * 32 * 128) + 4 * 32 * 32 * 32) + 2 * 32 * 32 * 128)) - 1 |
        fabs < 1e-6)' "$work/mfu"
like "$(ARENA_EMULATED_NAME='NVIDIA H100 80GB HBM3' "${on_device[@]}" "${small[@]/--quiet/--seed=1}" --steps 1 | tail -n 1)" \
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
