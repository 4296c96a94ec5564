#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The recorder in ranks: none of a million calls lost or doubled, communicators named alike on all ranks, programs that
# are no ranks left alone, ranks that are killed, rings of others; and arena-train's calls by MPI.
# shellcheck disable=SC2016,SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
built=${ARENA_BUILDDIR:-.}
recorder=$built/.libs/libarena_watch.so mpi_recorder=$built/.libs/libarena_watch_mpi.so
watch=$built/arena-watch program=$built/tests/watch/nccl_program
[[ -x $watch && -x $program && -e $recorder ]] || skip_all "arena-watch is not built"
work=$(mktemp -d) || exit 99
job=$((8000000000 + $$)) running=''
trap '[[ ! $running ]] || kill -KILL $running 2>/dev/null; rm -rf "$work" "/dev/shm/arena-watch.$job."*' EXIT
unset "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}" "${!SLURM_@}" "${!ARENA_WATCH_@}" RANK LOCAL_RANK LD_PRELOAD

# as_rank STEP RANK COMMAND...: as a rank of our job, recorded.
as_rank() {
    local step=$1 rank=$2
    shift 2
    SLURM_JOB_ID=$job SLURM_STEP_ID=$step SLURM_PROCID=$rank SLURM_LOCALID=$rank SLURM_NTASKS=8 LD_PRELOAD=$recorder "$@"
}
dump() { "$watch" dump --job "$job.$1" "${@:2}" | tail -n +2; }
column() { cut -d, -f"$1"; }
rings() { find /dev/shm -maxdepth 1 -name "arena-watch.$job.$1.*" | wc -l; }

# ---- every call, once ----------------------------------------------------------------------------
ranks=()
for rank in 0 1 2 3 4 5 6 7; do
    ARENA_WATCH_RECORDS=125000 as_rank 1 $rank "$program" calls 125000 >"$work/reached.$rank" &
    ranks+=($!)
done
wait "${ranks[@]}"
is "$(sort -u "$work"/reached.*)" 125000 "each of 8 processes makes 125000 calls that reach NCCL once"
is "$(dump 1 | awk -F, '{ if ($3 != $14 || $3 != seen[$10]++) bad++; op[$2]++; n++; if (NR > 1 && last == $10 && $19 < time) bad++; last = $10; time = $19 }
    END { print n, bad + 0, op[6], op[2], op[0], op[1], op[3] + 0 }')" "1000000 0 250000 250000 250000 250000 0" \
    "a million records: none lost, none doubled, each with its own count; Bcast is one call"
is "$("$watch" list --job "$job.1" | awk 'NR > 1 { print $5, $6 }' | sort -u)" "ended 125000" "eight rings of processes that have ended"
as_rank 2 0 "$program" bcast
is "$(dump 2 | column 2,3,11,17)" $'2,100,2,100\n9,10,-1,40' "Bcast and AlltoAll are one call each, with root and bytes"
ARENA_WATCH_RECORDS=100000 as_rank 3 0 "$program" threads 4 20000
is "$(dump 3 | column 3 | sort -n | uniq -c | awk '{ if ($1 != 1 || $2 != NR - 1) bad++ } END { print NR, bad + 0 }')" "80000 0" \
    "four threads of a rank: every call once"
ARENA_WATCH_RECORDS=1000 as_rank 4 5 "$program" calls 5000 >"$work/out"
# Another test's process may just have made its ring, of which nobody can say yet whose it is.
like "$("$watch" dump --job "$job.4" 2>&1 >"$work/csv" | grep -v "shorter than a ring's header")" '^arena-watch: rank 5: 3976 older records are overwritten$' "what was overwritten is said"
is "$(tail -n +2 "$work/csv" | column 14 | sed -n '1p;$p' | tr '\n' ' ')" "3976 4999 " "and the newest are there"

# ---- communicators -------------------------------------------------------------------------------
ARENA_TEST_COLOR=1 as_rank 5 0 "$program" comms
ARENA_TEST_COLOR=1 ARENA_STUB_LATE=1 as_rank 5 1 "$program" comms
ARENA_TEST_COLOR=2 as_rank 5 2 "$program" comms
names() { dump 5 --rank "$1" | column 1 | tr '\n' ' '; }
is "$(names 0 | wc -w) $(names 0 | xargs -n 1 | sort -u | wc -l)" "8 7" "seven communicators have seven names"
is "$(names 1)" "$(names 0)" "another rank has the same, also where a group's end gives the handles"
is "$(diff <(names 0 | xargs -n 1) <(names 2 | xargs -n 1) | grep -c '^<')" 2 "of another colour, the two splits have other names"
is "$(dump 5 --rank 0 | column 18 | uniq | tr '\n' ' ')" "7 8 " "a communicator that goes is another generation"
as_rank 6 0 "$program" fork
is "$(rings 6) $(dump 6 | wc -l)" "2 3" "a child that calls has a ring of its own"
as_rank 7 0 "$program" steps 3
is "$(dump 7 | column 2,3,20 | tr '\n' ' ')" "13,0,3 13,1,3 13,2,3 " "steps are recorded with their tokens"
is "$("$program" steps 3; echo $?)" 0 "and are nothing where nobody watches"

# ---- programs that are no ranks, and ranks without a call ------------------------------------------
cat >"$work/static.c" <<'END'
#include <stdio.h>
int main(void) { puts("static"); return 4; }
END
# same NAME COMMAND...: the same output and exit code with the recorder as without, and no ring
same() {
    local name=$1 with without
    shift
    without=$("$@" 2>&1; echo "exit $?")
    with=$(SLURM_JOB_ID=$job SLURM_STEP_ID=8 SLURM_PROCID=0 SLURM_LOCALID=0 LD_PRELOAD=$preload "$@" 2>&1; echo "exit $?")
    is "$with" "$without" "$name: the same output and exit code"
}
preload=$recorder
[[ ! -e $mpi_recorder ]] || preload+=:$mpi_recorder
same true true
same bash bash -c 'echo a; echo b >&2; x=$(echo c | cat); echo "$x"; exit 3'
same python3 python3 -c 'import ctypes, sqlite3, subprocess; print(subprocess.run(["echo", "x"], capture_output=True).stdout); exit(5)'
if gcc -static -o "$work/static" "$work/static.c" 2>/dev/null; then same "a static program" "$work/static"; else skip 1 "no static C library"; fi
same "a program with NCCL that does not call it" "$program" steps 0
is "$(rings 8)" 0 "none of them made a ring"
is "$(LD_PRELOAD=$recorder "$program" calls 10)" 10 "a program that is no rank goes through to NCCL"
is "$("$watch" list --job 0 2>/dev/null | grep -c "/dev/shm/arena-watch.0.0.0.")" 0 "and makes no ring"
is "$(readelf -dW "$recorder" | grep -c NEEDED)" 1 "the recorder needs the C library alone"
is "$(ulimit -f 100; as_rank 8 3 "$program" calls 10 2>&1)" \
    "arena-watch: rank 3 is not watched: its ring cannot be made in /dev/shm: File too large"$'\n'10 \
    "where there is no room for a ring the rank runs on, and says so once"
if command -v strace >/dev/null; then
    opened() { LD_PRELOAD=$1 strace -f -qq -e trace=openat,open -o "$work/trace" true; grep -vE 'libarena_watch|ENOENT|ld.so.cache' "$work/trace" | grep -c open; }
    is "$(opened "$recorder")" "$(opened '')" "true opens no file more"
else
    skip 1 "strace is not installed"
fi

# ---- programs that load, leave and become others ---------------------------------------------------
step='import ctypes; ctypes.CDLL(None).arena_watch_step()'
as_rank 11 0 python3 -c "$step; import os; os.execvp('python3', ['python3', '-c', '$step; $step'])"
is "$(rings 11) $(dump 11 | wc -l)" "1 2" "after exec the rank has a ring, and that of the program before is gone"
SLURM_JOB_ID=$job SLURM_STEP_ID=12 SLURM_PROCID=0 SLURM_LOCALID=0 python3 -c 'import _ctypes, ctypes, sys
for _ in range(3):
    recorder = ctypes.CDLL(sys.argv[1], ctypes.RTLD_LOCAL)
    recorder.arena_watch_step()
    _ctypes.dlclose(recorder._handle)' "$recorder"
is "$(rings 12) $(dump 12 | wc -l)" "1 3" "who opens and closes the recorder three times has one ring"
cat >"$work/opener.c" <<'END'
#include <dlfcn.h>
int main(int argc, char** argv) {
    void* plugin = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
    return plugin ? ((int (*)(void))dlsym(plugin, "work"))() : 9;
}
END
echo 'int MPI_Barrier(void* comm) { return comm != (void*)1; }' >"$work/library.c"
echo 'int MPI_Barrier(void*); int work(void) { return MPI_Barrier((void*)1); }' >"$work/plugin.c"
if [[ -e $mpi_recorder ]] && gcc -o "$work/opener" "$work/opener.c" -ldl && gcc -shared -fPIC -o "$work/liblibrary.so" "$work/library.c" &&
    gcc -shared -fPIC -o "$work/plugin.so" "$work/plugin.c" -L"$work" -llibrary -Wl,-rpath,"$work"; then
    is "$(SLURM_JOB_ID=$job SLURM_STEP_ID=13 SLURM_PROCID=0 SLURM_LOCALID=0 LD_PRELOAD=$preload "$work/opener" "$work/plugin.so" 2>&1; echo $?)" 0 \
        "an MPI that a program opened for itself alone is called"
    is "$(dump 13 | column 2)" 12 "and its calls are recorded"
else
    skip 2 "no MPI, or no C compiler"
fi
cat >"$work/reduce.c" <<'END'
#include <mpi.h>
int work(void) {
    float in = 1, out = 0;
    return MPI_Init(0, 0) || MPI_Allreduce(&in, &out, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) || MPI_Finalize();
}
END
echo 'int work(void); int main(void) { return work(); }' >"$work/main.c"
if [[ -e $mpi_recorder ]] && mpicc -shared -fPIC -o "$work/reduce.so" "$work/reduce.c" && mpicc -o "$work/reduce" "$work/main.c" "$work/reduce.c"; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    SLURM_JOB_ID=$job SLURM_STEP_ID=14 SLURM_PROCID=0 SLURM_LOCALID=0 LD_PRELOAD=$preload "$work/reduce" 2>"$work/err"
    SLURM_JOB_ID=$job SLURM_STEP_ID=15 SLURM_PROCID=0 SLURM_LOCALID=0 LD_PRELOAD=$preload "$work/opener" "$work/reduce.so" 2>>"$work/err"
    like "$(dump 14 | column 2,3,6,17)" '^6,1,7,4$' "an all-reduce of a float is one"
    is "$(dump 15 | column 1,2,3,6,17)" "$(dump 14 | column 1,2,3,6,17)" "also by an MPI that was opened late, on the same communicator"
else
    skip 2 "no MPI, or no compiler for it"
fi

# ---- ranks that are killed, what they leave, what others plant ---------------------------------------
mkfifo "$work/gate"
begin() { # RANK: makes 10 calls, then waits at the gate
    : >"$work/ready.$1"
    as_rank 9 "$1" "$program" wait "$work/gate" >"$work/ready.$1" 2>/dev/null &
    until [[ -s $work/ready.$1 ]]; do read -rt 0.05 -u "$never"; done
}
exec {never}<> <(:)
pid_of() { "$watch" list --job "$job.9" --rank "$1" 2>/dev/null | awk '$5 == "runs" { print $4 }'; }
begin 0
begin 1
running=$(pid_of 1)
kill -KILL "$(pid_of 0)"
wait %1 2>/dev/null
is "$("$watch" list --job "$job.9" | awk 'NR > 1 { print $3, $5, $6 }')" $'0 died 10\n1 runs 10' "a rank that was killed is told from one that runs"
is "$(dump 9 | column 10 | sort | uniq -c | xargs)" "10 0 10 1" "and all calls of both are read"
before=$(find /dev/shm -name "arena-watch.$job.9.0.*")
begin 0
running+=" $(pid_of 0)"
is "$(rings 9)" 2 "its successor has a ring"
is "$(find /dev/shm -name "$(basename "$before")")" "" "and what it left is gone"
is "$("$watch" clean --job "$job.1")" "8 of 8 rings removed" "clean takes rings of processes that are gone"
# shellcheck disable=SC2086  # two numbers
kill -KILL $running
wait 2>/dev/null
running=''
if ((EUID == 0)); then
    as_rank 10 0 "$program" bcast
    theirs=/dev/shm/arena-watch.$job.10.1.0123456789abcdef
    cp "/dev/shm/arena-watch.$job.10.0."* "$theirs" && chmod 600 "$theirs" && chown nobody "$theirs"
    sum=$(cksum <"$theirs")
    as_rank 10 1 "$program" bcast
    is "$("$watch" list --job "$job.10" | awk 'NR > 1 { print $3 }' | xargs)" "0 1" "another user's object is no ring of this rank's"
    like "$("$watch" dump "$theirs" 2>&1; echo $?)" "belongs to uid [0-9]*, not to uid 0: not read"$'\n'"3" "by its name, it is refused"
    is "$(cksum <"$theirs")" "$sum" "and nothing was written to it"
else
    skip 3 "needs root, to plant another user's object"
fi

# ---- the command -----------------------------------------------------------------------------------
# refused CODE SENTENCE ARGUMENT...
refused() {
    local code=$1 sentence=$2
    shift 2
    like "$("$watch" "$@" 2>&1; echo "exit $?")" "$sentence.*exit $code" "exit code $code: $sentence"
}
refused 2 'say what to do; usage:'
refused 2 'unknown command frob; usage:' frob
refused 2 'unknown option --frob' list --frob
refused 2 '--job x is no JOB or JOB.STEP' list --job x
refused 2 '--job 1.2.3 is no JOB' list --job 1.2.3
refused 2 '--rank -1 is no number' dump --rank -1
refused 2 '--pid needs a value' dump --pid
refused 1 'there is no such ring on this node' dump --job "$job.99"
refused 3 'cannot be opened: No such file' dump /dev/shm/arena-watch.none
printf 'x%.0s' {1..4000} >"$work/text" && chmod 600 "$work/text"
refused 3 'is no ring of arena-watch' dump "$work/text"

# ---- the ring under ThreadSanitizer ------------------------------------------------------------------
if g++ -std=c++20 -O1 -g -fsanitize=thread -I"$ARENA_SRCDIR" -I"$ARENA_SRCDIR/src" -o "$work/race" "$ARENA_SRCDIR/tests/watch/ring_race.cc" \
    "$ARENA_SRCDIR/watch/ring/ring.cc" 2>/dev/null && TSAN_OPTIONS=halt_on_error=1 "$work/race" >"$work/tsan" 2>&1 || [[ -s $work/tsan ]]; then
    is "$(head -n 5 "$work/tsan")" "" "eight writers and a reader: no race, nothing torn"
else
    skip 1 "g++ has no ThreadSanitizer here"
fi

# ---- arena-train by MPI --------------------------------------------------------------------------------
if [[ -e $mpi_recorder && -x $built/arena-train ]] && command -v mpirun >/dev/null; then
    awk 'BEGIN { for (i = 0; i < 9000; i++) printf "%c", 32 + (i * 7 + int(i / 50)) % 90 }' >"$work/text"
    export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # trained STEPS PRELOAD: a run of 4 ranks, its losses
    trained() {
        timeout 120 mpirun --oversubscribe -np 4 env LD_PRELOAD="$2" SLURM_JOB_ID="$job" SLURM_STEP_ID="$((20 + $1))" "$built/arena-train" \
            --device cpu --layers 2 --hidden 32 --heads 4 --vocab 128 --seq-length 32 --global-batch 8 --data "$work/text" \
            --steps "$1" --pp 2 --dp 2 2>&1 | sed -n 's/.*step \([0-9]*\) loss \([0-9.]*\).*/\1 \2/p'
    }
    is "$(trained 6 "$mpi_recorder")" "$(trained 6 '')" "arena-train learns the same when it is watched"
    is "$(trained 3 "$mpi_recorder" | wc -l)" 3 "a run of 3 steps beside one of 6"
    calls() { "$watch" list --job "$job.$1" | awk 'NR > 1 { print $6 }' | xargs; }
    read -ra three <<<"$(calls 23)"
    read -ra six <<<"$(calls 26)"
    is "${#three[@]} ${#six[@]}" "4 4" "each rank has a ring"
    for rank in 0 1 2 3; do
        period=$(((${six[rank]:-0} - ${three[rank]:-0}) / 3))
        keys=$(dump 26 --rank $rank | column 1-3,11 | tail -n $((2 * period)))
        is "$(head -n "$period" <<<"$keys")" "$(tail -n "$period" <<<"$keys")" "rank $rank makes the same $period calls in each step"
        ok "rank $rank sends or receives, and reduces gradients" test "$(column 2 <<<"$keys" | sort -u | grep -cE '^(0|1|6)$')" -ge 2
    done
    # Calls of one group have one name on its ranks: data-parallel peers are the ranks of a stage.
    groups() { dump 26 --rank "$1" | awk -F, '$2 == 6 { print $1 }' | sort -u; }
    shared() { comm -12 <(groups "$1") <(groups "$2") | wc -l; }
    is $(($(shared 0 1) - $(shared 0 3))) 1 "two replicas of a stage share a communicator that two stages do not"
    is "$(shared 0 3)" "$(shared 1 2)" "all ranks share the others"
    ok "at least the world" test "$(shared 0 3)" -ge 1
    ARENA_WATCH_PROFILE=1 trained 4 "$mpi_recorder" >/dev/null
    is "$("$watch" dump --job "$job.24" --rank 0 --timings | awk -F, 'NR > 1 { n++; if ($2 == 6 && $12 >= 0) r++ } END { print (n > 0) (r > 0) }')" 11 \
        "while profiled, blocking calls have durations"
else
    skip 14 "arena-train, the MPI recorder or mpirun is not there"
fi
done_testing
