#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A cluster with a network: where a job of several nodes lies, beside where stock Slurm puts the same on the same free
# nodes. Under leaf switches never on more of them; in blocks (Slurm 24.05 and later) wherever stock starts it; of nodes
# with weights the same as stock's; and no node is woken up for a job that finds one awake.
# ARENA_TOPOLOGY_ROUNDS: states of nodes to try under leaf switches, and in blocks (8)
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
rounds=${ARENA_TOPOLOGY_ROUNDS:-8} segments=''   # one word, or none

# shellcheck disable=SC2317  # called by take
ordinary() { submit --time=60 -o /dev/null $segments -N "$1" --gres="gpu:a40:$per_node" "${@:2}" "$work/trainer"; }
ours() {
    submit --time=60 -o /dev/null --arena-model=gpt2 --arena-batch=96 --arena-launcher=env --arena-types=a40 $segments \
        --arena-gpus=$(($1 * per_node)) "${@:2}" "$work/trainer"
}
nodes_of() { job_field "$1" NodeList; }
# leaves NODELIST: how many leaves or blocks it has nodes of
leaves() { scontrol show hostnames "$1" | awk -v size="$leaf_nodes" '{ print int((substr($0, 2) - 1) / size) }' | sort -u | wc -l; }
gone() { scancel "$1" && wait_until "[[ ! \$(squeue -h -j $1 -t PD,R,CG -o %i 2>/dev/null) ]]"; }
# take NODES COMMAND: what it starts, in $took; and it is gone again
take() {
    local job
    job=$("$2" "$1") && wait_for_state "$job" RUNNING && took=$(nodes_of "$job") && gone "$job"
}
# both N WHAT: N nodes on stock and under Arena; where, in $stock and $arena
both() {
    stock='' arena=''
    if take "$1" ordinary; then stock=$took; fi
    if take "$1" ours; then arena=$took; fi
    is "$(scontrol show hostnames "$stock" | wc -l) $(scontrol show hostnames "$arena" | wc -l)" "$1 $1" "$2"
}
# close NODES...: no job may have them; `open` ends it
closed=''
close() {
    closed=$(IFS=,; echo "$*")
    [[ ! $closed ]] || scontrol update NodeName="$closed" State=DRAIN Reason=test
}
open() {
    [[ ! $closed ]] || scontrol update NodeName="$closed" State=RESUME
    closed=''
    wait_until "[[ ! \$(sinfo -h -N -o '%T' | grep -v '^idle\$') ]]"
}
# some_nodes SEED HOW_MANY
some_nodes() { seq "$count" | shuf -n "$2" --random-source=<(yes "$1") | sed s/^/n/ | sort -V | tr '\n' ' '; }

tree() {
    count=16 leaf_nodes=4 per_node=4
    start_arena --nodes a40:16x4 --topology tree:4 --conf-extra "
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=100000
SuspendTimeout=1"
    local round wanted stock='' arena='' took='' nodes wider='' ours_sum=0 stock_sum=0
    for ((round = 1; round <= rounds; round++)); do
        wanted=$((round % 4 == 0 ? 6 : round % 4 + 1))
        read -ra nodes <<<"$(some_nodes "$round" $((RANDOM % (16 - wanted))))"
        close "${nodes[@]}"
        both "$wanted" "tree $round: $wanted nodes start on stock and under Arena without ${closed:-any}"
        (($(leaves "$arena") <= $(leaves "$stock"))) || wider+=" $arena (stock $stock, without $closed)"
        ours_sum=$((ours_sum + $(leaves "$arena"))) stock_sum=$((stock_sum + $(leaves "$stock")))
        open
    done
    is "$wider" "" "none lies under more leaves than stock's"
    echo "# leaves of $rounds jobs: $ours_sum, stock $stock_sum"

    like "$(arena snapshot save 2>/dev/null | tr -d ' \n')" '"switches":\["spine","leaf3"\]' "a snapshot has each node's switches"
    like "$(arena doctor 2>&1)" 'ok +network: topology/tree: 4 leaf switches' "arena doctor counts the leaf switches"

    scontrol update NodeName="n[1-8]" Weight=100
    scontrol update NodeName="n[9-16]" Weight=1
    for wanted in 1 3; do
        both "$wanted" "$wanted nodes start on stock and under Arena"
        unlike " $(scontrol show hostnames "$arena,$stock" | xargs) " ' n[1-8] ' "both take those of the lower weight"
    done
    scontrol update NodeName="n[1-16]" Weight=1

    scontrol update NodeName="n[1-12]" State=POWER_DOWN
    ok "twelve nodes sleep" wait_until "((\$(sinfo -h -N -o %T | grep -cE 'power|[~%]$') == 12))"
    for wanted in 1 4; do
        both "$wanted" "$wanted nodes start on stock and under Arena"
        unlike " $(scontrol show hostnames "$arena,$stock" | xargs) " ' n([1-9]|1[0-2]) ' "no node is woken up for that"
    done
    stop_cluster >/dev/null
}

# topology/block knows no job over two blocks where one could hold it; with all in one block each lies there.
blocks() {
    count=12 leaf_nodes=6 per_node=2
    start_arena --nodes a40:12x2 --topology block:6
    local round wanted stock='' arena='' took='' nodes split=0 third
    close n1 n2 n3 n4 n7 n8 n9
    both 3 "three nodes start where one block has them"
    is "$arena" "n[10-12]" "in that block"
    open
    for ((round = 1; round <= rounds; round++)); do
        wanted=$((round % 5 + 2))
        read -ra nodes <<<"$(some_nodes "$round" $((RANDOM % 4)))"
        close "${nodes[@]}"
        if take "$wanted" ordinary; then
            took=''
            take "$wanted" ours
            is "$(scontrol show hostnames "$took" | wc -l)" "$wanted" "blocks $round: $wanted nodes start as stock's do without ${closed:-any}"
            (($(leaves "$took") == 1)) || split=$((split + 1))
        fi
        open
    done
    is "$split" 0 "none lies in two blocks"
    local pair first second
    for pair in "4 2" "8 4"; do
        segments="--segment=${pair#* }"
        both "${pair% *}" "${pair% *} nodes start with $segments on stock and under Arena"
        is "$(leaves "$arena")" "$(leaves "$stock")" "in as many blocks"
    done
    segments=''
    first=$(ours 2 --exclusive=topo)
    ok "a job with --exclusive=topo starts" wait_for_state "$first" RUNNING
    second=$(ours 2)
    ok "so does another" wait_for_state "$second" RUNNING
    is "$(leaves "$(nodes_of "$first"),$(nodes_of "$second")")" 2 "in the other block"
    third=$(ours 6)
    ok "six nodes wait, for none is left of a block" wait_for_reason "$third" 'Resources|waits for 6x2xa40'
    ok "without being tried over and over" eval '! grep -q "JobId=$third.*nodes are busy" "$cluster_dir/log/slurmctld.log"'
    ok "the first two go" eval 'gone "$first" && gone "$second"'
    ok "and they start" wait_for_state "$third" RUNNING
    second=$(ours 2 --exclusive=topo)
    ok "one for itself starts beside them" wait_for_state "$second" RUNNING
    first=$(ours 2 --exclusive=topo)
    ok "another waits" wait_for_state "$first" PENDING
    ok "until a block is all idle" eval 'gone "$third" && wait_for_state "$first" RUNNING'
    ok "and both go" eval 'gone "$first" && gone "$second"'

    close n1 n2 n3 n4 n7 n8 n9
    local waits beside
    beside=$(ordinary 1 -w n10)
    ok "an ordinary job has a node of the other block" wait_for_state "$beside" RUNNING
    waits=$(ours 3)
    ok "three nodes wait where no block has them, and are told why" wait_until \
        "[[ \$(arena explain $waits 2>&1) == *'but not below one switch or in one block'* ]]"
    is "$(job_state "$waits")" PENDING "though four nodes are free"
    open
    ok "and start when one has" wait_for_state "$waits" RUNNING
    is "$(leaves "$(nodes_of "$waits")")" 1 "in it"
    stop_cluster >/dev/null
}

RANDOM=7
tree
! slurm_has 24.05 || blocks   # contrib/slurm-smoke has such a Slurm
done_testing
