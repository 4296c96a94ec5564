#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Facts of nodes in a real Slurm: what stands in a node's Extra keeps Arena's jobs off a slow node, those that Slurm's
# backfill starts, too; a job that is there and would gain leaves it; it outlives slurmctld, and an administrator's
# own words win.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena

# n1-n3, n4-n5, n6. So few nodes that one at a time may be avoided.
start_arena --nodes a40:3x2,a100:2x2,probe:1x1 --arena-set policy=arena --arena-set resize.cooldown_s=5 \
    --arena-set slowdown.quarantine=avoid
later=$(($(date +%s) + 3600))
slow="arena:v1 slow=1:compute:8.00 seen=2 until=$later"
extra() { scontrol update NodeName="$1" Extra="$2"; }
excludes() { job_field "$1" ExcNodeList | sed 's/(null)//'; }
excluded() { wait_until "[[ \$(excludes $1) == '$2' ]]" || { echo "ExcNodeList=$(excludes "$1"), not $2"; return 1; }; }
node_of() { job_field "$1" NodeList; }
logged() { grep -q -- "$1" "$cluster_dir/log/slurmctld.log"; }
# What was written of nodes is on disk: the marker comes with it.
nodes_saved() {
    scontrol update NodeName=n6 Comment="saved-$1"
    wait_until "grep -qa 'saved-$1' '$cluster_dir/state/node_state'" 40
}
kill_slurmctld() { cluster ctld kill && cluster ctld start; }

# ---- jobs that start, and jobs that wait released ----------------------------------------------------------
ok "n1 is told to be slow" extra n1 "rack=7 $slow"
first=$(train a40 --arena-gpus=2)
ok "a job starts" wait_started "$first"
is "$(node_of "$first")" n2 "not on the slow node, which comes first"
like "$("$stage/bin/arena" snapshot save 2>&1 | jq -c '[.snapshot.nodes[] | select(.slow) | [.name, .slow]]')" '^\[\["n1",8' \
    "a snapshot has it"
third=$(hog a40 2 -w n3)
ok "n3 is taken" wait_for_state "$third" RUNNING
waits=$(train a40 --arena-gpus=2 --exclude=n3)
ok "a job that excludes n3 is released to wait" wait_until "[[ \$(arena_word $waits state) == released ]]"
ok "Slurm is told of n1, too" excluded "$waits" 'n[1,3]'
ok "rounds go on" wait_rounds probe
is "$(job_state "$waits")" PENDING "it waits, although n1 is free"
like "$("$stage/bin/arena" explain "$waits" 2>&1)" 'n1: GPU 1 computes 8.0 times slower' "arena explain says why"

ok "its state is saved" wait_saved
ok "and that of the nodes" nodes_saved one
ok "slurmctld is killed and comes back" kill_slurmctld
is "$(extra_of n1)" "rack=7 $slow" "the node's Extra is as it was"
is "$(excludes "$waits")" 'n[1,3]' "the job's excludes, too"
taken=$(hog a40 2 -w n1)
ok "an ordinary job may have the node" wait_for_state "$taken" RUNNING 40
ok "n1 is sound, an administrator says" extra n1 "rack=8"
ok "the user's own excludes are back" excluded "$waits" n3
is "$(extra_of n1)" "rack=8" "and what he wrote stands"
ok "n1 is slow again" extra n1 "$slow"
ok "Slurm is told again" excluded "$waits" 'n[1,3]'
ok "the user excludes n2 instead" scontrol update JobId="$waits" ExcNodeList=n2
ok "which counts beside n1" excluded "$waits" 'n[1-2]'
let_go "$taken"
ok "a fact that is over is taken out" extra n1 "rack=9 arena:v1 slow=1:compute:8.00 seen=2 until=1000 spare"
ok "of all that is there" wait_until '[[ $(extra_of n1) == "rack=9 spare" ]]'
ok "the job starts where its user left it" wait_started "$waits"
is "$(excludes "$waits")" n2 "with its user's own excludes"
ok "the nodes are saved" nodes_saved two
ok "slurmctld is killed and comes back" kill_slurmctld
is "$(extra_of n1)" "rack=9 spare" "what Arena wrote is there"
for id in "$waits" "$first" "$third"; do let_go "$id"; done

# ---- bounds, and words that are not Arena's -----------------------------------------------------------------
keeper=$(train probe)   # rounds go on as long as there is a job
ok "a job runs" wait_started "$keeper"
extra n1 "arena:v1 slow=fast"
ok "what is not sound is told" wait_until 'logged "node n1: its Extra is left alone"'
is "$(extra_of n1)" "arena:v1 slow=fast" "and left alone"
extra n1 ""
now=$(date +%s)
extra n1 "arena:v1 slow=0:compute:2.00 seen=2 since=$((now - 100)) until=$later"
ok "a node is avoided" wait_until 'logged "node n1 is avoided: GPU 0 computes 2.0 times slower"'
extra n2 "arena:v1 slow=0:compute:2.00 seen=2 since=$((now - 50)) until=$later"
ok "with a second one the first is dropped" wait_until '[[ ! $(extra_of n1) ]]'
ok "which is an error" logged "error: .*node n1 is not avoided although"
like "$(extra_of n2)" '^arena:v1 slow=0' "the later one stays"
extra n2 ""
let_go "$keeper"

# ---- a running job leaves ------------------------------------------------------------------------------------
elastic=$(train a100 --arena-gpus=2 --arena-elastic --arena-steps=1000000)
ok "an elastic job starts" wait_started "$elastic"
from=$(node_of "$elastic")
[[ $from == n4 ]] && to=n5 || to=n4
ok "its node is slow" extra "$from" "$slow"
ok "it is made to leave it" wait_started "$elastic" 2 60
is "$(node_of "$elastic")" "$to" "and runs on the other one"
is "$(wc -l <"$gates/$elastic.signals")" 1 "it was told once"
ok "the log says why" logged "JobId=$elastic leaves $from: GPU 1 computes 8.0 times slower"
is "$(job_field "$elastic" Restarts)" 1 "it was moved once"
let_go "$elastic"
ok "it completes" wait_for_state "$elastic" COMPLETED
# ---- fences: no job of Arena's is there ---------------------------------------------------------------------
ok "all jobs are over" wait_until '[[ ! $(squeue -h -t PD,R,CG -o %i) ]]'
extra "$from" ""
set_mode() { sed -i "s/quarantine: .*/quarantine: $1/" "$cluster_dir/arena.yaml" && scontrol reconfigure; }
drained() { scontrol show node "$1" | grep -q 'State=[A-Z+]*DRAIN'; }
ok "quarantine: drain" set_mode drain
extra n1 "$slow"
ok "a slow node is drained" wait_until 'drained n1'
like "$(sinfo -h -n n1 -o %E)" '^Arena: slow: GPU 1 computes 8.0 times slower' "and says by whom"
extra n1 ""
ok "until it is sound" wait_until '! drained n1'
scontrol update NodeName=n2 State=DRAIN Reason=mine
extra n2 "$slow"
ok "a drained node is avoided, too" wait_until 'logged "node n2 is avoided"'
extra n2 ""
ok "and no longer" wait_until 'logged "node n2 is no longer avoided"'
is "$(drained n2; echo "$? $(sinfo -h -n n2 -o %E)")" "0 mine" "its administrator's drain stays"
scontrol update NodeName=n2 State=RESUME
ok "quarantine: reserve" set_mode reserve
extra n1 "$slow"
reserved() { scontrol show reservation arena_slow_n1 >/dev/null 2>&1; }
ok "a slow node is reserved" wait_until reserved
kept=$(hog a40 2 -w n1)
ok "an ordinary job waits" wait_for_reason "$kept" 'ReqNodeNotAvail|Reserv'
extra n1 ""
ok "until it is sound" wait_until '! reserved'
ok "then the job starts" wait_for_state "$kept" RUNNING 60
scontrol create reservation ReservationName=arena_slow_n3 Nodes=n3 Users=daemon StartTime=now Duration=60 >"$work/made"
extra n2 "$slow"
ok "another node is reserved" wait_until 'scontrol show reservation arena_slow_n2 >/dev/null 2>&1'
extra n2 ""
ok "and no longer" wait_until '! scontrol show reservation arena_slow_n2 >/dev/null 2>&1'
like "$(scontrol show reservation arena_slow_n3 2>&1)" 'Users=daemon' "an administrator's own reservation of such a name stays"
scontrol delete ReservationName=arena_slow_n3
let_go "$kept"
is "$(grep -c 'Arena is off' "$cluster_dir/log/slurmctld.log")" 0 "Arena had no fault"
done_testing
