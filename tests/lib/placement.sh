# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Where a job of several whole nodes lies, on stock and under Arena, on the same free nodes of one private cluster.
# Source it after arena.sh. Nodes are n1, n2, ...; a leaf or block has the next $leaf_nodes of them, or, with $leaf_count, node
# n is in leaf n % $leaf_count. The caller sets $count, $leaf_nodes and $per_node (GPUs of type a40 of a node), and $segments:
# an option of both, or nothing.
#   ordinary NODES [OPTIONS...]    submits an ordinary job, prints its id;   ours NODES [OPTIONS...]  the same under Arena
#   nodes_of JOB      leaves NODELIST     how many leaves or blocks it has nodes of
#   by_leaf           of node names on stdin: each leaf, and how many nodes of it
#   close NODES...    no job may have them until `open`
#   some_nodes SEED HOW_MANY              so many of the nodes, by chance
#   take NODES COMMAND                    what the command starts, in $took, or why it waits, in $waited; and ends it again; fails where it waits
#                     $yet_s: so long it may yet start, once somebody has said why it waits (20)
#   gone JOB          cancelled, and none of its nodes is held
: "${work=}" "${count=}" "${leaf_nodes=}" "${leaf_count=}" "${per_node=}" "${segments=}"

ordinary() { submit --time=60 -o /dev/null ${segments:+"$segments"} -N "$1" --gres="gpu:a40:$per_node" "${@:2}" "$work/trainer"; }
ours() {
    submit --time=60 -o /dev/null --arena-model=gpt2 --arena-batch=$((96 * $1)) --arena-launcher=env --arena-types=a40 \
        ${segments:+"$segments"} --arena-gpus=$(($1 * per_node)) "${@:2}" "$work/trainer"
}
nodes_of() { job_field "$1" NodeList; }
by_leaf() {
    awk -v size="$leaf_nodes" -v leaves="${leaf_count:-0}" '
        { n = substr($0, 2); ++of[leaves ? n % leaves : int((n - 1) / size)] } END { for (leaf in of) print leaf, of[leaf] }'
}
leaves() { scontrol show hostnames "$1" | by_leaf | wc -l; }
gone() { scancel "$1" && wait_until "[[ ! \$(squeue -h -j $1 -t PD,R,CG -o %i 2>/dev/null) ]]"; }

# It runs, or who looked for nodes has said why not; who waits then may yet be started by the next look.
is_judged() { [[ $(squeue -h -a -t all -j "$1" -o '%T %r' 2>/dev/null) =~ ^RUNNING|Resources|Priority|'waits for'|'not available'|'not below'|'can hold'|ReqNodeNotAvail ]]; }
take() {
    local job
    took='' waited=''   # waited is the caller's
    : "$waited"
    job=$("$2" "$1") || { waited="refused: $job"; return 1; }
    if wait_until "is_judged $job" && wait_for_state "$job" RUNNING "${yet_s:-20}" >/dev/null; then took=$(nodes_of "$job"); else waited=$(job_reason "$job"); fi
    gone "$job" && [[ $took ]]
}

closed=''
close() {
    closed=$(IFS=,; echo "$*")
    [[ ! $closed ]] || scontrol update NodeName="$closed" State=DRAIN Reason=test
}
# shellcheck disable=SC2016  # evaluated by wait_until
open() {
    [[ ! $closed ]] || scontrol update NodeName="$closed" State=RESUME
    closed=''
    wait_until '[[ ! $(sinfo -h -N -o %T | grep -v "^idle\$") ]]'
}
some_nodes() { seq "$count" | shuf -n "$2" --random-source=<(yes "$1") | sed s/^/n/ | sort -V | tr '\n' ' '; }
