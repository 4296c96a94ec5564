#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# How a request reaches slurmctld: --arena-* options, #SBATCH and #ARENA lines, model files; what becomes
# of the job; and what ordinary jobs see of it: nothing, but that nobody may forge ARENA_* entries. Also
# what updates of a held job do. The stock scheduler runs, so that nothing but submission is tested.
# shellcheck disable=SC2016  # conditions evaluated by wait_until
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh" || exit 99
need_arena
make_work

cat >"$work/prolog" <<END
#!/bin/sh
env | grep ^SPANK_ | sort >$work/prolog.\$SLURM_JOB_ID
END
chmod 755 "$work/prolog"
stock_scheduler
start_cluster --nodes a40:2x4,h100:1x4 --arena on --profile off "${scheduler_options[@]}" \
    --conf-extra "Prolog=$work/prolog"
forge=$ARENA_BUILDDIR/tests/tools/forge_submit
cd "$work" || BAIL_OUT "no $work"
plain=$(script true)

# Every Arena job here has a batch of its own, by which its record is found in Slurm's state file.
record() { grep -aoE 'ARENA_RECORD=\{[^[:cntrl:]]*' "$cluster_dir/state/job_state" | grep -F "\"batch\":\"$1\"," | tail -n 1; }
# Nor what an iteration takes, which sbatch finds out for its own options alone.
# shellcheck disable=SC2317  # called by ok
same_but_batch() { [[ $(bare "$1") == "$(bare "$2")" && $(record "$1") ]]; }
# shellcheck disable=SC2317
bare() { record "$1" | sed "s/\"batch\":\"$1\",//; s/\"iteration_s\":[^,}]*,//"; }
# The environment that slurmctld keeps for a job, one variable per line (a length comes first).
environment() { tr '\0' '\n' <"$cluster_dir/state/hash.$(($1 % 10))/job.$1/environment"; }

# ---- channels ---------------------------------------------------------------------------------------
cat >tiny.yaml <<'END'
name: tiny
family: gpt
layers: 2
hidden: 64
heads: 4
vocab: 1000
seq_length: 128
END
# shellcheck disable=SC2054  # the commas belong to the values
options=(--arena-model=gpt2 --arena-gpus=2-4 --arena-types=a40,h100 --arena-plan=pp2 --arena-launcher=torchrun
    --arena-elastic --arena-steps=100 --arena-seq-length=512 --arena-precision=fp32)
sbatch_lines=$(printf '#SBATCH %s\n' "${options[@]}")
arena_lines='#ARENA model=gpt2 gpus=2-4 types=a40,h100 plan=pp2
#ARENA launcher=torchrun elastic=yes steps=100 seq_length=512 precision=fp32'

job=$(submit "${options[@]}" --arena-batch=1001 "$plain")
like "$job" '^[0-9]+$' "options on the command line are taken"
like "$(submit "$(script "$sbatch_lines"$'\n#SBATCH --arena-batch=1002')")" '^[0-9]+$' "#SBATCH lines are taken"
like "$(submit "$(script "$arena_lines"$'\n#ARENA batch=1003')")" '^[0-9]+$' "#ARENA lines are taken"
like "$(submit --export=NONE "${options[@]}" --arena-batch=1004 "$plain")" '^[0-9]+$' "--export=NONE loses nothing"
like "$(submit --arena-batch=1005 "$(script "$sbatch_lines"$'\n#SBATCH --arena-batch=7')")" '^[0-9]+$' \
    "the command line wins over #SBATCH lines"
like "$(submit --arena-batch=1006 --arena-batch=1006 "${options[@]}" "$(script '#SBATCH --arena-batch=1006')")" \
    '^[0-9]+$' "the same value again is no conflict"
like "$(submit --arena-model=tiny.yaml --arena-batch=1007 "$plain")" '^[0-9]+$' "a YAML file is taken"
cp tiny.yaml tiny
like "$(submit --arena-model=tiny --arena-batch=1008 "$plain")" '^[0-9]+$' "so is a file without a suffix"
like "$(submit "$(script '#ARENA family=gpt layers=2 hidden=64 heads=4 vocab=1000 seq-length=128 name=tiny batch=1009')")" \
    '^[0-9]+$' "a model in #ARENA lines is taken"
like "$("$forge" "$(script "$arena_lines"$'\n#ARENA batch=1010')")" '^[0-9]+$' "#ARENA lines work without sbatch"
like "$(submit --arena-lora=16 --arena-model=gpt2 --arena-batch=1014 "$plain")" '^[0-9]+$' "a rank of adapters is taken"
like "$(submit "$(script '#ARENA model=gpt2 lora=16 batch=1015')")" '^[0-9]+$' "so is one in #ARENA lines"
like "$(sbatch --arena-lora=16 --arena-model=gpt2 --arena-batch=1016 "$plain" 2>&1)" 'gpt2 124 M, LoRA of rank 16 on attention' \
    "sbatch says that adapters are trained"
refused=$(sbatch --arena-lora=16 --arena-model=resnet-50 --arena-batch=1017 "$plain" 2>&1)
like "$refused" '--arena-lora .*only transformers .*resnet-50 is of family wide_resnet' "a model without adapters is refused"
mkdir -p adapter/base
echo '{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,
 "num_attention_heads":4,"max_position_embeddings":256,"vocab_size":1000,"torch_dtype":"bfloat16"}' >adapter/base/config.json
echo '{"peft_type":"LORA","base_model_name_or_path":"base","r":8,"target_modules":["q_proj","v_proj"]}' >adapter/adapter_config.json
like "$(sbatch --arena-model=adapter/adapter_config.json --arena-batch=1018 "$plain" 2>&1)" 'base [0-9.]+ [kM], LoRA of rank 8 on q_proj, v_proj' \
    "an adapter_config.json is a model, with the base beside it"
refused=$(sbatch --arena-lora=16 --arena-model=adapter/adapter_config.json --arena-batch=1019 "$plain" 2>&1)
like "$refused" 'says itself that its adapters have rank 8, not 16' "and another rank is refused"
held=$(submit --hold --arena-model=gpt2 --arena-launcher=env --arena-batch=1011 "$plain")
limited=$(submit --arena-cpus-per-gpu=6 --arena-mem-per-gpu=2G --arena-model=gpt2 --arena-launcher=env --arena-batch=1012 "$plain")
shaped=$(sbatch -N2 -n4 -c3 --arena-model=gpt2 --arena-launcher=env --arena-batch=1013 "$plain" 2>&1)
like "$shaped" 'arena: the numbers of nodes and tasks are chosen by Arena' "a note says that -N and -n are not taken over"
ok "slurmctld saves the jobs" wait_saved
for batch in 1002 1003 1004 1005 1006 1010; do
    ok "the record of batch $batch is that of the options" same_but_batch 1001 $batch
done
for part in '"gpus":"2-4"' '"types":"a40,h100"' '"plan":"pp2"' '"launcher":"torchrun@2.6"' \
    '"elastic":"yes"' '"steps":"100"' '"seq_length":512' '"precision":"fp32"' '"layers":12'; do
    like "$(record 1001)" "$part" "the record holds $part"
done
ok "both files give the same record" same_but_batch 1007 1008
ok "the model in #ARENA lines is the one of the file" same_but_batch 1007 1009
ok "adapters in #ARENA lines are those of the option" same_but_batch 1014 1015
like "$(record 1014)" '"lora":"16".*"lora_rank":16' "the record holds the rank and the model with adapters"
like "$(record 1011)" '"user_hold":true' "the user's --hold is in the record"
unlike "$(record 1001)" user_hold "Arena's own hold is not"
like "$(record 1012)" '"cpus-per-gpu":"6"' "--arena-cpus-per-gpu is in the record"
like "$(record 1012)" '"mem-per-gpu":"2048"' "so is --arena-mem-per-gpu, in MB"
is "$(job_field "$limited" CpusPerTres)" "" "and not in the job"
like "$(record 1013)" '"cpus-per-gpu":"3"' "--cpus-per-task is per GPU"

# ---- the job ------------------------------------------------------------------------------------------
is "$(job_state "$job") $(job_field "$job" Priority)" "PENDING 0" "an Arena job is held"
is "$(job_field "$job" NumNodes)" 1-1 "it asks for one node"
is "$(job_field "$job" NumTasks)" 1 "and one task"
is "$(job_field "$job" TresPerNode)" "" "and no GPU"
is "$(job_field "$job" Requeue)" 1 "it may be requeued"
like "$(job_field "$job" AdminComment)" '^arena:v1 state=submitted model=gpt2' "AdminComment says what it is"
stale=$(SLURM_NTASKS=9 SLURM_GPUS=9 ARENA_PP=9 KEPT=1 sbatch --parsable -N2 -n4 --arena-model=gpt2 --arena-launcher=env --arena-batch=1020 \
    "$plain" 2>/dev/null)
like "$(environment "$stale")" $'\nKEPT=1\n' "its environment is kept"
unlike "$(environment "$stale")" '(SLURM_NTASKS|SLURM_NPROCS|SLURM_GPUS|SLURM_NNODES|ARENA_PP|ARENA_RECORD|arena_arena)' \
    "but for what would contradict the plan"

# ---- interactive jobs, jobs inside jobs -----------------------------------------------------------------
timeout 20 salloc -J shell --arena-model=gpt2 --arena-launcher=env --arena-batch=8 true >"$work/salloc.out" 2>&1 &
ok "an allocation of salloc's is an Arena job" wait_until '[[ $(job_field "$(squeue -h -n shell -o %i)" AdminComment) == "arena:v1 state=submitted model=gpt2" ]]'
shell=$(squeue -h -n shell -o %i)
is "$(job_field "$shell" Priority)" 0 "held until it has a plan"
scancel "$shell"
wait $!
like "$(<"$work/salloc.out")" 'has been revoked|cancelled|CANCELLED' "salloc is told when it is cancelled"
for option in '--arena-elastic|arena: .*elastic.* is for batch jobs' '--arena-slowdown=mitigate|arena: .*mitigate is for batch jobs' '--immediate|--immediate cannot be combined'; do
    out=$(timeout 20 salloc --arena-model=gpt2 --arena-launcher=env --arena-batch=8 "${option%%|*}" true 2>&1)
    isnt $? 0 "salloc ${option%%|*} is refused"
    like "$out" "${option#*|}" "in a sentence"
done
out=$(timeout 20 srun --arena-model=gpt2 --arena-launcher=env --arena-batch=8 echo ran 2>&1)
like "$out" 'srun: arena: .*ordinary' "srun says that its own allocation is an ordinary job"
like "$out" $'(^|\n)ran' "and runs"
out=$(timeout 20 salloc srun --arena-model=/dev/zero echo ran 2>&1)
like "$out" $'(^|\n)ran' "srun inside a job opens nothing"
unlike "$out" 'arena:' "and says nothing"

# ---- ordinary jobs ------------------------------------------------------------------------------------
forged=$("$forge" "$(script 'env')" ARENA_PROFILE=1 KEPT=1 SPANK_ARENA_X=1 ARENA_STATE=1 AN_ARENA_=1)
ok "an ordinary job with forged entries runs" wait_for_state "$forged" COMPLETED
is "$(cat "$work/prolog.$forged")" $'SPANK_AN_ARENA_=1\nSPANK_KEPT=1' "its Prolog sees every entry but the forged ones"
forged=$("$forge" "$plain" ARENA_PROFILE=1)
ok "an ordinary job with nothing but a forged entry runs" wait_for_state "$forged" COMPLETED
is "$(cat "$work/prolog.$forged")" "" "its Prolog sees none"

variants=('' '-N2 -n4' '--gres=gpu:a40:2' '--gpus=3 --cpus-per-gpu=2' '-n3 -c2 --mem=100' '-a 1-3' '--exclusive -t 5'
    '-d singleton -J x' '--begin=now+1hour' '-w n2 --comment=arena:off' '--nice=5 --no-requeue')
describe() {
    local variant id
    for variant in "${variants[@]}"; do
        # shellcheck disable=SC2086
        id=$(submit --hold $variant "$plain") || { echo "$id"; continue; }
        echo "--- $variant"
        scontrol show job "$id" | sed -E "s/=$id\b/=ID/g; s/slurm-$id/slurm-ID/; s/(Time|Eval|Start|End|Line)=[^ ]*/\1=/g; s/(ArrayJobId|StartTime)=[^ ]*//; s/AllocNode:Sid=[^ ]*//"
        environment "$id" | grep -aE '^[A-Z_]+=' | grep -av '^SLURM_SUBMIT_HOST' | sort
        scancel "$id"
    done
}
describe >with
sed -i 's/^JobSubmitPlugins/#&/' "$cluster_dir/slurm.conf"
scontrol reconfigure
describe >without
sed -i 's/^#JobSubmitPlugins/JobSubmitPlugins/' "$cluster_dir/slurm.conf"
scontrol reconfigure
is "$(grep -c '^---' with)" "${#variants[@]}" "ordinary jobs of ${#variants[@]} kinds are taken"
ok "and are the same with and without job_submit/arena" diff without with

# ---- updates of a held job ------------------------------------------------------------------------------
# shellcheck disable=SC2317  # called by ok
is_held() { [[ $(job_state "$job") == PENDING && $(job_field "$job" Priority) == 0 ]]; }
ok "a release is accepted" scontrol release "$job"
ok "and the job stays held" is_held
like "$(job_reason "$job")" 'Arena' "and waits for Arena"
ok "a hold is accepted" scontrol hold "$job"
if ((EUID == 0)); then wanted=JobHeldAdmin; else wanted=JobHeldUser; fi
is "$(job_reason "$job")" $wanted "and shows whose it is"
ok "a user hold is accepted" scontrol uhold "$job"
is "$(job_reason "$job")" JobHeldUser "and shows as the user's"
not_ok "a priority does not start it" scontrol update JobId="$job" Priority=1000
ok "and it stays held" is_held
for change in NumNodes=2 NumTasks=4 NumCPUs=4 Gres=gpu:2 ReqNodeList=n1 MinCPUsNode=2; do
    not_ok "$change is refused" scontrol update JobId="$job" $change
done
is "$(job_field "$job" NumNodes) $(job_field "$job" NumTasks)" "1-1 1" "and changes nothing"
for change in TimeLimit=7 Name=renamed Comment=arena:plan=pp2,dp1,tp2 Nice=3 ExcNodeList=n2 StartTime=now+60 Dependency=singleton; do
    ok "$change is accepted" scontrol update JobId="$job" $change
    ok "and the job stays held after $change" is_held
done
is "$(job_field "$job" TimeLimit) $(job_field "$job" JobName) $(job_field "$job" Nice)" "00:07:00 renamed 3" \
    "and all take effect"
if ((EUID == 0)); then
    mine=$(runuser -u nobody -- env SLURM_CONF="$SLURM_CONF" sbatch --parsable -o /dev/null --arena-model=gpt2 --arena-launcher=env --arena-batch=1030 "$plain")
    # shellcheck disable=SC2317  # called by ok
    as_nobody() { runuser -u nobody -- env SLURM_CONF="$SLURM_CONF" scontrol "$@"; }
    ok "a user releases an own job" as_nobody release "$mine"
    is "$(job_state "$mine") $(job_field "$mine" Priority)" "PENDING 0" "and it stays held"
    ok "an administrator holds it" scontrol hold "$mine"
    not_ok "the user cannot release that hold" as_nobody release "$mine"
    is "$(job_reason "$mine")" JobHeldAdmin "and it stays an administrator's"
    ok "the administrator can" scontrol release "$mine"
    like "$(job_reason "$mine")" 'Arena' "and it waits for Arena again"
    not_ok "a user cannot release another's job" as_nobody release "$job"
    is "$(job_reason "$job")" JobHeldUser "and changes nothing by trying"
    ok "a user cancels an own job" runuser -u nobody -- env SLURM_CONF="$SLURM_CONF" scancel "$mine"
else
    skip 10 "needs root, who can act for two users"
fi
scontrol release "$job"
ok "slurmctld saves the jobs" wait_saved
ok "slurmctld is killed and started again" cluster ctld restart
ok "every node answers again" cluster wait
ok "the job is held after that too" is_held
ok "a job can be cancelled" scancel "$job"
is "$(job_state "$job")" CANCELLED "and is"
scancel "$held"
done_testing
