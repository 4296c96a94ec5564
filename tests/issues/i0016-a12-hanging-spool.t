#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A profile spool on a file server that is away: open() of it hangs. Rounds went no further, and slurmctld did not end
# before the server was back. A library in slurmctld's way makes open() hang here.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena
command -v jq >/dev/null || skip_all 'jq is not installed'
shim=$ARENA_BUILDDIR/tests/tools/hanging_open.so
[[ -e $shim ]] || skip_all "tests/tools/hanging_open.so is not built"

start_cluster --arena on --nodes a40:1x2 --arena-set profile.budget_s=8 --arena-set profile.time_limit_s=60
log=$cluster_dir/log/slurmctld.log
spool=$(sed -n 's/^ *spool: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' "$cluster_dir/arena.yaml")
[[ $spool ]] || BAIL_OUT "no spool in arena.yaml"
printf '%s\n' '#!/bin/bash' "while [[ ! -e $work/measured ]]; do sleep 0.1; done" 'exit 1' >"$cluster_dir/arena-profiler.new"
chmod 755 "$cluster_dir/arena-profiler.new"
mv "$cluster_dir/arena-profiler.new" "$cluster_dir/arena-profiler"
chmod 1777 "$work"
printf '%s\n' 'name: q' 'family: gpt' 'layers: 2' 'hidden: 132' 'heads: 4' 'vocab: 1024' 'seq_length: 64' \
    'precision: fp32' >"$work/q.yaml"
rounds() { arena stats --json | jq .rounds; }

cluster ctld stop
# shellcheck disable=SC2317  # called by ok
start_with_shim() { start_slurmctld_with LD_PRELOAD="$shim" ARENA_HANG_DIR="$spool" ARENA_HANG_WHILE="$work/away"; }
ok "slurmctld starts with the library in its way" start_with_shim
job=$(submit --arena-model="$work/q.yaml" --arena-batch=8 --arena-gpus=1 -t 5 -o /dev/null "$(script true)")
ok "a model is measured" wait_for_reason "$job" 'profiling.q' 40
touch "$work/away"
ok "the spool's server goes away under slurmctld" wait_until "[[ -e $work/away.seen ]]" 30
before=$(rounds)
ok "rounds go on" wait_until "((\$(rounds) >= $before + 3))" 30
ok "slurmctld's log says what is wrong" wait_until "grep -q 'the profile spool $spool does not answer' '$log'" 30
pid=$(all_processes | while read -r p; do [[ $(cat "/proc/$p/comm" 2>/dev/null) != slurmctld ]] || echo "$p"; done | head -n 1)
start_ms=$(date +%s%3N)
kill "$pid"
ok "slurmctld ends while it hangs" wait_until "! kill -0 $pid 2>/dev/null" 10
echo "# after $(($(date +%s%3N) - start_ms)) ms"
rm -f "$work/away"
touch "$work/measured"
ok "slurmctld starts again" cluster ctld start
ok "and the job runs, on an estimate" wait_for_state "$job" COMPLETED 60
done_testing
