#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What a job's life asks of arena-train and arena-profiler, on the software device: a check of a node's GPUs and links that
# finds the slow one; checkpoints between CPU, GPU and other plans; SIGTERM; micro-batches split anew, roles changed and
# ranks parked, by threads and by MPI; an array's members; and the recorder under NCCL.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/tap.sh"
: "${ARENA_SRCDIR:=$(cd "$(dirname "$0")/.." && pwd)}" "${ARENA_BUILDDIR:=$PWD}"
. "$ARENA_SRCDIR/tests/lib/train.sh"
. "$ARENA_SRCDIR/tests/lib/mpi.sh"
. "$ARENA_SRCDIR/tests/lib/soft_gpu.sh"
export ARENA_SOFT_OPEN=1 ARENA_SOFT_GPUS=2   # t0285 sees who touches device memory

# ---- a check of the node --------------------------------------------------------------------------
check() { ARENA_SOFT_FASTER=1000 timeout 300 "$soft/arena-profiler-cuda" check --device cuda "$@" >check.out 2>check.err; }
ok "two GPUs and the links between them are checked" check --out healthy.json
is "$(grep -c '1\.000 times' check.out) $(grep -c 'GB/s' check.out)" "6 2" "three products on each, and both directions"
like "$(tail -n 1 check.out)" ': healthy beside the other GPUs of its node$' "they are healthy"
is "$(cat check.err)" "" "and nothing of it stays on the devices"
ARENA_SOFT_SLOW=1:160 check --baseline healthy.json
is "$?" 1 "a slow GPU is no success"
like "$(tail -n 1 check.out)" ': GPU 1 computes 1\.6 times slower' "it is named, and by how much"
ARENA_SOFT_SLOW_LINK=1-0:250 check --baseline healthy.json
is "$?" 1 "nor is a slow link"
like "$(tail -n 1 check.out)" 'the link from GPU 1 to GPU 0 is 2\.5 times slower than before$' "it is named, too"

# ---- a run's lives --------------------------------------------------------------------------------
small=(--layers 2 --hidden 32 --heads 4 --vocab 128 --seq-length 16 --lr 1e-3 --data text --quiet)
on() { ranks=$(($3 * $5)); timeout 100 "$soft/arena-train" "${small[@]}" --global-batch 8 --device "$1" "${@:2:4}" --ranks $ranks "${@:6}"; }
# same FILE FILE BOUND STEPS: as many losses, each within BOUND of the other
same() {
    paste <(losses "$1") <(losses "$2") | awk -v bound="$3" -v steps="$4" '{ d = ($2 - $4) / $4; if (d < 0) d = -d; n++
        if (NF != 4 || !(d <= bound)) { print; bad = 1 } } END { exit bad || n != steps }'
}
ok "eight steps of two replicas" on cuda --pp 1 --dp 2 --steps 8 --log none
ok "four of them" on cuda --pp 1 --dp 2 --steps 4 --checkpoint saved --log lives
ok "two more as a pipeline, from their checkpoint" on cuda --pp 2 --dp 1 --steps 6 --checkpoint saved --log lives
ok "the last two on the CPU" on cpu --pp 1 --dp 1 --steps 8 --checkpoint saved --log lives
ok "the losses are those of one life within 0.2 %" same lives none 0.002 8
for device in cpu cuda; do on $device --pp 1 --dp 1 --steps 0 --checkpoint first.$device; done
ok "first weights come back from the device to the bit" cmp first.cpu/step-0000000000.arena first.cuda/step-0000000000.arena
on cuda --pp 1 --dp 2 --steps 100000 --checkpoint left --log left.log &
trainer=$!
until grep -qs '"step":3,' left.log; do kill -0 $trainer || break; sleep 0.05; done
pkill -TERM -P $trainer
wait $trainer
is "$?" 99 "told to leave, it ends with the code of a requeue"
isnt "$(find left -name 'step-*.arena')" "" "and is saved"

# ---- told between two steps -----------------------------------------------------------------------
printf '%s\n' '3 split 5,3' '5 park 0.05s' '6 swap 0 1' >script
ok "threads are told: a split, a park, a swap" on cuda --pp 1 --dp 2 --steps 8 --control script --log told
ok "no loss changes but by rounding" same told none 1e-5 8
is "$(jq -r 'select(.event and .event != "start" and .event != "end") | .event' told | sort -u | paste -sd' ')" "parked split swapped unparked" "the log has each"
ARENA_SOFT_FAIL=cudaLaunchKernel:60=2,cudaLaunchKernel:66=2 timeout 60 "${soft_trainer[@]}" --tp 2 --ranks 2 >both.out 2>&1
is "$? $(wc -l <both.out)" "3 1" "two ranks that fail, one of them in a collective with the other, end both"
if grep -q '#define HAVE_MPI 1' "$ARENA_BUILDDIR/config.h" && command -v mpirun >/dev/null; then
    mpi+=(--mca mpi_yield_when_idle 1)
    ok "processes by MPI are told the same" timeout 100 "${mpi[@]}" -n 2 "$soft/arena-train" "${small[@]}" --device cuda --dp 2 \
        --global-batch 8 --steps 8 --control script --log told.mpi
    ok "their losses are those of threads" same told.mpi told 1e-6 8

    # ---- an array's members -----------------------------------------------------------------------
    export ARENA_ARRAY_KEY=00112233445566778899aabbccddeeff
    model=(--device cuda --layers 2 --hidden 32 --heads 4 --vocab 128 --seq-length 16 --untied --quiet)
    own() { echo "--global-batch $((1 + $1 % 3)) --lr 0.00$1 --seed $1 --clip 0 --warmup-steps $1 --steps 6 --data text"; }
    timeout 200 "${mpi[@]}" -n 2 "$soft/arena-train" "${model[@]}" --global-batch 4 --pp 2 --recompute full --array-solve 0.1 \
        --array-buffers 2 --array-serve "$work/array" --array-idle 5 >array.out 2>&1 &
    array=$!
    members=()
    for i in 1 2 3; do
        # shellcheck disable=SC2046
        ARENA_ARRAY=$work/array ARENA_ARRAY_MEMBER=$i timeout 150 "$soft/arena-train" "${model[@]}" $(own $i) \
            --checkpoint member.$i >member.$i.out 2>&1 &
        members+=($!)
    done
    for i in 1 2 3; do
        wait "${members[i - 1]}"
        is "$?" 0 "member $i of three, which share two stages with memory for two, ends well"
        # shellcheck disable=SC2046
        timeout 100 "$soft/arena-train" "${model[@]}" $(own $i) --micro-batch $((1 + i % 3)) --recompute full --checkpoint alone.$i
        ok "its weights are to the last bit those of a run alone" cmp member.$i/step-0000000006.arena alone.$i/step-0000000006.arena
    done
    wait $array
    is "$? $(grep -c leak array.out)" "0 0" "the array ends, and nothing stays on the devices"

    # A copy lane that fails, and memory that cannot be pinned.
    # lone_array FAULT: an array of one stage, which the fault befalls, and a member; their status
    lone_array() {
        rm -rf member.9
        ARENA_SOFT_FAIL=$1 timeout 100 "$soft/arena-train" "${model[@]}" --global-batch 4 --ranks 1 --recompute full --array-solve 0.1 \
            --array-buffers 2 --array-serve "$work/lone" --array-idle 3 >lone.out 2>&1 &
        local served=$! first
        # shellcheck disable=SC2046
        ARENA_ARRAY=$work/lone ARENA_ARRAY_MEMBER=9 timeout 100 "$soft/arena-train" "${model[@]}" $(own 9) --checkpoint member.9 >/dev/null 2>&1
        first=$?
        wait $served
        echo "$first $?"
    }
    is "$(lone_array cudaEventQuery:3=2)" "99 3" "a copy that fails ends the array, and its member goes on elsewhere"
    is "$(grep -v leak lone.out)" "arena-train: CUDA: a mark: out of memory" "with one sentence"
    is "$(lone_array cudaHostRegister:1=2) $(cat lone.out)" "0 0 " "memory that cannot be pinned is copied all the same"

    # ---- the recorder -----------------------------------------------------------------------------
    job=$((8100000000 + $$))
    trap 'rm -rf "$work" "/dev/shm/arena-watch.$job."*' EXIT
    cat >rank <<END
#!/bin/bash
export SLURM_JOB_ID=$job SLURM_STEP_ID=1 SLURM_PROCID=\$OMPI_COMM_WORLD_RANK SLURM_LOCALID=\$OMPI_COMM_WORLD_RANK SLURM_NTASKS=2
LD_PRELOAD=$ARENA_BUILDDIR/.libs/libarena_watch.so exec "\$@"
END
    chmod 755 rank
    timeout 100 "${mpi[@]}" -n 2 ./rank "$soft/arena-train" "${small[@]}" --device cuda --dp 2 --global-batch 4 --steps 3 --log watched >watch.out 2>&1
    is "$? $(cat watch.out)" "0 " "a run that is recorded says nothing"
    "$ARENA_BUILDDIR/arena-watch" dump --job "$job.1" | tail -n +2 >dump.csv
    is "$(cut -d, -f2,10 dump.csv | sort | uniq -c | awk '{ print $1, $2 }' | paste -sd';')" "3 6,0;3 6,1" "each all-reduce of both ranks is in its ring"
    is "$(cut -d, -f1 dump.csv | sort -u | wc -l)" 1 "of one communicator"
else
    skip 1 "this build or machine has no MPI"
fi
done_testing
