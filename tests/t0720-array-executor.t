#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-train as an array of MPI ranks, one per stage, and its members as processes that attach: each learns to the last
# bit what it learns alone; cancelled, killed and forged members disturb nobody; a rank that dies ends all members with
# 99, and they go on, alone or in another array, from their checkpoints.
# shellcheck disable=SC2016,SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/mpi.sh"
train=${ARENA_BUILDDIR:-.}/arena-train
[[ -x $train ]] || skip_all "arena-train is not built"
work=$(mktemp -d) || exit 99
started=()
cleanup() {
    for pid in "${started[@]}"; do kill -KILL "$pid" 2>/dev/null; done
    for file in "$work"/pid.*; do [[ ! -e $file ]] || kill -KILL "$(<"$file")" 2>/dev/null; done
    rm -rf "$work"
}
trap cleanup EXIT
unset ARENA_PLAN ARENA_GLOBAL_BATCH ARENA_ARRAY "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}"

for ((i = 0; i < 200; i++)); do printf 'the quick brown fox no. %d. ' "$i"; done >"$work/text"
model=(--device cpu --layers 4 --hidden 32 --heads 4 --vocab 128 --seq-length 32 --untied)
export ARENA_ARRAY_KEY=00112233445566778899aabbccddeeff
socket=$work/array

# ends PID SECONDS: whether it ends in that time
ends() {
    local end=$((SECONDS + $2))
    while kill -0 "$1" 2>/dev/null && [[ $(ps -o stat= -p "$1") != Z* ]]; do ((SECONDS < end)) || return 1; sleep 0.05; done
}
# shows FILE PATTERN: waits, for 2 minutes at most, until the file has it
shows() {
    local end=$((SECONDS + 120))
    until grep -qsE "$2" "$1"; do ((SECONDS < end)) || return 1; sleep 0.05; done
}
# exits PID CODE NAME
exits() {
    local rc=0
    { wait "$1" || rc=$?; } 2>/dev/null
    is "$rc" "$2" "$3"
}

# ---- what is refused -----------------------------------------------------------------------------
out=$("$train" "${model[@]}" --global-batch 2 --array-serve "$socket" --data x 2>&1)
is "$?" 2 "an array takes no data"
like "$out" '--array-serve excludes --data' "it says so"
out=$(ARENA_ARRAY_KEY=1 "$train" "${model[@]}" --global-batch 2 --array-serve "$socket" 2>&1)
is "$? $out" "2 arena-train: ARENA_ARRAY_KEY: is the key of the array, 32 hex digits, and is not set to that" "a key is needed"
out=$("$train" "${model[@]}" --global-batch 2 --dp 2 --array-serve "$socket" 2>&1)
is "$? $out" "2 arena-train: plan: dp2 x tp1; an array has one rank per stage, dp1 and tp1" "replicas are refused"
out=$(ARENA_ARRAY=$socket ARENA_ARRAY_MEMBER=1 "$train" "${model[@]}" --global-batch 2 --data "$work/text" --steps 1 --pp 2 2>&1)
is "$?" 2 "a member has no plan"
like "$out" 'ARENA_ARRAY: is set, and the array says how its members are trained; leave out --pp' "it says so"
out=$(ARENA_ARRAY=nowhere ARENA_ARRAY_MEMBER=1 "$train" "${model[@]}" --global-batch 2 --data "$work/text" --steps 1 2>&1)
is "$? $out" '2 arena-train: ARENA_ARRAY: "nowhere" is no address: HOST:PORT, or /PATH or @NAME of a local socket' "an address is one"

# ---- MPI -----------------------------------------------------------------------------------------
mpi+=(--mca mpi_yield_when_idle 1)
grep -q '#define HAVE_MPI 1' "${ARENA_BUILDDIR:-.}/config.h" || { skip 1 "this build has no MPI"; done_testing; exit; }
command -v mpirun >/dev/null || { skip 1 "mpirun is not installed"; done_testing; exit; }
cat >"$work/rank" <<'END'
#!/bin/bash
echo $$ >"$PIDS.$OMPI_COMM_WORLD_RANK"
exec "$@"
END
chmod 755 "$work/rank"

# serve ARGUMENT...: an array of 4 stages, in the background; its id is $array
serve() {
    rm -f "$work"/pid.*
    PIDS=$work/pid "${mpi[@]}" -n 4 "$work/rank" "$train" "${model[@]}" --global-batch 4 --pp 4 --recompute full \
        --array-solve 0.1 --array-serve "$socket" "$@" >"$work/out" 2>&1 &
    array=$!
    started+=("$array")
}
# as_member PLACE STEPS ARGUMENT...: a member's process in the background; its id is ${member[PLACE]}. All differ.
declare -A member
own_options() { echo "--global-batch $((1 + $1 % 3)) --lr 0.00$1 --seed $1 --clip 0 --warmup-steps $1 --data $work/text"; }
as_member() {
    local place=$1 steps=$2
    shift 2
    # shellcheck disable=SC2046
    ARENA_ARRAY=${address-$socket} ARENA_ARRAY_MEMBER=$place "$train" "${model[@]}" $(own_options "$place") --steps "$steps" \
        --checkpoint "$work/member.$place" --log "$work/log.$place" "$@" >"$work/out.$place" 2>&1 &
    member[$place]=$!
    started+=("${member[$place]}")
}
# alone PLACE STEPS ARGUMENT...: that run by itself
alone() {
    local place=$1 steps=$2
    shift 2
    # shellcheck disable=SC2046
    "$train" "${model[@]}" $(own_options "$place") --micro-batch $((1 + place % 3)) --steps "$steps" --quiet "$@"
}
# newest DIR: its last checkpoint; last_step DIR
newest() { find "$1" -name 'step-*.arena' | sort | tail -n 1; }
last_step() { local name; name=$(basename "$(newest "$1")" .arena) && echo $((10#${name#step-})); }
# as_alone PLACE STEPS: the member's last checkpoint is to the last bit that of a run alone
as_alone() {
    rm -rf "$work/alone"
    alone "$1" "$2" --checkpoint "$work/alone" && cmp "$(newest "$work/member.$1")" "$(newest "$work/alone")"
}

serve
for i in 1 2 3; do as_member "$i" 20; done
for i in 1 2 3; do
    exits "${member[$i]}" 0 "member $i of three on four stages ends with 0"
    is "$(grep -c '^arena-train: step ' "$work/out.$i")" 20 "its output has its steps"
    is "$(jq -r 'select(has("loss")) | .step' "$work/log.$i" | wc -l)" 20 "so has its log"
    ok "its weights are to the last bit those of a run alone" as_alone "$i" 20
done

# ---- members that end in other ways, in the same array -------------------------------------------
as_member 4 1000000
as_member 5 1000000
as_member 6 60
ok "a member trains" shows "$work/log.4" '"step":5,'
ok "another one" shows "$work/log.5" '"step":5,'
kill -TERM "${member[4]}"
exits "${member[4]}" 99 "one that is told to leave ends with 99"
ok "it is saved" test -n "$(newest "$work/member.4")"
kill -KILL "${member[5]}"
exits "${member[5]}" 137 "one is killed"
ARENA_ARRAY_KEY=ffffffffffffffffffffffffffffffff ARENA_ARRAY=$socket ARENA_ARRAY_MEMBER=9 timeout 3 "$train" "${model[@]}" \
    --global-batch 1 --clip 0 --data "$work/text" --steps 1 >"$work/forged" 2>&1
is "$?" 124 "one without the key does not come in"
exits "${member[6]}" 0 "the third one ends with 0"
ok "and learns what it learns alone" as_alone 6 60
as_member 7 9 --clip 1
exits "${member[7]}" 2 "clipping is refused"
like "$(<"$work/out.7")" 'say --clip 0' "in a sentence"
as_member 8 9 --global-batch 5
exits "${member[8]}" 2 "a batch beyond the array's is refused"
last=$(last_step "$work/member.4")
as_member 4 $((last + 10))
exits "${member[4]}" 0 "who left comes back"
like "$(<"$work/out.4")" "resumed from .* after step $last" "and goes on where it was"
ok "to what it learns alone" as_alone 4 $((last + 10))

# ---- the array ends ------------------------------------------------------------------------------
as_member 1 1000000 --save-every 3
as_member 2 1000000
ok "members train" eval 'shows "$work/log.1" "saved.*step.:2[4-9]" && shows "$work/log.2" "\"step\":25"'
kill -USR1 "$array"
exits "$array" 99 "an array that is told to leave ends with 99"
for i in 1 2; do exits "${member[$i]}" 99 "and so does its member $i"; done
serve
as_member 1 1000000 --save-every 3
as_member 2 1000000 --save-every 3
ok "another array takes them up" eval 'shows "$work/out.1" "resumed from" && shows "$work/out.2" "resumed from"'
ok "they train" eval 'shows "$work/out.1" "saved" && shows "$work/out.2" "saved"'
kill -KILL "$(<"$work/pid.2")"
for i in 1 2; do
    exits "${member[$i]}" 99 "a rank is killed: member $i ends with 99"
    like "$(<"$work/out.$i")" 'the array is gone; to be started again from the last checkpoint' "and says why"
    last=$(($(last_step "$work/member.$i") + 4))
    alone "$i" "$last" --checkpoint "$work/member.$i" --pp 2
    ok "alone it goes on from its checkpoint to what it had learnt alone" as_alone "$i" "$last"
done
ok "the array is gone, too" ends "$array" 60

# ---- TCP, and an array that nobody needs ---------------------------------------------------------
rm -rf "$work"/member.3
address='' port=0
for ((port = 23000 + $$ % 5000; port < 30000; port++)); do (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break; done
address=127.0.0.1:$port
socket=$address serve --array-idle 10 --array-buffers 2
as_member 3 30
exits "${member[3]}" 0 "by TCP, with two buffers that are fetched ahead: a member ends with 0"
ok "it learns what it learns alone" as_alone 3 30
exits "$array" 0 "without members the array ends by itself"
like "$(<"$work/out")" 'the array ends after 30 iterations' "and says what it did"
done_testing
