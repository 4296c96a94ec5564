#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A running job tells how long its iterations take: what it says is checked, lies in the profile store, and corrects
# what the next job of that model is offered, also after a restart of slurmctld. The job of two ranks runs on two
# nodes of one host, which srun --mpi=pmix joins.
# shellcheck disable=SC2016,SC2317  # functions are called by ok
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/train.sh"
need_arena
command -v jq >/dev/null || skip_all 'jq is not installed'
start_arena --nodes a40:1x2,a100:2x1
store=$cluster_dir/profile-store/profiles.db
write_tiny_model "$work/tiny.yaml"
observed() { arena profile observed --store "$store" --json | jq -e "$1" >/dev/null; }
offered() { arena explain "$1" --json | jq -e "$2" >/dev/null; }
planned() { arena plan --model "$work/tiny.yaml" --global-batch 8 --gpu-type a40 --gpus 2 --launcher env --profiles "$store" --json | jq -e "$1" >/dev/null; }
# refused SENTENCE COMMAND...
refused() {
    local sentence=$1 out rc=0
    shift
    out=$("$@" 2>&1 >/dev/null) || rc=$?
    is "$rc" 2 "exit code 2: $sentence"
    like "$out" "$sentence" "says: $sentence"
}

# ---- a job that reports by hand --------------------------------------------------------------------
unset "${!SLURM_JOB@}" ARENA_PLAN
submit_tiny() { submit -t 10 -o /dev/null --arena-model="$work/tiny.yaml" --arena-batch=8 --arena-types=a40 --arena-gpus=2 --arena-launcher=env "$work/trainer"; }
job=$(submit_tiny) || BAIL_OUT "no job: $job"
ok "a job runs" wait_started "$job"
plan=$(sed -n 's/^ARENA_PLAN=//p' "$gates/$job.env.0")
estimate=$(jq -r .estimate.iteration_s <<<"$plan")
times() { awk -v e="$estimate" -v f="$1" 'BEGIN { printf "%.9f", e * f }'; }
job_word() { job_field "$job" AdminComment | tr ' ' '\n' | sed -n "s/^$1=//p"; }
inside() { env SLURM_JOB_ID="$job" ARENA_PLAN="$plan" SLURM_CONF="$SLURM_CONF" arena report "$@"; }
refused '--job: is needed outside a job' arena report --iteration-s 1
refused '--iteration-s: takes seconds above 0' inside --iteration-s 0
refused '--iteration-s: takes seconds above 0' inside --iteration-s -1
refused '--steps: takes 3 to' inside --iteration-s "$estimate" --steps 2
refused '--spread: takes 0 to 10' inside --iteration-s "$estimate" --spread 11
refused 'slurmctld knows no job 4000000' arena report --job 4000000 --iteration-s 1
refused 'ARENA_PLAN: .*earlier life' env SLURM_JOB_ID="$job" ARENA_PLAN="${plan/\"micro_batch\":?/\"micro_batch\":9}" \
    arena report --iteration-s "$estimate"
ordinary=$(submit --gres=none --time=1 -o /dev/null --wrap 'sleep 300')
ok "an ordinary job runs" wait_for_state "$ordinary" RUNNING
refused "does not run under a plan of Arena's" arena report --job "$ordinary" --iteration-s 1
if can_be_user 2>/dev/null; then
    refused "is another user's" as_user arena report --job "$job" --iteration-s 1
else skip 2 "no other user can be had"; fi
# Whoever goes around the command meets the same rules.
for wrong in 'arena:observed;' 'arena:observed;iteration_s=nan;spread=0;steps=9;grid=2xa40;plan=pp1,dp2,tp1,mb4x1' \
    'arena:observed;iteration_s=0.1;spread=0;steps=9;grid=2xa40;plan=pp9,dp1,tp1,mb1x1'; do
    not_ok "slurmctld refuses Comment=$wrong" scontrol update JobId="$job" Comment="$wrong"
done
good="arena:observed;iteration_s=$estimate;spread=0;steps=9;grid=$(job_word grid);plan=$(job_word plan)"
like "$(scontrol update JobId="$job" Comment="$good" NumNodes=1 2>&1)" 'presently disabled' \
    "beside a report, NumNodes is refused as without one"
not_ok "slurmctld refuses a report of an ordinary job" \
    scontrol update JobId="$ordinary" Comment='arena:observed;iteration_s=0.1;spread=0;steps=9;grid=a40;plan=pp1,dp1,tp1,mb1x8'
ok "nothing of all that is in the store" observed '.observed == []'
ok "the estimate is the planner's" planned '.grids[0].estimate.source != "observed"'

scontrol update JobId="$job" Comment='a note of its user'
# No sooner than the job can have done so many.
# shellcheck disable=SC2317  # evaluated by wait_until
taken() { far=$(inside --iteration-s "$(times 9)" --steps 12 --json) && jq -e .counts <<<"$far" >/dev/null; }
wait_until taken 60 || true
ok "of 12 steps nine times the estimate is taken and counts at once, and the answer says so" \
    jq -e '.counts and (.counts_for | test("^counts for .* next jobs$"))' <<<"$far"
ok "the job's history has both times" wait_until "arena history $job --json | jq -e '[.events[] | select(.iteration_s > 8.9 * .estimate_s)] | length == 1'"
ok "as a page, too" bash -c "arena history $job --html '$work/life.html' && grep -q 'Seconds per iteration: measured 1 time[^s]' '$work/life.html'"
ok "so it does in the store" wait_until "observed '.observed | length == 1 and .[0].steps == 12 and .[0].counts'"
ok "and corrects what its user is offered" wait_until "offered $job '[.offers[] | select(.estimate.source == \"observed\")] | length == 1'" 20
ok "of fewer steps it counts for nobody yet" jq -e '.counts == false' <<<"$(inside --iteration-s "$(times 9)" --steps 9 --json)"
ok "the job reports half as long again" inside --iteration-s "$(times 1.5)" --spread 0.02 --steps 40
ok "it lies in the store" wait_until "observed '.observed | length == 1 and .[0].job == $job and .[0].steps == 40 and .[0].launcher == \"env\"'"
ok "beside what had been estimated" observed ".observed[0] | .iteration_s / .estimated_s | . > 1.499 and . < 1.501"
is "$(job_field "$job" Comment)" 'a note of its user' "the user's comment stays"
like "$(arena profile observed --store "$store")" 'tiny +8 +env .* 1\.5 times slower' "people read it as a table"
is "$(arena profile observed --store "$store" | awk 'length($0) > 100')" "" "in 100 columns"
let_go "$job"
ok "the job ends" wait_for_state "$job" COMPLETED
ok "arena plan has the observed time" planned \
    '.grids[] | select(.estimate.source == "observed") | .estimate.iteration_s | . > '"$(times 1.499)"' and . < '"$(times 1.501)"
next=$(submit_tiny)
ok "the next job of that model runs" wait_started "$next"
ok "its offers have the observed time" offered "$next" '[.offers[] | select(.estimate.source == "observed")] | length == 1'
let_go "$next"
ok "slurmctld starts again" cluster ctld restart
next=$(submit_tiny)
ok "the next job runs" wait_started "$next" 1 60
ok "and the observed time is known" offered "$next" '[.offers[] | select(.estimate.source == "observed")] | length == 1'
let_go "$next"
sed -i '/^profile:/a \  use_reports: false' "$cluster_dir/arena.yaml"
ok "a site sets that reports are only kept" cluster ctld restart
next=$(submit_tiny)
ok "the next job runs" wait_started "$next" 1 60
ok "its offers are estimates" offered "$next" '(.offers | length > 0) and ([.offers[] | select(.estimate.source == "observed")] | length == 0)'
plan=$(sed -n 's/^ARENA_PLAN=//p' "$gates/$next.env.0")
job=$next
ok "it reports twice the estimate" inside --iteration-s "$(times 2)" --steps 20
ok "that is kept" wait_until "observed '.observed[] | select(.job == $next) | .steps == 20'"
let_go "$next"
sed -i '/use_reports/d' "$cluster_dir/arena.yaml"
ok "and that they count" cluster ctld restart
next=$(submit_tiny)
ok "the next job runs" wait_started "$next" 1 60
ok "its offers have the observed time again" offered "$next" '[.offers[] | select(.estimate.source == "observed")] | length > 0'
let_go "$next"

# ---- a job that trains, on two nodes, and reports by itself ----------------------------------------
if lacks=$(mpi_in_slurm_lacks); then skip 5 "$lacks"; else
    write_training_text "$work/text"
    cat >"$work/job" <<END_JOB
#!/bin/bash
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo PATH=$PATH
exec srun --mpi=pmix $stage/bin/arena-train --device cpu --model $work/tiny.yaml --data $work/text --steps 30 --log $work/log --quiet
END_JOB
    chmod 755 "$work/job"
    job=$(submit -t 10 -o "$work/out" --arena-model="$work/tiny.yaml" --arena-batch=8 --arena-types=a100 --arena-gpus=2 \
        --arena-launcher=arena-train "$work/job")
    ok "arena-train completes on two nodes" wait_for_state "$job" COMPLETED 120
    is "$(job_field "$job" NumNodes)" 2 "they are two"
    is "$(jq -s 'map(select(has("loss"))) | length' "$work/log")" 30 "it did its 30 steps"
    ok "its iteration time is in the store" wait_until "observed '.observed[] | select(.job == $job) | .launcher == \"arena-train\" and .steps == 28 and .counts'"
    measured=$(jq -s 'map(select(has("iteration_s")).iteration_s)[2:] | sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2' "$work/log")
    ok "and is the median of its log, the first two left out" observed \
        ".observed[] | select(.job == $job) | (.iteration_s / $measured) | . > 0.999 and . < 1.001"
fi
done_testing
