// SPDX-License-Identifier: GPL-2.0-or-later
// See launch.h. The words of each launcher are in core/launchers.cc.
#include "plugin/sched/launch.h"

#include <fmt/format.h>

#include "core/launchers.h"
#include "core/text.h"

namespace arena {
namespace {

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
    const Launcher* launcher = find_launcher(name);
    if (launcher == nullptr || launcher->flags.empty()) return {};
    std::string words;
    append(words, launcher->flags);
    if (plan.sequence_parallel) append(words, launcher->sequence_parallel);
    append(words, plan.zero_stage > 0 ? launcher->zero : launcher->unsharded);
    if (plan.recompute == Recompute::full) append(words, launcher->full);
    if (plan.recompute == Recompute::selective) append(words, launcher->selective);
    if (plan.vpp > 1) append(words, launcher->vpp);
    if (plan.cp > 1) append(words, launcher->cp);
    if (plan.ep > 1) append(words, launcher->ep);
    if (!expresses(LayerSplit::even, plan.stage_layers)) append(words, launcher->ends);
    return fmt::format(
        fmt::runtime(words), fmt::arg("pp", plan.pp()), fmt::arg("dp", plan.dp()),
        fmt::arg("tp", plan.tp()), fmt::arg("mb", plan.micro_batch),
        fmt::arg("nmb", plan.num_micro_batches), fmt::arg("batch", request.global_batch),
        fmt::arg("vpp", plan.vpp), fmt::arg("chunk", plan.stage_layers.front() / plan.vpp),
        fmt::arg("cp", plan.cp), fmt::arg("ep", plan.ep), fmt::arg("zero", plan.zero_stage),
        fmt::arg("first", plan.stage_layers.front()), fmt::arg("last", plan.stage_layers.back()));
}

std::int64_t tasks_per_node(const std::string& name, const Grid& grid) {
    const Launcher* launcher = find_launcher(name);
    return launcher != nullptr && launcher->one_task_per_node ? 1 : grid.gpus_per_node;
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
        fmt::format("ARENA_ZERO_STAGE={}", plan.zero_stage),
        fmt::format("ARENA_SEQUENCE_PARALLEL={}", plan.sequence_parallel ? 1 : 0),
        fmt::format("ARENA_VPP={}", plan.vpp),
        fmt::format("ARENA_CP={}", plan.cp),
        fmt::format("ARENA_EP={}", plan.ep),
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

std::string system_comment(const std::vector<Offer>& offers, std::string_view unmeasured) {
    constexpr std::size_t longest = 1024, longest_note = 400;
    std::string note;
    if (!unmeasured.empty()) note = fmt::format(" not measured: {}", unmeasured.substr(0, longest_note));
    std::string text = "arena offers:";
    for (const Offer& offer : offers) {
        const std::string part =
            fmt::format(" {} {} {} {};", short_form(offer.grid), short_form(offer.plan),
                        seconds(offer.estimate.iteration_s), to_string(offer.estimate.source));
        if (text.size() + part.size() + note.size() > longest) break;
        text += part;
    }
    return text + note;
}

}  // namespace arena
