#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Golden decisions: what policy POLICY decides on the round tests/golden/NN-what.in, replayed through the
# command, must be NN-what.POLICY.out. The content counts, not its layout. ARENA_GOLDEN_UPDATE=1 writes
# the outputs anew, also those that are empty files (read the diff before committing it).
set -u
golden=${ARENA_SRCDIR:-$(dirname "$0")/..}/tests/golden
arena=${ARENA_BUILDDIR:-.}/arena
if [ ! -x "$arena" ]; then echo "Bail out! $arena is not built"; exit 99; fi
if ! command -v jq >/dev/null; then echo "1..0 # SKIP jq is not installed"; exit 0; fi
n=0 failed=0
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
verdict() { # STATUS NAME
    n=$((n + 1))
    if (($1 == 0)); then echo "ok $n - $2"; else echo "not ok $n - $2"; failed=1; fi
}
decides() { # INPUT POLICY: decision, in keys' order
    "$arena" snapshot replay "$1" --policy "$2" --json >"$work/json" && jq -Srf "$golden/pretty.jq" "$work/json"
}
for output in "$golden"/*.out; do
    name=$(basename "$output" .out)
    policy=${name##*.} input=${output%.*.out}.in
    if ! decides "$input" "$policy" >"$work/decided" 2>"$work/err"; then
        sed 's/^/# /' "$work/err"
        verdict 1 "$name is replayed"
        continue
    fi
    [ -z "${ARENA_GOLDEN_UPDATE:-}" ] || cp "$work/decided" "$output"
    jq -Srf "$golden/pretty.jq" "$output" | diff -U 4 --label expected --label decided - "$work/decided" | sed 's/^/# /'
    verdict $((PIPESTATUS[0] || PIPESTATUS[1])) "$name"
done
for input in "$golden"/*.in; do
    [ -e "${input%.in}.arena.out" ]
    verdict $? "$(basename "$input" .in) is decided by arena too"
done
echo "1..$n"
exit $failed
