#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What makes things slow: a process by its factor, whole again however slow-process ends; a link between one pair of
# ranks, beside the recorder; a GPU's clock, given back. Times are compared in turns, for the machine has other work.
# shellcheck disable=SC2016,SC2034,SC2317  # functions are called by ok, variables used by what it is given
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
built=${ARENA_BUILDDIR:-.} here=$ARENA_SRCDIR/tests/lab/inject
slow=$built/tests/lab/inject/slow-process
[[ -x $slow ]] || BAIL_OUT "$slow is not built"
work=$(mktemp -d) || exit 99
chmod 755 "$work"
targets=() job=$((7000000000 + $$))
trap 'kill -CONT "${targets[@]}" 2>/dev/null; kill -KILL "${targets[@]}" 2>/dev/null; rm -rf "$work" "/dev/shm/arena-watch.$job."*' EXIT
unset "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}" "${!SLURM_@}" "${!ARENA_WATCH_@}" ARENA_SLOW_LINK RANK LOCAL_RANK LD_PRELOAD
gcc -O1 -pthread -o "$work/busy" "$ARENA_SRCDIR/tests/lab/inject/busy.c" || BAIL_OUT "no C compiler"

# refused CODE SENTENCE COMMAND...
refused() {
    local code=$1 sentence=$2
    shift 2
    like "$("$@" 2>&1 </dev/null; echo "exit $?")" "$sentence.*exit $code" "exit code $code: $sentence"
}
within() { awk -v got="$1" -v want="$2" -v part="$3" 'BEGIN { exit !(got > want * (1 - part) && got < want * (1 + part)) }'; }
count() { od -An -t u8 -j "${2:-0}" -N 8 "$work/$1" | tr -d ' '; }
# Also of a process that has not been scheduled since it was stopped.
state() { sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status"; }
pause() { read -rt "$1" -u "$never"; }
exec {never}<> <(:)
# holds SECONDS COMMAND...: waits until it does
holds() {
    local left=$(($1 * 50))
    shift
    until "$@"; do
        ((left-- > 0)) || return 1
        pause 0.02
    done
    return 0
}
# busy NAME [THREADS]: counts in the background; its PID in $target
busy() {
    "$work/busy" "$work/$1" "${2:-1}" &
    target=$!
    targets+=("$target")
    holds 10 test -s "$work/$1"
}
runs_on() { local before; before=$(count "$1"); holds 5 eval '(($(count '"$1"') > '"$before"'))'; }

# ---- the factor ----------------------------------------------------------------------------------
# factor_of WANTED NAME: turns with and without; prints what the counts come to, by the process's own clock
factor_of() {
    local turn from at with=0 with_ns=0 without=0 without_ns=0 tool
    for turn in 1 2 3 4 5 6; do
        tool=''
        if ((turn % 2 == 0)); then
            "$slow" "$target" "$1" >/dev/null &
            tool=$!
            pause 0.1
        fi
        read -ra from < <(od -An -t u8 -N 16 "$work/$2")
        pause 0.6
        read -ra at < <(od -An -t u8 -N 16 "$work/$2")
        if [[ $tool ]]; then
            kill "$tool" && wait "$tool"
            ((with += at[0] - from[0], with_ns += at[1] - from[1]))
        else
            ((without += at[0] - from[0], without_ns += at[1] - from[1]))
        fi
    done
    awk -v a="$without" -v ta="$without_ns" -v b="$with" -v tb="$with_ns" 'BEGIN { printf "%.3f\n", (a / ta) / (b / tb) }'
}
busy one
# Before all others, where we may say so: a process that waits for its CPU is not slowed by a stop.
chrt -f -p 1 "$target" >/dev/null 2>&1
slows() { awk -v got="$got" -v want="$factor" 'BEGIN { exit !(got > 0.6 * want && got < 1.6 * want) }'; }
for factor in 1.5 2 4; do
    # A loaded machine wakes late what is to go on, by a millisecond of each run: it counts less, never more.
    # So, too, does a processor that changes its speed between the turns: another time, then.
    for _ in {1..8}; do
        got=$(factor_of "$factor" one)
        diag "wanted $factor, counted $got"
        if slows; then break; fi
    done
    ok "a busy loop runs $factor times slower" slows
done
chrt -o -p 0 "$target" >/dev/null 2>&1
# What one turn is late the next ones make good; the last one's is nobody's.
said=$("$slow" "$target" 3 10)
like "$said" '^1 process slowed for 10\.[0-9]* s, stopped for [0-9.]* % of it: factor [0-9.]*$' "it says what it did"
ok "to a hundredth of what was asked for, by its own clock" within "${said##*factor }" 3 0.02
ok "and leaves the process running" runs_on one
busy two 2
ok "both threads of another count" holds 5 eval '(($(count two) > 1000 && $(count two 512) > 1000))'
"$slow" --turn-ms 500 "$target" 50 >/dev/null &
tool=$!
ok "all its threads are stopped together" holds 10 eval '[[ $(cat /proc/$target/task/*/status | grep -c "^State:.T") == 2 ]]'
kill "$tool"
wait "$tool"
ok "and run again" runs_on two

# ---- every end -----------------------------------------------------------------------------------
# continues NAME WHAT: the target of the tool that has just ended runs, for good
never_stopped() { local looks=10; while ((looks-- > 0)); do [[ $(state "$target") != T ]] || return 1; pause 0.01; done; return 0; }
for signal in INT TERM HUP KILL; do
    # With job control, for else the shell has a child in the background ignore SIGINT.
    set -m
    "$slow" --turn-ms 500 "$target" 90 >"$work/out" 2>&1 &
    tool=$!
    set +m
    holds 10 eval '[[ $(state $target) == T ]]' || fail "it was never stopped"
    kill "-$signal" "$tool"
    wait "$tool" 2>/dev/null
    ok "SIG$signal to the tool: the process runs on" holds 5 never_stopped
    ok "and counts" runs_on two
done
set -m
"$slow" --turn-ms 500 "$target" 90 >/dev/null &
tool=$!
set +m
holds 10 eval '[[ $(state $target) == T ]]'
kill -STOP "$tool"
ok "a tool that is itself stopped holds nobody up" holds 5 never_stopped
kill -KILL "$tool"
wait "$tool" 2>/dev/null
# A shell that is killed leaves its tool without a parent.
bash -c 'echo $$; "$0" --turn-ms 500 "$1" 90 >/dev/null & wait' "$slow" "$target" >"$work/parent" &
holds 10 eval '[[ $(state $target) == T ]]'
tool=$(pgrep -P "$(cat "$work/parent")")
kill -KILL "$(cat "$work/parent")"
wait $! 2>/dev/null
ok "a tool whose parent is gone ends" holds 5 eval '! kill -0 $tool 2>/dev/null'
ok "and its process runs on" holds 5 never_stopped
"$slow" --turn-ms 500 "$target" 90 >"$work/out" &
tool=$!
holds 10 eval '[[ $(state $target) == T ]]'
kill -KILL "$target"
wait "$target" 2>/dev/null
wait "$tool"
is "$? $(grep -c 'it has ended$' "$work/out")" "0 1" "a process that ends ends the tool"

# ---- whose ---------------------------------------------------------------------------------------
refused 2 'usage: slow-process .*PID FACTOR' "$slow"
refused 2 "FACTOR: '1' is not above 1" "$slow" "${targets[0]}" 1
refused 2 "FACTOR: 'nan' is not above 1" "$slow" "${targets[0]}" nan
refused 2 "PID: '-3' is no number" "$slow" -3 2
refused 2 "SECONDS: '0' is not from" "$slow" "${targets[0]}" 2 0
refused 2 "turn-ms: '1' is not from 2 to 500" "$slow" --turn-ms 1 "${targets[0]}" 2
refused 2 'unknown option --frob' "$slow" --frob
refused 2 'given together' "$slow" --rank 1 2
refused 2 "'x' is no JOB or JOB.STEP" "$slow" --rank 1 --job x 2
refused 2 'PID 1: is init' "$slow" 1 2
refused 1 'there is no such process' "$slow" "$(bash -c 'echo $$')" 2
refused 1 "rank 7 of job $job has no process on this node" "$slow" --rank 7 --job "$job" 2
if ((EUID == 0)); then
    cp "$slow" "$work/slow-process"
    refused 3 "PID ${targets[0]}: belongs to uid 0, not to uid [0-9]*: only its user or root may slow it" \
        setpriv --reuid nobody --regid nogroup --clear-groups "$work/slow-process" "${targets[0]}" 2
else
    refused 3 'belongs to uid 0' "$slow" 2 2
fi
# Ranks of a step, its agent, and a batch script, which has a rank's variables but is none.
cp "$work/busy" "$work/arena-watch"
as_rank() { SLURM_JOB_ID=$job SLURM_STEP_ID=$1 SLURM_PROCID=$2 SLURM_LOCALID=$2 "${@:3}" & targets+=($!); }
as_rank 0 0 "$work/busy" "$work/rank0"
zero=$!
as_rank 0 1 "$work/busy" "$work/rank1"
as_rank 0 0 "$work/arena-watch" "$work/agent"
SLURM_JOB_ID=$job SLURM_PROCID=0 SLURM_LOCALID=0 "$work/busy" "$work/batch" &
targets+=($!)
for file in batch rank0; do holds 10 test -s "$work/$file"; done
"$slow" --turn-ms 500 --rank 0 --job "$job" 90 90 >"$work/out" &
tool=$!
ok "a rank is found by its job" holds 10 eval '[[ $(state $zero) == T ]]'
kill "$tool"
wait "$tool"
like "$(cat "$work/out")" '^1 process slowed' "neither the agent nor the batch script is of it"
as_rank 3 0 "$work/busy" "$work/other"
holds 10 test -s "$work/other"
refused 2 "in several steps; say which, as in $job.0" "$slow" --rank 0 --job "$job" 2 1
like "$("$slow" --rank 0 --job "$job.3" 2 0.2)" '^1 process slowed' "and by job and step"
# Of a rank's processes one may end between being found and being held.
cat >"$work/ends.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/syscall.h>
long syscall(long number, long a, long b, long c, long d, long e, long f) {
    static int held;
    if (number == SYS_pidfd_open && held++ == 0) { errno = ESRCH; return -1; }
    return ((long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"))(number, a, b, c, d, e, f);
}
END
if cc -shared -fPIC -o "$work/ends.so" "$work/ends.c" -ldl 2>"$work/err"; then
    for name in two twin; do as_rank 4 0 "$work/busy" "$work/$name"; holds 10 test -s "$work/$name"; done
    like "$(LD_PRELOAD=$work/ends.so "$slow" --rank 0 --job "$job.4" 2 0.2)" '^1 process slowed' "one that has just ended is left out"
    refused 1 'has just ended' env LD_PRELOAD="$work/ends.so" "$slow" --rank 0 --job "$job.3" 2 0.2
else
    skip 2 "no compiler: $(head -n 1 "$work/err")"
fi
kill -KILL "${targets[@]}" 2>/dev/null
wait 2>/dev/null

# ---- a link between ranks ------------------------------------------------------------------------
link=$here/slow-link
refused 2 'usage: slow-link' "$link"
refused 2 "two ranks" "$link" on --ranks 1
refused 2 "two different ranks" "$link" on --ranks 1,1 --delay-ms 1
refused 2 'say how slow' "$link" on --ranks 0,1
refused 2 'say which link' "$link" on --delay-ms 1
refused 2 "delay-ms: 'x' is no number" "$link" on --ranks 0,1 --delay-ms x
refused 2 'delay-ms: 1000000 is out of range: at most 100000' "$link" on --ranks 0,1 --delay-ms 1000000
refused 2 'run needs -- and a command' "$link" run --ranks 0,1 --delay-ms 1
refused 1 'no link is slow' "$link" off --switch "$work/none"
refused 3 'cannot be written' "$link" on --ranks 0,1 --delay-ms 1 --switch "$work/no/such/folder"
"$link" on --ranks 3,1 --delay-ms 2.5 --mib-per-s 100 --switch "$work/switch"
is "$(cat "$work/switch")" "ranks=3,1 delay_us=2500 bytes_per_s=104857600" "the file says which link, and how slow"
recorder=$built/.libs/libarena_watch_mpi.so
if [[ -e $built/.libs/libarena_slow_link.so && -e $recorder ]] && command -v mpirun >/dev/null && mpicc -o "$work/pairs" "$ARENA_SRCDIR/tests/lab/inject/pairs.c" 2>"$work/err"; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # paired STEP ON OFF: three ranks, recorded, with the shim behind the recorder
    paired() {
        rm -f "$work/switch"
        timeout 120 mpirun --oversubscribe --mca mpi_yield_when_idle 1 -np 3 env LD_PRELOAD="$recorder" SLURM_JOB_ID="$job" SLURM_STEP_ID="$1" "$link" run \
            --switch "$work/switch" -- "$work/pairs" "$2" "$3" >"$work/pairs.out" 2>&1
    }
    # later NAME: by how many ms the link's being on made it later
    later() { awk -v name="$1" '$1 == name { printf "%.0f\n", $3 - $2 }' "$work/pairs.out"; }
    on="$link on --ranks 1,2 --delay-ms 20 --switch $work/switch" off="$link off --switch $work/switch"
    paired 1 "$on" "$off"
    diag "$(cat "$work/pairs.out")"
    ok "there and back between the two is 40 ms later" within "$(later 12)" 42 0.3
    ok "between the others it is not" test "$(later 01)" -lt 10 -a "$(later 02)" -lt 10
    ok "a reduction of all is 20 ms later" within "$(later reduce)" 22 0.4
    is "$(grep -c 'wrong 0$' "$work/pairs.out")" 3 "what arrives is what was sent"
    is "$("$built/arena-watch" list --job "$job.1" | awk 'NR > 1 { print $3, $6 }' | sort)" "$(awk '/^rank/ { print $2, $4 }' "$work/pairs.out" | sort)" \
        "the recorder beside it has each call once"
    # 4000 bytes at 0.4 MB/s take 10 ms each way.
    paired 2 "$link on --ranks 0,2 --mib-per-s 0.38147 --switch $work/switch" "$off"
    ok "a narrow link holds bytes up" within "$(later 02)" 20.5 0.35
    ok "those of its pair" test "$(later 01)" -lt 8 -a "$(later 12)" -lt 8
    is "$("$link" run --ranks 0,1 --delay-ms 1 --switch "$work/switch" -- bash -c 'echo "$LD_PRELOAD"; exit 7'; echo $?)" \
        "$(readlink -f "$built/.libs/libarena_slow_link.so")"$'\n'7 "a program without MPI is as it was"
else
    skip 8 "MPI, or what is built with it, is not there: $(head -n 1 "$work/err" 2>/dev/null)"
fi

# ---- a link between hosts, by stand-ins for tc and others -----------------------------------------
mkdir "$work/bin"
printf '#!/bin/sh\necho "$*" >>%s\n[ "$1 $2" != "qdisc show" ] || cat %s 2>/dev/null\n' "$work/tc.log" "$work/qdisc" >"$work/bin/tc"
chmod +x "$work/bin/tc"
planned=$(PATH=$work/bin:$PATH "$link" on --host 127.0.0.2 --dev eth7 --delay-ms 3 --mib-per-s 10 --dry-run)
is "$planned" "tc qdisc add dev eth7 root handle a4d: prio bands 4
tc qdisc add dev eth7 parent a4d:4 handle a4e: netem delay 3000us rate 83886080bit limit 100000
tc filter add dev eth7 parent a4d: protocol ip prio 1 u32 match ip dst 127.0.0.2/32 flowid a4d:4" "tc's commands are told"
ok "and not run" test ! -e "$work/tc.log"
PATH=$work/bin:$PATH refused 2 "'a b' is no name or address" "$link" on --host 'a b' --delay-ms 1 --dry-run
PATH=$work/bin:$PATH refused 2 "'e th' is no network device" "$link" on --host 127.0.0.2 --dev 'e th' --delay-ms 1 --dry-run
refused 2 'two kinds of link' "$link" on --host 127.0.0.2 --ranks 0,1 --delay-ms 1
mkdir "$work/without"
for tool in bash dirname readlink awk getent ip sed; do ln -s "$(command -v $tool)" "$work/without/" 2>/dev/null; done
PATH=$work/without refused 3 'tc is not here' "$link" on --host 127.0.0.2 --delay-ms 1
if ((EUID == 0)); then
    PATH=$work/bin:$PATH refused 1 'no link of eth7 is slow by slow-link' "$link" off --host 127.0.0.2 --dev eth7
    echo 'qdisc netem a4e: parent a4d:4 limit 100000 delay 3.0ms' >"$work/qdisc"
    PATH=$work/bin:$PATH "$link" off --host 127.0.0.2 --dev eth7 >/dev/null
    is "$(tail -n 1 "$work/tc.log")" "qdisc del dev eth7 root handle a4d:" "off takes away what it had added"
else
    PATH=$work/bin:$PATH refused 3 'tc needs root' "$link" on --host 127.0.0.2 --dev eth7 --delay-ms 1
    skip 1 "needs root"
fi

# ---- a GPU's clock, by a stand-in for nvidia-smi ----------------------------------------------------
lock=$here/lock-clock
PATH=$work/without refused 3 'nvidia-smi is not here' "$lock" 600
cat >"$work/bin/nvidia-smi" <<END
#!/bin/sh
case "\$*" in
*clocks.max.graphics*) echo 1410 ;;
*) echo "\$*" >>$work/smi.log; [ ! -e $work/refuse ] || { echo "Insufficient Permissions"; exit 4; } ;;
esac
END
chmod +x "$work/bin/nvidia-smi"
export PATH=$work/bin:$PATH
refused 2 "'fast' is no clock" "$lock" fast
refused 2 "'200%': at most 100%" "$lock" 200%
refused 2 '2000 MHz is more than the 1410 MHz of GPU 0' "$lock" 2000
refused 2 "'x' is no number of seconds" "$lock" 600 x
is "$("$lock" --dry-run --gpu 3 50%)" $'nvidia-smi -i 3 -lgc 705,705\nnvidia-smi -i 3 -rgc' "its commands are told"
ok "and not run" test ! -e "$work/smi.log"
"$lock" 600 0.1 >/dev/null
is "$(cat "$work/smi.log")" $'-i 0 -lgc 600,600\n-i 0 -rgc' "a clock is locked, and given back after so many seconds"
for signal in INT TERM KILL; do
    rm -f "$work/smi.log"
    set -m
    env --default-signal=INT "$lock" 600 >/dev/null &   # a test that was started in the background ignores it
    tool=$!
    set +m
    holds 10 test -s "$work/smi.log"
    kill "-$signal" "$tool"
    wait "$tool" 2>/dev/null
    ok "SIG$signal: the clock is given back" holds 5 grep -q 'rgc$' "$work/smi.log"
done
: >"$work/refuse"
refused 3 'cannot be locked: Insufficient Permissions' "$lock" 600
done_testing
