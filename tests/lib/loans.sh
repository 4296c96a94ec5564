# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Black-box tests of lent nodes in a cluster: n1 to n4 are training's, n5 to n8 inference's. Source it after arena.sh.
#   start_loans [OPTIONS...]     start_arena with the partitions train, infer and loan, 8 nodes of 8 GPUs, and `arena loan` by
#                                commands; a look at owners each fifth of a second from then on; $log, slurmctld's
#   loan_partitions [INFER [LOAN]]   the partitions, with more in the lines of infer and loan
#   stop_looking                 ends it; $looks, $two: how often was looked, and what was found
#   ask WORDS...                 a line to the scheduler's socket, and its answer
#   said WORDS..., answer FILTER the same, succeeds where it is no refusal; and what jq finds in the last answer
#   refused WORDS...             succeeds where it is refused with code 2 and $pattern
#   lease NODE, is_state NODE STATE           "" = it has none
#   is_lent NODES, is_home NODES [LIMIT]      waits until all of them are
#   listed, reservations         nodes of partition loan; reservations of Arena's, both with commas
#   willing [OPTIONS...]         submits an elastic job that may have lent nodes, of one node's GPUs
#   infer [OPTIONS...]           submits a job of inference, of one node's GPUs
#   round_has_been               the first one, after a start or a reconfigure
#   need_loans                   skips where a tool is missing; before start_loans
#   fill_training                a job on each of training's own nodes, asserted; $hogs
#   logged REGEX, logged_at REGEX   whether slurmctld's log says so; when it did last, as seconds of the epoch
# shellcheck disable=SC2016,SC2034  # conditions evaluated by wait_until; variables of the test's
: "${work=}" "${cluster_dir=}" "${pattern=}"   # of cluster.sh, of the test
log='' poller='' two='' looks=0 hogs=()

need_loans() {
    need_arena
    command -v jq >/dev/null || skip_all 'jq is not installed'
    command -v python3 >/dev/null || skip_all 'python3 is not installed'
}
logged() { grep -q -- "$1" "$log"; }
logged_at() { date -d "$(grep -- "$1" "$log" | tail -n 1 | sed 's/^\[\([^]]*\)\].*/\1/')" +%s; }
fill_training() {
    local n id
    for n in 1 2 3 4; do hogs+=("$(hog a40 8 -p train -w n$n)"); done
    for id in "${hogs[@]}"; do ok "training's own nodes are taken" wait_for_state "$id" RUNNING; done
}

loan_partitions() {
    printf '%s\n' 'PartitionName=train Nodes=n[1-4] PriorityTier=10 State=UP MaxTime=INFINITE DefaultTime=60' \
        "PartitionName=infer Nodes=n[5-8] PriorityTier=100 State=UP MaxTime=INFINITE DefaultTime=60 ${1-}" \
        "PartitionName=loan PriorityTier=1 State=UP MaxTime=INFINITE DefaultTime=60 ${2-}"
}

start_loans() {
    write_loan_tools
    start_arena --nodes a40:8x8 --arena-set policy=arena --arena-set resize.cooldown_s=5 \
        --arena-set resize.checkpoint_grace_s=600 --arena-set loan.enabled=true --arena-set loan.inference_partitions=infer \
        --arena-set loan.source=commands "$@"
    log=$cluster_dir/log/slurmctld.log
    "$work/owners" "$work/two" & poller=$!
    wait_until '[[ -s $work/two.looks ]]'
}

stop_looking() {
    kill "$poller"
    wait "$poller" 2>/dev/null
    # shellcheck disable=SC2034  # the test's
    looks=$(<"$work/two.looks") two=$(cat "$work/two" 2>/dev/null)
}

write_loan_tools() {
    make_work
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
import os, re, subprocess, sys, time
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
    # In one step: whoever ends this may do so at any time.
    open(sys.argv[1] + '.new', 'w').write(str(looks))
    os.replace(sys.argv[1] + '.new', sys.argv[1] + '.looks')
    time.sleep(0.2)
END
    chmod 755 "$work/ask" "$work/owners"
}

ask() { "$work/ask" "$cluster_dir/run/arena.sock" "$@"; }
said() { ask "$@" | tee "$work/answer" | jq -e '.error | not' >/dev/null || { cat "$work/answer"; return 1; }; }
answer() { jq -c "$1" "$work/answer"; }
refused() { [[ $(ask "$@" | jq -r '"\(.error.code) \(.error.text)"') =~ ^2\ .*$pattern ]]; }
lease() { ask loan list | jq -r ".leases[] | select(.node == \"$1\") | .state"; }
is_state() { [[ $(lease "$1") == "$2" ]]; }
listed() { scontrol show hostnames "$(scontrol -o show partition loan | sed 's/.* Nodes=\([^ ]*\).*/\1/')" | paste -sd,; }
reservations() { scontrol -o show reservation 2>/dev/null | grep -o 'ReservationName=arena_[a-z]*_L[0-9]*' | cut -d= -f2 | paste -sd,; }
is_lent() {
    local node
    for node in $(scontrol show hostnames "$1"); do wait_until "is_state $node lent && [[ ,\$(listed), == *,$node,* ]]" 40 || return; done
}
is_home() {
    local node
    for node in $(scontrol show hostnames "$1"); do wait_until "[[ ! \$(lease $node) ]]" "${2:-40}" || return; done
}
round_has_been() { wait_until '[[ $(ask loan list | jq -r .problem) == "" ]]'; }
willing() { train a40 -p train --arena-gpus=8 --arena-elastic --arena-loan --arena-steps=1000000 "$@"; }
infer() { submit -p infer -o /dev/null -J infer --time=60 --gres=gpu:a40:8 "$@" "$work/trainer"; }
