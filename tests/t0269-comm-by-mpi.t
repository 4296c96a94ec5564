#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-profiler comm over the processes of mpirun, between host memories: the table is that of threads; a rank that
# dies, hangs or never comes and SIGTERM end all ranks in bounded time, and leave whole rows or nothing; MPI is a module
# that only such a run opens.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
: "${ARENA_SRCDIR:=$(cd "$(dirname "$0")/.." && pwd)}" "${ARENA_BUILDDIR:=$PWD}"
profiler=$ARENA_BUILDDIR/arena-profiler arena=$ARENA_BUILDDIR/arena
[[ -x $profiler && -x $arena ]] || skip_all "arena-profiler is not built"
grep -q '#define HAVE_MPI 1' "$ARENA_BUILDDIR/config.h" || skip_all "this build has no MPI"
command -v mpirun >/dev/null || skip_all "mpirun is not installed"
work=$(mktemp -d "${TMPDIR:-/tmp}/arena-mpi-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
mkdir -m 700 shared-memory store
unset "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}" "${!SLURM_@}"
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc ARENA_CONF=$work/none.yaml OMPI_MCA_btl_vader_backing_directory=$work/shared-memory
mpi=(mpirun --oversubscribe --mca btl "self,vader")
((EUID != 0)) || mpi+=(--allow-run-as-root)
host=(comm --device cpu --gpu-type emulated-cpu)

# ---- what is measured -----------------------------------------------------------------------------------
small=("${host[@]}" --min-bytes 1K --max-bytes 64K --factor 64 --budget 3000 --timeout 600)
"${mpi[@]}" -n 4 "$profiler" "${small[@]}" --out mpi.csv --json >record 2>err
is "$?" 0 "four processes of mpirun measure all sizes"
is "$(grep -o '"library":"[A-Za-z ]*' record) $(grep -o '"gpus_per_node":[0-9]*' record)" '"library":"Open MPI v "gpus_per_node":4' \
    "the record tells the library and the ranks of the node"
ok "four threads, too" "$profiler" "${small[@]}" --gpus 4 --out threads.csv
keys() { cut -d, -f1-6 "$1"; }
is "$(keys mpi.csv)" "$(keys threads.csv)" "their tables have the same rows"
is "$(wc -l <mpi.csv)" 29 "of five collectives, three placements and two sizes; a send needs two ranks"
is "$("${mpi[@]}" -n 1 "$profiler" "${small[@]}" --gpus 2 --ops all-reduce 2>err | wc -l)" 3 "one process alone takes threads"

# ---- what cannot be ---------------------------------------------------------------------------------------
# refused CODE WORDS NAME COMMAND...
refused() {
    local wanted=$1 words=$2 name=$3
    shift 3
    "$@" >out 2>&1
    is "$?" "$wanted" "$name: exit code $wanted"
    like "$(<out)" "$words" "$name: a sentence"
    not_ok "$name: nothing is written" test -e x.csv -o -e x.csv.new
}
refused 2 "'8' has no room: there are 1 nodes of 3 GPUs" "a group larger than the world" "${mpi[@]}" -n 3 "$profiler" "${host[@]}" --groups 8 --out x.csv
is "$(grep -c 'has no room' out)" 1 "said once"
refused 3 '3 ranks need .* more than half' "buffers larger than the memory" "${mpi[@]}" -n 3 "$profiler" "${host[@]}" --max-bytes 1024G --out x.csv
SLURM_STEP_NUM_TASKS=2 refused 2 'srun --mpi=pmix' "tasks of srun without PMIx" "$profiler" "${host[@]}" --out x.csv
cat >late <<'END'
#!/bin/bash
if ((OMPI_COMM_WORLD_RANK == 1)); then exec tail -f /dev/null; fi
exec "$@"
END
chmod 755 late
refused 3 'MPI: start: no answer from the other ranks within 2 s' "a rank that never comes" \
    timeout 300 "${mpi[@]}" -n 3 ./late "$profiler" "${host[@]}" --timeout 2 --out x.csv

# ---- MPI is a module ----------------------------------------------------------------------------------------
unlike "$(ldd "$profiler")" 'libmpi|libpmix' "the program itself needs no MPI"
mkdir alone
cp "$profiler" alone/
refused 3 'has no arena-profiler-mpi.so: configure with Open MPI' "a build without it" "${mpi[@]}" -n 2 alone/arena-profiler "${host[@]}" --out x.csv
ok "measures on one node all the same" alone/arena-profiler "${small[@]}" --gpus 2 --ops all-reduce
LC_ALL=C sed 's/arena-profiler [0-9]/arena-profiler x/' "$ARENA_BUILDDIR/.libs/arena-profiler-mpi.so" >alone/arena-profiler-mpi.so
refused 3 'arena-profiler-mpi.so: is not of arena-profiler [0-9].*; install both from one build' "one of another build" \
    "${mpi[@]}" -n 2 alone/arena-profiler "${host[@]}" --out x.csv
echo none >alone/arena-profiler-mpi.so
refused 3 'arena-profiler-mpi.so: cannot be opened: .*; install Open MPI on this node' "one that cannot be loaded" \
    "${mpi[@]}" -n 2 alone/arena-profiler "${host[@]}" --out x.csv

# ---- a run that ends before its time ------------------------------------------------------------------------
cat >rank <<'END'
#!/bin/bash
echo $$ >"pid.$OMPI_COMM_WORLD_RANK"
exec "$@"
END
chmod 755 rank
# shellcheck disable=SC2317 # called by ok; who is dead and not yet buried counts as gone
gone() {
    local i
    for ((i = 0; i < 1000; i++)); do
        ps -o stat= -p "$(paste -sd, pid.*)" | grep -qv '^Z' || return 0
        sleep 0.02
    done
    return 1
}
# cut_short NAME COMMAND... : runs three ranks, COMMAND after the first row; $code is mpirun's; --timeout TIMEOUT seconds
cut_short() {
    local name=$1
    shift
    rm -f x.csv err pid.*
    timeout 500 "${mpi[@]}" -n 3 ./rank "$profiler" "${host[@]}" --min-bytes 1M --max-bytes 64M --budget 3000 --timeout "${TIMEOUT-3000}" \
        --out x.csv -v >out 2>err &
    until grep -qs 'GB/s' err || ! kill -0 $! 2>/dev/null; do sleep 0.02; done   # timeout ends it
    "$@"
    wait $!
    code=$?
    isnt "$code" 124 "$name: all end by themselves"
    ok "$name: every rank is gone" gone
    ok "$name: what was measured before is kept" "$arena" profile --store store/p.db import-comm x.csv
    # the writer itself may have been killed while it wrote
    [[ $name == *'rank 0' ]] || not_ok "$name: nothing half-written is left" test -e x.csv.new
}
# shellcheck disable=SC2317 # called by cut_short
signal() { kill "$1" "$(<"pid.$2")"; }
for victim in 0 2; do
    cut_short "kill -9 of rank $victim" signal -KILL $victim
    isnt "$code" 0 "kill -9 of rank $victim: it is no success"
    like "$(<err)" "rank $victim .*exited on signal 9" "kill -9 of rank $victim: mpirun says which"
done
cut_short "SIGTERM to a rank" signal -TERM 1
is "$code" 1 "SIGTERM to a rank: exit code 1"
like "$(<err)" 'rank 0 measured [0-9]+ of [0-9]+ sizes: stopped by a signal' "SIGTERM to a rank: how far it came"
# shellcheck disable=SC2317 # called by cut_short
stop_mpirun() { pkill -TERM -P $!; }
cut_short "SIGTERM to mpirun" stop_mpirun
isnt "$code" 0 "SIGTERM to mpirun: it is no success"
TIMEOUT=30 cut_short "a rank that hangs" signal -STOP 1
is "$code" 3 "a rank that hangs: exit code 3"
like "$(<err)" 'rank [02]: Open MPI v[0-9.]*: [a-z _]+: no answer from the other ranks within 30 s' "a rank that hangs: a sentence"
done_testing
