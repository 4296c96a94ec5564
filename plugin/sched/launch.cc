// SPDX-License-Identifier: GPL-2.0-or-later
// See launch.h. Launcher flags are a table: a new launcher is one row and a golden test.
#include "plugin/sched/launch.h"

#include <fmt/format.h>

#include "core/text.h"

namespace arena {
namespace {

enum class Spawn { per_gpu, per_node };

/// Templates take {pp} {dp} {tp} {mb} {nmb} {batch}; sp and zero flags follow when the plan has them.
struct Launcher {
    std::string_view name;
    Spawn spawn;
    std::string_view flags;
    std::string_view sequence_parallel;
    std::string_view optimizer_sharding;
    std::string_view full_recompute, selective_recompute;
};

constexpr std::string_view megatron_flags =
    "--tensor-model-parallel-size {tp} --pipeline-model-parallel-size {pp} --micro-batch-size {mb} "
    "--global-batch-size {batch}";

constexpr Launcher launchers[] = {
    {"env", Spawn::per_gpu, "", "", "", "", ""},
    {"torchrun", Spawn::per_node, "", "", "", "", ""},
    // Megatron-LM core 0.5 and newer
    {"megatron", Spawn::per_gpu, megatron_flags, "--sequence-parallel", "--use-distributed-optimizer",
     "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
     "--recompute-granularity selective"},
    // Megatron-DeepSpeed; ZeRO comes from --zero-stage
    {"deepspeed", Spawn::per_gpu, megatron_flags, "", "--zero-stage 1",
     "--deepspeed-activation-checkpointing --checkpoint-activations", ""},
    // NeMo 2 launcher overrides
    {"nemo", Spawn::per_gpu,
     "strategy.tensor_model_parallel_size={tp} strategy.pipeline_model_parallel_size={pp} "
     "data.micro_batch_size={mb} data.global_batch_size={batch}",
     "strategy.sequence_parallel=true", "", "", ""},
    {"torchtitan", Spawn::per_node,
     "--parallelism.tensor_parallel_degree {tp} --parallelism.pipeline_parallel_degree {pp} "
     "--parallelism.data_parallel_replicate_degree {dp}",
     "", "", "", ""},
};

const Launcher& find_launcher(std::string_view name) {
    for (const Launcher& launcher : launchers)
        if (launcher.name == name) return launcher;
    return launchers[0];
}

std::string stage_layers(const Plan& plan) {
    std::vector<std::string> parts;
    for (std::int64_t layers : plan.stage_layers) parts.push_back(std::to_string(layers));
    return join(parts, ",");
}

/// Three digits are more than an estimate is worth; never an exponent.
std::string seconds(double value) {
    return fmt::format("{:.{}f}s", value, value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 4);
}

void append(std::string& text, std::string_view part) {
    if (part.empty()) return;
    if (!text.empty()) text += ' ';
    text += part;
}

}  // namespace

std::string launcher_arguments(const std::string& name, const Request& request, const Plan& plan) {
    const Launcher& launcher = find_launcher(name);
    if (launcher.flags.empty()) return {};
    std::string text = fmt::format(
        fmt::runtime(launcher.flags), fmt::arg("pp", plan.pp()), fmt::arg("dp", plan.dp()),
        fmt::arg("tp", plan.tp()), fmt::arg("mb", plan.micro_batch),
        fmt::arg("nmb", plan.num_micro_batches), fmt::arg("batch", request.global_batch));
    if (plan.sequence_parallel) append(text, launcher.sequence_parallel);
    if (plan.zero_stage > 0) append(text, launcher.optimizer_sharding);
    if (plan.recompute == Recompute::full) append(text, launcher.full_recompute);
    if (plan.recompute == Recompute::selective) append(text, launcher.selective_recompute);
    return text;
}

std::int64_t tasks_per_node(const std::string& name, const Grid& grid) {
    return find_launcher(name).spawn == Spawn::per_node ? 1 : grid.gpus_per_node;
}

std::vector<std::string> launch_environment(const Request& request, const Offer& offer) {
    const Plan& plan = offer.plan;
    std::vector<std::string> environment{
        fmt::format("ARENA_PP={}", plan.pp()),
        fmt::format("ARENA_DP={}", plan.dp()),
        fmt::format("ARENA_TP={}", plan.tp()),
        fmt::format("ARENA_MICRO_BATCH={}", plan.micro_batch),
        fmt::format("ARENA_NUM_MICRO_BATCHES={}", plan.num_micro_batches),
        fmt::format("ARENA_GLOBAL_BATCH={}", request.global_batch),
        fmt::format("ARENA_STAGE_LAYERS={}", stage_layers(plan)),
        fmt::format("ARENA_RECOMPUTE={}", to_string(plan.recompute)),
        fmt::format("ARENA_GPU_TYPE={}", offer.grid.gpu_type),
        fmt::format("ARENA_PLAN={}", to_json(offer)),
    };
    if (std::string arguments = launcher_arguments(request.launcher, request, plan); !arguments.empty())
        environment.push_back("ARENA_ARGS=" + arguments);
    return environment;
}

std::string admin_comment(std::string_view state, const Offer& offer) {
    return fmt::format("arena:v1 state={} grid={} plan={} est={} source={}", state,
                       short_form(offer.grid), short_form(offer.plan),
                       seconds(offer.estimate.iteration_s), to_string(offer.estimate.source));
}

std::string system_comment(const std::vector<Offer>& offers) {
    std::string text = "arena offers:";
    for (const Offer& offer : offers) {
        const std::string part =
            fmt::format(" {} {} {} {};", short_form(offer.grid), short_form(offer.plan),
                        seconds(offer.estimate.iteration_s), to_string(offer.estimate.source));
        if (text.size() + part.size() > 1024) break;
        text += part;
    }
    return text;
}

}  // namespace arena
