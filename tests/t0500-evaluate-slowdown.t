#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-lab slowdown and arena-lab evaluate-slowdown: every file of the reference data, the JSON contract, files of our own that
# pass and that fail, and what cannot be read.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/command.sh"
need_lab
data=$(reference_data greyhound)

# ---- files of our own --------------------------------------------------------------------------------
# 300 iterations of 2 s, 3 s from 120 to 200; noise of 1 % without a random number
awk 'BEGIN { print "series,iteration,iter_time_s,host"
    for (i = 0; i < 300; i++) printf "a,%d,%.6f,n1\n", i, (i >= 120 && i < 200 ? 3 : 2) * (1 + 0.01 * sin(i * i)) }' >own_series.csv
printf '%s\n' 'series,iteration,kind,must_detect' a,120,onset,1 a,200,relief,1 >own_labels.csv
exits 0 'slow iterations are found' "$lab" --json slowdown detect own_series.csv
json 'with place, kind and ratio' '.kind == "detection" and (.reports | map([.change_at, .kind])) == [[120, "onset"], [200, "relief"]] and
    (.reports[0] | .ratio_after_before > 1.45 and .ratio_after_before < 1.55 and .reported_at < 126)'
exits 0 'also in text' "$lab" slowdown detect own_series.csv
like "$(cat out)" 'a +12[0-9] +120 .* onset' 'with the same'
exits 0 'labels beside a series are its answers' "$lab" --json evaluate-slowdown own_series.csv
json 'in the shape of the contract' "$contract"' and .kind == "detection" and .cases == 6 and .metrics.recall == 1'
exits 0 'the other way round as well' "$lab" --json evaluate-slowdown own_labels.csv
json 'with the same answer' '.metrics.labels == 2 and .passed == 6'
mkdir apart && mv own_labels.csv apart/answers.csv
exits 0 'or both are named' "$lab" evaluate-slowdown own_series.csv apart/answers.csv
sed -i 's/,120,onset/,90,onset/' apart/answers.csv
exits 1 'a wrong label fails' "$lab" --json evaluate-slowdown own_series.csv apart/answers.csv
json 'and says which' "$contract"' and (.failed | map(.case) | index("recall") != null) and
    .metrics.missed == [{series: "a", iteration: 90}]'
exits 2 'a series without labels cannot be evaluated' "$lab" evaluate-slowdown own_series.csv
like "$(cat err)" 'series, iteration, kind, must_detect is needed beside it' 'and the sentence says what is needed'

awk 'BEGIN { print "sequence,t_us,op_id,count,comm"
    for (i = 0; i < 30; i++) { for (k = 0; k < 8; k++) printf "s,%d,3,4096,1\n", i * 1000000 + k * 100
        printf "s,%d,6,9000000,2\n", i * 1000000 + 900 } }' >calls.csv
exits 0 'the period of calls is found' "$lab" --json slowdown period calls.csv
json 'with each iteration' '.sequences | length == 1 and (.[0] | .period == 9 and .anchor_key == "(6, 9000000, 2)" and
    .median_iteration_us == 1000000 and (.iterations | length) > 24)'
cat >split.json <<'END'
{"summary": "not known", "cases": [{"name": "x", "micro_batch_time": [1, 1, 2], "micro_batches": 10, "min_max_value": 4}]}
END
exits 0 'micro-batches are split' "$lab" --json slowdown mitigate split.json
json 'exactly' '.cases[0] | .min_max_plan == [4, 4, 2] and .min_max_value == 4'
exits 0 'keys that are not known are ignored' "$lab" --json evaluate-slowdown split.json
json 'and the value is right' "$contract"' and .kind == "micro-batches" and .cases == 1'
sed 's/"min_max_value": 4/"min_max_value": 5/' split.json >other.json
exits 1 'another value fails' "$lab" --json evaluate-slowdown split.json other.json
json 'as one of two' ".cases == 2 and .failed == [{case: \"x\", got: 4, want: 5}]"
exits 2 'a command of another kind is refused' "$lab" slowdown detect split.json
like "$(cat err)" 'arena-lab slowdown mitigate' 'with the one that takes it'

# ---- what cannot be read -----------------------------------------------------------------------------
# bad CODE NAME PATTERN FILE: one sentence, and no answer
bad() {
    exits "$1" "$2" "$lab" evaluate-slowdown "$4"
    is "$(wc -l <err):$(wc -c <out)" 1:0 '  in one sentence'
    like "$(cat err)" "$3" '  that says why'
}
echo series,iteration,kind,must_detect >x_labels.csv
printf 'series,iter_time_s\na,1\na,nan\n' >x_series.csv
bad 2 'NaN is no time' 'x_series.csv:3: iter_time_s: "nan"' x_series.csv
printf 'series,iter_time_s\na,1\na,-1\n' >x_series.csv
bad 2 'nor is a negative number' 'x_series.csv:3' x_series.csv
head -c 2000 own_series.csv | sed '$s/,.*//' >x_series.csv
bad 2 'a truncated table is refused' 'x_series.csv:[0-9]+: 1 cells, but the header has 4' x_series.csv
head -c 60 split.json >cut.json
bad 2 'so is truncated JSON' 'cut.json' cut.json
printf 'a,b\n1,2\n' >unknown.csv
bad 2 'a file of no known kind is refused' 'neither columns nor keys are those of a known kind: detection' unknown.csv
: >empty.csv
bad 2 'so is an empty one' 'known kind' empty.csv
echo '[1]' >list.json
bad 2 'and a list' 'known kind' list.json
head -c 4096 /dev/urandom >noise.csv
bad 2 'and noise' 'known kind' noise.csv
truncate -s 300M huge.csv
bad 2 'a huge file is not read' 'is larger than' huge.csv
bad 3 'a missing file is the environment' 'none.csv' none.csv
bad 3 'a directory is no file' 'apart' apart
printf '{"cases": [{"micro_batch_time": [1, "x"], "micro_batches": 4, "min_max_value": 1}]}' >x.json
bad 2 'a word is no number' 'cases.0..micro_batch_time' x.json
printf '{"cases": [{"micro_batch_time": [1, 1, 1], "micro_batches": 2, "min_max_value": 1}]}' >x.json
bad 2 'fewer micro-batches than replicas are refused' 'x.json|cases' x.json
printf '{"cases": [{"micro_batch_time": [1, 1], "micro_batches": 4}]}' >x.json
bad 2 'a case without an answer cannot be evaluated' 'known answer is needed' x.json
exits 0 'but solved' "$lab" slowdown mitigate x.json
printf '{"instances": [{"dp": 4000, "pp": 4000, "slow_links": [], "gradient_GB": 1, "activation_GB_per_microbatch": 1, "microbatches": 1}]}' >x.json
bad 2 'a grid beyond all machines is refused' 'more than 4096 nodes' x.json
printf '{"instances": [{"dp": 2, "pp": 1, "slow_links": [[0, 7, 0.5]], "gradient_GB": 1, "activation_GB_per_microbatch": 1, "microbatches": 1}]}' >x.json
bad 2 'a link of no node is refused' 'slow_links' x.json
exits 2 'no file is a mistake' "$lab" evaluate-slowdown
exits 2 'so is no command' "$lab" slowdown
exits 2 'and a threshold of 1' "$lab" slowdown detect own_series.csv --threshold 1

# ---- show --accuracy: what agents told against what the trainer measured -------------------------------------
python3 - <<'END'
import json, os, random
random.seed(1)
measured = [0.1 * (1 + 0.05 * random.random()) * (2 if 80 <= i < 120 else 1) for i in range(200)]
with open("train.jsonl", "w") as log:
    log.write('{"event":"start","schema_version":1}\n')
    log.writelines(json.dumps({"step": i + 1, "iteration_s": s}) + "\n" for i, s in enumerate(measured))
def estimates(path, off):
    end, rows = 1763900000.0, []
    for i, s in enumerate(measured):
        end += s
        if i >= 4:  # the first are not told
            rows.append((int(end * 1000), int(s * (1 + off) * 1e6)))
    os.makedirs(path, exist_ok=True)
    with open(path + "/events.jsonl", "w") as out:
        for rank in (0, 1):
            for at in range(0, len(rows), 50):
                part = rows[at:at + 50]
                out.write(json.dumps({"schema_version": 1, "event": "iterations", "rank": rank, "series": 1,
                                      "end_ms": [r[0] for r in part], "time_us": [r[1] for r in part]}) + "\n")
        out.write('{"event":"iter')
estimates("arena-watch-7/log_20260101_000000_noderank0", 0.03)
estimates("arena-watch-7/log_20260102_000000_noderank0", 0.004)
END
exits 0 'estimates within 1.2 % are good' "$lab" --json slowdown show 7 --accuracy train.jsonl
json 'of the last life, for each rank' '.kind == "accuracy" and .median_error > 0.0039 and .median_error < 0.0041 and
    (.ranks | length == 2 and all(.iterations == 196))'
exits 1 'beyond that they are not' "$lab" slowdown show --accuracy train.jsonl --watched arena-watch-7/log_20260101_000000_noderank0
like "$(cat out)" 'median error 3.00 %, beyond 1.2 %' 'which a person can read'
exits 3 'a job that left no log' "$lab" slowdown show 8 --accuracy train.jsonl
like "$(cat err)" 'ARENA_WATCH_LOG_DIR' 'is told how to get one'
exits 2 'neither job nor place' "$lab" slowdown show --accuracy train.jsonl
exits 2 'show needs a job' "$arena" slowdown show
printf '{"iteration_s": 0.1}\nno object\n' >torn.jsonl
exits 2 'a line that is none is refused' "$lab" slowdown show 7 --accuracy torn.jsonl
like "$(cat err)" 'torn.jsonl:2' 'and named'
printf '{"iteration_s": -1}\n' >negative.jsonl
exits 2 'and a time that is none' "$lab" slowdown show 7 --accuracy negative.jsonl
printf '{"iteration_s": 0.1}\n' >short.jsonl
exits 1 'too little to compare' "$lab" slowdown show 7 --accuracy short.jsonl

# ---- the reference data --------------------------------------------------------------------------------
[ -d "$data" ] || { skip 1 "no reference data $data (ARENA_REFERENCE_DATA)" && done_testing && exit; }
for file in "$data"/*.csv "$data"/*.json; do
    exits 0 "${file##*/} passes" "$lab" --json evaluate-slowdown "$file"
    json '  in the shape of the contract' "$contract and .cases > 0"
done
exits 0 'all at once pass too' "$lab" --json evaluate-slowdown "$data"/*.csv "$data"/*.json
json 'by kind' "$contract"' and (.kind | split(",") | length) == 12 and .metrics.detection.recall >= 0.98 and
    .metrics.detection.precision >= 0.95 and .metrics.detection.wrong_signs == 0 and
    .metrics.period.worst_median_error <= 0.012'
exits 1 'without verification precision is lost' "$lab" --json evaluate-slowdown --no-verify "$data/synthetic_series.csv"
json 'which shows that it works' '.metrics.precision < 0.6 and .metrics.verified == false'
exits 0 'the slow GPU of the log is found' "$lab" --json slowdown locate "$data/benchmarks.csv"
json 'alone, with its factor' '.cause == "compute" and .links == [] and (.gpus | length == 1 and .[0].rank == 1 and
    .[0].factor > 7.8 and .[0].factor < 7.9)'
# With the answers removed, the commands say the same.
cp "$data/synthetic_series.csv" "$data/nccl_sequences.csv" .
exits 0 'series are solved without answers' "$lab" --json slowdown detect synthetic_series.csv
json 'as many as they are evaluated with' "(.reports | length) == $("$lab" --json evaluate-slowdown "$data/synthetic_series.csv" | jq .metrics.reports)"
exits 0 'sequences too' "$lab" --json slowdown period nccl_sequences.csv
ok 'with the true periods' bash -c "diff <(jq -r '.sequences[] | \"\(.sequence) \(.period)\"' out | sort) \
    <(awk -F, 'NR > 1 { last[\$1] = \$5 } END { for (s in last) print s, last[s] }' '$data/nccl_sequences_truth.csv' | sort)"
for name in s2_microbatch:min_max_value s3_topology:best_cost; do
    key=${name#*:} file=$data/${name%:*}_vectors.json
    jq --arg key "$key" 'walk(if type == "object" then with_entries(select(.key | test("best|min_max|plan|fires|even|brute") | not)) else . end)' "$file" >bare.json
    exits 0 "${file##*/} is solved without answers" "$lab" --json slowdown mitigate bare.json
    ok 'with the known values' jq -e -n --slurpfile own out --slurpfile known "$file" --arg key "$key" '
        [($own[0].cases // $own[0].instances), ($known[0].cases // $known[0].instances)] | transpose |
        all((.[0].min_max_value // .[0].cost) - .[1][$key] | fabs < 1e-6)'
done
done_testing
