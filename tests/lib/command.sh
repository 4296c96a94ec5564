# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Black-box tests of the arena command without a cluster. Source it after tap.sh: it makes $work, a directory that goes
# with the test, and goes there; $arena is the command, which reads no configuration of this machine's.
#   $lab                         arena-lab; need_lab ends the test where it is not built
#   exits CODE NAME COMMAND...   runs it; its output is kept in $work/out and $work/err
#   json NAME FILTER             the kept output is one JSON document with schema_version 1 that the filter accepts
#   $contract                    the filter of what every evaluate-* prints
#   reference_data NAME          the directory of that system's reference data, which may be absent
: "${ARENA_SRCDIR=.}"

arena=${ARENA_BUILDDIR:-.}/arena lab=${ARENA_BUILDDIR:-.}/arena-lab
[ -x "$arena" ] || BAIL_OUT "$arena is not built"
command -v jq >/dev/null || skip_all 'jq is not installed'
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
reference=$(realpath -m "${ARENA_REFERENCE_DATA:-$ARENA_SRCDIR/../shared/data}")
export ARENA_CONF=$work/none.yaml

need_lab() { [ -x "$lab" ] || BAIL_OUT "$lab is not built: make arena-lab"; }
exits() {
    local want=$1 name=$2 rc=0
    shift 2
    "$@" >"$work/out" 2>"$work/err" </dev/null || rc=$?
    if ((rc == want)); then pass "$name"; return; fi
    fail "$name"
    diag "exit $rc, not $want: $*"$'\n'"$(head -c 4000 "$work/out" "$work/err")"
}
json() { ok "$1" jq -e -s "length == 1 and (.[0] | .schema_version == 1 and ($2))" "$work/out"; }
# shellcheck disable=SC2034  # for who sources this
contract='has("kind") and .passed == .cases - (.failed | length) and (.metrics | type) == "object" and
    (.failed | all(has("case") and has("got") and has("want")))'
reference_data() { echo "$reference/$1"; }
cd "$work" || exit 99
