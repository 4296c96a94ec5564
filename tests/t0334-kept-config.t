#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A slurmctld that starts with a broken arena.yaml goes on with the last one that was good, kept in
# StateSaveLocation; so does one that is reconfigured, which since Slurm 23.11 is a new process.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh" || exit 99
need_arena

start_arena --nodes a40:1x2,h100:1x2
conf=$cluster_dir/arena.yaml log=$cluster_dir/log/slurmctld.log kept=$cluster_dir/state/arena/arena.yaml
lines() { wc -l <"$log"; }
since() { tail -n "+$((from + 1))" "$log"; }   # of $from
says() { wait_until "since | grep -qE '$1'" "${2:-20}"; }
cp "$conf" "$work/good.yaml"
ok "what was read well is kept" wait_until "cmp -s '$conf' '$kept'"
is "$(stat -c %a "$kept")" 600 "for SlurmUser alone"

# ---- broken, and a new slurmctld ------------------------------------------------------------------------
echo 'intervals: 7' >>"$conf"
from=$(lines)
ok "slurmctld restarts with a broken arena.yaml" cluster ctld restart
cluster wait
ok "it says what is wrong, and that the last good one is in force" says \
    "error: arena: .*unknown key .*intervals.*: the last one that was good is in force, from $kept"
job=$(train a40)
ok "an Arena job is taken and runs" wait_started "$job"
let_go "$job"
like "$(arena doctor 2>&1)" 'arena.yaml|unknown key' "arena doctor names the file"
cmp -s "$conf" "$kept"
is "$?" 1 "the broken one is not kept"

# ---- broken, and reconfigured ---------------------------------------------------------------------------
from=$(lines)
ok "a reconfigure" scontrol reconfigure
ok "leaves a good one in force" says 'error: arena: .*(the configuration in force stays|the last one that was good is in force)'
job=$(train h100)
ok "jobs still run" wait_started "$job"
let_go "$job"

# ---- mended ---------------------------------------------------------------------------------------------
sed 's/^interval_s:.*/interval_s: 3/' "$work/good.yaml" >"$conf"
from=$(lines)
ok "a mended one" scontrol reconfigure
ok "is read" says "arena: policy .*configuration $conf"
ok "and kept" wait_until "cmp -s '$conf' '$kept'"

# ---- none was ever good ---------------------------------------------------------------------------------
echo 'intervals: 7' >>"$conf"
ok "slurmctld stops" cluster ctld stop
rm -r "${kept%/*}"
from=$(lines)
ok "and starts, with nothing to fall back on" cluster ctld start
cluster wait
ok "Arena is off, and says so" says 'error: arena: .*unknown key .*Arena is off; mend it'
like "$(train a40)" 'no configuration' "and takes no job"
plain=$(submit -o /dev/null --wrap true)
ok "ordinary jobs run" wait_for_state "$plain" COMPLETED 30
done_testing
