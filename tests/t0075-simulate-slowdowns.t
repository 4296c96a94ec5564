#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-lab simulate --slowdowns: what slow GPUs and links cost, what finding them gains, the same bytes twice, refusals; the
# published injection plans where the reference data is at hand.
# shellcheck disable=SC2016  # variables of jq
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/command.sh"
need_lab
export ARENA_DATA_DIR=${ARENA_DATA_DIR:-$ARENA_SRCDIR/etc}

refused() { # WHAT ARGUMENTS...
    local what=$1
    shift
    exits 2 "$* is refused" "$lab" simulate "$@"
    like "$(cat err)" "$what" "and says $what"
}

echo 'nodes: [{gpu_type: a40, count: 8, gpus_per_node: 8}]' >c.yaml
cat >t.csv <<'END'
model,params,global_batch,gpu_type,num_nodes,gpus_per_node,iter_time_s
bert,1B,8,a40,1,4,8
bert,1B,8,a40,1,8,5
bert,1B,8,a40,2,8,3
END
"$arena" trace generate --cluster c.yaml --throughputs t.csv --jobs 120 --load 0.8 --odd-sizes 0 --seed 5 --out trace.csv || BAIL_OUT 'no trace'
cat >slow.csv <<'END'
time_s,duration_s,node,gpu,peer,peer_gpu,factor,kind
1000,40000,n1,2,,,3,compute
2000,30000,2,,3,,4,communication
5000,60000,n5,,,,1.6,compute
90000,10,n6,1,,,9,compute
END
sim=("$lab" simulate --cluster c.yaml --trace trace.csv --throughputs t.csv)
exits 0 'without slowdowns' "${sim[@]}" --policy arena,fcfs --json
json 'nothing is said of them' '[.runs[] | has("slowdowns")] == [false, false]'
jq -c '[.runs[] | del(.decision_ms, .wall_s)]' out >without
for mode in off watch mitigate; do
    exits 0 "mode $mode" "${sim[@]}" --policy arena,fcfs --slowdowns slow.csv --slowdown-mode $mode --json
    cp out $mode.json
done
cp mitigate.json out
json 'all four began, and each policy says what it met' '[.runs[].slowdowns | .events == 4 and .events_met >= 1 and .mode == "mitigate"] | all'
ok 'the same jobs without slowdowns are those of a run without' jq -en --slurpfile a without --slurpfile b off.json \
    '[$a[0][].jct_s.mean] == [$b[0].runs[].slowdowns.jct_without_s]'
cp off.json out
json 'nobody looks, and nothing is found' '[.runs[].slowdowns | .detected == 0 and .splits == 0 and .restarts == 0 and .most_quarantined == 0] | all'
json 'jobs end later than without' '[.runs[] | .jct_s.mean > .slowdowns.jct_without_s and .slowdowns.lost_gpu_s > 0] | all'
cp watch.json out
json 'watched jobs find some, and change nothing' '[.runs[].slowdowns | .detected > 0 and .splits == 0 and .restarts == 0] | all'
ok 'mitigation loses less than looking on' jq -en --slurpfile a mitigate.json --slurpfile b off.json \
    '$a[0].runs[0].slowdowns.lost_gpu_s < $b[0].runs[0].slowdowns.lost_gpu_s and $a[0].runs[0].slowdowns.restarts > 0'
exits 0 'and again' "${sim[@]}" --policy arena,fcfs --slowdowns slow.csv --slowdown-mode mitigate --json
is "$(jq -c '[.runs[] | del(.decision_ms, .wall_s)]' out)" "$(jq -c '[.runs[] | del(.decision_ms, .wall_s)]' mitigate.json)" 'the numbers are the same'
exits 0 'a table for people' "${sim[@]}" --policy arena,fcfs --slowdowns slow.csv --slowdown-mode watch --html page.html
like "$(cat out)" 'SLOWDOWNS +MET JOBS +DETECTED +S2 +S4 +NODES AVOIDED +LOST GPU-S +JCT mean +WITHOUT' 'has what they cost'
ok 'the page names each' grep -q '<td>n3 + n4</td><td>communication</td><td>x4.00</td>' page.html
ok 'and the mode' grep -q 'slow.csv: 4, mode watch' page.html

# With plans known, micro-batches are split anew.
echo 'nodes: [{gpu_type: a40, count: 4, gpus_per_node: 4}]' >small.yaml
"$arena" trace generate --cluster small.yaml --jobs 20 --seed 3 --models gpt2-medium:256 --load 0.7 --out planned.csv || BAIL_OUT 'no planned trace'
printf 'time_s,duration_s,node,gpu,factor,kind\n10,1e7,0,1,2,compute\n10,1e7,1,3,2,compute\n10,1e7,2,0,2,compute\n' >one.csv
exits 0 'plans of the planner' "$lab" simulate --planner --cluster small.yaml --trace planned.csv --policy fcfs --elastic-share 0 --slowdowns one.csv --slowdown-mode mitigate --json
json 'are split where a replica is slow' '.slowdowns | .splits > 0 and .restarts == 0'

refused '--slowdown-mode: needs --slowdowns FILE' --cluster c.yaml --trace trace.csv --throughputs t.csv --slowdown-mode watch
refused '--slowdowns: needs nodes, not pools' --cluster c.yaml --trace trace.csv --throughputs t.csv --placement pools --slowdowns slow.csv
refused '--slowdown-mode' --cluster c.yaml --trace trace.csv --throughputs t.csv --slowdowns slow.csv --slowdown-mode on
refused '--slowdown-factor' --cluster c.yaml --trace trace.csv --throughputs t.csv --slowdowns slow.csv --slowdown-factor nan
sed '3s/,2,/,9,/' slow.csv >bad.csv
refused 'bad.csv:3: node: "9" is no node of the cluster: a number from 0 to 7' --cluster c.yaml --trace trace.csv --throughputs t.csv --slowdowns bad.csv
head -1 slow.csv >bad.csv
refused 'bad.csv: has no row' --cluster c.yaml --trace trace.csv --throughputs t.csv --slowdowns bad.csv
refused 't.csv:1: .*duration_s' --cluster c.yaml --trace trace.csv --throughputs t.csv --slowdowns t.csv

data=$(reference_data greyhound)
if [[ -d $data ]]; then
    for plan in 1node:11 8node:18 large:11; do
        file=$data/injection_schedule_${plan%:*}.csv
        exits 0 "the published plan ${plan%:*}" "${sim[@]}" --policy arena --slowdowns "$file" --slowdown-mode mitigate --json
        json "has ${plan#*:} slowdowns" ".slowdowns | .events == ${plan#*:} and .events_met > 0 and .lost_gpu_s > 0"
    done
else
    skip 6 "the reference data is not here"
fi
done_testing
