# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Our CUDA programs on the software device (tests/cuda). Source it after tap.sh and train.sh: skips the test where the device
# or a CUDA build is missing, and goes to an empty directory $work, which goes with the test.
#   $soft                            where the programs are
#   soft_model FAMILY PRECISION      a model file of one small layer
#   $soft_profile                    arguments of arena-profiler-cuda for a profile of one, but --model and --out
#   $soft_trainer                    a trainer's command for one step of a small model on one device
#   faults WHICH NAME COMMAND...     COMMAND again and again, each time another call of CUDA fails in it: of each function the
#                                    first one, some (1, 2, 4, 8 ... and the last), or all. Says what is wrong then. What is
#                                    called stands in NAME.calls, and how many runs there were in NAME.runs
: "${ARENA_BUILDDIR=}" "${ARENA_SRCDIR=}"
[[ -x $ARENA_BUILDDIR/arena-profiler-cuda ]] || skip_all "this build has no CUDA back-end (configure found no nvcc or cuBLASLt)"
soft=$ARENA_BUILDDIR/tests/cuda
[[ -e $soft/lib/libcudart.so.13 ]] || skip_all "the software device is not built: make soft-gpu"
for program in "$soft/arena-profiler-cuda" "$soft/.libs/arena-train-cuda.so" "$soft/arena-train-cuda.so"; do
    [[ -e $program ]] || continue
    while read -r library; do
        [[ -e $soft/lib/$library ]] || skip_all "the software device is of other releases than this CUDA, which has $library"
    done < <(readelf -d "$program" | sed -n 's/.*NEEDED.*\[\(lib\(cudart\|cublasLt\|cudnn\|nccl\)\.so[^]]*\)\].*/\1/p')
done
export LD_LIBRARY_PATH=$soft/lib ARENA_DATA_DIR=$ARENA_SRCDIR/etc
unset ARENA_PLAN ARENA_GLOBAL_BATCH "${!ARENA_SOFT_@}" "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}"
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
export ARENA_SOFT_NCCL_DIR=$work   # a rank that is ended leaves its files
write_training_text text

soft_model() { printf 'family: %s\nlayers: 1\nhidden: 32\nheads: 2\nvocab: 64\nseq_length: 16\nprecision: %s\n' "$1" "$2"; }
# shellcheck disable=SC2034  # of the tests
soft_profile=(run --batch 1 --max-gpus 1 --hardware soft-gpu --hardware-file "$ARENA_SRCDIR/tests/cuda/hardware.yaml" --device cuda --budget 100)
# shellcheck disable=SC2034
soft_trainer=("$soft/arena-train" --layers 1 --hidden 32 --heads 4 --vocab 128 --seq-length 16 --global-batch 2 --steps 1
    --data text --quiet --device cuda)

code_of() { case $1 in cublas*) echo 13 ;; cudnn*) echo 5000 ;; nvml* | cu[A-Z]*) echo 999 ;; *) echo 2 ;; esac; }
# calls_to_fail WHICH COUNT
calls_to_fail() {
    local call
    case $1 in
        first) echo 1 ;;
        all) seq "$2" ;;
        some)
            for ((call = 1; call < $2; call *= 2)); do echo $call; done
            echo "$2" ;;
    esac
}
faults() {
    local which=$1 name=$2 function count call rc runs=0
    shift 2
    ARENA_SOFT_CALLS=$name.calls "$@" >/dev/null 2>&1
    while read -r function count; do
        # What they leave stays by definition; and who joins a communicator waits for all, as in NCCL.
        case $function in *Destroy* | cudaFree | cudaGetLastError) continue ;; ncclCommInitRank) [[ $which == first ]] || continue ;; esac
        for call in $(calls_to_fail "$which" "$count"); do
            ARENA_SOFT_FAIL=$function:$call=$(code_of "$function") timeout 60 "$@" >fault.out 2>fault.err
            rc=$?
            runs=$((runs + 1))
            ((rc <= 3)) || echo "$function, call $call: status $rc"
            (($(wc -l <fault.err) <= 1)) || echo "$function, call $call: $(cat fault.err)"
            ! grep leak fault.err || echo "$function, call $call: that is left"
            ((rc == 0)) || [[ -s fault.err ]] || echo "$function, call $call: status $rc without a word"
        done
    done <"$name.calls"
    echo $runs >"$name.runs"
}
