#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A cluster with a network: where a job of several nodes lies, beside where stock Slurm puts the same on the same free
# nodes. Under leaf switches never on more of them; in blocks (Slurm 24.05 and later) wherever stock starts it; of nodes
# with weights the same as stock's; and no node is woken up for a job that finds one awake. In which order a job's ranks
# have its nodes, and that a job whose plan needs racks has them, also where Slurm starts it by itself. Several topologies
# (topology.yaml, Slurm 25.05).
# ARENA_TOPOLOGY_ROUNDS: states of nodes to try under leaf switches, and in blocks (8)
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/placement.sh"
need_arena
rounds=${ARENA_TOPOLOGY_ROUNDS:-8} segments=''

# both N WHAT: N nodes on stock and under Arena; where, in $stock and $arena
both() {
    stock='' arena=''
    if take "$1" ordinary; then stock=$took; fi
    if take "$1" ours; then arena=$took; fi
    is "$(scontrol show hostnames "$stock" | wc -l) $(scontrol show hostnames "$arena" | wc -l)" "$1 $1" "$2"
}

# ranks_of JOB: "LEAF NODE" of each rank as its tasks say it, in their order; leaf_of says which leaf a node is on
ranks_of() {
    local rank node own
    while read -r rank node own _; do
        [[ $rank == "$own" ]] || echo "SLURM_PROCID $rank is RANK $own"
        echo "$(leaf_of "${node#n}") $node"
    done < <(sort -n "$gates/$1.tasks")
}
# groups COLUMN: how often it changes from line to line, and one more
groups() { awk -v column="$1" '{ now = "=" $column } now != last { n++; last = now } END { print n + 0 }'; }
# shellcheck disable=SC2317  # called by ranks_of
leaf_of() { echo $((($1 - 1) / leaf_nodes)); }
# On four nodes of two leaves: $job has run there, and said what its tasks are
over_two_leaves() {
    close "$@"
    job=$(submit --time=60 -o /dev/null --arena-model=gpt2 --arena-batch=96 --arena-launcher=env --arena-types=a40 \
        --arena-gpus=$((4 * per_node)) --wrap "srun bash -c 'echo \$SLURM_PROCID \$SLURMD_NODENAME \$RANK \$(scontrol show hostnames \$SLURM_STEP_NODELIST | head -n 1)' >$gates/\$SLURM_JOB_ID.tasks")
    ok "a job of four nodes runs without $closed" wait_for_state "$job" COMPLETED
    open
}

end_cluster() { stop_cluster >/dev/null && rm -rf "$gates"; }

tree() {
    count=16 leaf_nodes=4 per_node=4
    start_arena --nodes a40:16x4 --topology tree:4 --conf-extra "
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=100000
SuspendTimeout=1"
    local round wanted stock='' arena='' nodes wider='' ours_sum=0 stock_sum=0
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
    end_cluster
}

# The order of ranks, and where nodes of two leaves alternate in it.
order() {
    count=8 leaf_nodes=4 per_node=2
    start_arena --nodes a40:8x2 --topology tree:4
    local job
    over_two_leaves n1 n2 n5 n6
    is "$(ranks_of "$job" | groups 1) $(ranks_of "$job" | groups 2)" "2 4" "a job's ranks keep node and leaf together"
    # Nodes of two leaves that alternate: Slurm's order is by name, and since 26.05 that of ranks is by leaf.
    printf '%s\n' 'SwitchName=leafa Nodes=n[2,4,6,8]' 'SwitchName=leafb Nodes=n[1,3,5,7]' 'SwitchName=spine Switches=leafa,leafb' \
        >"$cluster_dir/topology.conf"
    leaf_of() { echo $(($1 % 2)); }
    local found='warn +network: topology/tree: nodes of leafa and leafb alternate in Slurm.s order of nodes, and so do the ranks.*'"$remedy" order='n1 n2 n3 n4'
    ! slurm_has 26.05 || found='ok +network: topology/tree: 2 leaf switches' order='n2 n4 n1 n3'
    cluster ctld restart
    cluster wait
    like "$(arena doctor 2>&1)" "$found" "where ranks of leaves alternate arena doctor says so, and what helps"
    over_two_leaves n{5..8}
    is "$(ranks_of "$job" | cut -d' ' -f2 | uniq | paste -sd' ')" "$order" "for a job's ranks follow Slurm's order"
    is "$(cut -d' ' -f4 "$gates/$job.tasks" | sort -u)" "${order%% *}" "and the first of the step's nodes, where they meet, is that of the first rank"
    end_cluster
}

# Of Slurm's backfill; a job that was submitted since has been seen by the second.
passes() { sdiag | sed -n '/Backfilling stats/,$s/.*Total cycles: //p' | head -n 1; }

# six SCRIPT: a job of six trays of GB200
six() { submit --time=60 -o /dev/null --arena-model=gpt2 --arena-batch=96 --arena-launcher=env --arena-types=gb200 --arena-gpus=24 "$@"; }

# Plans priced for racks: see tests/bench/placement racks. Released, Slurm itself starts the job.
racks() {
    count=16 leaf_nodes=4 per_node=4
    leaf_of() { echo $((($1 - 1) / leaf_nodes)); }
    start_arena --nodes gb200:16x4 --topology block:4 --hardware GB200-NVL72
    local job first second third
    close n{9..16}
    first=$(submit --time=60 -o /dev/null --gres=gpu:gb200:4 -w n1 "$work/trainer")
    second=$(submit --time=60 -o /dev/null --gres=gpu:gb200:4 -w n8 "$work/trainer")
    ok "two racks have three free nodes each" eval 'wait_for_state "$first" RUNNING && wait_for_state "$second" RUNNING'
    job=$(six "$work/trainer")
    ok "a job of six starts on three and three" wait_started "$job"
    is "$(grep -c '^ARENA_PLAN=.*"segment"' "$gates/$job.env.0")" 0 "with a plan that needs no rack"
    gone "$job"
    third=$(submit --time=60 -o /dev/null --gres=gpu:gb200:4 -w n2 "$work/trainer")
    ok "a third node is taken" wait_for_state "$third" RUNNING
    job=$(six "$work/trainer")
    ok "a job of six, two of a rack at a time, is released to wait" wait_until "[[ \$(arena_word $job state) == released ]]"
    ok "Slurm looks at it twice" wait_until "((\$(passes) >= $(passes) + 2)) || [[ \$(job_state $job) == RUNNING ]]" 90
    is "$(job_state "$job")" PENDING "and finds no six"
    gone "$second"
    ok "it starts when a whole rack and two are free" wait_started "$job"
    is "$(scontrol show hostnames "$(nodes_of "$job")" | by_leaf | sort | paste -sd' ')" "0 2 1 4" \
        "on two and four"
    gone "$job"
    job=$(six --wrap "srun bash -c 'echo \$SLURM_PROCID \$SLURMD_NODENAME \$RANK' >$gates/\$SLURM_JOB_ID.tasks")
    ok "another one says what its ranks are" wait_for_state "$job" COMPLETED
    is "$(ranks_of "$job" | wc -l) $(ranks_of "$job" | groups 1) $(ranks_of "$job" | groups 2)" "24 2 6" "which keep node and rack together"
    gone "$third"
    gone "$first"
    open
    end_cluster
}

# topology/block knows no job over two blocks where one could hold it; with all in one block each lies there.
blocks() {
    count=12 leaf_nodes=6 per_node=2
    start_arena --nodes a40:12x2 --topology block:6 --conf-extra 'PartitionName=alone Nodes=ALL ExclusiveTopo=YES'
    local round wanted stock='' arena='' nodes split=0 third
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
    first=$(ours 2 -p alone)
    ok "a job of a partition that gives blocks whole starts" wait_for_state "$first" RUNNING
    second=$(ours 2)
    ok "so does one of another partition" wait_for_state "$second" RUNNING
    is "$(leaves "$(nodes_of "$first"),$(nodes_of "$second")")" 2 "in the other block"
    ok "and they go, too" eval 'gone "$first" && gone "$second"'

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
    end_cluster
}

# topology.yaml (Slurm 25.05): the cluster's default, which TopologyPlugin does not name, and a partition with another one,
# whose nodes Slurm chooses.
several() {
    count=12 leaf_nodes=4 per_node=2
    leaf_of() { echo $((($1 - 1) / leaf_nodes)); }
    start_arena --nodes a40:12x2
    sed -i 's/^PartitionName=main Nodes=ALL/PartitionName=main Nodes=n[1-8]/' "$cluster_dir/slurm.conf"
    echo 'PartitionName=own Nodes=n[9-12] Topology=leaves State=UP MaxTime=INFINITE' >>"$cluster_dir/slurm.conf"
    cat >"$cluster_dir/topology.yaml" <<'END'
- topology: blocks
  cluster_default: true
  block:
    block_sizes: [4]
    blocks:
      - {block: b1, nodes: "n[1-4]"}
      - {block: b2, nodes: "n[5-8]"}
- topology: leaves
  cluster_default: false
  tree:
    switches:
      - {switch: s1, nodes: "n[9-10]"}
      - {switch: s2, nodes: "n[11-12]"}
      - {switch: s0, children: "s[1-2]"}
END
    cluster ctld restart
    cluster wait
    local stock='' arena=''
    like "$(arena doctor 2>&1)" 'ok +network: topology/block of topology.yaml: 2 blocks' "arena doctor finds the blocks of topology.yaml"
    close n1 n2 n3 n5
    both 3 "three nodes start where one of its blocks has them"
    is "$arena" "n[6-8]" "in that block"
    open
    segments=--partition=own
    close n9
    both 2 "two nodes of a partition with another topology start"
    is "$arena $stock" "n[11-12] n[11-12]" "below the switch that has both"
    open
    both 4 "four nodes of it start"
    segments=''
    end_cluster
}

RANDOM=7
remedy='name the nodes of a leaf one after the other'
! slurm_has 23.02 || remedy=TopologyParam=SwitchAsNodeRank
tree
order
! slurm_has 24.05 || racks
! slurm_has 25.05 || several
! slurm_has 24.05 || blocks   # contrib/slurm-smoke has such a Slurm
done_testing
