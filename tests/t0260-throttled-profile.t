#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Profiles hold what was measured: with one CPU instead of two, or with a competitor on that CPU, the
# seconds of the same operator rise. Each setting is measured several times in turn and its least time
# compared, because other work on the machine only ever adds to a time; real-time priority, where allowed,
# keeps that work away.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
: "${ARENA_SRCDIR:=$(cd "$(dirname "$0")/.." && pwd)}" "${ARENA_BUILDDIR:=$PWD}"
profiler=$ARENA_BUILDDIR/arena-profiler
[[ -x $profiler ]] || skip_all "arena-profiler is not built"
for program in taskset lscpu jq sqlite3; do
    command -v $program >/dev/null || skip_all "$program is not installed"
done
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc
# Alone on the machine: clusters of other tests would starve beside real-time loops, and disturb.
exec 6>"$ARENA_BUILDDIR/.machine.lock" && flock -x 6

work=$(mktemp -d "${TMPDIR:-/tmp}/arena-throttle-XXXXXX")
competitor=''
# shellcheck disable=SC2317
finish() {
    [[ ! $competitor ]] || kill "$competitor" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT

cat >"$work/model.yaml" <<'END'
name: one-wide-layer
family: gpt
layers: 1
hidden: 1024
heads: 16
vocab: 1024
seq_length: 512
precision: fp32
END

# measure NAME COMMAND...: one profile through COMMAND; its seconds of the widest GEMM go to $work/NAME
shape='[512,4096,1024,1]'
measure() {
    local name=$1
    shift
    "${urgent[@]}" "$@" "$profiler" run --model "$work/model.yaml" --batch 1 --max-gpus 1 --budget 3 --out "$work/profile.json" \
        2>"$work/err" || { cat "$work/err" >&2; return 1; }
    jq -e --argjson s "$shape" '.entries[] | select(.op == "gemm" and .pass == "forward" and .shape == $s).seconds' \
        "$work/profile.json" >>"$work/$name"
    [[ ! ${store-} ]] || "$arena" profile --store "$store" import "$work/profile.json" >/dev/null
}
least() { sort -g "$work/$1" | head -n 1; }
# shellcheck disable=SC2317
# at_least FACTOR SLOW FAST: least time of SLOW >= FACTOR x least time of FAST
at_least() { awk -v f="$1" -v s="$(least "$2")" -v q="$(least "$3")" 'BEGIN { print s / q " times"; exit !(s >= f * q) }'; }

# One CPU of each core: two threads of one core are not twice as fast as one.
mapfile -t cpus < <(taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' |
    awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i }' | while read -r cpu; do
        echo "$(lscpu -p=CPU,CORE,SOCKET | sed -n "s/^$cpu,//p") $cpu"
    done | awk '!seen[$1]++ { print $2 }')
first=${cpus[0]}
# Speeds of processors change within seconds: more rounds, by turns, until the fastest of each show it.
least_rounds=3 most_rounds=12
urgent=(env)
if chrt -r 1 true 2>/dev/null; then urgent=(chrt -r 1); else note "no real-time priority: other work may disturb"; fi

# CPU seconds that two busy loops got in one second on two CPUs
cpu_share() {
    local TIMEFORMAT=%U
    { time { "${urgent[@]}" taskset -c "${cpus[0]}" timeout 1 sh -c 'while :; do :; done' &
        "${urgent[@]}" taskset -c "${cpus[1]}" timeout 1 sh -c 'while :; do :; done'
        wait; } 2>/dev/null; } 2>&1
}

if ((${#cpus[@]} < 2)); then
    skip 7 "this machine gives us one core only"
elif share=$(cpu_share); awk -v s="$share" 'BEGIN { exit !(s < 1.5) }'; then
    skip 7 "other work takes the CPUs: two busy loops got $share CPU seconds of 2"
else
    arena=$ARENA_BUILDDIR/arena store=$work/store/profiles.db
    mkdir -m 700 "$work/store"
    for ((rounds = 0; rounds < least_rounds || (rounds < most_rounds && failing != 0); rounds++)); do
        measure two taskset -c "${cpus[0]},${cpus[1]}"
        measure one taskset -c "$first"
        at_least 1.4 one two >/dev/null; failing=$?
    done
    is "$(wc -l <"$work/two") $(wc -l <"$work/one")" "$rounds $rounds" "each profile has the widest GEMM"
    note "two CPUs $(least two) s, one CPU $(least one) s"
    ok "one CPU takes at least 1.4 times as long as two" at_least 1.4 one two
    key="gemm/forward/fp32/$(tr , x <<<"${shape:1:-1}")"
    stored=$(sqlite3 "$store" "SELECT threads, min(seconds), count(*) FROM entries JOIN runs ON seq = run
        WHERE op_key = '$key' GROUP BY threads ORDER BY threads")
    is "$(cut -d'|' -f1,3 <<<"$stored" | tr '\n' ' ')" "1|$rounds 2|$rounds " "the store has the runs with one and with two threads"
    # shellcheck disable=SC2016
    ok "in the store, too, one CPU takes at least 1.4 times as long" \
        awk -F'|' '{ s[$1] = $2 } END { print s[1] / s[2] " times"; exit !(s[1] >= 1.4 * s[2]) }' <(echo "$stored")
    store=''
    is "$(jq .device.threads "$work/profile.json")" 1 "a profile on one CPU says one thread"
    measure two taskset -c "${cpus[0]},${cpus[1]}"
    is "$(jq .device.threads "$work/profile.json")" 2 "a profile on two CPUs says two threads"
    isnt "$("$profiler" device | jq -r .identity)" "$(taskset -c "$first" "$profiler" device | jq -r .identity)" \
        "the two never count as one device"
fi

# Ordinary priority: real-time tasks of one CPU take turns of 0.1 s, longer than the operator.
urgent=(env)
rm -f "$work/alone" "$work/crowded"
for ((rounds = 0; rounds < least_rounds || (rounds < most_rounds && failing != 0); rounds++)); do
    measure alone taskset -c "$first"
    "${urgent[@]}" taskset -c "$first" sh -c 'while :; do :; done' &
    competitor=$!
    measure crowded taskset -c "$first"
    kill $competitor
    wait $competitor 2>/dev/null
    competitor=''
    at_least 1.2 crowded alone >/dev/null; failing=$?
done
note "alone $(least alone) s, with a competitor $(least crowded) s"
ok "a competitor on the same CPU makes it at least 1.2 times as long" at_least 1.2 crowded alone

done_testing
