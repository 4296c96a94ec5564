#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Node health in a real Slurm: slurmd runs a HealthCheckProgram that hands what the node's tools say to Arena. Jobs keep off a node
# that is slow or gone, and have it again when its tools say so no more; what the kernel said holds until somebody clears it; a power
# cap is no fault; strangers and noise say nothing of a node.
# shellcheck disable=SC2016,SC2317,SC2034  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
command -v jq >/dev/null || skip_all "jq is not installed"
need_arena

# The site's own script: what its tools say is a file here.
make_work
mkdir -m 755 "$work/health"
cat >"$work/health-check" <<END
#!/bin/bash
export SLURM_CONF=$work/cluster/slurm.conf   # which Slurm does not hand on
cd $work/health || exit 0
[[ -e \$SLURMD_NODENAME ]] || exit 0
cat "\$SLURMD_NODENAME" | $stage/bin/arena slowdown report --from-health - >\$SLURMD_NODENAME.new 2>&1
mv \$SLURMD_NODENAME.new \$SLURMD_NODENAME.out
END
chmod 755 "$work/health-check"

# n1-n3, n4 for a job that keeps rounds going.
start_arena --nodes a40:3x2,probe:1x1 --arena-set policy=arena --arena-set slowdown.quarantine=avoid \
    --conf-extra "HealthCheckProgram=$work/health-check" --conf-extra HealthCheckInterval=2 --conf-extra HealthCheckNodeState=ANY
log=$cluster_dir/log/slurmctld.log
logged() { wait_until "grep -q -- '$1' '$log'" "${2:-40}"; }
comment_of() { scontrol show node "$1" | sed -n 's/^ *Comment=//p'; }
comment_is() { wait_until "[[ \$(comment_of $1) == $2 ]]" 40 || { echo "Comment=$(comment_of "$1")"; cat "$work/health/$1.out"; return 1; }; }
node_of() { job_field "$1" NodeList; }
# tools NODE THERMAL POWER_CAP [LINES]: what nvidia-smi says of its GPU 1, and the kernel
tools() {
    {
        echo "index, pci.bus_id, clocks_event_reasons.hw_thermal_slowdown, clocks_event_reasons.sw_power_cap, power.limit [W]"
        echo "0, 00000000:3B:00.0, Not Active, Not Active, 300.00 W"
        echo "1, 00000000:5E:00.0, $2, $3, 300.00 W"
        echo "[    1.000000] Linux version 6.1"
        [[ ! ${4-} ]] || echo "$4"
    } >"$work/health/.$1"
    mv "$work/health/.$1" "$work/health/$1"
}
healthy() { tools "$1" 'Not Active' 'Not Active'; }
said() { wait_until "grep -q -- '$2' '$work/health/$1.out'" 40 || { cat "$work/health/$1.out"; return 1; }; }
starts_on() { # starts_on NODE: the next job does
    local job
    job=$(train a40 --arena-gpus=2)
    wait_started "$job" || return
    is_on=$(node_of "$job")
    let_go "$job"
    wait_for_state "$job" COMPLETED
    [[ $is_on == "$1" ]] || { echo "it is on $is_on, not $1"; return 1; }
}
nodes_saved() {
    scontrol update NodeName=n4 Comment="saved-$1"
    wait_until "grep -qa 'saved-$1' '$cluster_dir/state/node_state'" 40
}
xid='[    2.000000] NVRM: Xid (PCI:0000:5e:00): 79, pid=7, GPU has fallen off the bus.'

keeper=$(train probe)
ok "a job keeps rounds going" wait_started "$keeper"

# ---- slow, and no more -------------------------------------------------------------------------------------
scontrol update NodeName=n1 Comment="rack 7"
for node in n1 n2 n3; do healthy $node; done
ok "slurmd runs it: n1's tools find nothing" said n1 'nothing is held against it'
is "$(comment_of n1)" "rack 7" "its Comment is its administrator's"
ok "a job starts on n1, the first" starts_on n1
tools n1 Active 'Not Active'
ok "n1's GPU 1 is too hot: slurmctld has it" comment_is n1 '"rack 7 arena:health:v1;slow=hw_thermal/gpu1@"*'
ok "Arena avoids the node, and says why" logged 'node n1 is avoided: GPU 1: its clocks are halved'
ok "the next job starts elsewhere" starts_on n2
like "$(arena slowdown list)" 'n1: GPU 1: its clocks are halved.* \(slow by its own tools, since 20.* UTC\)' "arena slowdown list has it"
is "$(arena stats --json | jq -c .slowdown.health)" '{"gone":0,"slow":1,"watch":0}' "arena stats counts it"
like "$(arena exporter --once)" 'slurm_arena_unhealthy_nodes\{severity="slow"\} 1' "the exporter, too"
since=$(comment_of n1)
let_pass 3
is "$(comment_of n1)" "$since" "as long as it goes on nothing is written"
healthy n1
ok "it cools down: the report is taken back" comment_is n1 '"rack 7"'
ok "the node is avoided no longer" logged 'node n1 is no longer avoided'
ok "and has the next job" starts_on n1

# ---- no fault ----------------------------------------------------------------------------------------------
tools n1 'Not Active' Active
ok "a power cap is told" said n1 'GPU 1: it keeps to its power limit, which is no fault: it is not slow'
is "$(comment_of n1)" "rack 7" "and reported to nobody"
ok "the node has the next job" starts_on n1

# ---- gone: beyond what may be avoided, until somebody clears it --------------------------------------------
tools n1 Active 'Not Active'
ok "n1 is slow again, and all that may be avoided of three nodes" comment_is n1 '*hw_thermal/gpu1@*'
tools n2 'Not Active' 'Not Active' "$xid"
ok "n2 has lost a GPU" comment_is n2 'arena:health:v1\;gone=xid79/gpu1@*'
ok "it is avoided all the same" logged 'node n2 is avoided: GPU 1: XID 79, it has fallen off the bus'
ok "the next job starts on the last node" starts_on n3
ok "the nodes are saved" nodes_saved one
cluster ctld kill && cluster ctld start
ok "after a new slurmctld as well" starts_on n3
healthy n2
let_pass 5
like "$(comment_of n2)" 'gone=xid79/gpu1@' "the kernel says a thing once: it holds when its line is gone"
ok "an administrator clears n2" arena slowdown clear n2
ok "it has jobs again" logged 'node n2 is no longer avoided'
like "$(extra_of n2)" '^arena:v1 sound=[0-9]+$' "what was cleared is known"
ok "the next job starts there" starts_on n2
ok "the nodes are saved" nodes_saved two
cluster ctld kill && cluster ctld start
ok "after a new slurmctld as well" starts_on n2
before=$(comment_of n2)
tools n2 'Not Active' 'Not Active' "${xid/2.000000/$(($(cut -d. -f1 /proc/uptime) + 120)).0}"
ok "the kernel says it once more" wait_until '[[ $(comment_of n2) != "$before" ]]' 40
ok "which counts" starts_on n3
arena slowdown clear n2

# ---- fences ------------------------------------------------------------------------------------------------
healthy n1
ok "n1 is well" comment_is n1 '"rack 7"'
set_mode() { sed -i "s/quarantine: .*/quarantine: $1/" "$cluster_dir/arena.yaml" && scontrol reconfigure; }
ok "quarantine: drain" set_mode drain
tools n1 Active 'Not Active'
ok "a slow node is drained" wait_until "scontrol show node n1 | grep -q 'State=[A-Z+]*DRAIN'" 40
like "$(sinfo -h -n n1 -o %E)" '^Arena: slow: GPU 1: its clocks are halved' "and says why"
healthy n1
ok "a drained node is still looked at, and comes back" wait_until "! scontrol show node n1 | grep -q 'State=[A-Z+]*DRAIN'" 60

# ---- who may not, and what says nothing -----------------------------------------------------------------------
printf '\000\377\n| GPU 0 | Memory: Failure |\n' >"$work/health/n3"
ok "noise says nothing of a node" said n3 'none of a tool that is known'
: >"$work/health/n3"
ok "nothing, too" said n3 '^arena: 0 lines read, and none of a tool'
is "$(comment_of n3)" "" "and leaves it alone"
report() { arena slowdown report --from-health - "$@" 2>&1; }
out=$({ head -c 100000000 /dev/zero; echo; echo "$xid"; } | report --node n3 --dry-run); is "$?" 1 "a line of 100 MB, and what is behind it"
like "$out" 'GPU 0000:5e:00: XID 79.*1 not known and left out' "is found"
out=$(report --node nowhere <<<"$xid"); is "$?" 2 "a node that is not there: exit code 2"
like "$out" 'Slurm has no node "nowhere"; --node names another' "and a sentence"
out=$(report --node 'n1 State=DOWN' <<<"$xid"); is "$?" 2 "no name of a node: exit code 2"
if can_be_user; then
    out=$(as_user env SLURM_CONF="$SLURM_CONF" "$stage/bin/arena" slowdown report --from-health - --node n3 2>&1 <<<"$xid"); is "$?" 2 "a user may not report a node"
    like "$out" 'slurmctld refuses it .*: root, SlurmUser and operators alone may' "and a sentence"
    is "$(comment_of n3)" "" "nothing came of it"
else
    skip 3 "needs root and a user $arena_user"
fi
scontrol update NodeName=n3 Comment='arena:health:v1;gone'
ok "what is not sound is told" logged 'node n3: what its Comment has of its health says nothing'
is "$(grep -c 'node n3 is avoided' "$log")" 0 "and is nothing"
let_go "$keeper"
is "$(grep -c 'Arena is off' "$log")" 0 "Arena had no fault"
done_testing
