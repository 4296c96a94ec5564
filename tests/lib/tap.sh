# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# TAP for shell tests: source it, make assertions, end in done_testing. Names are sentences. A test
# that leaves without done_testing (or plan) is an error for the harness, never a pass.
#   ok NAME COMMAND...       passes when COMMAND succeeds; shows its output when not
#   not_ok NAME COMMAND...   passes when COMMAND fails
#   figure NAME COMMAND...   one that other work on the machine changes: judged with ARENA_EXACT, as tests/bench/watched-training
#                            runs a test; in the suite it is counted as skipped
#   is GOT WANTED NAME       isnt GOT UNWANTED NAME
#   like GOT REGEX NAME      unlike GOT REGEX NAME      (extended regular expressions)
#   pass NAME  fail NAME [WHY]  diag TEXT  note TEXT
#   plan N   skip_all REASON (before any assertion)   skip N REASON   BAIL_OUT REASON   done_testing
tap_count=0 tap_failed=0 tap_plan=''

diag() { printf '%s\n' "$*" | sed 's/^/# /' >&2; }
note() { printf '%s\n' "$*" | sed 's/^/# /'; }

plan() { tap_plan=$1; echo "1..$1"; }
skip_all() { echo "1..0 # SKIP $*"; tap_plan=0; exit 0; }
BAIL_OUT() { echo "Bail out! $*"; exit 255; }

pass() { tap_count=$((tap_count + 1)); echo "ok $tap_count - $1"; }
fail() {
    tap_count=$((tap_count + 1)) tap_failed=$((tap_failed + 1))
    echo "not ok $tap_count - $1"
    diag "failed: $1 (${0##*/} line ${BASH_LINENO[$((${#BASH_LINENO[@]} - 2))]})${2+$'\n'$2}"
    [[ $(type -t on_fail) != function ]] || on_fail
    return 1
}

skip() {
    local i
    for ((i = 0; i < $1; i++)); do tap_count=$((tap_count + 1)); echo "ok $tap_count # SKIP $2"; done
}

ok() {
    local name=$1 out rc=0
    shift
    out=$("$@" 2>&1) || rc=$?
    if ((rc == 0)); then pass "$name"; return; fi
    fail "$name" "exit $rc: $*"$'\n'"$out"
}

figure() {
    if [[ ${ARENA_EXACT-} ]]; then ok "$@"; else skip 1 "$1: an idle machine's figure, judged by tests/bench/watched-training $(basename "$0" .t)"; fi
}

not_ok() {
    local name=$1 out
    shift
    if ! out=$("$@" 2>&1); then pass "$name"; return; fi
    fail "$name" "succeeded, and should not have: $*"$'\n'"$out"
}

tap_compare() {
    if [[ $1 == 0 ]]; then pass "$5"; return; fi
    fail "$5" "     got: $2"$'\n'"$3: $4"
}

is() { [[ $1 == "$2" ]]; tap_compare $? "$1" "  wanted" "$2" "$3"; }
isnt() { [[ $1 != "$2" ]]; tap_compare $? "$1" "unwanted" "$2" "$3"; }
like() { [[ $1 =~ $2 ]]; tap_compare $? "$1" " pattern" "$2" "$3"; }
unlike() { [[ ! $1 =~ $2 ]]; tap_compare $? "$1" "unwanted" "$2" "$3"; }

done_testing() {
    [[ $tap_plan ]] || echo "1..$tap_count"
    if [[ $tap_plan && $tap_plan != "$tap_count" ]]; then
        diag "planned $tap_plan assertions but ran $tap_count"
        exit 1
    fi
    exit $((tap_failed > 0))
}
