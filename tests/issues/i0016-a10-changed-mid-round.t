#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Somebody changes a job, a node, a partition or a reservation after a round has decided and before it carries the
# decision out. What was accepted counts: nothing starts on what the decision rested on before, and the next
# round plans anew at once. Before, a job started on 8 GPUs although its comment had said arena:gpus=1-1 for 0.3 s.
# One GPU type, node and job per case; tests/tools/round_gate.cc keeps the round waiting in that window.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
gate_library=$ARENA_BUILDDIR/tests/tools/round_gate.so
[[ -e $gate_library ]] || skip_all "tests/tools/round_gate.so is not built"

# case, what is changed while the round waits, and what comes of the job: waits, gone, or the tasks, nodes and GPUs
# per node of its start
read -r -d '' table <<'END'
none      0 2 1 2
fewer     0 1 1 1
off       0 1 1 2
time      0 2 1 2
exclude   waits
partition waits
uhold     waits
ahold     waits
cancel    gone
begin     waits
drain     waits
reserve   waits
reconfig  0 2 1 2
END
mapfile -t rows <<<"$table"
declare -A job node wanted
cases=() nodes=''
for row in "${rows[@]}"; do
    read -r case rest <<<"$row"
    if [[ $case == reconfig ]] && slurm_has 23.11; then
        skip 1 "reconfig: since 23.11 it ends the process that the round is in, and waits for the round"
        continue
    fi
    cases+=("$case")
    nodes+="$case:1x2,"
    node[$case]=n${#cases[@]} wanted[$case]=$rest
done
spare=$((${#cases[@]} + 1))
start_arena --nodes "${nodes}waiting:1x2,probe:1x1" --conf-extra "PartitionName=other Nodes=n$((spare + 1)) MaxTime=INFINITE"
chmod 1777 "$work"
gate=$work/gate

start_gated() { start_slurmctld_with LD_PRELOAD="$gate_library" ARENA_ROUND_GATE="$gate"; }
close_gate() { rm -f "$gate.reached" && touch "$gate"; }
open_gate() { rm -f "$gate"; }
ok "slurmctld stops" cluster ctld stop
ok "and starts with the gate" start_gated
ok "rounds go on" wait_rounds probe

change() {
    local id=${job[$1]} at=${node[$1]}
    case $1 in
        fewer) scontrol update JobId="$id" Comment=arena:gpus=1-1 ;;
        off) scontrol update JobId="$id" Comment=arena:off ;;
        time) scontrol update JobId="$id" TimeLimit=7 ;;
        exclude) scontrol update JobId="$id" ExcNodeList="$at" ;;
        partition) scontrol update JobId="$id" Partition=other ;;
        uhold) scontrol uhold "$id" ;;
        ahold) scontrol hold "$id" ;;
        cancel) scancel "$id" ;;
        begin) scontrol update JobId="$id" StartTime=now+1hour ;;
        drain) scontrol update NodeName="$at" State=DRAIN Reason=test ;;
        reserve) scontrol create reservation=test Nodes="$at" StartTime=now Duration=60 Users=root ;;
        reconfig) scontrol reconfigure ;;
        none) ;;
    esac
}

# ---- held jobs: one round decides about all ------------------------------------------------------------
scontrol update PartitionName=main State=DOWN
for case in "${cases[@]}"; do job[$case]=$(train "$case" --arena-gpus=2); done
close_gate
scontrol update PartitionName=main State=UP
dummy=$(train probe --hold)   # a change of a partition alone makes no round
ok "a round has decided" wait_until "[[ -e $gate.reached ]]"
scancel "$dummy"
for case in "${cases[@]}"; do ok "$case: is accepted" change "$case"; done
open_gate
ok "rounds go on" wait_rounds probe
comes_of() {
    local id=${job[$1]}
    case ${wanted[$1]} in
        waits) job_state "$id" | grep -qx PENDING && [[ $(starts "$id") == 0 ]] ;;
        gone) job_state "$id" | grep -qx CANCELLED && [[ $(starts "$id") == 0 ]] ;;
        *) wait_started "$id" && [[ $(last_start "$id") == "${wanted[$1]}" ]] ;;
    esac && return
    echo "job $id is $(job_state "$id") ($(job_reason "$id")), started $(starts "$id") times, last as $(last_start "$id")"
    return 1
}
for case in "${cases[@]}"; do ok "$case: what was accepted counts: ${wanted[$case]}" comes_of "$case"; done
is "$(arena_word "${job[off]}" state)" off "off: it is an ordinary job"
is "$(job_field "${job[time]}" TimeLimit)" 00:07:00 "time: it runs with its new limit"

# ---- a job that waits released, with its shape, which Slurm itself may start ---------------------------
scancel "${job[@]}" 2>/dev/null
hog=$(hog waiting 2)
ok "the node of the waiting job is taken" wait_for_state "$hog" RUNNING
id=$(train waiting --arena-gpus=2)
ok "it waits with a shape" wait_until "[[ \$(arena_word $id state) == released && \$(job_field $id Priority) != 0 ]]"
close_gate
ok "a round has decided" wait_until "[[ -e $gate.reached ]]"
ok "fewer GPUs are accepted" scontrol update JobId="$id" Comment=arena:gpus=1-1
is "$(job_field "$id" Priority)" 0 "from then on Slurm cannot start it with the shape before"
let_go "$hog"
ok "its node is free" wait_for_state "$hog" COMPLETED
other=$(submit -o /dev/null --wrap true)
ok "Slurm's own scheduling goes on" wait_for_state "$other" COMPLETED
is "$(job_state "$id") $(starts "$id")" "PENDING 0" "it has not started"
open_gate
ok "it starts" wait_started "$id"
is "$(last_start "$id")" "0 1 1 1" "with one GPU"
done_testing
