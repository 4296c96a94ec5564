#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Issue 35, B5: 11 of 12 commands ended with 0 although nothing that they said could be written. Each ends with 3 and a
# sentence where standard output is full or shut, and as before where it is not.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/command.sh" || exit 99
export ARENA_DATA_DIR=${ARENA_DATA_DIR:-$ARENA_SRCDIR/etc} XDG_RUNTIME_DIR=$work

full() { # WHAT COMMAND...
    local what=$1 name=${2##*/} rc=0
    shift 2
    set -- "$ARENA_BUILDDIR/$name" "$@"
    "$@" >"$work/out" 2>"$work/err" </dev/null || rc=$?
    if ((rc > 1)); then fail "$what can be written to a file" "exit $rc: $(cat "$work/err")"; return; fi
    rc=0
    "$@" 2>"$work/err" >/dev/full </dev/null || rc=$?
    is "$rc $(grep -c "^$name: standard output cannot be written" "$work/err")" '3 1' "$what, to a full disk: 3 and a sentence" ||
        diag "$(cat "$work/err")"
    rc=0
    "$@" 2>"$work/err" >&- </dev/null || rc=$?
    is "$rc" 3 "$what, to an output that is shut: 3" || diag "$(cat "$work/err")"
}

cat >c.yaml <<'END'
nodes:
  - {gpu_type: a40, count: 2, gpus_per_node: 2}
END
printf '%s\n' 'model,params,global_batch,gpu_type,num_nodes,gpus_per_node,iter_time_s' 'bert,1B,8,a40,1,1,8' 'bert,1B,8,a40,1,2,5' >t.csv
exits 0 'there is a trace' "$arena" trace generate --cluster c.yaml --throughputs t.csv --jobs 200 --load 1.2 --seed 5
cp out trace.csv
printf '{"name":"x","stages":2,"fp":[[1,2],[1,2]],"bp":[[1,2],[1,2]]}' >array.json
echo 'gpu_types: {a40: A40}' >a.yaml
plan=(plan --model gpt2 --global-batch 8 --gpu-type A40 --gpus 2)

full 'arena trace generate' arena trace generate --cluster c.yaml --throughputs t.csv --jobs 200 --load 1.2 --seed 5
full 'a short one of few bytes' arena --version
full 'arena plan' arena "${plan[@]}"
full 'arena plan --json' arena --json "${plan[@]}"
full 'arena models' arena models
full 'arena simulate' arena simulate --cluster c.yaml --trace trace.csv --throughputs t.csv --policy fifo
full 'arena-lab array solve' arena-lab array solve array.json
full 'arena config check' arena config check a.yaml
full 'arena --help' arena --help
full 'arena-args --list' arena-args --list
full 'arena-args --help' arena-args --help
full 'arena-watch --help' arena-watch --help
full 'arena-profiler --help' arena-profiler --help
full 'arena-train --help' arena-train --help

# A command that fails says why, as ever.
rc=0
"$arena" plan --model nosuch --global-batch 8 --gpu-type A40 --gpus 2 >/dev/full 2>err || rc=$?
is "$rc" 2 'a usage error stays one'
like "$(cat err)" 'nosuch' 'with its own sentence'
# Who reads a part only is no full disk.
ok 'a reader that has enough may leave' bash -c "'$arena' models | head -n 1"
done_testing
