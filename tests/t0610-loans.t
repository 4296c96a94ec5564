#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Nodes of inference in a real Slurm: lent to a job that can leave them, and back by the deadline; who was announced is
# who is preempted; no node is in two owners' use, looked at each fifth of a second. slurmctld killed at each step,
# reconfigured; a job deaf to its signal; a node that dies; requests that cannot be.
# shellcheck disable=SC2016,SC2317  # functions are called by ok, conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
command -v jq >/dev/null || skip_all 'jq is not installed'
command -v python3 >/dev/null || skip_all 'python3 is not installed'

partitions='PartitionName=train Nodes=n[1-4] PriorityTier=5 State=UP MaxTime=INFINITE DefaultTime=60
PartitionName=infer Nodes=n[5-8] PriorityTier=100 State=UP MaxTime=INFINITE DefaultTime=60
PartitionName=loan PriorityTier=1 State=UP MaxTime=INFINITE DefaultTime=60'
start_arena --nodes a40:8x8 --conf-extra "$partitions" --arena-set policy=arena --arena-set resize.cooldown_s=5 \
    --arena-set resize.checkpoint_grace_s=600 --arena-set loan.enabled=true --arena-set loan.inference_partitions=infer \
    --arena-set loan.source=commands --arena-set loan.users=daemon
log=$cluster_dir/log/slurmctld.log

cat >"$work/ask" <<'END'
#!/usr/bin/env python3
# One line to the scheduler's socket, the answer to stdout.
import socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.connect(sys.argv[1])
    s.sendall((" ".join(sys.argv[2:]) + "\n").encode())
    while data := s.recv(65536):
        sys.stdout.write(data.decode())
END
# Each fifth of a second: a node on which jobs of partition infer and of others run, or end.
cat >"$work/owners" <<'END'
#!/usr/bin/env python3
import re, subprocess, sys, time
def nodes(text):
    for name, inside, one in re.findall(r'(\w+?)\[([\d,-]+)\]|(\w+)', text):
        if one: yield one; continue
        for part in inside.split(','):
            low, _, high = part.partition('-')
            for n in range(int(low), int(high or low) + 1): yield f'{name}{n}'
looks = 0
while True:
    out = subprocess.run(['squeue', '-h', '-t', 'R,CG,S', '-o', '%P %i %N'], capture_output=True, text=True)
    owners = {}
    if out.returncode == 0:
        looks += 1
        for line in out.stdout.splitlines():
            partition, job, *where = line.split(' ', 2)
            for node in nodes(where[0] if where else ''):
                owners.setdefault(node, {}).setdefault(partition == 'infer', []).append(job)
    for node, both in owners.items():
        if len(both) > 1: print(node, both, file=open(sys.argv[1], 'a'))
    open(sys.argv[1] + '.looks', 'w').write(str(looks))
    time.sleep(0.2)
END
chmod 755 "$work/ask" "$work/owners"
ask() { "$work/ask" "$cluster_dir/run/arena.sock" "$@"; }
said() { ask "$@" | tee "$work/answer" | jq -e '.error | not' >/dev/null || { cat "$work/answer"; return 1; }; }
answer() { jq -c "$1" "$work/answer"; }
lease() { ask loan list | jq -r ".leases[] | select(.node == \"$1\") | .state"; }
is_state() { [[ $(lease "$1") == "$2" ]]; }
is_lent() { wait_until "is_state $1 lent && [[ \$(listed) == *$1* ]]" 40; }
is_home() { wait_until "[[ ! \$(lease $1) ]]" "${2:-40}"; }
listed() { scontrol show hostnames "$(scontrol -o show partition loan | sed 's/.* Nodes=\([^ ]*\).*/\1/')" | paste -sd,; }
reservations() { scontrol -o show reservation 2>/dev/null | grep -o 'ReservationName=arena_[a-z]*_L[0-9]*' | cut -d= -f2 | paste -sd,; }
refused() { [[ $(ask "$@" | jq -r '"\(.error.code) \(.error.text)"') =~ ^2\ .*$pattern ]]; }
node_of() { job_field "$1" NodeList; }
logged() { grep -q -- "$1" "$log"; }
kill_slurmctld() { cluster ctld kill && cluster ctld start; }
# What was written of nodes is on disk: Slurm saves them up to 5 s late, and a kill before that loses the change.
saved=0
nodes_saved() {
    scontrol update NodeName=n6 Comment="saved-$((saved += 1))-"
    wait_saved && wait_until "grep -qa 'saved-$saved-' '$cluster_dir/state/node_state'" 40
}
# An elastic job that may have lent nodes, of one node's GPUs.
willing() { train a40 -p train --arena-gpus=8 --arena-elastic --arena-loan --arena-steps=1000000; }
infer() { submit -p infer -o /dev/null -J infer --time=60 --gres=gpu:a40:8 "$@" "$work/trainer"; }

"$work/owners" "$work/two" & poller=$!
wait_until '[[ -s $work/two.looks ]]'
hogs=()
for n in 1 2 3 4; do hogs+=("$(hog a40 8 -p train -w n$n)"); done
for id in "${hogs[@]}"; do ok "training's own nodes are taken" wait_for_state "$id" RUNNING; done

# ---- what cannot be ------------------------------------------------------------------------------------------
ok "the first round has been" wait_until '[[ $(ask loan list | jq -r .problem) == "" ]]'
for case in 'offer n99|no node is called n99' 'offer n1|node n1 is in none of loan.inference_partitions' 'offer n8 until=5|is over already' \
    'offer n[8|is no list of nodes' 'reclaim 1|1 nodes are asked back, and 0 are lent' 'reclaim n8|node n8 is not lent' \
    'reclaim 1 deadline=0|deadline=0 is not accepted'; do
    pattern=${case#*|}
    # shellcheck disable=SC2086  # words
    ok "refused: loan ${case%|*}" refused loan ${case%|*}
done
is "$(ask loan list | jq -c .leases)" '[]' "and nothing was changed"
if can_be_user; then
    like "$(as_user "$work/ask" "$cluster_dir/run/arena.sock" loan offer n8)" '"code":2.*only root, SlurmUser and whom arena.yaml lists' \
        "a user who is not listed is refused"
    like "$(runuser -u daemon -- "$work/ask" "$cluster_dir/run/arena.sock" loan offer n99)" 'no node is called n99' "a listed one is heard"
else
    skip 2 "needs root and a user $arena_user"
fi
for how in '' --arena-loan; do
    out=$(sbatch -p loan ${how:+--arena-model=gpt2 --arena-batch=64 $how} -o /dev/null --wrap true 2>&1)
    like "$out" 'arena-loan.*arena-elastic' "a job that cannot leave is refused in partition loan ($how)"
done

# ---- there and back --------------------------------------------------------------------------------------------
job=$(willing)
is "$(job_field "$job" Partition)" train,loan "a willing job is in both partitions"
ok "it waits" wait_until "[[ \$(arena_word $job state) =~ held|released ]]"
ok "n8 is offered" said loan offer n8
is "$(answer .leases)" '[{"id":"L1","node":"n8"}]' "the answer names the lease"
ok "n8 is lent" is_lent n8
like "$(scontrol show node n8)" 'Extra=arena:v1 loan=L1 state=lent' "its Extra says so"
ok "the job starts there" wait_started "$job"
is "$(node_of "$job")" n8 "on the lent node"
is "$(arena_word "$job" lent)" n8 "AdminComment says which"
waits=$(infer -w n8)
ok "inference waits for it meanwhile" wait_for_reason "$waits" 'ReqNodeNotAvail|Resources|Priority|reserved'
isnt "$(job_state "$waits")" RUNNING "it is not let in"
ok "n8 is asked back" said loan reclaim n8 deadline=60
is "$(answer '[.preempted, .scaled_in, .short]')" "[[$job],[],0]" "the job that has no other node is announced"
asked=$SECONDS
ok "inference has it" wait_for_state "$waits" RUNNING 60
ok "before the deadline" test $((SECONDS - asked)) -lt 60
ok "n8 is home" is_home n8
is "$(reservations)/$(scontrol show node n8 | sed -n 's/^ *Extra=//p')" / "nothing is left of the lease"
is "$(wc -l <"$gates/$job.signals")" 1 "the job was told once"
is "$(job_field "$job" Restarts)" 1 "and is preempted"
ok "the log says why" logged "JobId=$job gives n8 back to infer by "
let_go "$waits"

# ---- cycles ----------------------------------------------------------------------------------------------------
late=0
for cycle in 1 2 3; do
    said loan offer "n[7-8]" || late=offer
    wait_until 'is_state n7 lent && is_state n8 lent' 40 || late=lend
    wait_started "$job" $((cycle + 1)) 40 || late=start
    [[ $(node_of "$job") =~ ^n[78]$ ]] || late=place
    used=$(node_of "$job")
    said loan reclaim 2 deadline=60 || late=reclaim
    [[ $(answer .preempted) == "[$job]" ]] || late=announced
    asked=$SECONDS
    is_home n7 60 && is_home n8 60 && ((SECONDS - asked <= 60)) || late=back
    is "$late" 0 "cycle $cycle: lent, used ($used), announced, back in $((SECONDS - asked)) s"
done
counts=$(ask stats | jq -c '.loan | [.returns, .late_returns, .preemptions]')
is "$counts" '[7,0,4]' "arena stats counts returns, none late, and preemptions"

# ---- slurmctld is killed at each step ----------------------------------------------------------------------------
ok "n8 is offered" said loan offer n8
ok "it is saved" nodes_saved
ok "slurmctld is killed while it is offered" kill_slurmctld
ok "and n8 is lent" is_lent n8
ok "the job starts there" wait_started "$job" 5 60
ok "it is saved" nodes_saved
ok "slurmctld is killed while it is lent" kill_slurmctld
ok "the partition has it again" wait_until '[[ $(listed) == *n8* ]]' 40
is "$(starts "$job")/$(job_state "$job")" 5/RUNNING "its job was not touched"
scontrol reconfigure
ok "after reconfigure, too" wait_until '[[ $(listed) == *n8* ]]' 40
is "$(starts "$job")/$(job_state "$job")/$(lease n8)" 5/RUNNING/lent "its job was not touched"
touch "$gates/$job.deaf"
ok "n8 is asked back from a job that is deaf" said loan reclaim n8 deadline=40
ok "it is returning" wait_until '[[ $(reservations) == arena_reclaim_L* ]]'
asked=$SECONDS
waits=$(infer -w n8)
ok "it is saved" nodes_saved
ok "slurmctld is killed while it returns" kill_slurmctld
ok "inference has it all the same" wait_for_state "$waits" RUNNING 60
ok "by the deadline" test $((SECONDS - asked)) -le 40
ok "n8 is home" is_home n8
rm "$gates/$job.deaf"
let_go "$waits"

# ---- hands, and a node that dies -----------------------------------------------------------------------------------
ok "n8 is lent again" eval 'said loan offer n8 && is_lent n8'
ok "the job starts there" wait_started "$job" 6 60
scontrol update PartitionName=loan Nodes=n1
ok "an administrator takes it out of the partition: the lease is broken" wait_until 'is_state n8 broken'
is "$(job_state "$job")/$(reservations | sed 's/[0-9]*$//')" RUNNING/arena_loan_L "its job runs on, and the node is inference's after it"
let_go "$job"
ok "the job completes" wait_for_state "$job" COMPLETED 60
ok "then the node is inference's" wait_until '[[ ! $(reservations) ]]' 40
scontrol update NodeName=n8 Extra=
scontrol reconfigure
ok "a round has been" wait_until '[[ $(ask loan list | jq -r .problem) == "" ]]'
ok "n7 is lent" eval 'said loan offer n7 && is_lent n7'
cluster node n7 down >/dev/null
ok "it dies: its lease ends, and it is told" wait_until 'logged "node n7 is down or drained: its lease L[0-9]* ends"' 90
ok "nothing is left of it" wait_until '[[ ! $(reservations) && ! $(lease n7) ]]'
cluster node n7 up >/dev/null

for id in "${hogs[@]}"; do let_go "$id"; done
kill "$poller"
wait "$poller" 2>/dev/null
ok "owners were looked at often" test "$(<"$work/two.looks")" -gt 100
is "$(cat "$work/two" 2>/dev/null)" '' "no node was in two owners' use"
is "$(grep -c 'Arena is off\|internal fault' "$log")" 0 "Arena had no fault"
done_testing
