#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The command against a running controller: explain ranks the offers of running and waiting jobs, falls
# back to scontrol's fields without the socket, snapshots repeat the decision, doctor finds this
# installation good and a broken one bad.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh" || exit 99
day='[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}'
need_arena
command -v jq >/dev/null || skip_all 'jq is not installed'
make_work
start_cluster --arena on --arena-set policy=fifo --nodes a40:1x4,a100:1x4 --profile off
long=$(script 'sleep 3000')

first=$(submit --arena-model=gpt2 --arena-launcher=env --arena-batch=32 --time=10 -o /dev/null "$long")
ok 'the first job runs' wait_for_state "$first" RUNNING
second=$(submit --arena-model=gpt2 --arena-launcher=env --arena-batch=32 --time=10 -o /dev/null "$long")
ok 'the second job runs' wait_for_state "$second" RUNNING
third=$(submit --arena-model=gpt2 --arena-launcher=env --arena-batch=32 --time=10 -o /dev/null "$long")
ordinary=$(submit --gres=none --time=1 -o /dev/null "$long")
# shellcheck disable=SC2317 # called through ok
explained() { arena explain "$1" --json 2>/dev/null | jq -e "$2" >/dev/null; }

ok 'explain knows the running job' wait_until "arena explain $first --json | jq -e '.state == \"running\"' >/dev/null"
ok 'its offers are ranked' explained "$first" '[.offers[].estimate.iteration_s] | length > 3 and . == sort'
ok 'the best offer was taken while all was free' explained "$first" '.chosen == 0'
ok 'the second job took another than the best' explained "$second" '.chosen > 0'
like "$(arena explain "$second")" '->' 'the chosen offer is marked'
like "$(arena explain "$second")" 'is emulated' 'times of a CPU are labelled'
ok 'the third job waits, with a reason' wait_until \
    "arena explain $third --json | jq -e '.state != \"running\" and (.reason | test(\"waits for\"))' >/dev/null"
not_ok 'an ordinary job is not explained' arena explain "$ordinary"

like "$(job_field "$second" AdminComment)" '^arena:v1 state=running ' 'the comment of a running job says so'

# ---- what is shown ----------------------------------------------------------------------------------
text=$(arena explain "$second") all=$(arena explain "$second" --all)
rows() { grep -cE '^(->)? +[0-9]+ +[0-9x]+a[0-9]+ ' <<<"$1"; }
ok "the best offers and the chosen one are shown ($(rows "$text"))" test "$(rows "$text")" -ge 5 -a "$(rows "$text")" -le 6
is "$(rows "$all")" "$(arena explain "$second" --json | jq '.offers | length')" '--all shows every offer'
is "$(rows "$(arena explain "$second" --top 2)")" "$(arena explain "$second" --json | jq 'if .chosen > 1 then 3 else 2 end')" \
    '--top chooses how many'
like "$text" "arena explain $second --all shows" 'what is not shown is told'
is "$(grep -cE '^  [0-9x]+a[0-9]+ pp[0-9]+: ' <<<"$all")" "$(arena explain "$second" --json | jq '.infeasible | length')" \
    'and all that is not possible, in the words of plans'
unlike "$text$all" ' in [0-9]+ stages' 'nobody counts stages in words'
is "$(printf '%s\n' "$text" "$all" | awk 'length($0) > 100')" '' 'in 100 columns'
wide=$(submit --arena-model=gpt2 --arena-launcher=env --arena-batch=30 --arena-gpus=1-4 --hold --time=10 -o /dev/null "$long")
ok 'the shown plan is accepted as a pin' submit --hold --arena-model=gpt2 --arena-launcher=env --arena-batch=32 --time=10 \
    --arena-plan="$(sed -n 's/^-> *[0-9]* *[^ ]* *\(pp[^ ]*\) .*/\1/p' <<<"$text")" -o /dev/null "$long"
ok 'and that of AdminComment' submit --hold --arena-model=gpt2 --arena-launcher=env --arena-batch=32 --time=10 \
    --arena-plan="$(job_field "$second" AdminComment | sed 's/.*plan=\([^ ]*\).*/\1/')" -o /dev/null "$long"
like "$(submit --hold --arena-model=gpt2 --arena-launcher=env --arena-batch=32 --arena-plan=pp1,dp2,tp1,mb4x16 --wrap true)" \
    'mb4x16 of dp2 makes 128 samples, not the batch 32' 'one of another batch is refused'
pinned=$(submit --hold --arena-model=gpt2 --arena-launcher=env --arena-batch=32 --arena-plan=pp2,tp1,mb4x4 --wrap true)
like "$(scontrol show job "$pinned")" 'JobId' 'micro-batches and their number say the replicas'
ok 'queue has them in 100 columns' bash -c "arena queue | awk 'length(\$0) > 100 { exit 1 }'"
scancel "$wide" "$pinned"

adapted=$(submit --arena-lora=8 --arena-model=gpt2 --arena-launcher=env --arena-batch=32 --time=10 -o /dev/null "$long")
ok 'explain says that adapters are trained' wait_until "explained $adapted '.adapters == \"LoRA of rank 8 on attention\"'"
like "$(arena explain "$adapted")" 'Trained: LoRA of rank 8 on attention; all other weights are frozen' 'in words'
scontrol update JobId="$adapted" Comment=arena:lora=16
ok 'the rank follows the Comment' wait_until "explained $adapted '.adapters == \"LoRA of rank 16 on attention\"'"
unlike "$(arena explain "$second")" 'Trained:' 'nothing is said where all weights are trained'
scancel "$adapted"

ok 'stats counts times afresh' bash -c "arena stats --reset --json | jq -e '.round_ms.max == 0 and .lock_ms.read_max == 0 and .decisions.starts >= 2'"
ok 'stats counts the starts' bash -c "arena stats --json | jq -e '.schema_version == 1 and .decisions.starts >= 2 and .faults == 0'"
ok 'a snapshot is saved' arena snapshot save "$work/now"
ok 'its replay lets the third job wait' bash -c \
    "arena snapshot replay '$work/now' --json | jq -e '[.actions[] | select(.job == $third and .kind == \"reshape_and_wait\")] | length == 1'"

sed 's|^socket:.*|socket: /nonexistent/arena.sock|' "$ARENA_CONF" >"$work/elsewhere.yaml"
like "$(arena --config "$work/elsewhere.yaml" explain "$first")" 'grid=4xa.*Read from scontrol' \
    'without the socket explain reads the job fields and says so'

ok 'doctor finds the installation good' arena doctor
sed 's|a100: .*||' "$ARENA_CONF" >"$work/unmapped.yaml"
like "$(arena --config "$work/unmapped.yaml" doctor)" 'FAIL +gpu:a100: has no hardware entry' \
    'doctor names a GPU type without hardware entry'
not_ok 'and ends in no' arena --config "$work/unmapped.yaml" doctor
# ---- a promise --------------------------------------------------------------------------------------
sed -i 's/^policy: fifo/policy: arena/' "$ARENA_CONF"
scontrol reconfigure
ok 'under policy arena the third job is promised an end' wait_until "explained $third '.promise.ends_by_s > .promise.slurm_start_s'"
fourth=$(submit --arena-model=gpt2 --arena-launcher=env --arena-batch=32 --time=10 -o /dev/null "$long")
ok 'the next one stands behind it' wait_until "explained $fourth '.promise.behind == $third and .promise.same_step'"
like "$(arena explain "$third" | tr -s ' \n' ' ')" "Promised: ends by $day UTC at the latest; in Slurm's own order it would start at $day UTC with [1-4]xa" \
    'explain says by when, and when it would start in Slurm'"'"'s order'
like "$(arena explain "$fourth" | tr -s ' \n' ' ')" "Promised: nothing: JobId=$third stands first of its step of priority" \
    'and who has the promise'
like "$(arena queue)" " $third .* by [0-9-]* ?[0-9]{2}:[0-9]{2}" 'queue has the latest end'
ok 'in 100 columns' bash -c "arena queue | awk 'length(\$0) > 100 { exit 1 }'"
is "$(arena history "$third" --json | jq '[.events[] | select(.state == "promised")] | length')" 1 'the history has the promise once'
ok 'stats counts it' bash -c "arena stats --json | jq -e '.promises.given >= 1 and .promises.broken == 0'"
scancel "$fourth"
# ---- the end --------------------------------------------------------------------------------------
scancel "$first" "$second" "$third"   # nothing stands before the others
brief=$(submit --arena-model=gpt2 --arena-launcher=env --arena-batch=32 --time=10 --arena-plan=pp1,dp1,tp1 -o /dev/null --wrap true)
failing=$(submit --arena-model=gpt2 --arena-launcher=env --arena-batch=32 --time=10 --arena-plan=pp1,dp1,tp1 -o /dev/null --wrap 'exit 3')
for end in "$first CANCELLED cancelled" "$brief COMPLETED completed" "$failing FAILED failed"; do
    read -r job state word <<<"$end"
    ok "job $job ends $state" wait_for_state "$job" "$state" 60
    ok 'its comment says so' wait_until "[[ \$(job_field $job AdminComment) == 'arena:v1 state=$word grid='*plan=* ]]"
done

done_testing
