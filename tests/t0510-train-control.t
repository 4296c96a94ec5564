#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-train is told between two steps to split its micro-batches anew, to let ranks change roles, to park: by MPI
# ranks, whose losses are those of a run that was told nothing; 100 parks; a rank that is killed in a park.
# shellcheck disable=SC2016,SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/mpi.sh"
train=${ARENA_BUILDDIR:-.}/arena-train
[[ -x $train ]] || skip_all "arena-train is not built"
work=$(mktemp -d) || exit 99
running=''
cleanup() {
    [[ ! $running ]] || kill -KILL "$running" 2>/dev/null
    for file in "$work"/pid.*; do [[ ! -e $file ]] || kill -KILL "$(<"$file")" 2>/dev/null; done
    rm -rf "$work"
}
trap cleanup EXIT
unset ARENA_PLAN ARENA_GLOBAL_BATCH "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}"

for ((i = 0; i < 200; i++)); do printf 'the quick brown fox no. %d. ' "$i"; done >"$work/text"
model=(--device cpu --layers 4 --hidden 32 --heads 4 --vocab 128 --seq-length 32 --global-batch 8 --lr 1e-3 --data "$work/text" --quiet)
losses() { jq -r 'select(has("loss")) | .loss' "$1"; }
# same FILE FILE BOUND: as many losses, each within BOUND of the other; says the largest difference
same() {
    paste <(losses "$1") <(losses "$2") | awk -v bound="$3" '{ d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > most) most = d; n++
        if (NF != 2 || !(d <= bound)) { print "step " NR ": " $0; bad = 1 } }
        END { printf "# %d steps, largest difference %.2g of %g\n", n, most, bound; exit bad || !n }'
}
# script LINE...
script() { printf '%s\n' "$@" >"$work/script"; }
events() { jq -c --arg event "$2" 'select(.event == $event) | [.step, .micro_batches // .ranks // .seconds]' "$1" | tr '\n' ' '; }

# ---- a script that is none -----------------------------------------------------------------------
script '# of two replicas' '5 split 5,4'
out=$("$train" "${model[@]}" --dp 2 --steps 9 --control "$work/script" 2>&1); rc=$?
is "$rc $out" "2 arena-train: $work/script:2: split 5,4: this run deals 8 micro-batches to 2 replicas" "a split of another sum is refused"
script '5 stop'
out=$("$train" "${model[@]}" --dp 2 --steps 9 --control "$work/script" 2>&1); rc=$?
is "$rc" 2 "a word that is none is refused"
like "$out" '"stop" is none of: split N,N\.\.\.; swap RANK RANK; park SECONDSs' "with those that there are"
out=$("$train" "${model[@]}" --dp 2 --steps 9 --control "$work/none" 2>&1); rc=$?
is "$rc $out" "3 arena-train: $work/none: cannot open: No such file or directory" "a script that is missing is an error"

# ---- MPI -----------------------------------------------------------------------------------------
mpi+=(--mca mpi_yield_when_idle 1)
grep -q '#define HAVE_MPI 1' "${ARENA_BUILDDIR:-.}/config.h" || { skip 1 "this build has no MPI"; done_testing; exit; }
command -v mpirun >/dev/null || { skip 1 "mpirun is not installed"; done_testing; exit; }

for plan in '--pp 2 --dp 2' '--dp 4 --zero 1' '--dp 2 --tp 2 --recompute full'; do
    # shellcheck disable=SC2206
    four=("${mpi[@]}" -n 4 "$train" "${model[@]}" --steps 24 $plan)
    rm -f "$work"/log.*
    ok "$plan: undisturbed" "${four[@]}" --log "$work/log.none"
    script '3 swap 0 3' '7 park 0.05s' '9 swap 1 2' '9 swap 0 1' '15 swap 3 2'
    ok "$plan: ranks change roles and park" "${four[@]}" --control "$work/script" --log "$work/log.swap"
    ok "$plan: and no loss changes in its last bit" same "$work/log.swap" "$work/log.none" 0
    is "$(events "$work/log.swap" swapped)" '[3,[0,3]] [9,[1,2]] [9,[0,1]] [15,[3,2]] ' "$plan: the log has each swap"
    if [[ $plan == *'dp 4'* ]]; then script '2 split 5,1,1,1' '9 swap 0 3' '14 split 1,2,3,2'; else script '2 split 6,2' '9 swap 0 3' '14 split 3,5'; fi
    ok "$plan: micro-batches are split anew" "${four[@]}" --control "$work/script" --log "$work/log.split"
    ok "$plan: and no loss changes but by rounding" same "$work/log.split" "$work/log.none" 1e-5
    is "$(jq -c 'select(.event == "split") | .step' "$work/log.split" | tr '\n' ' ')" '2 14 ' "$plan: the log has each split"
done

# ---- parks ---------------------------------------------------------------------------------------
for ((i = 1; i <= 100; i++)); do echo "$i park 0.01s"; done >"$work/script"
two=("${mpi[@]}" -n 2 "$train" "${model[@]}" --pp 2)
rm -f "$work"/log.*
ok "101 steps, parked before each of 100" "${two[@]}" --steps 101 --control "$work/script" --log "$work/log.parks"
ok "each is left" jq -se 'map(select(.event == "unparked")) | length == 100 and all(.[]; .seconds < 10)' "$work/log.parks"
ok "undisturbed" "${two[@]}" --steps 101 --log "$work/log.none"
ok "no loss changes in its last bit" same "$work/log.parks" "$work/log.none" 0

# ends PID SECONDS: whether it ends in that time
ends() {
    local end=$((SECONDS + $2))
    while kill -0 "$1" 2>/dev/null && [[ $(ps -o stat= -p "$1") != Z* ]]; do ((SECONDS < end)) || return 1; sleep 0.05; done
}
gone() { ends "$(<"$work/pid.0")" 60 && ends "$(<"$work/pid.1")" 60; }
parked() {
    until grep -qs '"parked"' "$work/log"; do
        kill -0 "$running" 2>/dev/null || return 1
        sleep 0.05
    done
}
cat >"$work/rank" <<'END'
#!/bin/bash
echo $$ >"$PIDS.$OMPI_COMM_WORLD_RANK"
exec "$@"
END
chmod 755 "$work/rank"
# start_parked SECONDS ARGUMENT...: two ranks that park before step 5
start_parked() {
    rm -f "$work/log" "$work"/pid.*
    script "5 park ${1}s"
    shift
    PIDS=$work/pid "${mpi[@]}" -n 2 "$work/rank" "$train" "${model[@]}" --pp 2 --steps 40 --control "$work/script" --log "$work/log" "$@" >"$work/out" 2>&1 &
    running=$!
}
for victim in 0 1; do
    start_parked 60
    ok "two ranks park" parked
    kill -KILL "$(<"$work/pid.$victim")"
    ok "kill -9 of rank $victim in the park: the other and mpirun end within 60 s" eval 'ends "$running" 60 && gone'
    rc=0
    wait "$running" || rc=$?
    running=''
    isnt "$rc" 0 "kill -9 of rank $victim in the park: it is no success"
done
start_parked 15 --stall-limit 6
ok "two ranks with a limit on stalls park, and go on to the end" ends "$running" 180
rc=0
wait "$running" || rc=$?
running=''
is "$rc $(<"$work/out")" "0 " "a park is no stall, however long"
is "$(losses "$work/log" | wc -l)" 40 "all steps are done"
done_testing
