#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What keeps inference from starving where nobody asks lent nodes back: a spike beyond them, in a real Slurm that preempts
# by partitions. All lent nodes are full: who does not leave when it is told is taken off when GraceTime is over, by Slurm
# itself or, where Slurm preempts for another job first, by Arena.
# An idle node goes home first, no more nodes are opened than are lacking, and whom a licence keeps lacks none.
# And with `source: demand` nobody has to ask: idle nodes are lent after two ticks, waiting inference brings them back.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/loans.sh"
need_loans

grace_s=30
start_loans --conf-extra "$(printf '%s\n' PreemptType=preempt/partition_prio PreemptMode=REQUEUE)" \
    --conf-extra Licenses=lic:1 --conf-extra "$(loan_partitions PreemptMode=OFF "PreemptMode=REQUEUE GraceTime=$grace_s")"
# Jobs that Slurm has preempted, or Arena ended.
taken_off() {
    { grep -oE '(preempted( job)?|GraceTime reached) JobId=[0-9]+' "$log"; grep -oP 'arena: JobId=[0-9]+(?= requeued: )' "$log"; } |
        grep -o '[0-9]*$' | sort -nu | paste -sd,
}

fill_training
ok "the first round has been" round_has_been

# ---- a spike of all nodes --------------------------------------------------------------------------------------
ok "all nodes of inference are offered" said loan offer "n[5-8]"
ok "they are lent" is_lent "n[5-8]"
jobs=()
for n in 1 2 3 4; do jobs+=("$(willing)"); done
for id in "${jobs[@]}"; do ok "a job has one of them" wait_started "$id" 1 40; done
is "$(reservations | tr -d 0-9)" arena_loan_L,arena_loan_L,arena_loan_L,arena_loan_L "which are guarded"
touch "$gates/${jobs[0]}.deaf" "$gates/${jobs[1]}.deaf"
spike=()
for n in 1 2 3 4; do spike+=("$(infer)"); done
asked=$SECONDS
for id in "${spike[@]}"; do ok "a job of the spike starts" wait_for_state "$id" RUNNING $((grace_s + 20)); done
note "all of the spike run after $((SECONDS - asked)) s; GraceTime is $grace_s s"
is "$(taken_off)" "${jobs[0]},${jobs[1]}" "and nobody but the two that are deaf was taken off"
for id in "${jobs[@]}"; do is "$(wc -l <"$gates/$id.signals")" 1 "each was told before"; done
ok "because Arena had opened the nodes" logged 'node n[5-8]: infer waits for more than comes back: open to Slurm'
is "$(ask stats | jq -c '[.loan.preemptions, .loan.late_returns]')" '[4,0]' "and is counted"
ok "the leases are over" is_home "n[5-8]"
is "$(reservations)" '' "and nothing is left of them"
for id in "${jobs[@]}"; do ok "who was preempted waits, and is planned anew" wait_until "[[ \$(job_state $id) == PENDING ]]"; done
for id in "${spike[@]}"; do let_go "$id"; done
for id in "${spike[@]}"; do ok "the spike is over" wait_for_state "$id" COMPLETED; done

# ---- an idle node first --------------------------------------------------------------------------------------------
scancel "${jobs[@]}"
jobs=("$(willing)")
ok "two nodes are lent again" eval 'said loan offer "n[7-8]" && is_lent "n[7-8]"'
ok "the job starts on one" wait_started "${jobs[0]}" 1 40
before=$(taken_off)
spike=()
for n in 1 2 3; do spike+=("$(infer)"); done
for id in "${spike[@]}"; do ok "three jobs of inference start: two on its own nodes, one on the idle lent one" wait_for_state "$id" RUNNING 60; done
is "$(job_state "${jobs[0]}")/$(taken_off)" "RUNNING/$before" "nobody is preempted for them"
for id in "${spike[@]}"; do let_go "$id"; done
for id in "${spike[@]}"; do ok "the spike is over" wait_for_state "$id" COMPLETED; done

# ---- no more than are lacking ---------------------------------------------------------------------------------
ok "the node that went home is lent again" eval 'said loan offer "$(grep -q n7 <<<"$(listed)" && echo n8 || echo n7)" && is_lent "n[7-8]"'
jobs+=("$(willing)")
ok "another job has it" wait_started "${jobs[1]}" 1 40
licensed=$(infer -L lic)
ok "a job of inference has the only licence" wait_for_state "$licensed" RUNNING
waits=$(infer -L lic)
ok "another one waits for it" wait_for_reason "$waits" Licenses
let_pass 8
like "$(listed),$(job_state "${jobs[0]}")$(job_state "${jobs[1]}")" ",n7,n8,RUNNINGRUNNING$" "which brings no lent node back"
scancel "$waits"
spike=("$(infer)" "$(infer)")
for id in "${spike[@]}"; do ok "inference lacks one node, and gets it" wait_for_state "$id" RUNNING $((grace_s + 20)); done
# The policy may move the other one for reasons of its own.
is "$(grep -cE "JobId=(${jobs[0]}|${jobs[1]}) gives n[78] back to infer at once" "$log")" 1 "for which one job has to leave"
for id in "$licensed" "${spike[@]}"; do let_go "$id"; done
for id in "$licensed" "${spike[@]}"; do ok "they are over" wait_for_state "$id" COMPLETED; done
ok "what is lent is asked back" said loan reclaim "$(ask loan list | jq -r '[.leases[] | select(.state == "lent").node] | join(",")')"
ok "all are home" is_home "n[5-8]"
scancel "${jobs[1]}"

# ---- by demand ---------------------------------------------------------------------------------------------------
sed -i 's/^  source: commands/  source: demand\n  tick_s: 2\n  horizon_s: 0\n  headroom_percent: 0\n  headroom_nodes: 1/' "$ARENA_CONF"
scontrol reconfigure
ok "idle nodes are lent by themselves, but for the headroom" wait_until '[[ $(ask loan list | jq "[.leases[] | select(.state == \"lent\")] | length") == 3 ]]' 60
is "$(ask loan list | jq -r .source)" demand "by demand"
no=$("$stage/bin/arena" loan offer n8 2>&1) || no="$? $no"
like "$no" '^1 .*loan.source in arena.yaml is demand.*set source: commands' "nothing is lent by hand then: it says no, and what to set"
ok "the job starts on one of them" wait_started "${jobs[0]}" 2 60
before=$(taken_off)
spike=()
for n in 1 2 3 4; do spike+=("$(infer)"); done
for id in "${spike[@]}"; do ok "what inference waits for comes back by itself" wait_for_state "$id" RUNNING 60; done
is "$(taken_off)" "$before" "by a reclaim: Slurm need not preempt"
is "$(tail -n 1 "$gates/${jobs[0]}.signals")" signal "the job there was told"
for id in "${spike[@]}"; do let_go "$id"; done
ok "and they are lent again after it" wait_until '[[ $(ask loan list | jq "[.leases[] | select(.state == \"lent\")] | length") == 3 ]]' 60
let_go "${jobs[0]}"
ok "the job goes on there, and completes" wait_for_state "${jobs[0]}" COMPLETED 60

for id in "${hogs[@]}"; do let_go "$id"; done
stop_looking
ok "owners were looked at often" test "$looks" -gt 50
is "$two" '' "no node was in two owners' use"
is "$(grep -c 'Arena is off\|internal fault' "$log")" 0 "Arena had no fault"
done_testing
