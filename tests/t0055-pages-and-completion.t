#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What a newcomer reads and types: the completion has every command and option of --help, --help ends 0 everywhere,
# a misspelt word is answered by a sentence with what there is, and manual pages render without damage.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
: "${ARENA_SRCDIR:=$PWD}" "${ARENA_BUILDDIR:=$PWD}"
ARENA_SRCDIR=$(realpath "$ARENA_SRCDIR") ARENA_BUILDDIR=$(realpath "$ARENA_BUILDDIR")
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc ARENA_CONF=$ARENA_SRCDIR/etc/arena.yaml
PATH=$ARENA_BUILDDIR:$PATH

ok "README has at most 100 lines: more is INSTALL.md's, the manual's or doc's" test "$(wc -l <"$ARENA_SRCDIR/README.md")" -le 100

# ---- completion -------------------------------------------------------------------------------------
complete() { :; }   # bash's own is not wanted here
. "$ARENA_SRCDIR/contrib/completion/arena"
offered() { # WORDS...: what is offered in place of the last one
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _arena
    printf '%s\n' "${COMPREPLY[@]}"
}
missing() { # WANTED OFFERED: words of the first that the second lacks
    comm -23 <(sort -u <<<"$1") <(sort -u <<<"$2") | tr '\n' ' '
}
program=arena
subcommands() { "$program" "$@" --help | sed -n '/^Subcommands:/,$s/^  \([a-z][a-z-]*\) .*/\1/p'; }
options() { "$program" "$@" --help | sed -n 's/^  \(-[^ ]*\).*/\1/p' | tr ',' '\n' | sed 's/:.*//'; }
compared=0   # in the shell that ran it
# shellcheck disable=SC2317
complete_below() { # WORDS...: commands and options of this command, and of those below it
    local commands known sub
    commands=$(subcommands "$@") known=$(options "$@")
    compared=$((compared + $(wc -w <<<"$commands $known")))
    [[ ! $(missing "$known" "$(offered "$program" "$@" -)") ]] || { echo "$program $*: $(missing "$known" "$(offered "$program" "$@" -)")is not offered"; return 1; }
    [[ $commands ]] || return 0
    [[ ! $(missing "$commands" "$(offered "$program" "$@" '')") ]] || { echo "$program $*: $(missing "$commands" "$(offered "$program" "$@" '')")is not offered"; return 1; }
    for sub in $commands; do complete_below "$@" "$sub" || return 1; done
}
ok "every command and option of --help is offered" complete_below
compared=$({ complete_below >/dev/null; echo "$compared"; })
ok "which are many ($compared)" test "$compared" -gt 150
program=arena-lab
ok "those of arena-lab, too" complete_below
program=arena
like "$(offered arena --json profile im)" 'import-comm' "options before a command change nothing"
is "$(offered arena plan --model llama-3.1)" "llama-3.1-405b" "built-in names follow --model"
is "$(offered arena plan --launcher megatron-)" "megatron-deepspeed" "launchers follow --launcher"
squeue() { printf '%s\n' 152 7 152; }
is "$(offered arena explain '' | paste -sd' ') $(offered arena slowdown show 15) $(offered arena report --job 7)" "7 152 152 7" "job ids follow what takes one"
unset -f squeue
like "$(offered arena plan --j)" '^--json$' "options of arena itself may stand last"

# ---- words that are wrong, and --help ------------------------------------------------------------------
says() { arena "$@" 2>&1; echo "exit $?"; }
like "$(says foo)" "arena has no command 'foo'.*; there are plan, .*doctor.*exit 2" "a command that is not there"
like "$(says explian 3)" "arena has no command 'explian', did you mean explain.*exit 2" "the nearest one is named"
like "$(says profile lst)" "arena profile has no command 'lst', did you mean list.*exit 2" "below a command too"
like "$(says plan --gpu-typ A40)" 'arena plan has no option --gpu-typ, did you mean --gpu-type.*exit 2' "and an option"
like "$(says)" 'a command is needed: arena plan \| .*exit 2' "no command"
like "$(says profile)" 'a command is needed: arena profile .*exit 2' "no command below one"
like "$(says doctor now)" "'now' is one word too many.*exit 2" "a word that no command takes"
is "$(says foo | wc -l)" 2 "one line"
for words in 'bogus' '' 'explain abc' 'plan --modell x'; do
    # shellcheck disable=SC2086
    like "$(arena --json $words 2>/dev/null | jq -r '"\(.schema_version) \(.error.text)"')" '^1 .*--help says more$' "with --json it is a document: arena --json $words"
done
like "$(says explain 12_x)" "'12_x' is no job: give a job id, or ARRAY_TASK" "a job is an id or a task of an array"
# shellcheck disable=SC2317
helps_below() {
    local sub
    "$program" "$@" --help >/dev/null || { echo "$program $* --help ends $?"; return 1; }
    for sub in $(subcommands "$@"); do helps_below "$@" "$sub" || return 1; done
}
ok "--help of every command ends 0" helps_below
program=arena-lab
ok "of arena-lab, too" helps_below
program=arena
ok "users meet at most 20 commands ($(subcommands | wc -l))" test "$(subcommands | wc -l)" -le 20
for script in check debian-root demo-array demo-loans fit-calibration get-slurm-headers install-deps make-packages private-cluster quickstart slurm-smoke slurm-versions; do
    out=$(timeout 20 "$ARENA_SRCDIR/contrib/$script" --help 2>"${TMPDIR:-/tmp}/help.$$" </dev/null)
    is "$?" 0 "contrib/$script --help ends 0"
    like "$out" 'usage: ' "and prints its usage"
    is "$(cat "${TMPDIR:-/tmp}/help.$$")" "" "on standard output"
done
rm -f "${TMPDIR:-/tmp}/help.$$"
for program in arena-train arena-profiler arena-args; do
    [[ -x $ARENA_BUILDDIR/$program ]] || { skip 1 "$program is not built"; continue; }
    ok "$program --help ends 0" "$ARENA_BUILDDIR/$program" --help
done
for script in check debian-root demo-array demo-loans get-slurm-headers install-deps make-packages private-cluster quickstart slurm-smoke slurm-versions; do
    timeout 20 "$ARENA_SRCDIR/contrib/$script" --no-such-option >/dev/null 2>&1 </dev/null
    is "$?" 2 "contrib/$script refuses an unknown option with 2"
done

# ---- built-in models -----------------------------------------------------------------------------------
models=$(arena models)
is "$(arena models --json | jq '.models | length')" "$(awk 'NF == 0 { exit } NR > 1' <<<"$models" | wc -l)" "arena models lists them all"
like "$models" 'llama-3-8b +llama +8.03 B +32 +4096 +32 / 8 +8192 tokens' "with their dimensions"
like "$models" 'mixtral-8x7b +moe +46.7 B +12.9 B' "and what one token uses"
is "$(arena models gpt-oss | grep -c '^gpt-oss')" 2 "a word chooses"
like "$(says models xyzzy)" "no built-in model has 'xyzzy'.*exit 1" "or finds none"
is "$(awk 'length($0) > 100' <<<"$models")" "" "in 100 columns"

# ---- tables ----------------------------------------------------------------------------------------------
for words in 'plan --model llama-3.1-405b --global-batch 2048 --gpu-type H100 --gpus 512-1024 --launcher megatron' \
    'plan --model gpt-oss-120b --global-batch 96 --gpu-type A100 --gpus 1-64 --launcher megatron' \
    'plan --model deepseek-v3 --global-batch 512 --gpu-type B200 --gpus 8-2048 --launcher nemo'; do
    # shellcheck disable=SC2086  # words
    out=$(arena $words)
    isnt "$(wc -l <<<"$out")" 0 "arena ${words%% --global*} prints"
    is "$(awk 'length($0) > 100' <<<"$out" | head -n 3)" "" "in 100 columns"
done

# ---- one spelling of a plan ----------------------------------------------------------------------------------
plans=0
for words in 'llama-2-7b --gpus 8-16' 'llama-2-13b --gpus 8-12' 'gpt-oss-20b --gpus 8-16'; do
    # shellcheck disable=SC2206  # words
    what=(--model $words --global-batch 64 --gpu-type A40 --budget-s 0 --launcher megatron)
    json=$(arena plan "${what[@]}" --json)
    while read -r rank _ plan _; do
        [[ $rank =~ ^[0-9]+$ ]] || continue
        plans=$((plans + 1))
        is "$(arena plan --model "${words%% *}" --global-batch 64 --gpu-type A40 --budget-s 0 --launcher megatron --fixed "$plan" --json | jq -r '.grids[0].estimate.iteration_s')" \
            "$(jq ".grids[$((rank - 1))].estimate.iteration_s" <<<"$json")" "${words%% *}: $plan of the table, given to --fixed, has its price"
    done < <(arena plan "${what[@]}")
    recomputed=${recomputed-}$(jq -r '.grids[] | select(.feasible) | .proxy_plan.recompute' <<<"$json")
done
ok "there were some ($plans)" test $plans -gt 15
# With the same degrees there are several of different memory: only the whole spelling tells them apart.
what=(--model llama-2-13b --global-batch 64 --gpu-type A40 --budget-s 0 --launcher megatron)
json=$(arena plan "${what[@]}" --gpus 8 --pareto --json)
pareto=$(arena plan "${what[@]}" --gpus 8 --pareto | sed -n 's/^ *[0-9][0-9]* .* \(pp[0-9]*,dp[^ ]*\) .*/\1/p')
ok "plans of --pareto differ in recomputation, ZeRO and sequence parallelism alone ($(wc -l <<<"$pareto"))" \
    test "$(sed 's/\(x[0-9]*\).*/\1/' <<<"$pareto" | sort -u | wc -l)" -lt "$(wc -l <<<"$pareto")"
rank=0
while read -r plan; do
    rank=$((rank + 1))
    is "$(arena plan "${what[@]}" --fixed "$plan" --json | jq -c '.grids[0] | [.proxy_plan, .estimate.memory_bytes_per_gpu]')" \
        "$(jq -c "[.grids[] | select(.feasible)][$((rank - 1))] | [.proxy_plan, .estimate.memory_bytes_per_gpu]" <<<"$json")" "$plan of --pareto is itself"
done <<<"$pareto"
like "$recomputed" '(selective|full)' "with recomputation among them"
like "$(says plan --model gpt2 --global-batch 64 --gpu-type A40 --fixed pp1,dp2,tp1,mb4x16)" \
    'mb4x16 of dp2 makes 128 samples, not the global batch of 64.*exit 2' "a plan of another batch is refused"

# ---- manual pages ------------------------------------------------------------------------------------------
if command -v groff >/dev/null; then
    for page in "$ARENA_SRCDIR"/doc/man/*.[1578]; do
        for width in 78 100; do
            is "$(groff -man -Tutf8 -rLL=${width}n -ww "$page" 2>&1 >/dev/null)" "" "${page##*/} renders at $width columns"
            out=$(groff -man -Tutf8 -rLL=${width}n "$page" 2>/dev/null | sed 's/\x1b\[[0-9;]*m//g' | sed 's/.\x08//g')
            is "$(grep -oE "[^ ]{70,}" <<<"$out" | grep -v '^[-=_/]*$' | head -n 3)" "" "with blanks between its words"
            is "$(grep -oE '.{0,20}\\[(*f][A-Za-z(].{0,9}' <<<"$out" | head -n 3)" "" "without words of groff's"
        done
    done
else
    skip 1 "groff is not installed"
fi
# ---- a build says how far it is ------------------------------------------------------------------------------
work=$(mktemp -d "${TMPDIR:-/tmp}/arena-pages.XXXXXX")
mkdir "$work/build"
# Its second file is not compiled before somebody has read of the first.
cat >"$work/build/Makefile" <<'END'
all: a.o b.o
a.o:
	@echo "  CXX      a.o"; touch a.o
b.o: a.o
	@echo "  CXX      b.o"; for i in $$(seq 600); do [ -e gate ] && break; sleep 0.05; done; touch b.o
END
(
    # shellcheck disable=SC2034
    top=$ARENA_SRCDIR ARENA_PROGRESS_S=0.1
    . "$ARENA_SRCDIR/contrib/build-lib.sh"
    # shellcheck disable=SC2034
    build=$work/build build_jobs=1
    compile
) >"$work/out" 2>&1 &
for ((i = 0; i < 600; i++)); do grep -q ' of 2 files compiled' "$work/out" && break; sleep 0.05; done
touch "$work/build/gate"
wait $!
is "$?" 0 "the build ends"
like "$(cat "$work/out")" 'building with 1 jobs, 2 files' "it says how many files"
like "$(cat "$work/out")" '[0-9]+ s: [12] of 2 files compiled, [ab].o' "and how far it is"
rm -rf "$work"
done_testing
