#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# One user's false report steered the plans of everybody with that model. A report counts for its user alone until an
# administrator promotes it; three jobs must agree on what few steps say is far off the estimate; more iterations than
# the job has had time for are refused by the command and by slurmctld. Needs root: two users.
# shellcheck disable=SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
need_arena
can_be_user || skip_all "needs root and a user $arena_user: reports of one user are nobody else's"
command -v jq >/dev/null || skip_all 'jq is not installed'
start_arena --nodes a40:1x4
write_tiny_model "$work/tiny.yaml"
store=$cluster_dir/profile-store/profiles.db
log=$cluster_dir/log/slurmctld.log
ask() { "$@" sbatch --parsable --chdir=/ -t 10 -o /dev/null --arena-model="$work/tiny.yaml" --arena-batch=8 --arena-gpus=1 "$work/trainer"; }
offered() { arena explain "$1" --json | jq -e '[.offers[] | select(.estimate.source == "observed")] | length > 0' >/dev/null; }
observed() { arena profile observed --store "$store" --json | jq -e ".observed | $1" >/dev/null; }
# report JOB FACTOR [STEPS]: as the job's user, inside the job
report() {
    local plan estimate
    plan=$(sed -n 's/^ARENA_PLAN=//p' "$gates/$1.env.0")
    estimate=$(jq -r .estimate.iteration_s <<<"$plan")
    as_user env SLURM_JOB_ID="$1" ARENA_PLAN="$plan" SLURM_CONF="$SLURM_CONF" PATH="$PATH" arena report --steps "${3:-3}" \
        --iteration-s "$(awk -v e="$estimate" -v f="$2" 'BEGIN { printf "%.9f", e * f }')" 2>&1
}
over() { let_go "$1"; wait_for_state "$1" COMPLETED; }

first=$(ask as_user)
ok "a user's job runs" wait_started "$first"
run_time() { squeue -h -j "$first" -O TimeUsed:10 | tr -d ' '; }
# shellcheck disable=SC2016
ok "for a few seconds" wait_until '[[ $(run_time) =~ ^0:(0[5-9]|[1-5].)$ ]]' 40
like "$(report "$first" 2 1000000)" '--steps: 1000000 iterations of .* take longer than the .* that JobId='"$first"' has run' \
    "a report of more iterations than it had time for is refused"
shape=$(job_field "$first" AdminComment | tr ' ' '\n' | grep -E '^(grid|plan)=' | tr '\n' ';')
not_ok "so does slurmctld, to who goes around the command" as_user scontrol update JobId="$first" \
    Comment="arena:observed;iteration_s=$(jq -r .estimate.iteration_s < <(sed -n 's/^ARENA_PLAN=//p' "$gates/$first.env.0"));spread=0;steps=1000000;${shape%;}"
ok "and says why in its log" grep -qE "JobId=$first report refused: 1000000 iterations of .* take longer than the .* s that it has run" "$log"
like "$(report "$first" 2)" "2 times slower\\); reported; counts for $arena_user's next jobs\$" "a report of twice the estimate is taken"
ok "it lies in the store as that user's" wait_until "observed 'length == 1 and .[0].uid == $(id -u "$arena_user") and (.[0].shared | not)'" 20

own=$(ask as_user) other=$(ask env)
ok "the next job of the user runs" wait_started "$own"
ok "by the observed time" offered "$own"
ok "that of another user runs" wait_started "$other"
not_ok "by the estimate" offered "$other"
like "$(arena profile observed --store "$store")" " $arena_user +$arena_user(\$|
)" "people see whose it is and for whom it counts"
like "$(arena profile promote --store "$store" --job "$first")" '^1 report: each counts for everybody now' "it is promoted"
ok "slurmctld looks again" scontrol reconfigure
ok "and it counts for the other user" wait_until "offered $other" 20
like "$(arena profile promote --store "$store" --user "$arena_user" --withdraw)" '^1 report: each counts for its user again' "it is withdrawn"
ok "slurmctld looks again" scontrol reconfigure
ok "and it does not" wait_until "! offered $other" 20
over "$other"

like "$(report "$first" 5)" '3 steps, more than 3 times off: counts for nobody until 3 jobs' "five times the estimate is taken, too, and it says for whom it counts"
ok "and waits for others to say so" wait_until "observed '.[-1].agreeing == [$first] and (.[-1].counts | not)'" 20
ok "slurmctld's log says that" wait_until "grep -q 'JobId=$first observed .*: more than 3 times off and of fewer than 10 steps, it counts when 3 jobs of uid' '$log'" 20
ok "it corrects nothing" wait_until "! offered $own" 20
third=$(ask as_user)
ok "a third job runs" wait_started "$third"
report "$own" 2.6 >/dev/null   # it started by the observed time, twice the estimate
ok "two agree" wait_until "observed '.[-1].agreeing | length == 2'" 20
report "$third" 4.8 >/dev/null
ok "three agree, and it counts" wait_until "observed '.[-1].counts'" 20
ok "for that user" wait_until "offered $third" 20
for usage in '' '--user nobody-of-that-name' '--job 0'; do
    # shellcheck disable=SC2086
    not_ok "arena profile promote $usage says what it takes" arena profile promote --store "$store" $usage
done
done_testing
