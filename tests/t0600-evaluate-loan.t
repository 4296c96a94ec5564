#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-lab loan plan, arena-lab evaluate-loan and arena simulate --inference: every file of the reference data, the JSON
# contract, files of our own that pass and that fail, and what cannot be read.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/command.sh"
need_lab
data=$(reference_data aryl)

# ---- files of our own --------------------------------------------------------------------------------
cat >reclaim.json <<'END'
{"summary": {"not": "known"}, "instances": [
 {"name": "span", "servers": 4, "gpus_per_server": 8, "reclaim": 1, "jobs": [
   {"id": 0, "base": {"0": 8, "1": 8, "2": 8}}, {"id": 1, "base": {"3": 4}}, {"id": 2, "base": {"3": 4}}],
  "optimal_preemptions": 1, "optimal_collateral_gpus": 16},
 {"name": "flexible", "servers": 3, "reclaim": 2, "jobs": [
   {"id": 0, "base": {"0": 8}, "flexible": {"1": 8, "2": 8}}], "optimal_preemptions": 0, "optimal_collateral_gpus": 0,
  "greedy": {"share": {"preemptions": 0}}}]}
END
exits 0 'the fewest preempted jobs are found' "$lab" --json evaluate-loan reclaim.json
json 'in the shape of the contract' "$contract"' and .kind == "reclaim" and .cases == 2 and .metrics.exact == 2'
exits 0 'the servers are told' "$lab" --json loan plan reclaim.json
json 'with what it costs' '.kind == "reclaim" and (.instances | map([.returned, .preemptions, .scaled_in, .exact])) ==
    [[[0], 1, 0, true], [[1, 2], 0, 1, true]]'
exits 0 'also in text' "$lab" loan plan reclaim.json
like "$(cat out)" 'flexible +0 ' 'with the same'
sed 's/"optimal_preemptions": 1/"optimal_preemptions": 2/' reclaim.json >wrong.json
exits 1 'a wrong optimum fails' "$lab" --json evaluate-loan wrong.json reclaim.json
json 'as one of four' "$contract"' and .cases == 4 and (.failed | map(.case)) == ["span"]'
exits 0 'and is told in text' "$lab" evaluate-loan reclaim.json

# 300 servers in a row, each with two jobs that also stand on the next one; 75 in a row are best: 151 preempted
awk 'BEGIN { printf "{\"instances\": [{\"name\": \"row\", \"servers\": 300, \"reclaim\": 75, \"jobs\": ["
    for (s = 0; s < 299; s++) printf "%s{\"base\": {\"%d\": 2, \"%d\": 2}}", s ? "," : "", s, s + 1
    print "], \"optimal_preemptions\": 75}]}" }' >row.json
exits 0 'a large case is near the optimum' "$lab" --json evaluate-loan row.json
json 'with a bound beside it' '.metrics | .exact == 0 and .preemptions <= 77 and .least_weight > 0 and
    .least_weight <= .preemptions and (.gap_most | . >= 0 and . < 1)'

cat >knapsack.json <<'END'
{"instances": [{"name": "k", "capacity_gpus": 5, "jobs": [
  {"id": 0, "base": 1, "max": 4, "gpus_per_worker": 1, "remaining_work": 4206, "eff": 0},
  {"id": 1, "base": 1, "max": 2, "gpus_per_worker": 4, "remaining_work": 3475, "eff": 0}], "optimal_value": 3840.5}]}
END
exits 0 'extra workers are shared out' "$lab" --json loan plan knapsack.json
json 'exactly' '.kind == "knapsack" and (.instances[0] | .choice == [1, 1] and .value == 3840.5 and .exact) and
    (.mode | test("restarts not charged"))'
exits 0 'and evaluated' "$lab" --json evaluate-loan knapsack.json reclaim.json
json 'with metrics by kind' "$contract"' and .kind == "knapsack,reclaim" and .metrics.knapsack.value == 3840.5'
cat >phases.json <<'END'
{"instances": [{"name": "p", "capacity_gpus": 8, "jobs": [
  {"id": 0, "base": 4, "max": 4, "gpus_per_worker": 1, "work": 4000},
  {"id": 1, "base": 2, "max": 6, "gpus_per_worker": 1, "work": 1000},
  {"id": 2, "base": 8, "max": 8, "gpus_per_worker": 1, "work": 800},
  {"id": 3, "base": 4, "max": 4, "gpus_per_worker": 2, "work": 4004}],
  "admitted_in_order": [2], "left_after_phase1": 0, "phase2_extra_workers": {}, "phase2_value": 0}]}
END
exits 0 'two phases are evaluated' "$lab" --json evaluate-loan phases.json
json 'as such' "$contract"' and .kind == "two-phase" and .cases == 1'

# ---- what cannot be read -----------------------------------------------------------------------------
# bad CODE NAME PATTERN FILE: one sentence, and no answer
bad() {
    exits "$1" "$2" "$lab" evaluate-loan "$4"
    is "$(wc -l <err):$(wc -c <out)" 1:0 '  in one sentence'
    like "$(cat err)" "$3" '  that says why'
}
bad 3 'a file that is not there' 'none.json' none.json
echo '{"instances": [{"x": 1}]}' >x.json
bad 2 'keys of no kind' 'no known kind: reclaim' x.json
echo '{"instances": []}' >x.json
bad 2 'no case' 'a list of cases' x.json
echo '[1' >x.json
bad 2 'no JSON' 'x.json:' x.json
jq 'del(.instances[].optimal_value)' knapsack.json >x.json
bad 2 'no known answer' 'optimal_value: the known answer' x.json
exits 0 'which a plan does without' "$lab" loan plan x.json
jq '.instances[0].reclaim = 5' reclaim.json >x.json
bad 2 'more servers than there are' 'instances\[0\].reclaim' x.json
jq '.instances[0].jobs[0].base = {"9": 1}' reclaim.json >x.json
bad 2 'a server that is not there' 'servers from 0 to 3' x.json
exits 2 'a command without a file' "$lab" loan plan
exits 2 'loan alone' "$lab" loan
like "$(cat err)" 'arena-lab loan plan' 'names its commands'

# ---- the simulator -----------------------------------------------------------------------------------
cat >c.yaml <<'END'
nodes:
  - {gpu_type: a, count: 2, gpus_per_node: 8, name: t}
  - {gpu_type: a, count: 6, gpus_per_node: 8, name: i, inference: true}
END
printf '%s\n' model,params,global_batch,gpu_type,num_nodes,gpus_per_node,iter_time_s gpt,1B,64,a,1,4,20 gpt,1B,64,a,1,8,10 \
    gpt,1B,64,a,2,8,5.2 >t.csv
awk 'BEGIN { print "job_id,submission_time,num_iteration,model_name,batch_size,num_gpu,gpu_type"
    for (i = 0; i < 100; i++) printf "%d,%d,%d,gpt__1B,64,8,a\n", i, i * 700, 700 * (1 + i % 4) }' >trace.csv
exits 0 'a load of inference is made' "$arena" trace inference --gpus 48 --days 1 --seed 3 --out curve.csv
is "$(head -2 curve.csv | tail -1 | cut -d, -f1):$(wc -l <curve.csv)" 0:289 'a day in steps of five minutes'
sim=("$arena" --json simulate --cluster c.yaml --trace trace.csv --throughputs t.csv --policy aryl --inference)
exits 0 'inference lends' "${sim[@]}" curve.csv --loan on --elastic-share 0.5 --html page.html
json 'and gets all back in time' '.finished == 100 and (.loans | .lend and .servers_lent > 0 and .late_returns == 0 and
    .short_late_s == 0 and .lent_gpu_hours > 0 and .usage_both > 0 and .preemptions >= .least_preemptions)'
like "$(cat page.html)" '<h2>Loans</h2>' 'which the page shows'
lent=$(jq .queuing_s.mean out)
exits 0 'or keeps what it has' "${sim[@]}" curve.csv --loan off
json 'which lends nothing' '.loans | .lend == false and .servers_lent == 0 and .usage_both > 0'
ok 'and makes the queue longer' awk -v a="$lent" -v b="$(jq .queuing_s.mean out)" 'BEGIN { exit !(a < b) }'
exits 0 'without inference nothing is said of loans' "$arena" --json simulate --cluster c.yaml --trace trace.csv \
    --throughputs t.csv --policy aryl
json 'nothing' 'has("loans") | not'
# curve NAME PATTERN TEXT
curve() {
    printf %b "$3" >bad.csv
    exits 2 "$1" "${sim[@]}" bad.csv
    like "$(cat err)" "$2" '  says why'
}
curve 'a curve with NaN' 'bad.csv:3: gpus: "nan"' 'time_s,gpus\n0,1\n300,nan\n'
curve 'a curve out of order' 'sort the curve by time_s' 'time_s,gpus\n300,1\n0,2\n'
curve 'a curve without amounts' 'gpus and nodes' 'time_s\n0\n'
curve 'an empty curve' 'no row' 'time_s,gpus\n'
curve 'a type that no inference node has' 'no row of GPU type a' 'time_s,gpu_type,gpus\n0,b,1\n'
sed '/inference/d' c.yaml >own.yaml
exits 2 'a cluster without inference' "$arena" simulate --cluster own.yaml --trace trace.csv --throughputs t.csv \
    --policy aryl --inference curve.csv
like "$(cat err)" 'inference: true' '  says what to write'
exits 2 'a deadline of 0' "${sim[@]}" curve.csv --deadline-s 0

# ---- the reference data ------------------------------------------------------------------------------
if [ -d "$data" ]; then
    for file in "$data"/*.json; do
        exits 0 "all of ${file##*/}" "$lab" --json evaluate-loan "$file"
        json '  in the shape of the contract' "$contract"' and .cases > 0 and .failed == []'
        jq 'del(.instances[][("optimal_preemptions", "optimal_collateral_gpus", "greedy", "an_optimal_set",
            "items_workers_weight_value", "optimal_value", "an_optimal_choice", "admitted_in_order",
            "phase2_extra_workers", "phase2_value")])' "$file" >bare.json
        exits 0 '  and without its answers' "$lab" --json loan plan bare.json
        json '  solved' '.instances | length > 0 and all(.exact)'
    done
else
    skip 4 "no reference data at $data"
fi
done_testing
