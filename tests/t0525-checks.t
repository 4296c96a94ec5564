#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Checks of nodes in a real Slurm: by an administrator's word and when a fact's time is over; a slow GPU stays avoided,
# a healthy one is given back; reserved and drained nodes, carriers that hang or are cancelled, slurmctld killed. The
# device is a test's (arena-profiler-faulty): its times are invented, and as slow as a file of the node says.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/faulty.sh"
need_faulty
command -v jq >/dev/null || skip_all "jq is not installed"
need_arena

# n1-n4. So few nodes that one at a time may be avoided.
start_faulty --nodes a40:4x2

extra() { scontrol update NodeName="$1" Extra="$2"; }
fact() { echo "arena:v1 slow=1:compute:3.00 seen=2 since=$(date +%s) until=$(($(date +%s) + $1))"; }
until_of() { extra_of "$1" | sed -n 's/.*until=\([0-9]*\).*/\1/p'; }
checks_of() { grep -c "node $1 checked (JobId=" "$log"; }
checked() { wait_until "(( \$(checks_of $1) >= $2 ))" "${3:-60}"; }
carrier_of() { squeue -h -n arena-check -w "$1" -t R,CF -o %i; }
counted() { arena stats --json | jq -r ".slowdown.$1"; }
nodes_saved() {
    scontrol update NodeName=n4 Comment="saved-$1"
    wait_until "grep -qa 'saved-$1' '$cluster_dir/state/node_state'" 40
}
watch_on() { # watch_on NODE: submits a job that is watched there
    local others
    others=$(printf '%s\n' n1 n2 n3 n4 | grep -vx "$1" | paste -sd,)
    train a40 --arena-gpus=2 --arena-slowdown=watch --exclude="$others"
}
report() { SLURM_JOB_ID=$watched_job arena slowdown report --at "$1/1" --cause compute --factor 2.1 --onset "$(date +%s)" "${@:2}"; }
ends() { let_go "$watched_job"; wait_for_state "$watched_job" COMPLETED; }

# ---- by hand: of a node of which nothing is known, while Slurm has no job of Arena's --------------------------
ok "root has a node checked" arena slowdown check n1
ok "it is" checked n1 1
like "$(latest n1)" 'healthy beside the other GPUs of its node' "its GPUs are healthy beside one another"
is "$(scontrol show job "$(latest n1 | sed 's/.*JobId=\([0-9]*\).*/\1/')" | sed -n 's/.*JobName=//p')" arena-check "it was a carrier's"
out=$(arena slowdown check nowhere 2>&1); is "$?" 1 "a node that is not there: exit code 1"
like "$out" 'nowhere: nothing slow is known of it, and no node with GPUs' "and a sentence"
if can_be_user; then
    user_arena() { as_user env SLURM_CONF="$SLURM_CONF" ARENA_CONF="$cluster_dir/arena.yaml" "$stage/bin/arena" "$@" 2>&1; }
    for verb in check clear; do
        out=$(user_arena slowdown $verb n1); is "$?" 1 "a user may not $verb it"
        like "$out" "only root and SlurmUser may say \"slowdown $verb\"" "and a sentence"
    done
else
    skip 4 "needs root and a user $arena_user"
fi
is "$(checks_of n1)" 1 "nothing came of that"

# ---- one job's verdict never, two jobs' do -----------------------------------------------------------------------
watched_job=$(watch_on n1)
ok "a job runs on n1" wait_started "$watched_job" 1 60
ok "it finds GPU 1 slow" report n1
ok "which is noted" wait_until '[[ $(extra_of n1) == *"seen=1"* ]]'
ok "it says so again" wait_until 'report n1 --lost-s 5' 40
ok "it ends" ends
is "$(grep -c 'node n1 is avoided' "$log")" 0 "one job alone has no node avoided"
like "$(arena slowdown list)" 'n1: GPU 1 computes 2.1 times slower \(not confirmed by other users. jobs or a check\)' "arena slowdown list says so"
like "$(arena slowdown list)" 'n1: which holds until [0-9-]+ [0-9:]+ UTC; then a check is due' "and how long"
watched_job=$(watch_on n1)
ok "another job runs there" wait_started "$watched_job" 1 60
ok "it finds the same" report n1
ok "the node is avoided" wait_until "grep -q 'node n1 is avoided: GPU 1 computes 2.1 times slower' '$log'"
ok "it ends" ends
next=$(train a40 --arena-gpus=2)
ok "the next job starts" wait_started "$next" 1 60
isnt "$(job_field "$next" NodeList)" n1 "elsewhere"
let_go "$next"

# ---- a check while it is slow, and one when it is not ---------------------------------------------------------------
slow_gpu n1 1
before=$(until_of n1)
ok "n1 is checked while GPU 1 is slow" arena slowdown check n1
ok "it is found slow" checked n1 2
like "$(latest n1)" 'GPU 1 computes 100.0 times slower than its own earlier checks' "beside itself"
ok "the fact has what was measured" wait_until '[[ $(extra_of n1) == *"slow=1:compute:100.00 seen=2"* ]]'
ok "and holds for longer" test "$(until_of n1)" -ge "$before"
sound n1
ok "n1 is checked again" arena slowdown check n1
ok "it is healthy" checked n1 3
ok "nothing is held against it" wait_until '[[ ! $(extra_of n1) ]]'
ok "and jobs may have it" wait_until "grep -q 'node n1 is no longer avoided' '$log'"
is "$(counted checks.healthy)/$(counted checks.slow)" 2/1 "arena stats counts the checks"

# ---- a fact's time is over -----------------------------------------------------------------------------------------
extra n2 "$(fact 4)"
ok "n2 is checked when the fact's time is over" checked n2 1
ok "and given back" wait_until '[[ ! $(extra_of n2) ]]'
slow_gpu n3 1
extra n3 "$(fact 4)"
ok "n3, too" checked n3 1
ok "which is slow yet" wait_until '(($(until_of n3) > $(date +%s) + 30))'
sound n3
ok "an administrator takes it for healthy" arena slowdown clear n3
ok "at once" wait_until '[[ ! $(extra_of n3) ]]'

# ---- carriers that end badly ---------------------------------------------------------------------------------------
touch "$work/faults/n4.gate"
extra n4 "$(fact 600)"
ok "a check is asked for" arena slowdown check n4
ok "its carrier runs" wait_until '[[ $(carrier_of n4) ]]'
scancel "$(carrier_of n4)"
rm "$work/faults/n4.gate"
ok "it is cancelled, and another one checks, or it had its result" checked n4 1 90
ok "the fact is gone" wait_until '[[ ! $(extra_of n4) ]]'
echo 'export ARENA_TEST_FAULT=hang' >"$work/faults/n2"
extra n2 "$(fact 600)"
ok "a check that hangs" arena slowdown check n2
ok "is stopped, and tried once more" wait_until "grep -q 'check of node n2 .* failed: the check timed out and was stopped.*(try 2 of 2)' '$log'" 150
like "$(extra_of n2)" 'slow=1:compute:3.00' "nothing is said of the node"
sound n2
# The next one is to outlast a slurmctld that is killed and starts again.
sed -i 's/check_time_limit_s: 30/check_time_limit_s: 120/' "$cluster_dir/arena.yaml"
ok "a check may take two minutes from now on" eval 'grep -q "check_time_limit_s: 120" "$cluster_dir/arena.yaml" && scontrol reconfigure'

# ---- slurmctld is killed -------------------------------------------------------------------------------------------
touch "$work/faults/n3.gate"
extra n3 "$(fact 600)"
ok "the nodes are saved" nodes_saved one
ok "a check is asked for" arena slowdown check n3
ok "its carrier runs" wait_until '[[ $(carrier_of n3) ]]'
carrier=$(carrier_of n3) before=$(checks_of n3)
ok "the jobs are saved" wait_saved
cluster ctld kill && cluster ctld start
rm "$work/faults/n3.gate"
ok "slurmctld comes back, and hears of the check" checked n3 $((before + 1)) 90
like "$(latest n3)" "JobId=$carrier" "the one that ran"
ok "and gives the node back" wait_until '[[ ! $(extra_of n3) ]]'
before=$(checks_of n1)
extra n1 "$(fact 40)"
ok "the nodes are saved" nodes_saved two
cluster ctld kill && cluster ctld start
ok "between verdict and check: it is checked all the same" checked n1 $((before + 1)) 90
ok "and given back" wait_until '[[ ! $(extra_of n1) ]]'

# ---- fences --------------------------------------------------------------------------------------------------------
set_mode() { sed -i "s/quarantine: .*/quarantine: $1/" "$cluster_dir/arena.yaml" && scontrol reconfigure; }
drained() { scontrol show node "$1" | grep -q 'State=[A-Z+]*DRAIN'; }
reserved() { scontrol show reservation "arena_slow_$1" >/dev/null 2>&1; }
extra n2 ''
ok "quarantine: reserve" set_mode reserve
extra n1 "$(fact 600)"
ok "a slow node is reserved" wait_until 'reserved n1'
before=$(checks_of n1)
ok "a check reaches it" arena slowdown check n1
ok "and is done" checked n1 $((before + 1)) 90
ok "the reservation is gone" wait_until '! reserved n1'
ok "quarantine: drain" set_mode drain
extra n2 "$(fact 600)"
ok "a slow node is drained" wait_until 'drained n2'
before=$(checks_of n2)
ok "a check is asked for" arena slowdown check n2
ok "which says what it waits for" wait_until 'arena slowdown list | grep -q "n2: its check waits: Arena has drained it: resume it"'
ok "an administrator resumes it" scontrol update NodeName=n2 State=RESUME
ok "and it is checked" checked n2 $((before + 1)) 90
ok "it is not drained again" wait_until '! drained n2 && ! reserved n2'
is "$(extra_of n2)" "" "nothing is held against it"
is "$(grep -c 'Arena is off' "$log")" 0 "Arena had no fault"
ok "no node is left drained" clean_nodes
done_testing
