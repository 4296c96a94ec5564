#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Nothing fakes: two shipped models get different best plans on the same four GPUs, and which ones was
# declared here before the run. An emulated GPU has 4 GiB: gpt2's logits and states do not fit with pure
# data parallelism, so its plan must split the model; llama-tiny fits whole, and splitting only costs.
# Without profiles, so that the machine's load of the moment decides nothing.
. "${ARENA_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
. "${ARENA_SRCDIR:-.}/tests/lib/cluster.sh"
need_arena

declared_gpt2='plan=pp1,dp2,tp2,'
declared_llama_tiny='plan=pp1,dp4,tp1,'

start_cluster --arena on --nodes a40:2x4 --profile off
report=$(script 'srun sh -c "echo \$SLURM_NTASKS \$ARENA_PP \$ARENA_DP \$ARENA_TP \$CUDA_VISIBLE_DEVICES"')
declare -A job
for model in gpt2.json llama-tiny.yaml; do
    job[$model]=$(submit --arena-model="$stage/share/slurm-arena/models/$model" --arena-batch=16 --arena-gpus=4-4 --arena-launcher=env \
        -o "$work/$model.out" "$report")
done
for model in gpt2.json llama-tiny.yaml; do
    ok "the $model job completes" wait_for_state "${job[$model]}" COMPLETED 60
    is "$(sort -u "$work/$model.out" | wc -l)" 1 "all ranks of $model see the same plan and devices"
    read -r tasks pp dp tp devices <"$work/$model.out"
    is "$tasks" $((pp * dp * tp)) "$model: the world size is pp x dp x tp"
    is "$devices" 0,1,2,3 "$model: each rank sees the four GPUs of its node"
    like "$(job_field "${job[$model]}" AdminComment)" "plan=pp$pp,dp$dp,tp$tp," "$model: slurmctld says the same plan"
done
like "$(job_field "${job[gpt2.json]}" AdminComment)" "$declared_gpt2" "gpt2 is split, as declared"
like "$(job_field "${job[llama-tiny.yaml]}" AdminComment)" "$declared_llama_tiny" "llama-tiny is replicated, as declared"
done_testing
