#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Slurm's order beside stock Slurm: a wide job that others could pass, an operator's nice, a partition of a higher
# tier. The same jobs are played on both, in lock step: what runs after each event must be the same. With order
# value, the wide job is passed: so the play can tell. And nobody makes room for who only says that he is short.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/beside_stock.sh"
need_arena
((EUID == 0)) || skip_all "an operator's nice needs root"
make_work
options=(--nodes 'a40:2x4,a100:1x1' --conf-extra 'PartitionName=high Nodes=ALL PriorityTier=10 State=UP')

wide_job() {
    ask a 4 60
    ask b 4 70
    now_run "a b" "two jobs fill the nodes"
    ask wide 8 60
    ask c 4 100
    ask d 4 100
    ask short 4 5
    ok "$kind: one ends" end_of a
    now_run "$1" "$2"
}

in_slurms_order() {
    wide_job "b short" "only who ends in time passes the wide job"
    ok "$kind: that one ends" end_of short
    now_run b "and nobody else does"
    ok "$kind: the other one ends" end_of b
    now_run wide "then the wide job starts"
    ok "$kind: it ends" end_of wide
    now_run "c d" "and those behind it"
    # ---- nice: of priority/basic, which ends 65,000 above its first job ----
    ask e 4 60
    ask lifted 4 60 --nice=-1000
    ask lowered 4 60 --nice=1000
    ok "$kind: one ends" end_of c
    now_run "d lifted" "whom an operator lifted goes first"
    ok "$kind: one ends" end_of d
    now_run "e lifted" "then who came first"
    # ---- tiers ----
    ask urgent 4 60 -p high
    ok "$kind: one ends" end_of e
    now_run "lifted urgent" "a partition of a higher tier goes before all that wait"
    ok "$kind: one ends" end_of lifted
    now_run "lowered urgent" "then the rest"
    ok "$kind: all jobs go" none_left
}

start_play stock "${options[@]}"
in_slurms_order
stop_cluster

start_play arena "${options[@]}" --arena-set resize.cooldown_s=0 --arena-set reserve_depth=2
in_slurms_order

# ---- who says that he is short ------------------------------------------------------------------------
ask honest 8 120 --arena-elastic
now_run honest "an elastic job has all nodes"
for liar in l1 l2 l3; do ask $liar 4 120 --arena-steps=1; done
now_run honest "who only says that he is short gets nobody stopped"
is "$(starts "${job[honest]}") $(job_field "${job[honest]}" Restarts)" "1 0" "it has not been moved"
ok "all jobs go" none_left

# ---- who runs behind an ordinary job ------------------------------------------------------------------
# It does not grow to both nodes, which Slurm would give to the ordinary job that stands before it: it leaves its own.
ordinary() { job[$1]=$(submit -J "$1" --time=60 -o /dev/null -N "$2" --gres=gpu:a40:4 --nice=-1000 "$work/trainer"); }
ordinary busy 1
now_run busy "an ordinary job has one node"
ask grows 4-8 40000 --arena-elastic
now_run "busy grows" "an elastic job begins with the other one"
ordinary whole 2
ok "the ordinary job ends" end_of busy
ok "Slurm starts another one that waits for both: the elastic job behind it leaves" wait_for_state "${job[whole]}" RUNNING 60
is "$(starts "${job[grows]}")" 1 "and did not grow first"
ok "all jobs go" none_left

# ---- what is held for a promise is not Slurm's to give --------------------------------------------------
# Of one step the first has the promise, also where Slurm's own priority of another one is higher.
ask far 4 500
ask p 2 60
ask q 2 60
now_run "far p q" "both nodes are full"
ask promised 4 60 --nice=1000
ask behind 2 300
ok "one stands in Slurm's own queue behind it" wait_until '[[ $(arena_word ${job[behind]} state) == released ]]'
is "$(job_field "${job[behind]}" ExcNodeList)" "$(job_field "${job[p]}" NodeList)" "without the node that is held"
ok "Slurm's own priority of it is the higher one" test "$(job_field "${job[behind]}" Priority)" -gt "$(job_field "${job[promised]}" Priority)"
ok "half of that node is free" end_of p
now_run "far q" "Slurm starts nobody there"
ok "the other half is free" end_of q
now_run "far promised" "who was promised it has it"
ok "all jobs go" none_left
ok "no node has suffered" clean_nodes
stop_cluster

start_play value "${options[@]}" --arena-set order=value
wide_job "b short" "by values alone, the shortest goes first"
ok "$kind: that one ends" end_of short
now_run "b c" "and another one passes the wide job"
ok "$kind: all jobs go" none_left
done_testing
