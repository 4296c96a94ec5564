#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Golden decisions: each tests/golden/NN-what.in, replayed through the command, must give NN-what.out.
# The policy is fifo, or what a file NN-what.policy names. ARENA_GOLDEN_UPDATE=1 writes the outputs anew
# (read the diff before committing it).
set -u
golden=${ARENA_SRCDIR:-$(dirname "$0")/..}/tests/golden
arena=${ARENA_BUILDDIR:-.}/arena
if [ ! -x "$arena" ]; then echo "Bail out! $arena is not built"; exit 99; fi
n=0 failed=0
lines() { sed 's/,"/,\n"/g; s/},{/},\n{/g' "$1"; }
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
for input in "$golden"/*.in; do
    name=$(basename "$input" .in)
    policy=fifo
    [ -f "$golden/$name.policy" ] && policy=$(cat "$golden/$name.policy")
    n=$((n + 1))
    if ! "$arena" snapshot replay "$input" --policy "$policy" --json >"$work/out" 2>"$work/err"; then
        sed 's/^/# /' "$work/err"
        echo "not ok $n - $name is replayed"
        failed=1
        continue
    fi
    [ -n "${ARENA_GOLDEN_UPDATE:-}" ] && cp "$work/out" "$golden/$name.out"
    if cmp -s "$work/out" "$golden/$name.out"; then
        echo "ok $n - $name"
    else
        diff <(lines "$golden/$name.out") <(lines "$work/out") | sed 's/^/# /'
        echo "not ok $n - $name"
        failed=1
    fi
done
echo "1..$n"
exit $failed
