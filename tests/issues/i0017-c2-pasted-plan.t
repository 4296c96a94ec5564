#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A plan that is shown and given back is the plan that runs: recomputation, ZeRO and sequence parallelism too. The
# spelling left these out, and where a pasted plan ran on GPUs of more memory, it ran with others.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
. "${ARENA_SRCDIR:-.}/tests/lib/arena.sh"
need_arena
command -v jq >/dev/null || skip_all 'jq is not installed'
start_arena --nodes a40:1x8,h200:1x8 --hardware a40=A40 --hardware h200=H200-SXM-141GB

# ask OPTIONS...: a job of llama-2-7b that writes the plan that it runs with
ask() {
    # shellcheck disable=SC2016 # expands in the job
    submit --time=20 -o "$work/plan.%j" --arena-model=llama-2-7b --arena-batch=64 --arena-launcher=env "$@" --wrap 'printf "%s\n" "$ARENA_PLAN" >plan.new; mv plan.new ran.$SLURM_JOB_ID'
}
settings() { jq -cS 'del(.stage_layers)' <<<"$1"; }
# runs_as JOB PLAN NAME: it has run with this plan, a JSON object
runs_as() {
    ok "$3: it runs" wait_until "[[ -e $work/ran.$1 ]]" 60 || diag "$(scontrol show job "$1")"
    is "$(settings "$(jq -c .plan "$work/ran.$1" 2>/dev/null)")" "$(settings "$2")" "$3: with the plan that was shown"
}

# shellcheck disable=SC2317 # through wait_until
explained() { arena explain "$1" --json 2>/dev/null | jq -e '.offers | length > 0' >/dev/null; }
job=$(submit --time=60 -o /dev/null --arena-model=llama-2-7b --arena-batch=64 --arena-launcher=env --arena-types=a40 --arena-gpus=3 "$work/trainer")
ok "a job runs on 3 A40" wait_started "$job"
ok "and is explained" wait_until "explained $job"
shown=$(arena explain "$job" | sed -n 's/^-> .*\(pp[0-9][^ ]*\).*/\1/p; /^    plan /s/.*\(pp[^ ]*\).*/\1/p' | head -n 1)
plan=$(arena explain "$job" --json | jq -c '.offers[.chosen].plan')
note "$shown  $plan"
like "$plan" '"recompute":"(selective|full)"' "its plan recomputes, for 48 GB are few"
like "$shown" '^pp[0-9]+,dp[0-9]+,tp[0-9]+,mb[0-9]+x[0-9]+,.*(selective|full)' "and says so"
is "$(arena_word "$job" plan)" "$shown" "AdminComment has the same word"
let_go "$job"

again=$(ask --arena-types=a40 --arena-plan="$shown")
runs_as "$again" "$plan" "on the same GPUs"
other=$(ask --arena-types=h200 --arena-plan="$shown")
runs_as "$other" "$plan" "on GPUs of three times the memory"
free=$(ask --arena-types=h200 --arena-plan="${shown%%x*}")
ok "its degrees alone leave the rest free" wait_until "[[ -e $work/ran.$free ]]" 60
isnt "$(settings "$(jq -c .plan "$work/ran.$free")")" "$(settings "$plan")" "which the larger GPUs make something else of"

held=$(ask --hold --arena-types=h200 --arena-gpus=3)
ok "Comment=arena:plan= takes it" scontrol update JobId="$held" Comment="arena:plan=$shown"
scontrol release "$held"
runs_as "$held" "$plan" "by comment"
# shellcheck disable=SC2016 # expands in the job
printf '%s\n' '#!/bin/bash' "#ARENA model=llama-2-7b batch=64 launcher=env types=h200 plan=$shown" 'printf "%s\n" "$ARENA_PLAN" >plan.line; mv plan.line ran.$SLURM_JOB_ID' >"$work/lines.sh"
lines=$(submit --time=20 -o /dev/null "$work/lines.sh")
runs_as "$lines" "$plan" "by an #ARENA line"
like "$(ask --arena-plan=pp1,dp1,tp8,mb1x64,zero1)" 'zero1 shares out state over replicas' "what cannot be is refused"
like "$(ask --arena-plan=pp2,dp2+4,tp2+1,mb1x16)" 'stages that differ in dp or tp' "as are stages that differ"
done_testing
