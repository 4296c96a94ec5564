#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# An administrator at a terminal: the bar, the --json stream, Ctrl-C that keeps what was measured, and each wrong
# input as a sentence with exit code 2 or 3 that leaves nothing behind. The device is a test's
# (arena-profiler-faulty, invented times); collectives run between two threads.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
: "${ARENA_SRCDIR:=$(cd "$(dirname "$0")/.." && pwd)}" "${ARENA_BUILDDIR:=$PWD}"
faulty=$ARENA_BUILDDIR/arena-profiler-faulty profiler=$ARENA_BUILDDIR/arena-profiler arena=$ARENA_BUILDDIR/arena
[[ -x $faulty && -x $profiler && -x $arena ]] || skip_all "arena-profiler-faulty is not built (make check builds it)"
for program in jq sqlite3; do command -v $program >/dev/null || skip_all "$program is not installed"; done
work=$(mktemp -d "${TMPDIR:-/tmp}/arena-hand-XXXXXX")
trap 'rm -rf "$work"' EXIT
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc ARENA_CONF=$work/none.yaml # this machine may have an arena.yaml
mkdir -m 700 "$work/store"
cd "$work" || exit 99
a40=(--model gpt2 --batch 8 --max-gpus 1 --hardware A40 --gpu-type a40 --budget 600)

# in_front COMMAND... : in a process group of its own, as a shell with a terminal starts it; its id in $front
in_front() { set -m; "$@" & front=$!; set +m; }
# waits for a line in a file; no run here ends by itself
until_line() {
    local i
    for ((i = 0; i < 1200; i++)); do
        grep -q "$1" "$2" 2>/dev/null && return
        sleep 0.1
    done
    return 1
}
# shellcheck disable=SC2317
ctrl_c() { kill -INT -- "-$front"; wait "$front"; code=$?; }

# ---- Ctrl-C -----------------------------------------------------------------------------------------
hang() { ARENA_TEST_FAULT=$1 "$faulty" run "${a40[@]}" --json --out "$2" >"$3" 2>err; }
in_front hang hang@300 cut.json stream
ok "a run is in the middle of its operators" until_line '"done":2,' stream
ctrl_c
is "$code $(jq -r .status cut.json)" "0 partial" "Ctrl-C keeps what was measured"
like "$(jq -r .reason cut.json)" '^stopped by Interrupt during [a-z_]+/' "and says where it was"
is "$(jq '.entries|length' cut.json)" "$(grep -c '"event":"operator"' stream)" "every operator that the stream told of"
is "$(tail -n 1 stream | jq -r .event)" end "the stream has its end"
in_front hang hang none.json stream-of-none
ok "a run that hangs in its first operator" until_line '"event":"begin"' stream-of-none
ctrl_c
is "$code $(jq -r .status none.json)" "1 failed" "has nothing to keep"

# shellcheck disable=SC2016
printf '#!/bin/bash\n[[ $1 != run ]] || exec %q "$@" --json >%q\nexec %q "$@"\n' "$faulty" "$work/lines" "$faulty" >slow-profiler
chmod 755 slow-profiler
two() { ARENA_TEST_FAULT=hang@300 ARENA_PROFILER=$work/slow-profiler "$arena" profile --store store/p.db run --hardware A40 \
    --gpu-type a40 --batch 8 --max-gpus 1 --budget 600 gpt2 gpt2-medium >out 2>err; }
in_front two
ok "arena profile run is in the middle of the first of two models" until_line '"done":2,' lines
ctrl_c
is "$("$arena" --json profile --store store/p.db list | jq -c '[.runs[]|.status]')" '["partial"]' \
    "Ctrl-C: what was measured is in the store, and the second model is left"
ok "with its operators" jq -e '.runs[0].entries >= 2' <("$arena" --json profile --store store/p.db list)
is "$code $(tail -n 1 err)" "1 arena: stopped; what was measured is kept, 1 more model was not measured" "and it says so"
at_once() { ARENA_TEST_FAULT=hang ARENA_PROFILER=$work/slow-profiler "$arena" profile --store store/p.db run --hardware A40 \
    --gpu-type a40 --batch 8 --max-gpus 1 --budget 600 gpt2-large gpt2-medium >out 2>err; }
rm lines
in_front at_once
ok "another one hangs in its first operator" until_line '"event":"begin"' lines
ctrl_c
is "$code $(tail -n 1 err)" "1 arena: stopped; what was measured is kept, 1 more model was not measured" "Ctrl-C ends all of it, too"

ring() { "$profiler" comm --device cpu --gpu-type emulated --gpus 2 --budget 3000 --min-bytes 1M --max-bytes 256M --out ring.csv \
    --timeout 600 -v 2>err; }
in_front ring
ok "collectives are measured" until_line 'GB/s' err
ctrl_c
is "$code" 1 "Ctrl-C ends them"
like "$(cat err)" 'measured [0-9]+ of 45 sizes' "and says how far they came"
ok "what was measured is kept" test "$(wc -l <ring.csv)" -ge 2

# ---- bar and stream -------------------------------------------------------------------------------------
run() { "$faulty" run "${a40[@]}" "$@"; }
if command -v script >/dev/null; then
    script -qec "$(printf '%q ' "$faulty" run "${a40[@]}" --out bar.json)" typescript </dev/null >/dev/null
    like "$(tr '\r' '\n' <typescript)" '\[#+ +\] [0-9]+/[0-9]+, about .* left  [a-z_]+/' "a terminal shows a bar"
    like "$(tail -n 4 typescript)" 'operators measured, 0 of [0-9]+ re-used' "and then what came out"
else
    skip 2 "script is not installed: no terminal to draw on"
fi
run --out good.json 2>err
unlike "$(cat err)" 'about .* left' "a file gets no bar"
is "$(jq -r .status good.json)" complete "the run is complete"

# ---- bad input: a sentence, exit code 2 or 3, nothing written -----------------------------------------------
# refused CODE WORDS NAME COMMAND...
refused() {
    local wanted=$1 words=$2 name=$3 got
    shift 3
    "$@" >out 2>err
    got=$?
    is "$got" "$wanted" "$name: exit code $wanted"
    like "$(cat out err)" "$words" "$name: a sentence"
    not_ok "$name: nothing is written" test -e x.json -o -e x.json.new
}
request=$("$faulty" request "${a40[@]}")
asks() { "$faulty" run --request "$1" --out x.json; }
refused 2 'accepted are cpu, cuda and auto' "an unknown device" run --device tpu --out x.json
ARENA_TEST_FAULT=busy refused 3 'is in use, so nothing was measured: process 4711' "a busy device" run --out x.json
for bad in 'layers":12/layers":-1' 'layers":12/layers":100000000000' 'hidden":768/hidden":1000000000000' 'heads":12/heads":7' \
    'global_batch":8/global_batch":0' 'budget_s":600.0/budget_s":1e300'; do
    changed=${request/"${bad%%/*}"/"${bad#*/}"}
    isnt "$changed" "$request" "there is a record with ${bad#*/}"
    refused 2 "${bad%%\"*}" "${bad#*/}" asks "$changed"
done
refused 2 'not valid JSON' "half a record" asks "${request:0:200}"
refused 3 'cannot write there' "a directory that is not there" run --out nowhere/x.json
ln -s /dev/null device # not itself: where this test fails, root would lose it
refused 3 'device: is not a regular file, and stays' "a device as --out" run --out device
ok "the device is still there" test -c device
jq '.device.driver = "2"' good.json >foreign.json
refused 2 'was measured on .*nothing of it can be re-used' "a profile of another device" run --reuse foreign.json --out x.json
jq '.entries[0].seconds = -1' good.json >negative.json
head -c 700 good.json >half.json
for verb in import plan; do
    for file in negative half; do
        if [[ $verb == import ]]; then command=(profile --store store/p.db import "$file.json"); else
            command=(plan --model gpt2 --global-batch 8 --gpu-type A40 --gpus 1 --profiles "$file.json"); fi
        refused 2 "$file.json" "arena ${command[0]} of a $file profile" "$arena" "${command[@]}"
    done
done

# ---- emulated types of the site: its hardware file and arena.yaml's GRES types -------------------------------
printf '%s\n' 'gpu_types:' '  - name: snail' '    memory_gib: 4' '    tflops: {fp32: 0.01}' '    memory_gb_per_s: 1' '    sm_count: 1' \
    '    gpus_per_node: 4' '    intra: {name: shared-memory, gb_per_s: 4, alpha_us: 20}' '    inter: {name: loopback, gb_per_s: 1, alpha_us: 60}' \
    '    emulated: true' >snail.yaml
printf '%s\n' "hardware_file: $work/snail.yaml" 'gpu_types: {slow: snail, h100: emulated-cpu, emulated: A40}' >site.yaml
small=(comm --device cpu --gpus 2 --ops all_reduce --min-bytes 1K --max-bytes 1K --budget 3000 --timeout 600)
for type in snail slow h100; do
    ok "host memory for the site's $type" "$profiler" "${small[@]}" --config site.yaml --gpu-type "$type" --out "$type.csv"
    is "$(sed -n '$s/,.*//p' "$type.csv")" "$type" "is a table of $type"
done
sites() { ARENA_CONF=$work/site.yaml "$profiler" "${small[@]}" --out x.json "$@"; }
ok "arena.yaml is found without an option" eval 'sites --gpu-type snail && rm x.json'
refused 2 "for an emulated type .snail, emulated-cpu., not 'emulated'" "a GRES type that arena.yaml maps to a GPU" sites --gpu-type emulated
refused 2 "for an emulated type .emulated-cpu., not 'snail'" "the site's type elsewhere" "$profiler" "${small[@]}" --gpu-type snail --out x.json
refused 3 'none.yaml: cannot open: No such file' "an arena.yaml that is named and not there" "$profiler" "${small[@]}" \
    --gpu-type emulated-cpu --out x.json --config none.yaml
ok "one that nobody named need not be there" "$profiler" "${small[@]}" --gpu-type emulated-cpu --out none.csv
mkdir unreadable.yaml # root reads every file
printf '%s\n' 'gpu_typos: {}' >wrong.yaml
unnamed() { ARENA_CONF=$work/$1 "$profiler" "${small[@]}" --out "$3" --gpu-type "$2" 2>&1; }
like "$(unnamed unreadable.yaml emulated-cpu unread.csv)" '^arena-profiler: .*unreadable.yaml: is not a regular file: types .* not known$' \
    "nor readable, which is said"
is "$(wc -l <unread.csv)" 2 "as built-in types need none of it"
refused 2 "not 'snail'; .*unreadable.yaml: is not a regular file" "a type of the site's own needs it" unnamed unreadable.yaml snail x.json
refused 2 'wrong.yaml:1:1: .*gpu_typos.*gpu_types' "one that is wrong is always an error" unnamed wrong.yaml emulated-cpu x.json
refused 3 'unreadable.yaml: is not a regular file' "one that is named must be readable" "$profiler" "${small[@]}" \
    --gpu-type emulated-cpu --out x.json --config unreadable.yaml
ln -s site.yaml link.yaml
ok "a link to one is followed" "$profiler" "${small[@]}" --config link.yaml --gpu-type snail --out link.csv

# ---- the store ----------------------------------------------------------------------------------------------
"$arena" profile --store store/p.db import good.json >/dev/null
nonce=$(jq -r .nonce good.json)
uses=('profile --store store/bad.db show NONCE' 'profile --store store/bad.db export NONCE x.json'
    'plan --model gpt2 --global-batch 8 --gpu-type A40 --gpus 1 --profiles store/bad.db')
# Values that cannot be, and that no CHECK of the schema knows: SQLite itself takes them.
cp store/p.db store/bad.db
sqlite3 store/bad.db 'UPDATE entries SET seconds = 7200'
for use in "${uses[@]}"; do
    # shellcheck disable=SC2086
    refused 3 'has no possible time; .arena profile verify. names every bad row, with --remove' "a corrupt row: ${use/ --*.db/}" \
        "$arena" ${use/NONCE/$nonce}
done
refused 1 '^bad ' "verify names it" "$arena" profile --store store/bad.db verify
bad=(profile --store store/bad.db)
is "$("$arena" "${bad[@]}" verify --remove | sed 's/ .*//' | sort -u | xargs)" "gone ok" "verify --remove removes it"
refused 1 'no profile run' "with its run" "$arena" "${bad[@]}" show "$nonce"

# rows SQL: a store with a run, one collective and two reports, after the SQL
plan=(plan --model gpt2 --global-batch 8 --gpu-type A40 --gpus 1 --profiles)
plan_of_one=$("$arena" --json "${plan[@]}" none --fixed pp=1,dp=1,tp=1,micro_batch=1 | jq -c '.grids[0].proxy_plan')
rows() {
    rm -f store/bad.db*
    "$arena" "${bad[@]}" import good.json >/dev/null
    sqlite3 store/bad.db "INSERT INTO comm VALUES('A40', 'all_reduce', 2, 1, 1, 1024, '', 1e-6, 2e-6, 3e-6, 'test');
        INSERT INTO observed VALUES(1, 'f', 'gpt2', 8, 'env', 'A40', 1, 1, 1, '$plan_of_one', 1, 1, 0, 3, 7, 1e9, 0, 0, '7');
        INSERT INTO observed VALUES(2, 'f', 'gpt2', 16, 'env', 'A40', 1, 1, 1, '$plan_of_one', 1, 1, 0, 3, 8, 1e9, 0, 0, '8'); $1"
}
slow='row of comm, collective all_reduce of A40, 2 ranks x 1 nodes x 1 groups, 1024 bytes, cannot be: seconds must be'
rows 'UPDATE comm SET median_s = 1'
refused 3 "$slow" "arena plan of a bad collective" "$arena" "${plan[@]}" store/bad.db
refused 3 "$slow" "arena profile comm of it" "$arena" "${bad[@]}" comm
refused 1 "^bad   $slow" "verify names it" "$arena" "${bad[@]}" verify
ok "and with --remove it is gone" "$arena" "${bad[@]}" verify --remove
ok "so that the rest can be used" "$arena" "${plan[@]}" store/bad.db

never='row 1 of observed, report of job 7 on A40, cannot be: observed times must be positive'
remedy='it is left out, .arena profile verify --remove. removes it$'
rows 'UPDATE observed SET iteration_s = 9e999 WHERE seq = 1'
for use in "${plan[*]} store/bad.db" "${bad[*]} observed"; do
    # shellcheck disable=SC2086
    refused 0 '' "a bad report keeps nobody from arena ${use%% *}" "$arena" $use
    like "$(cat err)" "^arena: store/bad.db: $never.*; $remedy" "it is named, with what to do"
    is "$(wc -l <err)" 1 "once"
done
is "$("$arena" --json "${bad[@]}" observed 2>/dev/null | jq -c '[[.observed[].job], (.bad | length)]')" '[[8],1]' "the other one is there"
refused 1 "^bad   $never" "verify names it" "$arena" "${bad[@]}" verify
is "$("$arena" --json "${bad[@]}" verify --remove | jq -c '[.ok, .wrong, (.removed | length)]')" '[true,[],1]' "verify --remove removes it"
is "$("$arena" "${bad[@]}" verify --remove)" "ok    every row of the profile store" "then nothing is wrong"
is "$("$arena" --json "${bad[@]}" observed 2>&1 | jq -c '[[.observed[].job], .bad]')" '[[8],[]]' "and the other one still there"
refused 3 'store/none.db: ' "verify --remove makes no store where there is none" "$arena" profile --store store/none.db verify --remove
not_ok "and no file" test -e store/none.db
sqlite3 store/bad.db 'PRAGMA user_version = 99'
for use in "${uses[@]}" 'profile --store store/bad.db list' 'profile --store store/bad.db verify' \
    'profile --store store/bad.db prune --older-than-days 1' 'profile --store store/bad.db import good.json'; do
    # shellcheck disable=SC2086
    refused 3 'schema version 99, this program knows up to' "a newer store: ${use/ --*.db/}" "$arena" ${use/NONCE/$nonce}
done
is "$(sqlite3 store/bad.db 'PRAGMA user_version')" 99 "it stays as it is"
done_testing
