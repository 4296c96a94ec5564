#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena simulate and arena trace: the JSON contract, the same bytes for the same seed, refusals.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
arena=${ARENA_BUILDDIR:-.}/arena
[ -x "$arena" ] || BAIL_OUT "$arena is not built"
command -v jq >/dev/null || skip_all 'jq is not installed'
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99

# exits CODE NAME COMMAND...; the output is kept in $work/out and $work/err
exits() {
    local want=$1 name=$2 rc=0
    shift 2
    "$@" >out 2>err </dev/null || rc=$?
    if ((rc == want)); then pass "$name"; return; fi
    fail "$name"
    diag "exit $rc, not $want: $*"$'\n'"$(cat out err)"
}
json() { ok "$1" jq -e -s "length == 1 and (.[0] | .schema_version == 1 and ($2))" out; }

cat >c.yaml <<'END'
nodes:
  - {gpu_type: a40, count: 4, gpus_per_node: 2}
  - {gpu_type: v100, count: 1, gpus_per_node: 4, name: v}
inter_gbps_per_node: 100
END
cat >t.csv <<'END'
model,params,global_batch,gpu_type,num_nodes,gpus_per_node,iter_time_s
bert,1B,8,a40,1,1,8
bert,1B,8,a40,1,2,5
bert,1B,8,a40,2,2,3
bert,1B,8,v100,1,4,2
END
exits 0 'a trace is generated' "$arena" trace generate --cluster c.yaml --throughputs t.csv --jobs 200 \
    --load 1.2 --accounts a:70,b:30 --priorities 3 --seed 5 --out trace.csv
is "$(wc -l <trace.csv)" 201 'with a header and one row per job'
exits 0 'and again' "$arena" trace generate --cluster c.yaml --throughputs t.csv --jobs 200 \
    --load 1.2 --accounts a:70,b:30 --priorities 3 --seed 5
ok 'the same seed gives the same bytes' cmp out trace.csv
sim=("$arena" simulate --cluster c.yaml --trace trace.csv --throughputs t.csv)
for policy in arena fifo fcfs backfill elasticflow-ls gavel gavel-las sia gandiva arena-paper; do
    exits 0 "$policy runs" "${sim[@]}" --policy "$policy" --json
    json "$policy answers in the contract's shape" ".policy == \"$policy\" and .jobs == 200 and
        .finished == 200 and .restarts >= 200 and .makespan_s > 0 and .wall_s >= 0 and
        (.jct_s | .mean > 0 and .p50 <= .p90 and .p90 <= .p99 and .p99 <= .max) and
        (.queuing_s | has(\"mean\") and has(\"p50\") and has(\"p90\") and has(\"p99\") and has(\"max\")) and
        (.throughput | .mean > 0 and .mean <= .peak) and .normalized_throughput_mean > 0 and
        (.gpu_utilization | . > 0 and . <= 1) and (.decision_ms | .p50 <= .p95 and .p95 <= .max)"
    jq -c 'del(.decision_ms, .wall_s)' out >first
    exits 0 "$policy runs again" "${sim[@]}" --policy "$policy" --json
    ok "$policy gives the same numbers" bash -c "jq -c 'del(.decision_ms, .wall_s)' out | cmp - first"
done
exits 0 'several policies are compared' "${sim[@]}" --policy fcfs,backfill --json
json 'in one document' '[.runs[].policy] == ["fcfs", "backfill"]'
exits 0 'a bound is computed' "${sim[@]}" --policy lower-bound --json
json 'in the same shape' '.policy == "lower-bound" and .jobs == 200 and .jct_s.mean >= .alone_s and .alone_s > 0'
exits 0 'and beside a policy' "${sim[@]}" --policy arena,lower-bound
like "$(cat out)" 'arena is [0-9.]+% above' 'it says how far the policy is from it'
exits 0 'and in a table' "${sim[@]}" --policy fcfs,backfill --placement pools --max-time 50000
is "$(grep -c '^fcfs \|^backfill ' out)" 2 'with a line for each'

# refused WHAT ARGUMENTS...: exit 2 with a sentence that matches WHAT, nothing written
refused() {
    local what=$1
    shift
    exits 2 "$* is refused" "$arena" "$@"
    like "$(cat err)" "$what" "and says $what"
    is "$(cat out)" '' 'and writes nothing'
}
refused '"best" is not one of fifo, fcfs' simulate --cluster c.yaml --trace trace.csv --throughputs t.csv --policy best
refused 'objective: "speed" is not one of' simulate --cluster c.yaml --trace trace.csv --throughputs t.csv --objective speed
refused '--round' simulate --cluster c.yaml --trace trace.csv --throughputs t.csv --round -1
refused '--estimate-error' simulate --cluster c.yaml --trace trace.csv --throughputs t.csv --estimate-error nan
echo 'nodes: [{gpu_type: a40, count: 0, gpus_per_node: 2}]' >bad.yaml
refused 'bad.yaml:1:[0-9]+: count' simulate --cluster bad.yaml --trace trace.csv --throughputs t.csv --policy fcfs
sed '3s/,[0-9.]*,/,-5,/' trace.csv >bad.csv
refused 'bad.csv:3: submission_time: "-5"' simulate --cluster c.yaml --trace bad.csv --throughputs t.csv --policy fcfs
{ head -1 trace.csv; tail -1 trace.csv; sed -n 2p trace.csv; } >bad.csv
refused 'bad.csv:3: submission_time .* sort the trace' simulate --cluster c.yaml --trace bad.csv --throughputs t.csv --policy fcfs
sed '4s/bert__1B/gpt__9T/' trace.csv >bad.csv
refused 'bad.csv:4: model_name: .*no row of "gpt__9T"' simulate --cluster c.yaml --trace bad.csv --throughputs t.csv --policy fcfs
sed '3s/,5$/,nan/' t.csv >bad.csv
refused 'bad.csv:3: iter_time_s: "nan"' simulate --cluster c.yaml --trace trace.csv --throughputs bad.csv --policy fcfs
refused 'NAME:SHARE' trace generate --cluster c.yaml --throughputs t.csv --accounts a --out new.csv
ok 'a refused trace writes no file' test ! -e new.csv
done_testing
