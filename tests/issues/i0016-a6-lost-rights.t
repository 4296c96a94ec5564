#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A job that waits while its user loses the right to it, with a real slurmdbd: the QOS, the association, access to
# the partition. Beside each Arena job an ordinary job asks for the same: neither starts, the reason is Slurm's, and
# both start when the right is back. Before, the Arena job started under a QOS that its user had lost. Needs root:
# operators have every right.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
need_accounting

start_arena --nodes a40:1x4,a100:1x4 --accounting associations,limits,qos --priority multifactor
log=$cluster_dir/log/slurmctld.log
sacct_do() { sacctmgr -i "$@"; }
ask() { as_user sbatch --parsable --time=10 -o /dev/null --chdir=/ --arena-model=gpt2 --arena-launcher=env --arena-batch=64 --arena-gpus=1 --arena-types=a40 "$@" "$work/trainer"; }
ordinary() { as_user sbatch --parsable --time=10 -o /dev/null --chdir=/ --gres=gpu:a100:1 -n1 "$@" "$work/trainer"; }
over() { let_go "$1"; wait_for_state "$1" COMPLETED; }
# An ordinary job of an operator comes and goes, through Slurm's scheduler, and an Arena job through a round.
both_went_on() {
    local id
    id=$(submit -o /dev/null -A root --wrap true) && wait_for_state "$id" COMPLETED &&
        id=$(train a40 -A root --arena-gpus=1) && wait_started "$id" 1 40 && over "$id"
}
knows_qos() { wait_until "scontrol show assoc_mgr flags=assoc users=$arena_user | grep -q 'QOS=.*quick' $1"; }

ok "there is a QOS" sacct_do add qos quick
ok "the user has an association with it" sacct_do add user "$arena_user" account=main qos=normal,quick
ok "and slurmctld knows" wait_until '[[ $(as_user sbatch --test-only --qos=quick --wrap true 2>&1) != *[Ii]nvalid* ]]'

# ---- the QOS is taken away while both jobs wait ---------------------------------------------------------
fill=$(submit -A root -N2 --exclusive -t 30 -o /dev/null --wrap 'sleep 3000')
ok "the cluster is full" wait_for_state "$fill" RUNNING
job=$(ask --qos=quick) stock=$(ordinary --qos=quick)
ok "an Arena job waits" wait_until "[[ \$(job_field $job SystemComment) ]]"
later=$(ask --qos=quick --hold)
ok "the user loses the QOS" sacct_do modify user "$arena_user" where account=main set qos-=quick
ok "and slurmctld knows" wait_until "[[ \$(as_user sbatch --test-only --qos=quick --wrap true 2>&1) == *[Ii]nvalid* ]]"
scancel "$fill"
scontrol release "$later"
ok "scheduling goes on" both_went_on
ok "the ordinary job waits for its QOS" wait_for_reason "$stock" '^InvalidQOS$'
for id in "$job" "$later"; do
    ok "so does the Arena job" wait_for_reason "$id" '^InvalidQOS$'
    is "$(job_state "$id") $(starts "$id")" "PENDING 0" "and has not started"
done
ok "the user gets the QOS back" sacct_do modify user "$arena_user" where account=main set qos+=quick
for id in "$stock" "$job" "$later"; do
    ok "job $id starts" wait_started "$id" 1 60
    is "$(job_field "$id" QOS)" quick "under it"
    ok "job $id completes" over "$id"
done

# ---- the QOS, then the association, is deleted ----------------------------------------------------------
block() { scontrol update PartitionName=main State="$1"; }
ok "no job can start" block DOWN
job=$(ask --qos=quick) stock=$(ordinary --qos=quick)
if why=$(sacct_do delete qos quick 2>&1); then
    pass "the QOS is deleted"
    ok "and slurmctld knows" wait_until "[[ \$(as_user sbatch --test-only --qos=quick --wrap true 2>&1) == *[Ii]nvalid* ]]"
    ok "jobs can start" block UP
    ok "scheduling goes on" both_went_on
    is "$(starts "$stock")" 0 "the ordinary job has not started"
    is "$(starts "$job")" 0 "nor has the Arena job"
    ok "its reason is Slurm's" wait_for_reason "$job" '^InvalidQOS$'
elif [[ $why == *'Job(s) active'* ]]; then   # 25.05
    skip 7 "this Slurm deletes no QOS that has jobs"
    block UP
else
    fail "the QOS is deleted" "$why"
fi
scancel "$job" "$stock"

ok "no job can start" block DOWN
job=$(ask) stock=$(ordinary)
if why=$(sacct_do delete user "$arena_user" account=main 2>&1); then
    pass "the association is deleted"
    ok "and slurmctld knows" wait_until "[[ \$(as_user sbatch --test-only --wrap true 2>&1) == *[Ii]nvalid* ]]"
    ok "jobs can start" block UP
    ok "scheduling goes on" both_went_on
    is "$(starts "$stock")" 0 "the ordinary job has not started"
    is "$(starts "$job")" 0 "nor has the Arena job"
    note "stock: $(job_state "$stock") $(job_reason "$stock"); Arena: $(job_state "$job") $(job_reason "$job")"
    is "$(job_state "$job") $(job_reason "$job")" "$(job_state "$stock") $(job_reason "$stock")" "with the same reason"
elif [[ $why == *'Job(s) active'* ]]; then   # 24.11
    skip 7 "this Slurm deletes no association that has jobs"
else
    fail "the association is deleted" "$why"
fi
is "$(grep -c underflow "$log")" 0 "slurmctld's own accounts come out even"
done_testing
