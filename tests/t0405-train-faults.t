#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-train when something breaks: a rank that dies, hangs or has no memory takes the others with it, with a sentence;
# a damaged checkpoint is passed by, whatever byte it is; a full disk and 100 kills in the middle of saves cost no more
# than what was not saved yet.
# shellcheck disable=SC2016,SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
train=${ARENA_BUILDDIR:-.}/arena-train shim=${ARENA_BUILDDIR:-.}/tests/tools/kill_at_call.so
[[ -x $train ]] || skip_all "arena-train is not built"
work=$(mktemp -d) || exit 99
running='' quick=''
cleanup() {
    [[ ! $running ]] || kill -KILL "$running" 2>/dev/null
    for file in "$work"/pid.*; do [[ ! -e $file ]] || kill -KILL "$(<"$file")" 2>/dev/null; done
    mountpoint -q "$work/full" 2>/dev/null && umount "$work/full"
    rm -rf "$work" ${quick:+"$quick"}
}
trap cleanup EXIT
unset ARENA_PLAN ARENA_GLOBAL_BATCH "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}"

awk 'BEGIN { for (i = 0; i < 4000; i++) printf "%c", 32 + (i * i + int(i / 7)) % 90 }' >"$work/text"
model=(--device cpu --layers 2 --hidden 16 --heads 2 --vocab 128 --seq-length 16 --global-batch 2 --data "$work/text" --quiet)
# A kill loses nothing that was written, so memory does for a disk, where hundreds of fsyncs would wait for others' data.
quick=$(mktemp -d -p /dev/shm arena-train.XXXXXX 2>/dev/null) || quick=$work
saved=$quick/saved log=$work/log
# run ARGUMENT...: rc, out = stderr
run() { rc=0; out=$("$train" "${model[@]}" "$@" 2>&1 >/dev/null) || rc=$?; }
one_line() { is "$(grep -c . <<<"$out")" 1 "$1: in one line"; }
last_saved() { grep '}$' "$log" | jq -s 'map(select(.event == "saved").step) | max'; }
# goes_on NAME: a run of another plan begins at the last saved step or later, and says no damage
goes_on() {
    local before
    before=$(last_saved)
    rm -f "$work/next"
    run --checkpoint "$saved" --steps $((before + 200)) --log "$work/next" --dp 2
    is "$rc" 0 "$1: the next run completes"
    ok "$1: it goes on from what was saved" jq -se --argjson n "$before" \
        'map(select(.event == "resumed")) | length == 1 and .[0].step >= $n' "$work/next"
    is "$(grep -c '"damaged"' "$work/next")" 0 "$1: and finds no damage"
}
# saves PID: waits, for 2 minutes at most, until the run has saved something; not after it has ended
saves() {
    local end=$((SECONDS + 120))
    until grep -q '"saved"' "$log" 2>/dev/null; do ((SECONDS < end)) && kill -0 "$1" 2>/dev/null || return 1; sleep 0.05; done
}
# ends PID SECONDS: whether it ends in that time; its exit code is in $rc
ends() {
    local end=$((SECONDS + $2))
    while kill -0 "$1" 2>/dev/null && [[ $(ps -o stat= -p "$1") != Z* ]]; do ((SECONDS < end)) || return 1; sleep 0.05; done
}
gone() { ends "$(<"$work/pid.0")" 60 && ends "$(<"$work/pid.1")" 60; }

# ---- a process of threads ------------------------------------------------------------------------
"$train" "${model[@]}" --pp 2 --steps 100000000 --save-every 20 --checkpoint "$saved" --log "$log" 2>/dev/null &
running=$!
ok "threads: a run saves" saves "$running"
kill -KILL "$running"
{ wait "$running"; } 2>/dev/null
running=''
goes_on "threads, kill -9"

# Both ends of the pipeline need 4 GiB for their tables, the middle one next to nothing: it waits for two that fail.
huge=(--layers 3 --hidden 64 --heads 4 --vocab 16777216 --pp 3 --steps 1)
rc=0 out=$(ulimit -v 3000000; "$train" "${model[@]}" "${huge[@]}" 2>&1) || rc=$?
is "$rc" 3 "threads without memory: they all end, with 3"
like "$out" '^arena-train: not enough memory: more stages or shards' "threads without memory: and say why"
one_line "threads without memory"

# ---- MPI -----------------------------------------------------------------------------------------
mpi=(mpirun --oversubscribe --mca btl "self,vader")
((EUID != 0)) || mpi+=(--allow-run-as-root)
cat >"$work/rank" <<'END2'
#!/bin/bash
echo $$ >"$PIDS.$OMPI_COMM_WORLD_RANK"
[[ ! ${LIMIT-} ]] || ulimit -v "$LIMIT"
exec "$@"
END2
chmod 755 "$work/rank"
# start_ranks ARGUMENT...: two processes train and save
start_ranks() {
    rm -rf "$saved" "$log" "$work"/pid.*
    PIDS=$work/pid "${mpi[@]}" -n 2 "$work/rank" "$train" "${model[@]}" --pp 2 --steps 100000000 --checkpoint "$saved" \
        --log "$log" "$@" >"$work/out" 2>&1 &
    running=$!
}
if ! grep -q '#define HAVE_MPI 1' "${ARENA_BUILDDIR:-.}/config.h"; then skip 22 "this build has no MPI"
elif ! command -v mpirun >/dev/null; then skip 22 "mpirun is not installed"; else
    for victim in 0 1; do
        start_ranks --save-every 20
        ok "MPI: two ranks train and save" saves "$running"
        kill -KILL "$(<"$work/pid.$victim")"
        ok "MPI, kill -9 of rank $victim: the other and mpirun end" eval 'ends "$running" 60 && gone'
        rc=0
        wait "$running" || rc=$?
        running=''
        isnt "$rc" 0 "MPI, kill -9 of rank $victim: it is no success"
        like "$(<"$work/out")" "rank $victim .*exited on signal 9" "MPI, kill -9 of rank $victim: somebody says it"
        goes_on "MPI, kill -9 of rank $victim"
    done
    start_ranks --save-every 20 --stall-limit 60
    ok "MPI: two ranks train and save" saves "$running"
    kill -STOP "$(<"$work/pid.1")"
    ok "MPI, a rank that hangs: the other ends, and with it both and mpirun" eval 'ends "$running" 180 && gone'
    wait "$running"
    running=''
    like "$(<"$work/out")" 'arena-train: rank 0: no other rank has answered for 60 s' "MPI, a rank that hangs: the other says why"
    goes_on "MPI, a rank that hangs"
    rc=0
    PIDS=$work/pid LIMIT=3000000 "${mpi[@]}" -n 3 "$work/rank" "$train" "${model[@]}" "${huge[@]}" >"$work/out" 2>&1 || rc=$?
    is "$rc" 3 "MPI without memory: all end, with 3"
    like "$(<"$work/out")" 'arena-train: rank [02]: not enough memory: more stages' "MPI without memory: the rank says why"
fi

# ---- damaged checkpoints -------------------------------------------------------------------------
restore() { rm -rf "$saved" && cp -r "$work/whole" "$saved"; }
# flip FILE POSITION
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf '%b' "\\x$(printf %02x $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
rm -rf "$saved"
run --checkpoint "$saved" --steps 4 --save-every 2
new=$saved/step-0000000004.arena old=$saved/step-0000000002.arena
cp -r "$saved" "$work/whole"
size=$(stat -c %s "$new")
for damage in "0 begin" "20 checksum" "$((size / 3)) checksum" "$((size - 800)) footer" "$((size - 30)) footer" "$((size - 20)) footer" "$((size - 3)) end"; do
    at=${damage% *} word=${damage#* }
    restore
    flip "$new" "$at"
    rm -f "$work/next"
    run --checkpoint "$saved" --steps 3 --log "$work/next"
    is "$rc $out" "0 " "byte $at of $size flipped: the run goes on"
    ok "byte $at flipped: from the one before, and the log says why" jq -se --arg word "$word" \
        '(map(select(.event == "damaged")) | length == 1 and (.[0].reason | test("is damaged: .*" + $word)))
         and (map(select(.event == "resumed").step) == [2])' "$work/next"
done
for length in 0 10 $((size / 2)) $((size - 1)); do
    restore
    truncate -s "$length" "$new"
    truncate -s "$length" "$old"
    run --checkpoint "$saved" --steps 6
    is "$rc" 3 "both cut to $length of $size bytes: no new start, but 3"
    like "$out" 'none of its 2 checkpoints is whole .*is damaged: .*remove them to start anew' "both cut to $length: says so"
    one_line "both cut to $length"
    is "$(stat -c %s "$new" "$old" | tr '\n' ' ')" "$length $length " "both cut to $length: nothing was touched"
done
restore
run --checkpoint "$saved" --steps 6 --hidden 32
is "$rc" 2 "a checkpoint of another model is refused"
like "$out" 'is of a model of 2 layers, hidden 16, .*; this run.s has 2 layers, hidden 32' "another model: says both"
one_line "another model"
ok "another model: nothing was touched" cmp "$new" "$work/whole/${new##*/}"

# ---- a full disk ---------------------------------------------------------------------------------
# full NAME WHY: a run that has saved step 2 cannot save step 4
full() {
    is "$rc" 3 "$1: ends with 3"
    like "$out" "step-0000000004.arena.new: cannot be (written|created|synced).*the checkpoint before it stands: $2" "$1: says what stands"
    one_line "$1"
    is "$(find "$saved" -type f -printf '%f ')" 'step-0000000002.arena ' "$1: leaves the checkpoint before, and no rest"
}
rm -rf "$saved"
run --checkpoint "$saved" --steps 2
out=$(ulimit -f 20; "$train" "${model[@]}" --checkpoint "$saved" --steps 4 --pp 2 2>&1); rc=$?
full "files of 20 KiB at most" 'File too large'
log=$work/before
echo '{"event":"saved","step":2}' >"$log"
goes_on "files of 20 KiB at most"
mkdir "$work/full"
if ! mount -t tmpfs -o size=$((size * 3 / 2048))k none "$work/full" 2>/dev/null; then skip 7 "this user may not mount a tmpfs"; else
    saved=$work/full/saved
    run --checkpoint "$saved" --steps 2
    run --checkpoint "$saved" --steps 4
    full "a file system with space for one checkpoint" 'No space left on device'
    umount -l "$work/full"
    rmdir "$work/full" && mkdir "$work/full"
    run --checkpoint "$work/full/saved" --steps 2
    saved=$work/full/saved
    goes_on "after the full file system"
fi
saved=$quick/saved

# ---- 100 kills in the middle of saves ------------------------------------------------------------
# One run that saves after each step, with as many lives as it takes: each dies at a call that the seed chose, of the
# some 70 that a save of this model makes. Its own log says whether something was lost.
if [[ ! -e $shim ]]; then skip 5 "tests/tools/kill_at_call.so is not built"; else
    rm -rf "$saved" "$log"
    RANDOM=20 codes=''
    for ((i = 0; i < 100; i++)); do
        { ARENA_KILL_AT=$((RANDOM % 250 + 1)) LD_PRELOAD=$shim "$train" "${model[@]}" --pp 2 --steps 1000000 --save-every 1 \
            --checkpoint "$saved" --log "$log" || codes+="$? "; } 2>>"$work/said"
    done
    is "$(tr ' ' '\n' <<<"$codes" | sort | uniq -c | awk 'NF == 2 { print $1, $2 }')" "100 137" "100 lives, each ended by its kill"
    ok "each began with what the one before had saved" jq -se '
        reduce .[] as $e ({saved: null, ok: true};
            if $e.event == "start" then .life += 1 | .from = 0
            elif $e.event == "resumed" then .from = $e.step
            elif $e.event == "saved" then .saved = $e.step
            elif $e.event == "damaged" then .ok = false
            elif $e.loss and .first != .life then .first = .life | .ok = (.ok and $e.step == .from + 1 and .from >= (.saved // 0))
            else . end) | .ok and .life == 100' "$log"
    note "$(last_saved) checkpoints; what they said: $(sed '/Killed/d' "$work/said" | head -n 3)"
    goes_on "after 100 kills"
fi

out=$(SLURM_STEP_NUM_TASKS=4 "$train" "${model[@]}" --steps 1 2>&1) rc=$?
is "$rc" 2 "tasks of a step that do not know of each other are refused"
like "$out" 'has 4 tasks that do not know of each other.*srun --mpi=pmix' "with what starts them together"
done_testing
