// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/launchers.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "core/text.h"

namespace arena {
namespace {

// A script of the user's own reads ARENA_* variables. It can be asked for any pinned degree; left
// alone, it gets no plan that a script which knows pp, dp, tp and micro-batches would run wrongly.
constexpr Capabilities variables{.convolutions = Degree::pinned};

constexpr Capabilities megatron_can{.layers = LayerSplit::ends,
                                    .vpp = Degree::free,
                                    .cp = Degree::pinned,
                                    .ep = Degree::free};
// Its pipeline engine refuses ZeRO 2 and 3, and has neither interleaving nor selective recompute.
constexpr Capabilities deepspeed_can{.layers = LayerSplit::even,
                                     .vpp = Degree::no,
                                     .cp = Degree::no,
                                     .ep = Degree::no,
                                     .selective = false,
                                     .zero = 0b1111,
                                     .sequence_parallel = false};
constexpr Capabilities nemo_can{.layers = LayerSplit::even,
                                .vpp = Degree::free,
                                .cp = Degree::pinned,
                                .ep = Degree::free};
// Replicas (ZeRO 0) or FSDP; sequence parallelism comes with tensor parallelism. Its selective
// recompute is another one than ours.
constexpr Capabilities torchtitan_can{.layers = LayerSplit::even,
                                      .vpp = Degree::no,
                                      .cp = Degree::pinned,
                                      .ep = Degree::free,
                                      .selective = false,
                                      .zero = 0b1001,
                                      .zero_pipeline = 0b0001};

// Our own trainer: any deal of the layers, ZeRO 1 with and without a pipeline, none of the rest.
constexpr Capabilities arena_train_can{.layers = LayerSplit::any,
                                       .vpp = Degree::no,
                                       .cp = Degree::no,
                                       .ep = Degree::no,
                                       .sequence_parallel = false};

constexpr std::string_view megatron_flags =
    "--tensor-model-parallel-size {tp} --pipeline-model-parallel-size {pp} --micro-batch-size {mb} "
    "--global-batch-size {batch}";

constexpr Launcher table[] = {
    {"env", false, variables, "", "", "", "", "", "", "", "", "", ""},
    {"torchrun", true, variables, "", "", "", "", "", "", "", "", "", ""},
    {"arena-train", false, arena_train_can, "", "", "", "", "", "", "", "", "", ""},
    // Megatron-LM core 0.9 and newer; experts whole on their rank, as the planner prices them
    {"megatron", false, megatron_can, megatron_flags, "--sequence-parallel", "",
     "--use-distributed-optimizer",
     "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
     "--recompute-granularity selective", "--num-layers-per-virtual-pipeline-stage {chunk}",
     "--context-parallel-size {cp}", "--expert-model-parallel-size {ep} --expert-tensor-parallel-size 1",
     "--decoder-first-pipeline-num-layers {first} --decoder-last-pipeline-num-layers {last}"},
    // Megatron-DeepSpeed
    {"deepspeed", false, deepspeed_can, megatron_flags, "", "--zero-stage 0", "--zero-stage {zero}",
     "--deepspeed-activation-checkpointing --checkpoint-activations", "", "", "", "", ""},
    // NeMo 2: overrides of a recipe
    {"nemo", false, nemo_can,
     "trainer.strategy.tensor_model_parallel_size={tp} "
     "trainer.strategy.pipeline_model_parallel_size={pp} "
     "data.micro_batch_size={mb} data.global_batch_size={batch}",
     "trainer.strategy.sequence_parallel=true", "", "optim.config.use_distributed_optimizer=true",
     "model.config.recompute_granularity=full model.config.recompute_method=uniform "
     "model.config.recompute_num_layers=1",
     "model.config.recompute_granularity=selective",
     "trainer.strategy.virtual_pipeline_model_parallel_size={vpp}",
     "trainer.strategy.context_parallel_size={cp}",
     "trainer.strategy.expert_model_parallel_size={ep} "
     "trainer.strategy.expert_tensor_parallel_size=1",
     ""},
    // torchtitan 0.2; `zero` turns the replicas into FSDP shards
    {"torchtitan", true, torchtitan_can,
     "--parallelism.tensor_parallel_degree {tp} --parallelism.pipeline_parallel_degree {pp}", "",
     "--parallelism.data_parallel_replicate_degree {dp} --parallelism.data_parallel_shard_degree 1",
     "--parallelism.data_parallel_replicate_degree 1 --parallelism.data_parallel_shard_degree {dp}",
     "--activation_checkpoint.mode full", "", "", "--parallelism.context_parallel_degree {cp}",
     "--parallelism.expert_parallel_degree {ep}", ""},
};

bool allows(Degree degree, std::int64_t value) { return value == 1 || degree != Degree::no; }

std::string join(std::span<const std::int64_t> values) {
    std::string text;
    for (const std::int64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
    return text;
}

bool all_equal(std::span<const std::int64_t> values) {
    return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v == values.front(); });
}

}  // namespace

Capabilities all_capabilities() {
    return {.layers = LayerSplit::any,
            .mixed_stages = true,
            .vpp = Degree::free,
            .cp = Degree::free,
            .ep = Degree::free,
            .convolutions = Degree::free,
            .selective = true,
            .full = true,
            .zero = 0b1111,
            .zero_pipeline = 0b0011,
            .sequence_parallel = true};
}

bool expresses(LayerSplit split, std::span<const std::int64_t> layers) {
    if (split == LayerSplit::any || layers.size() <= 1) return true;
    if (split == LayerSplit::even) return all_equal(layers);
    return all_equal(layers.size() > 2 ? layers.subspan(1, layers.size() - 2) : layers.first(1));
}

std::string inexpressible(const Capabilities& can, const Plan& plan) {
    const bool interleaved = plan.vpp > 1;
    if (!can.mixed_stages && !(all_equal(plan.stage_dp) && all_equal(plan.stage_tp)))
        return "stages that differ in dp or tp";
    if (!expresses(interleaved ? LayerSplit::even : can.layers, plan.stage_layers))
        return "stages of " + join(plan.stage_layers) + " layers";
    if (plan.recompute == Recompute::full && !can.full) return "full recompute";
    if (plan.recompute == Recompute::selective && !can.selective) return "selective recompute";
    const std::tuple<const char*, Degree, std::int64_t> degrees[] = {
        {"vpp", can.vpp, plan.vpp}, {"cp", can.cp, plan.cp}, {"ep", can.ep, plan.ep}};
    for (const auto& [name, degree, value] : degrees)
        if (!allows(degree, value)) return name + std::to_string(value);
    if (!can.has_zero(plan.zero_stage, plan.pp()))
        return "ZeRO " + std::to_string(plan.zero_stage) + (plan.pp() > 1 ? " with pipeline stages" : "");
    if (!can.sequence_parallel && plan.sequence_parallel) return "sequence parallelism";
    return {};
}

std::string inexpressible(const Capabilities& can, const Model& model, const Plan& plan) {
    if (model.family == Family::wide_resnet)
        for (const std::int64_t tp : plan.stage_tp)
            if (!allows(can.convolutions, tp))
                return "convolutions split by tp" + std::to_string(tp);
    return inexpressible(can, plan);
}

bool expresses(const Capabilities& can, const Plan& plan) { return inexpressible(can, plan).empty(); }

std::span<const Launcher> launchers() { return table; }

const Launcher* find_launcher(std::string_view name) {
    const auto at = std::find_if(std::begin(table), std::end(table),
                                 [&](const Launcher& launcher) { return launcher.name == name; });
    return at == std::end(table) ? nullptr : at;
}

std::string launcher_names() {
    std::vector<std::string> names;
    for (const Launcher& launcher : table) names.emplace_back(launcher.name);
    return arena::join(names, ", ");
}

}  // namespace arena
