#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The arena command without a cluster: exit codes, the JSON contracts, refusals, the profile store, and
# what explain and doctor make of a Slurm that is absent or answers in a known way.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/command.sh"
export ARENA_DATA_DIR=$ARENA_SRCDIR/etc ARENA_CONF=$work/arena.yaml
mkdir store spool bin && chmod 700 store
cat >arena.yaml <<END
gpu_types: {a40: A40, fake: emulated-cpu}
socket: $work/none.sock
profile: {spool: $work/spool, store: $work/store/profiles.db, user: arena}
END

# ---- plan -------------------------------------------------------------------------------------
plan=("$arena" plan --model gpt2-xl --global-batch 512 --gpu-type A40)
exits 0 'plan ranks grids' "${plan[@]}" --gpus 8
like "$(cat out)" 'Best: .*A40' 'the best grid is shown'
exits 0 'plan answers in JSON' "${plan[@]}" --gpus 4 --gpus 8 --json
json 'the plan document keeps its contract' '.model == "gpt2-xl" and .global_batch == 512 and
    (.grids[.best] | .feasible and (.estimate.iteration_s > 0) and
     (.proxy_plan.stage_layers | add) == 48 and .gpus == .nodes * .gpus_per_node) and
    ([.grids[] | select(.feasible) | .estimate.iteration_s] | . == sort) and
    ([.grids[].gpus] | unique == [4, 8])'
exits 0 'top limits the list' "${plan[@]}" --gpus 8 --top 1 --json
json 'one feasible grid is left' '[.grids[] | select(.feasible)] | length == 1'
exits 0 'plan prices a fixed plan' "${plan[@]}" --gpus 4 --fixed pp=2,dp=2,tp=1,micro_batch=1 --json
json 'the fixed plan is the one that was asked for' '(.grids | length) == 1 and
    (.grids[0] | .stages == 2 and .gpus == 4) and
    (.grids[0].proxy_plan | .pp == 2 and .dp == 2 and .tp == 1 and .micro_batch == 1 and
     .num_micro_batches == 256)'
exits 0 'plan prices adapters' "$arena" plan --model llama-2-7b --global-batch 8 --gpu-type A100-SXM-80GB --gpus 1 --lora 16
like "$(cat out)" 'llama-2-7b, .*, LoRA of rank 16 on attention, global batch 8' 'and says that they are trained'
exits 1 'which need less than all weights' "$arena" plan --model llama-2-7b --global-batch 8 --gpu-type A100-SXM-80GB --gpus 1
exits 2 'a rank out of range is refused' "${plan[@]}" --lora 0
exits 2 'a model without adapters is refused' "$arena" plan --model resnet-50 --global-batch 8 --gpu-type A40 --gpus 1 --lora 8
like "$(cat err)" 'lora.*only transformers' 'in a sentence'
exits 0 'plan takes a type of which no run was measured' "$arena" plan --model gpt2-xl --global-batch 8 --gpu-type MI300X-192GB --gpus 1
like "$(tr -s ' \n' ' ' <out)" 'MI300X-192GB: by its data sheet only, as no run on such a GPU was measured: times may be off by 80 %' 'and says so'
exits 0 'in JSON its estimate has a source of its own' "$arena" plan --model gpt2-xl --global-batch 8 --gpu-type MI300X-192GB --gpus 1 --json
json 'data-sheet' '[.grids[] | select(.feasible) | .estimate.source] | unique == ["data-sheet"]'
exits 0 'a measured type' "${plan[@]}" --gpus 8
unlike "$(cat out)" 'data sheet' 'does not'
mkdir -p adapter/base
echo '{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,
 "num_attention_heads":4,"max_position_embeddings":256,"vocab_size":1000,"torch_dtype":"bfloat16"}' >adapter/base/config.json
echo '{"peft_type":"LORA","base_model_name_or_path":"base","r":8,"target_modules":["q_proj","v_proj"],"task_type":"CAUSAL_LM"}' >adapter/adapter_config.json
exits 0 'an adapter_config.json is a model' "$arena" plan --model adapter/adapter_config.json --global-batch 8 --gpu-type A40 --gpus 1
like "$(cat out)" '^base, .*, LoRA of rank 8 on q_proj, v_proj, global batch 8, sequence length 256' 'of the base beside it'
sed 's/"r":8/"r":8,"use_dora":true/' adapter/adapter_config.json >adapter/dora.json
exits 2 'one of another kind is refused' "$arena" plan --model adapter/dora.json --global-batch 8 --gpu-type A40 --gpus 1
like "$(cat err)" 'dora.json:1:.*use_dora: an adapter that computes more' 'by the name of its key'
exits 1 'a fixed plan that does not fit is a no' "$arena" plan --model gpt-22b --global-batch 8 \
    --gpu-type A40 --fixed pp=1,dp=1,tp=1,micro_batch=1 --json
json 'and still has its price and a reason' '.best == -1 and (.grids[0] | .feasible == false and
    (.reason | test("memory")) and .estimate.iteration_s > 0)'
exits 1 'a model that fits nowhere is a no' "$arena" plan --model gpt-22b --global-batch 8 \
    --gpu-type A40 --gpus 1
like "$(cat out)" 'memory' 'the reason is memory'
exits 0 'a GRES type of arena.yaml names its hardware' "$arena" plan --model gpt2 --global-batch 8 \
    --gpu-type fake --gpus 2 --json
json 'and an emulated one says so' '.grids | all(.emulated)'
ln -s "$ARENA_SRCDIR/etc/models/gpt2.json" link.json
exits 0 'a model file may be a link' "$arena" plan --model ./link.json --global-batch 8 --gpu-type A40 --gpus 1
# refused WHAT OPTIONS...: exit 2 and a message that matches WHAT
refused() {
    local what=$1
    shift
    exits 2 "plan $* is refused" "$arena" plan "$@"
    like "$(cat err)" "$what" "and says $what"
}
gpt2=(--model gpt2 --global-batch 512)
refused 'nearest: gpt2-xl' --model gpt2-xxl --global-batch 512 --gpu-type A40 --gpus 8
refused "no hardware entry 'A400'" "${gpt2[@]}" --gpu-type A400 --gpus 8
refused "--gpus: '0' is not N or MIN-MAX" "${gpt2[@]}" --gpu-type A40 --gpus 0
refused "--gpus: '8-4' is an empty range" "${gpt2[@]}" --gpu-type A40 --gpus 8-4
refused '--gpus: is needed' "${gpt2[@]}" --gpu-type A40
refused '--global-batch' --model gpt2 --global-batch 0 --gpu-type A40 --gpus 8
refused '--global-batch is required' --model gpt2 --gpu-type A40 --gpus 8
refused '--top' "${gpt2[@]}" --gpu-type A40 --gpus 8 --top x
refused 'dp, tp and micro_batch are needed' "${gpt2[@]}" --gpu-type A40 --fixed pp=2
refused 'does not divide by dp . micro_batch = 6' "${gpt2[@]}" --gpu-type A40 --fixed pp=2,dp=2,tp=1,micro_batch=3
refused '= 2 GPUs, but --gpus says 8' "${gpt2[@]}" --gpu-type A40 --gpus 8 --fixed pp=1,dp=2,tp=1,micro_batch=1
refused 'one --gpu-type' "${gpt2[@]}" --gpu-type A40 --gpu-type T4 --fixed pp=1,dp=2,tp=1,micro_batch=1
refused 'ZeRO 2, which --launcher env cannot be told' "${gpt2[@]}" --gpu-type A40 --fixed pp=1,dp=2,tp=1,micro_batch=1,zero=2
refused 'stages of 3,3,2,2,2 layers, which --launcher nemo' "${gpt2[@]}" --gpu-type A40 --launcher nemo \
    --gpus-per-node 8 --fixed pp=5,dp=1,tp=1,micro_batch=1
refused 'selective recompute, which --launcher megatron-deepspeed' "${gpt2[@]}" --gpu-type A40 --launcher megatron-deepspeed \
    --fixed pp=1,dp=1,tp=1,micro_batch=1,recompute=selective
exits 0 'what the launcher can be told is priced' "$arena" plan "${gpt2[@]}" --gpu-type A40 --launcher megatron-deepspeed \
    --fixed pp=1,dp=2,tp=1,micro_batch=1,zero=2
exits 0 'any launcher prices every plan' "$arena" plan "${gpt2[@]}" --gpu-type A40 --launcher any \
    --fixed pp=1,dp=2,tp=1,micro_batch=1,zero=2
exits 0 'uneven stages are dealt as the launcher can say it' "$arena" plan "${gpt2[@]}" --gpu-type A40 \
    --gpus-per-node 8 --launcher megatron@0.12 --fixed pp=5,dp=1,tp=1,micro_batch=1 --json
json 'first and last stage take what is left over' '.grids[0].proxy_plan.stage_layers == [2,3,3,3,1]'
# ---- the network -------------------------------------------------------------------------------
exits 0 'a plan is priced over leaves and over pods' "$arena" plan "${gpt2[@]}" --gpu-type A40 --gpus 16 --gpus-per-node 8 \
    --oversubscription 4,2 --json
json 'farther apart it takes longer' '[.grids[] | select(.feasible)] | length > 0 and
    all(.iteration_s_over.pod >= .estimate.iteration_s and .iteration_s_over.pods >= .iteration_s_over.pod) and
    any(.iteration_s_over.pods > .iteration_s_over.pod)'
exits 0 'nothing is said of a network that costs nothing' "$arena" plan "${gpt2[@]}" --gpu-type A40 --gpus 16 --json
json 'of no grid' 'all(.grids[]; has("iteration_s_over") or has("segment") | not)'
exits 0 'experts of several nodes are in one NVLink domain' "$arena" plan --model mixtral-8x7b --global-batch 256 \
    --gpu-type GB200-NVL72 --gpus 64 --launcher megatron --domain-nodes 18 --top 1 --json
json 'all sixteen nodes, and without the domain it takes longer' '.grids[0] | .segment == 16 and
    .iteration_s_over.pod > .estimate.iteration_s'
exits 0 'all grids of that' "$arena" plan --model mixtral-8x7b --global-batch 256 \
    --gpu-type GB200-NVL72 --gpus 64 --launcher megatron --domain-nodes 18 --json
json 'the same grid has a slower plan that needs no domain' '[.grids[] | select(.feasible)] |
    (map(select(.segment == 16))[0]) as $rack |
    any(.[]; (has("segment") | not) and .nodes == 16 and .stages == $rack.stages and
        .estimate.iteration_s > $rack.estimate.iteration_s)'
refused '--oversubscription' "${gpt2[@]}" --gpu-type A40 --gpus 8 --oversubscription 0.5
refused '--pod-leaves' "${gpt2[@]}" --gpu-type A40 --gpus 8 --pod-leaves 2

# ---- what the planner did not look at ----------------------------------------------------------
printf '%s\n' 'family: custom' 'precision: fp16' 'layers:' \
    '  - {forward_flops: 1e9, parameter_bytes: 1e5, activation_bytes: 1e4}' \
    '  - {count: 2999, forward_flops: 1e6, parameter_bytes: 1e5, activation_bytes: 1e4}' >deep.yaml
deep=("$arena" plan --model ./deep.yaml --global-batch 2 --gpu-type A40 --gpus 1-2)
exits 0 'a plan of thousands of layers that differ' "${deep[@]}" --launcher any
like "$(cat out)" 'Uniform stages only: 2xA40 pp2: stages that differ .* above 33554432$' \
    'names the grid that is too large for stages that differ'
exits 0 'and of the best grid alone' "${deep[@]}" --launcher any --top 1 --json
json 'all the same, with the bound' '.uniform_only.bound == 33554432 and
    (.uniform_only.grids | map([.gpu_type, .gpus, .stages]) == [["A40", 2, 2]])'
exits 0 'a launcher of uniform stages' "${deep[@]}" --json
json 'lacks nothing' '.uniform_only.grids == [] and .mixed_in_part == {"bound": 200000, "grids": []}'
# a directory: no user reads it as a file, not even root
exits 0 'an arena.yaml that cannot be read keeps nobody from built-in types' env ARENA_CONF="$work" "$arena" plan "${gpt2[@]}" \
    --gpu-type A40 --gpus 8
like "$(cat err)" "^arena: $work: .*: the site's hardware and calibration are not known\$" 'it is said'
exits 3 'one that is named must be readable' "$arena" --config "$work" plan "${gpt2[@]}" --gpu-type A40 --gpus 8
refused 'nonsense' "${gpt2[@]}" --gpu-type A40 --gpus 8 --nonsense
exits 2 'a mistake is also told in JSON' "$arena" plan --model nope --global-batch 8 --gpu-type A40 --gpus 8 --json
json 'with its text' '.error.text | test("nope")'
exits 3 'a missing model file is the environment' "$arena" plan --model ./none.json --global-batch 8 \
    --gpu-type A40 --gpus 1
exits 2 'no sub-command is a usage error' "$arena"
exits 0 'help is not an error' "$arena" plan --help
for page in arena.1 arena-lab.1 arena.yaml.5 arena-array.5 arena-model.5 sched_arena.8 spank_arena.8 arena-profiler.8; do
    is "$(man --warnings -l "$ARENA_SRCDIR/doc/man/$page" 2>&1 >/dev/null)" '' "$page formats without a warning"
done
exits 0 'the version is told' "$arena" --version

# ---- verbs of another program -----------------------------------------------------------------
mkdir alone && cp "$arena" alone/arena
printf '%s\n' '#!/bin/sh' 'printf "%s;" "$@"' 'exit 7' >alone/arena-simulation && chmod 755 alone/arena-simulation
exits 7 'simulate is the verb of a program beside arena' alone/arena --config a.yaml --json simulate --policy fifo 'two words'
is "$(cat out)" '--config;a.yaml;--json;simulate;--policy;fifo;two words;' 'which has all words'
exits 0 'the value of an option is no verb' alone/arena --config simulate models
echo 'no program' >alone/arena-simulation
exits 3 'a program that cannot be started is the environment' alone/arena --json trace
like "$(cat err)" '^arena: trace: .*/alone/arena-simulation, which has this command, cannot be started: Exec format error' 'and named'
json 'in JSON, too' '.error.where == "trace"'
exits 0 'help has the verbs all the same' alone/arena --help
like "$(cat out)" '  simulate +run policies on a trace of jobs' 'with what they do'

# ---- evaluate ---------------------------------------------------------------------------------
columns=framework,family,gpu,gpus,gpus_per_node,layers,hidden,heads,seq,vocab,tp,pp,dp,mbs,gbs,precision,sharding,status,iter_time_s
row=NeMo,gpt,A100,8,8,24,2048,16,1024,51200,2,2,2,4,64,bf16,zero0,ok,1.5
printf '%s\n' "$columns" "$row" "${row/NeMo/none of ours}" "${row/zero0/zero9}" >runs.csv
exits 0 'evaluate prices a table' "$arena" evaluate runs.csv
like "$(cat out)" "framework 'none of ours' \(1 row\) is not in the table" 'and says whose constants are the default'
exits 0 'evaluate answers in JSON' "$arena" --json evaluate runs.csv
json 'one document with what is unknown and what is left out' '.all.n == 2 and (.error == null) and
    .unknown_frameworks == [{framework: "none of ours", n: 1}] and
    (.skipped | length == 1 and (.[0].reason | test("zero9")))'
printf '%s\n' "$columns" "${row/A100/H9}" >runs.csv
exits 1 'a table without a row that can be priced is a no' "$arena" --json evaluate runs.csv
json 'in one document that has the error and the reasons' '(.error.text | test("no row")) and .all.n == 0 and
    (.skipped | length == 1)'
printf '%s\n' "$columns" "${row/,64,/,64.0,}" >runs.csv
exits 2 'a table of which nothing can be read is refused' "$arena" evaluate runs.csv
like "$(cat err)" "runs.csv:2: gbs is '64.0'" 'with file, line and column'
printf '%s\n' "$columns" "$row" "${row/,2,2,2,/,mixed,2,2,}" >runs.csv
exits 0 'one unreadable row does not stop the others' "$arena" evaluate runs.csv --out rows.csv
like "$(cat out)" "skipped 1 row: tp is 'mixed': a whole number from 0 to 2\^40 is wanted \(line 3\)" 'it is counted, with reason and line'
like "$(cat rows.csv)" "tp is 'mixed'" 'and stands in the file of rows'
exits 0 'JSON tells it too' "$arena" --json evaluate runs.csv
json 'with reason and line' '.all.n == 1 and .all.skipped == 1 and (.skipped[0] | .n == 1 and .line == 3)'

# ---- a site's own tables ------------------------------------------------------------------------
cp arena.yaml plain.yaml
printf 'frameworks:\n  - {name: default, iteration_s: 9}\n' >ours.yaml
printf '%s\n' "$columns" "${row/NeMo/default}" >runs.csv
slow() { jq -es '.[0].grids[.[0].best].estimate.iteration_s > 9' out; }
biased() { jq -es '.[0].all.bias > 3' out; }
exits 0 'plan with the built-in constants' "$arena" plan "${gpt2[@]}" --gpu-type A40 --gpus 4 --json
not_ok 'is not that slow' slow
exits 0 'plan takes constants from a file' "$arena" plan "${gpt2[@]}" --gpu-type A40 --gpus 4 --calibration ours.yaml --json
ok 'and they count' slow
echo "calibration_file: $work/ours.yaml" >>arena.yaml
exits 0 'plan takes them from arena.yaml' "$arena" plan "${gpt2[@]}" --gpu-type A40 --gpus 4 --json
ok 'and they count as well' slow
exits 0 'so does evaluate' "$arena" evaluate runs.csv --json
ok 'whose errors show it' biased
echo 'frameworks: [{name: default, iteration: 9}]' >ours.yaml
exits 2 'config check reads the table that arena.yaml names' "$arena" config check
like "$(cat err)" 'ours.yaml:1:30: unknown key "iteration"' 'and says where it is wrong'
mv plain.yaml arena.yaml

# ---- config -----------------------------------------------------------------------------------
exits 0 'a good arena.yaml is ok' "$arena" config check
exits 0 'one key is read' "$arena" config get profile.user
is "$(cat out)" arena 'its value is printed alone'
exits 2 'an unknown key is refused' "$arena" config get profile.usr
echo 'polcy: fifo' >bad.yaml
exits 2 'a bad file is refused' "$arena" config check bad.yaml
like "$(cat err)" 'bad.yaml:1:1: .*policy' 'with place and nearest key'
echo 'policy: none' >bad.yaml
exits 2 'an unknown policy is refused' "$arena" config check bad.yaml
echo 'gpu_types: {a: B}' >bad.yaml
exits 2 'an unknown hardware entry is refused' "$arena" config check bad.yaml
exits 3 'a missing file is the environment' "$arena" --config none.yaml config get policy
exits 0 'every key is listed' "$arena" config keys --json
json 'the keys are many' '.keys | length > 15'
missing=''
for key in $("$arena" config keys | cut -d: -f1); do
    grep -q "^\.BR $key " "$ARENA_SRCDIR/doc/man/arena.yaml.5" || missing+=" $key"
done
is "$missing" '' 'every key has its entry in arena.yaml(5)'
exits 1 'the shipped arena.yaml wants nothing but GPU types' "$arena" config check "$ARENA_SRCDIR/etc/arena.yaml"
like "$(cat err)" 'no GPU type is mapped.*gpu_types:' 'and says so'

# ---- profile ----------------------------------------------------------------------------------
entry() { printf '{"op":"gemm","pass":"forward","precision":"bf16","shape":[%s],"variant":"","seconds":%s,"repeats":9,"spread":0.01}' "$1" "$2"; }
profile() { # NONCE ENTRIES
    printf '{"schema_version":1,"nonce":"%s","gpu_type":"a40","hardware":"A40","model_fingerprint":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","device":{"kind":"cuda","name":"A40","uuid":"u","driver":"1","library":"l","memory_bytes":1,"threads":0,"node":"n1"},"status":"complete","reason":"","device_seconds":2,"started_s":1700000000,"entries":[%s]}' "$1" "$2"
}
profile nonce00000000001 "$(entry 8,16,32,1 1e-5),$(entry 8,16,64,1 2e-5)" >p1.json
exits 3 'an absent store is the environment' "$arena" profile list
exits 0 'a profile is imported' "$arena" profile import p1.json --model-name gpt2
exits 1 'the same nonce twice is a no' "$arena" profile import p1.json
exits 0 'it is listed' "$arena" profile list --json
json 'with its model' '.runs | length == 1 and .[0].model_name == "gpt2" and .[0].entries == 2'
exits 0 'it is shown' "$arena" profile show nonce00000000001
like "$(cat out)" 'gemm/forward/bf16/8x16x32x1' 'with its operators'
exits 0 'the status counts it' "$arena" profile status --json
json 'per GPU type' '.gpu_types == [{"gpu_type":"a40","operators":2,"complete":1,"partial":0,"failed":0,"last_failure":""}]'
exits 0 'it is exported' "$arena" profile export nonce00000000001 copy.json
ok 'the export is the import' diff <(jq -S . p1.json) <(jq -S . copy.json)
exits 0 'the store verifies' "$arena" profile verify
exits 1 'an unknown run is a no' "$arena" profile show nonce00000000009
exits 0 'plan reads the store' "${plan[@]}" --gpus 1 --profiles store/profiles.db
exits 0 'plan reads a profile file' "${plan[@]}" --gpus 1 --profiles p1.json
exits 2 'a profile of another type is refused' "$arena" plan --model gpt2 --global-batch 8 \
    --gpu-type T4 --gpus 1 --profiles p1.json
sed 's/1e-5/-1/' p1.json >p2.json
exits 2 'a profile with negative seconds is refused' "$arena" profile import p2.json
exits 0 'old runs are pruned' "$arena" profile prune --older-than-days 1
like "$(cat out)" '^1 runs removed' 'and counted'

# ---- snapshot, explain, stats, doctor ------------------------------------------------------------
first=$ARENA_SRCDIR/tests/golden/01-fastest-offer-that-fits.in
exits 0 'a decision is repeated' "$arena" snapshot replay "$first"
like "$(cat out)" '^JobId=1 start 8xa100 ' 'in words'
exits 2 'an unknown policy is refused' "$arena" snapshot replay "$first" --policy lifo
head -c 300 "$first" >broken.in
exits 2 'a broken snapshot is refused' "$arena" snapshot replay broken.in
exits 3 'stats needs the controller' "$arena" stats
like "$(cat err)" 'on the controller' 'and says so'
cat >bin/scontrol <<'END'
#!/bin/sh
[ "$*" = "show job 7" ] && echo "JobId=7 JobName=x
   JobState=RUNNING Reason=None Dependency=(null)
   AdminComment=arena:v1 state=running grid=4xa40 plan=pp2,dp2,tp1,mb4x16 est=10.4s source=profiled
   SystemComment=arena offers: 4xa40 pp2,dp2,tp1,mb4x16 10.4s profiled;" && exit 0
[ "$*" = "show job 8" ] && echo "JobId=8 JobName=x
   JobState=RUNNING Reason=None" && exit 0
echo "slurm_load_jobs error: Invalid job id specified" >&2
exit 1
END
chmod +x bin/scontrol
PATH=$work/bin:$PATH
exits 0 'explain reads the job fields where there is no socket' "$arena" explain 7
like "$(cat out)" 'grid=4xa40.*Read from scontrol' 'and says so'
exits 0 'also in JSON' "$arena" explain 7 --json
json 'with the source' '.source | test("scontrol")'
exits 1 'an ordinary job is a no' "$arena" explain 8
exits 3 'an unknown job is what Slurm says' "$arena" explain 9
like "$(cat err)" 'Invalid job id' 'in its words'
exits 2 'a job id is a number' "$arena" explain x
exits 1 'doctor finds what is bad' "$arena" doctor --json
json 'and lists every check' '.ok == false and (.checks | length >= 5 and
    all(.verdict == "ok" or .verdict == "warn" or .verdict == "FAIL" or .verdict == "skip")) and
    ([.checks[] | select(.check == "arena.yaml")][0].verdict == "ok")'
done_testing
