#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A GPU type of which no run was measured: what sbatch answers, the job's fields and arena explain say that its
# times come from a data sheet alone.
# shellcheck disable=SC2016  # conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh" || exit 99
need_arena
command -v jq >/dev/null || skip_all 'jq is not installed'
make_work
start_cluster --arena on --arena-set policy=fifo --nodes l40:1x2 --hardware l40=L40 --profile off
note='l40: by its data sheet only, as no run on such a GPU was measured: times may be off by 80 %'

answer=$(sbatch --arena-model=gpt2 --arena-batch=8 --time=10 -o /dev/null "$(script 'sleep 3000')" 2>&1)
job=$(sed -n 's/^Submitted batch job //p' <<<"$answer")
like "$answer" '[0-9] m?s \(data-sheet\)' 'sbatch names the source'
like "$answer" "arena: $note" 'and says what that means'
ok 'the job runs' wait_for_state "$job" RUNNING
like "$(job_field "$job" AdminComment)" ' source=data-sheet' 'AdminComment has the source'
is "$(arena explain "$job" --json | jq -c '[.offers[].estimate.source] | unique')" '["data-sheet"]' 'so has each offer'
like "$(arena explain "$job" | tr -s ' \n' ' ')" "$note.* data-sheet \+-" 'explain says it before the table'
done_testing
