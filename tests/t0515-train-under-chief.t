#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-train under a chief that a test plays: ranks by MPI and by threads check their devices and links, park, swap
# and split while the losses are those of a run that nobody watches; a rank that is stopped half of the time is seen
# to compute half as fast; the chief is killed, talks nonsense, is not there; a rank is killed in a check; steps of an
# event are in no report.
# shellcheck disable=SC2016,SC2086,SC2206,SC2317  # functions are called by ok; plans are words
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/mpi.sh"
build=${ARENA_BUILDDIR:-.}
train=$build/arena-train fake_chief=$build/tests/tools/fake_chief
[[ -x $train && -x $fake_chief ]] || skip_all "arena-train or tests/tools/fake_chief is not built"
command -v jq >/dev/null || skip_all 'jq is not installed'
work=$(mktemp -d) || exit 99
chief='' running='' slower='' second=''
cleanup() {
    local pid
    for pid in $slower $chief $running; do kill -KILL "$pid" 2>/dev/null; done
    for file in "$work"/pid.*; do [[ ! -e $file ]] || kill -KILL "$(<"$file")" 2>/dev/null; done
    rm -rf "$work"
}
trap cleanup EXIT
unset ARENA_PLAN ARENA_GLOBAL_BATCH "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}" "${!SLURM@}" "${!ARENA_WATCH_@}"

for ((i = 0; i < 200; i++)); do printf 'the quick brown fox no. %d. ' "$i"; done >"$work/text"
model=(--device cpu --layers 4 --hidden 32 --heads 4 --vocab 128 --seq-length 32 --global-batch 8 --lr 1e-3 --data "$work/text" --quiet)
losses() { jq -r 'select(has("loss")) | .loss' "$1"; }
# same FILE FILE BOUND: as many losses, each within BOUND of the other; says the largest difference
same() {
    paste <(losses "$1") <(losses "$2") | awk -v bound="$3" '{ d = NF == 2 ? ($1 - $2) / $2 : 1; if (d < 0) d = -d; if (d > most) most = d; n++
        if (NF != 2 || !(d <= bound)) { if (!bad) print "step " NR ": " $0; bad = 1 } }
        END { printf "# %d steps, largest difference %.2g of %g\n", n, most, bound; exit bad || !n }'
}
# A key of its own for each run: its chief's ports are nobody else's.
new_chief() {
    printf '%s\n' "$@" >"$work/script"
    key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    rm -f "$work/heard" "$work/log"
    $second "$fake_chief" "$key" 0.0.0 "$work/script" "$work/heard" 2>"$work/chief.err" &
    chief=$!
}
# chief_ends RC NAME: not in a subshell, whose child it is not
chief_ends() {
    local rc=0
    wait "$chief" || rc=$?
    chief=''
    is "$rc $(<"$work/chief.err")" "$1 " "$2"
}
watched() { ARENA_WATCH_KEY=$key ARENA_WATCH_CHIEF=127.0.0.1 "$@" --log "$work/log" 2>"$work/err"; }
heard() { jq -c "select(.type == \"$1\") | $2" "$work/heard"; }

mpi+=(--mca mpi_yield_when_idle 1)
has_mpi=''
! grep -q '#define HAVE_MPI 1' "$build/config.h" || ! command -v mpirun >/dev/null || has_mpi=1
# ranks HOW N PLAN...: sets `run` to the command of N ranks
ranks() {
    local how=$1 n=$2
    shift 2
    if [[ $how == mpi ]]; then run=("${mpi[@]}" -n "$n" "$train" "${model[@]}" "$@"); else run=("$train" "${model[@]}" --ranks "$n" "$@"); fi
}
hows=(threads)
if [[ $has_mpi ]]; then hows+=(mpi); else skip 1 "no MPI: ranks are threads alone"; fi

# ---- words, obeyed by all, and no loss changes ----------------------------------------------------
for how in "${hows[@]}"; do for plan in '4 --pp 2 --dp 2' '2 --tp 2' '2 --dp 2'; do
    ranks "$how" $plan --steps 100
    links='0>1|1>0' last=1
    [[ $plan != 4* ]] || { links='0>1,2>3|1>2,3>0' last=3; }
    rm -f "$work/log.none"
    ok "$how, $plan: nobody watches" "${run[@]}" --log "$work/log.none"
    new_chief plan "say check 1 gpus links $links" 'checked 1' 'step 5' "say swap 0 $last" 'obeyed 2' 'say park 60s' 'pause 30' \
        release 'obeyed 3' 'say check 2 gpus' 'checked 2' "say check 3 links $links" 'checked 3' "say swap 0 $last" 'obeyed 6'
    ok "$how, $plan: a chief has it check, swap and park" watched "${run[@]}"
    chief_ends 0 "$how, $plan: and hears all that it waits for"
    ok "$how, $plan: no loss changes in its last bit" same "$work/log" "$work/log.none" 0
    is "$(<"$work/err")" "" "$how, $plan: nothing is complained of"
    is "$(heard obeyed .word | tr -d '"' | cut -d' ' -f1 | tr '\n' ' ')" 'check swap park check check swap ' "$how, $plan: it tells what was obeyed"
    is "$(heard obeyed .step | head -n 1)" 1 "$how, $plan: the first check was before the first step"
    ok "$how, $plan: each rank has a time" jq -se --argjson n "${plan%% *}" 'map(select(.type == "checked")) | length == 3 and
        (.[0].gpus | length == $n and all(.[]; .ms > 0 and .type == "cpu")) and (.[2].gpus | length) == 0' "$work/heard"
    is "$(heard checked '[.links[] | "\(.from)>\(.to)"] | join(",")' | tr -d '"' | tr '\n' ' ')" "${links//|/,}  ${links//|/,} " \
        "$how, $plan: and each link"
    ok "$how, $plan: every replica has a time per micro-batch" jq -se 'map(select(.type == "step_done")) | length > 5 and
        all(.[]; .seconds > 0 and .tokens == 256 and (.micro_batch_s | all(.[]; . > 0)))' "$work/heard"
    note "$(heard checked '[.seconds, [.gpus[].ms], [.links[].ms]]' | head -n 1) s, ms of products and links; $(heard trainer_plan .link_bytes | head -n 1) bytes"
done; done
ranks "${hows[-1]}" 4 --pp 2 --dp 2 --steps 100
rm -f "$work/log.none"
ok "a run that nobody watches" "${run[@]}" --log "$work/log.none"
new_chief plan 'say split 6,2' 'obeyed 1' 'say check 1 gpus' 'obeyed 2' 'step 20' 'say split 3,5' 'obeyed 3'
ok "a chief has it split its micro-batches" watched "${run[@]}"
chief_ends 0 "and hears so"
ok "no loss changes but by rounding" same "$work/log" "$work/log.none" 1e-5
is "$(heard trainer_plan .micro_batches | tail -n 2 | tr '\n' ' ')" '[6,2] [3,5] ' "the chief is told how they are dealt"

# ---- 100 parks -----------------------------------------------------------------------------------
parks=(plan)
for ((i = 1; i <= 100; i++)); do parks+=('say park 60s' 'pause 5' release "obeyed $i"); done
for how in "${hows[@]}"; do
    ranks "$how" 2 --dp 2 --steps 160
    rm -f "$work/log.none"
    ok "$how: nobody watches" "${run[@]}" --log "$work/log.none"
    new_chief "${parks[@]}"
    ok "$how: parked and released 100 times" watched "${run[@]}"
    chief_ends 0 "$how: the chief hears of each"
    is "$(heard obeyed .word | wc -l)" 100 "$how: of 100"
    ok "$how: none takes 10 s" jq -se 'map(select(.type == "obeyed").seconds) | max <= 10' "$work/heard"
    note "the longest took $(jq -s 'map(select(.type == "obeyed").seconds) | max' "$work/heard") s, released after 5 ms and more"
    ok "$how: no loss changes in its last bit" same "$work/log" "$work/log.none" 0
done

# ---- chiefs as they should not be -----------------------------------------------------------------
new_chief plan 'say check 1 gpus' 'step 30' die
ok "the chief is killed: the run goes on" watched "${run[@]}"
chief_ends 9 "the chief is dead"
like "$(<"$work/err")" '^arena-train: the chief of this job \(arena-watch\) is gone: this run goes on unwatched$' "it says so, once"
ok "and does all steps, with the same losses" same "$work/log" "$work/log.none" 0

nonsense=('say leave now' 'say split 9,9' 'say swap 0 9' 'say park 61s' 'say check 1 links 0>1,1>0' 'frame {"type":"silent","rank":3,"seconds":1}')
new_chief plan "${nonsense[@]}" "${nonsense[@]}" "${nonsense[@]}" 'say park 0s' 'obeyed 1'
ok "a chief that talks nonsense is borne" watched "${run[@]}"
chief_ends 0 "and its good word obeyed"
is "$(heard obeyed .word)" '"park 0s"' "that one alone"
is "$(grep -c 'a word of the chief is left out' "$work/err")" 10 "ten lines say so, and no more"
ok "no loss changes in its last bit" same "$work/log" "$work/log.none" 0

key=ffffffffffffffffffffffffffffffff
ok "no chief answers: the run goes on" watched "${run[@]}"
like "$(<"$work/err")" '^arena-train: no chief of this job \(arena-watch\) has answered for 5 s: this run goes on unwatched$' "and says so, once"

# ---- steps of an event are in no report ------------------------------------------------------------
mkdir "$work/bin"
cp "$train" "$work/bin/arena-train"
printf '#!/bin/sh\necho "$*" >>"%s"\n' "$work/reported" >"$work/bin/arena"
chmod 755 "$work/bin/arena"
offer='{"grid":{"gpu_type":"a40","nodes":1,"gpus_per_node":2,"stages":1},"plan":{"stage_layers":[4],"stage_dp":[2],"stage_tp":[1],
"micro_batch":1,"num_micro_batches":4,"recompute":"none","zero_stage":0,"sequence_parallel":false,"vpp":1,"cp":1,"ep":1},"estimate":{"iteration_s":1,"samples_per_s":8,
"tflops_per_gpu":1,"memory_bytes_per_gpu":1,"compute_s":1,"tp_comm_s":0,"pp_comm_s":0,"dp_comm_s":0,"bubble_s":0,"optimizer_s":0,
"source":"analytic","error_bound":0.5}}'
# Of 600 steps the event takes the greater part, each at a tenth of the healthy pace: a median that had them would be theirs.
new_chief plan 'step 60' 'frame {"type":"event_open","open":true}'
seen_event() { ok "steps before and in an event" env ARENA_PLAN="$offer" ARENA_GLOBAL_BATCH=8 SLURM_JOB_ID=0 ARENA_WATCH_KEY="$key" ARENA_WATCH_CHIEF=127.0.0.1 \
    "$work/bin/arena-train" "${model[@]}" --ranks 2 --steps 600 --log "$work/log"; }
seen_event
chief_ends 0 "the chief hears the end"
told=$(sed -n 's/.*--iteration-s \([^ ]*\).*/\1/p' "$work/reported") counted=$(sed -n 's/.*--steps \([^ ]*\).*/\1/p' "$work/reported")
healthy=$(jq -s --argjson n "${counted:-1}" 'map(select(has("loss")).iteration_s)[2:2 + $n] | sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2' "$work/log")
note "reported $told s of $counted steps; the median of those in the log is $healthy s"
ok "what is reported counts no step after the event began" awk -v n="$counted" 'BEGIN { exit !(n >= 55 && n < 450) }'
ok "and is the median of those before" awk -v a="$told" -v b="$healthy" 'BEGIN { d = a / b - 1; exit !(d < 1e-4 && d > -1e-4) }'

# ---- a rank that is stopped half of the time, a rank that is killed --------------------------------
[[ $has_mpi ]] || { skip 1 "no MPI: a rank is no process of its own"; done_testing; exit; }
cat >"$work/rank" <<'END'
#!/bin/bash
echo $$ >"$PIDS.$OMPI_COMM_WORLD_RANK"
exec $ALONE "$@"
END
chmod 755 "$work/rank"
# Where it may, it takes the processors from others: a process that sleeps half of the time gets more of a busy machine.
first=''
if ((EUID == 0)) && chrt -r 2 true 2>/dev/null; then first='chrt -r 1' second='chrt -r 2'; fi
two=("${mpi[@]}" -n 2 "$work/rank" "$train" "${model[@]}" --dp 2)
export PIDS=$work/pid
# By turns: healthy in a check, stopped for 10 of 20 ms (as tests/lab/inject/slow-process has it for a factor of 2) in
# the next, as the answers in what the chief heard are counted; the chief waits for the file that says so.
cat >"$work/slower" <<'END'
import os, signal, sys, time
pid, heard, said, turns, end = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), time.time() + 120
def answers():
    with open(heard) as lines: return sum('"checked"' in line for line in lines)
try:
    for turn in range(1, turns + 1):
        while answers() < 2 * turn - 1 and time.time() < end: time.sleep(0.005)
        open(f"{said}.{turn}.slow", "w").close()
        while answers() < 2 * turn and time.time() < end:
            os.kill(pid, signal.SIGSTOP); time.sleep(0.010)
            os.kill(pid, signal.SIGCONT); time.sleep(0.010)
        open(f"{said}.{turn}.whole", "w").close()
except ProcessLookupError:
    pass
END
turns=10
# check_by_turns: the chief's script
check_by_turns() {
    local turn words=0 checks=0 state
    for ((turn = 1; turn <= turns; turn++)); do
        for state in slow whole; do
            printf '%s\n' "say check $((++checks)) gpus" "checked $checks" 'say park 60s' "file $work/now.$turn.$state" release "obeyed $((words += 2))"
        done
    done
}
mapfile -t lines < <(echo plan; check_by_turns)
new_chief "${lines[@]}"
(ALONE=$first watched "${two[@]}" --steps 600) &
running=$!
until_file() { until jq -se "$1" "$work/heard" >/dev/null 2>&1; do kill -0 "$running" 2>/dev/null || return 1; sleep 0.02; done; }
ok "a check of two ranks" until_file 'map(select(.type == "checked")) | length >= 1'
$second python3 "$work/slower" "$(<"$work/pid.1")" "$work/heard" "$work/now" "$turns" &
slower=$!
rc=0
wait "$running" || rc=$?
running=''
is "$rc" 0 "twenty checks, while rank 1 is stopped for 10 of 20 ms in each second of them"
chief_ends 0 "the chief hears of all"
kill "$slower" 2>/dev/null
slower=''
# fastest STATE RANK: the fastest check's product, for this machine may have other work; 0 healthy, 1 slow
fastest() { jq -s --argjson state "$1" --argjson rank "$2" '[map(select(.type == "checked")) | to_entries[] | select(.key % 2 == $state) | .value.gpus[$rank].ms] | min' "$work/heard"; }
note "rank 0: $(fastest 0 0) ms, beside a slow one $(fastest 1 0) ms; rank 1: $(fastest 0 1) ms, slow $(fastest 1 1) ms"
if [[ ! $first ]]; then skip 2 "this user cannot have the processors alone"; else
    ok "rank 1 is seen to compute half as fast" awk -v a="$(fastest 0 1)" -v b="$(fastest 1 1)" 'BEGIN { exit !(b / a > 1.7 && b / a < 2.5) }'
    ok "rank 0 is not" awk -v a="$(fastest 0 0)" -v b="$(fastest 1 0)" 'BEGIN { exit !(b / a < 1.2) }'
fi

# ends PID SECONDS: whether it ends in that time
ends() {
    local end=$((SECONDS + $2))
    while kill -0 "$1" 2>/dev/null && [[ $(ps -o stat= -p "$1") != Z* ]]; do ((SECONDS < end)) || return 1; sleep 0.05; done
}
second=''
mapfile -t lines < <(echo plan; for ((n = 1; n <= 200; n++)); do echo "say check $n gpus links 0>1|1>0"; ((n % 50)) || echo "checked $n"; done)
for victim in 0 1; do
    rm -f "$work"/pid.*
    new_chief "${lines[@]}"
    (ALONE='' watched "${two[@]}" --steps 400) &
    running=$!
    ok "ranks that check, one after another" until_file 'map(select(.type == "checked")) | length >= 2'
    kill -KILL "$(<"$work/pid.$victim")"
    ok "kill -9 of rank $victim in a check: the other and mpirun end within 60 s" eval \
        'ends "$running" 60 && ends "$(<"$work/pid.0")" 60 && ends "$(<"$work/pid.1")" 60'
    rc=0
    wait "$running" || rc=$?
    running=''
    isnt "$rc" 0 "kill -9 of rank $victim in a check: it is no success"
    wait "$chief" 2>/dev/null
    chief=''
done

# ---- a rank that stands still in a check -----------------------------------------------------------
rm -f "$work"/pid.* "$work/log.none"
ok "nobody watches" "${mpi[@]}" -n 2 "$train" "${model[@]}" --dp 2 --steps 60 --log "$work/log.none"
mapfile -t lines < <(echo plan; echo 'frame {"type":"tell","text":"Root cause: comp"}'; for ((n = 1; n <= 20; n++)); do echo "say check $n gpus links 0>1|1>0"; done; echo 'checked 2'; echo "file $work/goes-on")
new_chief "${lines[@]}"
(ALONE='' watched "${two[@]}" --steps 60 --check-limit 10) &
running=$!
ok "ranks that check, one after another" until_file 'map(select(.type == "checked")) | length >= 2'
kill -STOP "$(<"$work/pid.1")"
ok "rank 1 is stopped in a check: the other leaves it and says so at once" until_file 'any(.[]; .type == "checked" and .failure != "")'
like "$(heard checked 'select(.failure != "") | [.seconds, .failure]')" '^\[1[0-9]\..*,"not all ranks came to it in time"\]$' "after the time that it may take"
ok "and waits for it before it trains on" eval '! jq -se "any(.[]; .type == \"step_done\")" "$work/heard" >/dev/null'
kill -CONT "$(<"$work/pid.1")"
touch "$work/goes-on"
rc=0
wait "$running" || rc=$?
running=''
is "$rc" 0 "rank 1 goes on: so does the run, to its end"
chief_ends 0 "the chief hears of all"
is "$(heard checked .id | sort -un | wc -l)" 20 "of twenty checks"
is "$(heard checked 'select(.failure != "") | .id' | wc -l)" 1 "of which one was given up"
is "$(jq -r 'select(.event == "given_up") | .id' "$work/log")" "$(heard checked 'select(.failure != "") | .id')" "the run's log has it, too"
ok "no loss changes in its last bit" same "$work/log" "$work/log.none" 0
is "$(<"$work/err")" "arena-train: the chief: Root cause: comp" "what the chief tells stands in the run's own output, and nothing else"
done_testing
