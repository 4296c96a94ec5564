#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# arena-lab array and arena-lab evaluate-array: instances of our own that pass and fail, the JSON contract, schedules that hold
# and do not, what cannot be read, and the reference data within a minute (all of it: tests/bench/array).
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/command.sh"
need_lab
data=$(reference_data arraypipe)

# ---- files of our own --------------------------------------------------------------------------------
# Three alike on three stages: (3 + 3 - 1) x (2 + 4) with nothing between.
cat >own.json <<'END'
{"class": "japsp", "name": "own", "jobs": 3, "stages": 3, "device_of_stage": [0, 1, 2], "unknown": [1],
 "fp": [[2, 2, 2], [2, 2, 2], [2, 2, 2]], "bp": [[4, 4, 4], [4, 4, 4], [4, 4, 4]],
 "optimal": {"physical": 30, "literal": 30, "physical_inflight_cap": {"1": 54, "3": 30}}}
END
exits 0 'known optima are found and proved' "$lab" --json evaluate-array own.json
json 'in the shape of the contract' "$contract"' and .kind == "japsp" and .cases == 4 and .metrics.open == []'
exits 0 'also in text' "$lab" evaluate-array own.json
like "$(cat out)" '4 of 4 cases passed' 'with the count'
exits 0 'the genetic search is evaluated, too' "$lab" --json evaluate-array own.json --solver genetic --seeds 3
json 'and is the same with the same seed' "$contract"' and .metrics.runs == 3 and .metrics.max_gap_percent == 0 and .cases == 3'
sed 's/"physical": 30/"physical": 29/' own.json >wrong.json
exits 1 'a better makespan than there is fails' "$lab" --json evaluate-array wrong.json
json 'and says which' "$contract"' and .failed == [{case: "own physical", got: 30, want: 29}, {case: "own literal", got: 29, want: 30}]'
jq 'del(.optimal)' own.json >bare.json
exits 2 'without an answer there is nothing to evaluate' "$lab" evaluate-array bare.json
like "$(cat err)" 'nothing is known of it' 'and the sentence says so'

exits 0 'the same file without answers is solved' "$lab" --json array solve bare.json
json 'with a schedule and a proof' '.instances == [.instances[0]] and (.instances[0] | .makespan == 30 and .bound == 30 and .proven and
    .gap == 0 and (.schedule | length) == 18)'
cp out solved.json
exits 0 'which holds' "$lab" array check bare.json --schedule solved.json
like "$(cat out)" 'own \(physical\): holds, T = 30' 'with its makespan'
jq '.instances[0].schedule[1][3] -= 1' solved.json >early.json
exits 1 'a block that starts too early does not' "$lab" --json array check bare.json --schedule early.json
json 'with the reason' '.schedules[0] | .holds == false and (.why | test("job 0 stage 1 forward starts at"))'
jq 'del(.instances[0].schedule[3])' solved.json >less.json
exits 1 'nor a schedule without one of the blocks' "$lab" array check bare.json --schedule less.json
like "$(cat out)" 'is missing' '  which is said'
exits 0 'members in flight can be limited' "$lab" --json array solve bare.json --in-flight 1
json 'which takes longer' '.instances[0] | .makespan == 54 and .in_flight_cap == 1'
cp out one.json
exits 0 'and is checked with the limit' "$lab" array check bare.json --schedule one.json
jq '.instances[0].in_flight_cap = 1' solved.json >many.json
exits 1 'which the other does not keep' "$lab" array check bare.json --schedule many.json
echo '{"name": "x", "stages": 1, "fp": [[1], [1]]}' >forward.json
exits 1 'rules that nothing keeps are a no' "$lab" array solve forward.json --in-flight 1
like "$(cat out)" 'no schedule obeys the rules' '  in a sentence'
exits 0 'a picture is written' "$lab" array solve own.json --html page.html
ok '  that needs nothing else' bash -c '! grep -E "https?://|<script|src=" page.html'
is "$(grep -c '<rect' page.html)" 18 '  with each block'
exits 0 'ways are compared' "$lab" --json array compare own.json --limit 0.2
json 'with what devices do' '.instances[0].ways | map({key: .way, value: .makespan}) | from_entries |
    .["one after another"] == 54 and .["chosen by size"] == 30 and .["1 in flight"] == 54'
json '  in all of the time' '.instances[0].ways | all(.forward + .backward + .switching + .bubble - 1 | fabs < 1e-9)'
exits 0 'and as a table' "$lab" array compare own.json --limit 0.2
like "$(cat out)" 'one after another +54 ' '  with the same'

# ---- arrays of models --------------------------------------------------------------------------------
exits 0 'what arrays of a model gain is compared' "$lab" --json array compare --model bert-large --batch 16 --members 16
json 'each way with and without array, and each part' '.kind == "array-compare-models" and (.settings | length) == 1 and
    (.settings[0].cells[0].ways | map(.way)) == ["model parallelism", "GPipe", "1F1B (BPipe)", "Hanayo, 2 waves", "ZB1P", "ZBV",
    "GPipe + array", "1F1B (BPipe) + array", "Hanayo, 2 waves + array", "ZB1P + array", "ZBV + array", "ArrayPipe",
    "without memory manager", "without prefetch", "one device each"]'
json '  none slower with it' '.settings[0].cells[0].ways | map({key: .way, value: .seconds}) | from_entries |
    . as $s | keys | map(select(endswith(" + array")) | $s[.] <= $s[rtrimstr(" + array")] * (1 + 1e-9)) | length == 5 and all'
json '  with what devices do' '.settings[0].cells[0].ways | map(select(.possible and .way != "one device each")) |
    all(.forward + .backward + .overhead + .bubble - 1 | fabs < 1e-9)'
json '  and what the authors report' '.settings[0].saving_percent | .["GPipe"].reported == 48.4 and .["ZB1P"].reported == null'
exits 0 'along an axis' "$lab" array compare --model resnet-152 --batch 64 --members 8 --axis stages
like "$(cat out)" '16 .*57.5 % less than Hanayo' 'with a row for each value'
exits 2 'a model that is not there is refused' "$lab" array compare --model vgg-18 --batch 8
like "$(cat err)" "'vgg-18' is not a built-in model; nearest: vgg-19" '  with the nearest one'
exits 1 'more stages than layers are a no' "$lab" array compare --model bert-large --batch 8 --stages 32
like "$(cat err)" '24 layers are not 32 stages' '  in a sentence'
exits 2 'options of models do not go with a file' "$lab" array compare own.json --members 8
exits 2 'an axis is one of four' "$lab" array compare --axis colour

# ---- what cannot be read -----------------------------------------------------------------------------
# bad CODE NAME PATTERN FILE: one sentence, and no answer
bad() {
    exits "$1" "$2" "$lab" evaluate-array "$4"
    is "$(wc -l <err):$(wc -c <out)" 1:0 '  in one sentence'
    like "$(cat err)" "$3" '  that says why'
}
head -c 60 own.json >cut.json
bad 2 'truncated JSON is refused' 'cut.json' cut.json
echo '[1]' >list.json
bad 2 'so is a list' 'list.json: an object is needed' list.json
echo '{"class": "other"}' >class.json
bad 2 'another class' 'class.*japsp, jobshop or japsp-large' class.json
jq '.fp[1] = [1]' own.json >row.json
bad 2 'a short row' 'fp\[1\] has 1 times instead of 3' row.json
jq '.bp[0][0] = -4' own.json >negative.json
bad 2 'a time below 0' 'bp: whole numbers from 0' negative.json
jq '.fp = [range(3) | [range(3) | 300000000]]' own.json >sum.json
bad 2 'times that overflow' 'take a coarser tick' sum.json
head -c 4096 /dev/urandom >noise.json
bad 2 'noise' 'noise.json' noise.json
truncate -s 100M huge.json
bad 2 'a huge file' 'is larger than' huge.json
bad 3 'a missing file is the environment' 'none.json' none.json
exits 2 'no file is a mistake' "$lab" evaluate-array
exits 2 'so is no command' "$lab" array
exits 2 'and another solver' "$lab" evaluate-array own.json --solver list
exits 2 'and a cap of 0' "$lab" array solve own.json --in-flight 0

# ---- the reference data --------------------------------------------------------------------------------
[ -d "$data" ] || { skip 1 "no reference data $data (ARENA_REFERENCE_DATA)" && done_testing && exit; }
exits 0 'every optimum of the small instances is proved' "$lab" --json evaluate-array "$data"/j*.json "$data"/counter_*.json "$data"/classic_ft06.json
json 'none is left open' "$contract"' and .cases > 150 and .metrics.open == [] and .metrics.slowest_s < 60'
exits 0 'the genetic search comes near them' "$lab" --json evaluate-array --solver genetic --seeds 2 --limit 60 "$data"/j3*.json "$data"/j4s4_*.json
json 'mostly to the best' "$contract"' and .metrics.optimum_share >= 0.7'
jq '{class, instances: [.instances[] | select(.name | test("J1[05]|J30_mach4"))]}' "$data/large_profiles.json" >large.json
exits 0 'large ones are no worse than what is known' "$lab" --json evaluate-array --solver genetic --limit 3 large.json
json 'of each' "$contract"' and .kind == "japsp-large" and .metrics.searches == 4'
# With the answers removed, the command says the same.
for name in j4s3_b j4s4_profile_w470 counter_eligible_only_2287; do
    jq 'with_entries(select(.key | test("optimal|reference|verified") | not))' "$data/$name.json" >bare.json
    exits 0 "$name is solved without answers" "$lab" --json array solve bare.json
    json '  to the same' ".instances[0].makespan == $(jq .optimal.physical "$data/$name.json")"
done
exits 0 'stored schedules hold' "$lab" array check "$data/j4s4_a.json"
done_testing
