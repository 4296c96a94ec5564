#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena doctor on a site that lends nodes: what loans rest on is looked at in a real Slurm, each mistake is named, and
# what it prints to do about it, typed as it stands, mends it. Without loans nothing of it is asked.
# shellcheck disable=SC2317  # functions that wait_until calls
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
make_work
user=daemon
start_arena --nodes a40:2x4,a100:2x4 --conf-extra "$(printf '%s\n' PreemptType=preempt/partition_prio PreemptMode=REQUEUE \
    ReconfigFlags=KeepPartInfo 'PartitionName=train Nodes=n[1-2] PriorityTier=10 PreemptMode=OFF' \
    'PartitionName=infer Nodes=n[3-4] PriorityTier=100 PreemptMode=OFF' 'PartitionName=loan PriorityTier=1 PreemptMode=REQUEUE')" \
    --arena-set loan.enabled=true --arena-set loan.source=commands --arena-set loan.inference_partitions=infer \
    --arena-set "loan.users=$user"

# said CHECK: the line of a check, and the commands below it
said() { arena doctor 2>/dev/null | awk -v check="$1: " '/^ / { if (on) print; next } { on = index($0, check) == 7; if (on) print }'; }
remedy() { said "$1" | sed -n 's/^          //p'; }

for line in 'ok +ReconfigFlags: KeepPartInfo' 'ok +loan partition: loan' 'ok +partition infer: 2 nodes with GPUs' \
    'ok +lent GPU types: a100' 'ok +preemption: .* requeues jobs of loan after 0 s' "ok +loan.users: $user may say arena loan"; do
    name=${line#ok +} name=${name%%: *}
    like "$(said "$name")" "^$line" "doctor: $name"
done

# mistake NAME CHECK PATTERN COMMAND...: COMMAND makes it
mistake() {
    local name=$1 check=$2 pattern=$3 line
    shift 3
    ok "$name: made" "$@"
    like "$(said "$check")" "$pattern" "$name: is named"
    while read -r line; do
        note "# $line"
        [[ $line != systemctl* ]] || { cluster ctld restart && cluster wait; continue; }
        (cd "$work" && eval "$line") || diag "$line failed"
    done < <(remedy "$check")
    wait_until '[[ $(said "$check") == ok* ]]' 10 || diag "$(said "$check")"
    like "$(said "$check")" '^ok' "$name: what it prints, typed, mends it"
}
edit() { sed -i "$1" "$cluster_dir/slurm.conf" && scontrol reconfigure; }
mistake "a loan partition that is down" "loan partition" '^FAIL .*loan is DOWN: no lent node can be used' \
    scontrol update PartitionName=loan State=DOWN
# A reconfigure keeps, with KeepPartInfo, what the file has no more.
drop_partition() { sed -i '/^PartitionName=loan/d' "$cluster_dir/slurm.conf" && scontrol delete PartitionName=loan; }
mistake "no loan partition" "loan partition" '^FAIL .*loan does not exist' drop_partition
mistake "no KeepPartInfo" ReconfigFlags '^FAIL .*without KeepPartInfo a reconfigure takes lent nodes' \
    edit 's/^ReconfigFlags=.*/ReconfigFlags=KeepPartState/'
# PreemptMode without PreemptType is no configuration at all.
restart_without_preemption() {
    sed -i '/^Preempt\(Type\|Mode\)=/d; s/ PreemptMode=[A-Z]*//' "$cluster_dir/slurm.conf" && cluster ctld restart && cluster wait
}
mistake "no preemption" preemption '^warn .*PreemptType is preempt/none, not preempt/partition_prio: an inference job' \
    restart_without_preemption

# ---- what an administrator has to decide --------------------------------------------------------------------
yaml() { sed "$1" "$ARENA_CONF" >"$work/other.yaml" && arena --config "$work/other.yaml" doctor; }
like "$(yaml '/^  a100:/d')" 'FAIL +lent GPU types: a100 of inference partitions: no hardware entry' "lent GPUs that are mapped to nothing"
like "$(yaml "s/^  users: .*/  users: no-such-user/")" 'FAIL +loan.users: no-such-user does not exist' "a user who is none"
like "$(yaml 's/^  inference_partitions: .*/  inference_partitions: [infer, main2]/')" 'FAIL +partition main2: does not exist' "a partition that is none"
scontrol update PartitionName=infer PriorityTier=1
like "$(said preemption)" '^warn .*PriorityTier of infer is 1, not above that of loan \(1\)' "inference that preempts nobody"
unlike "$(yaml 's/^  enabled: true/  enabled: false/')" 'loan partition|ReconfigFlags' "where loans are off nothing is asked"
done_testing
