#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Issue 17, C: `private-cluster start` without an option gives Arena from the build of this tree, with a hardware
# entry for each GPU type, so that a large model is planned in seconds instead of measured on a CPU for an hour.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena
make_work
cluster_dir=$work/cluster
cd "$work" || exit 99
unset ARENA_PREFIX ARENA_DATA_DIR ARENA_CONF
export ARENA_BUILD=$ARENA_BUILDDIR   # what a tree's own build directory is without the variable
pc() { timeout 120 "$private_cluster" "$@" --dir "$cluster_dir" </dev/null 2>&1; }

out=$(ARENA_SAY_NEXT=1 pc start --limit $((60 * patience)) --nodes a40:2x4,a100:1x8,cpu:1x0)
rc=$?
note "$out"
is $rc 0 "start needs no option but where and which nodes"
like "$out" 'arena on' "Arena is on"
like "$out" 'analysis of A100-SXM-80GB and A40' "it says what the estimates rest on"
like "$out" 'Try: .*private-cluster shell --dir' "and what to try"
eval "$(pc env)"
is "$(command -v arena)" "$stage/bin/arena" "the command is the one of the build"
is "$(sed -n '/^gpu_types/,$p' "$ARENA_CONF" | tail -n +2 | tr -d ' ' | sort | tr '\n' ' ')" "a100:A100-SXM-80GB a40:A40 " \
    "each GPU type has the hardware entry of its name"
begin=$SECONDS
job=$(submit --arena-model=gpt2-xl --arena-batch=512 -o /dev/null --wrap 'sleep 1000')
ok "gpt2-xl starts" wait_for_state "$job" RUNNING 30
ok "within a minute, not an hour" test $((SECONDS - begin)) -lt $((30 * patience))
like "$(job_field "$job" AdminComment)" 'source=analytic' "its estimate is by analysis"
unlike "$(arena explain "$job")" 'emulated' "of the GPU and not of a CPU"
ok "doctor finds nothing wrong" arena doctor
like "$(pc stop)" stopped "it stops"

like "$(pc start --nodes zx9:1x1)" 'no hardware entry is called zx9; --hardware zx9=NAME .*A100-SXM-80GB' \
    "a GPU type of no entry is refused with the option and the names"
ok "and nothing is left" test ! -e "$cluster_dir"
like "$(pc start --hardware b200=A40)" 'no node has GPUs of type b200' "so is an entry for a type that is not there"
rc=0
out=$(pc start --nodes a40:1x1 --arena-set slowdown.mode=watch) || rc=$?
is "$rc $(grep -c 'unknown key "mode"; known are .*threshold' <<<"$out")" '3 1' "a configuration that Arena cannot read starts no cluster"
not_ok "and leaves no directory" test -e "$cluster_dir"
like "$(pc start --limit $((60 * patience)) --nodes zx9:1x1,a40:1x1 --hardware zx9=h100 --arena on)" 'arena on' "a type may have an entry of another name"
is "$(sed -n 's/^  zx9: //p' "$cluster_dir/arena.yaml")" H100-SXM-80GB "which is the entry's own"
pc stop >/dev/null
like "$(pc start --limit $((60 * patience)) --nodes a40:1x1,a100:1x1 --profile on)" 'arena on' "profiling is a choice"
is "$(sed -n '/^gpu_types/,$s/^  .*: //p' "$cluster_dir/arena.yaml" | sort -u)" emulated-cpu "it measures this CPU, for every type"
ok "with a Prolog" grep -q '^Prolog=' "$cluster_dir/slurm.conf"
pc stop >/dev/null
like "$(pc start --limit $((60 * patience)) --nodes a40:1x1 --arena off)" 'private-cluster: 1 node .*arena off' "stock Slurm is an option"
pc stop >/dev/null

# A tree that was never built says how to build it.
mkdir -p "$work/tree" && cp -r "$ARENA_SRCDIR/contrib" "$ARENA_SRCDIR/etc" "$work/tree"
if [[ -e /usr/local/lib/slurm-arena/sched_arena.so || -e /usr/lib/slurm-arena/sched_arena.so ]]; then
    skip 1 "slurm-arena is installed on this machine"
else
    like "$(env -u ARENA_BUILD timeout 60 "$work/tree/contrib/private-cluster" start --dir "$cluster_dir" 2>&1)" \
        'no slurm-arena is built .*contrib/quickstart builds it' "without a build it says how to get one"
fi
rm -rf "$cluster_dir"
cluster_dir=''
done_testing
