// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "core/limits.h"
#include "core/offer.h"
#include "request/launchers.h"

namespace arena::train {
namespace {

std::string joined(const std::vector<Index>& values) {
    std::vector<std::string> words;
    for (const Index value : values) words.push_back(std::to_string(value));
    return arena::join(words, ",");
}

Result<std::vector<Index>> read_stage_layers(const std::string& text) {
    std::vector<Index> layers;
    for (const std::string_view word : split(text, ',')) {
        const auto count = parse_integer(word, 1, limits::gpus);
        if (!count)
            return usage_error(
                fmt::format("\"{}\" is no list of layers per stage, such as 5,7", printable(text)),
                "--stage-layers");
        layers.push_back(*count);
    }
    return layers;
}

Result<Recompute> read_recompute(const std::string& text) {
    if (text.empty()) return Recompute::none;
    if (const auto known = parse_recompute(text)) return *known;
    return usage_error(fmt::format("\"{}\" is not one of none, selective, full", printable(text)),
                       "--recompute");
}

std::vector<Index> even_stages(Index layers, Index stages) {
    std::vector<Index> counts;
    for (Index stage = 0; stage < stages; ++stage)
        counts.push_back(share(layers, stages, stage).size());
    return counts;
}

Error misfit(std::string text) { return usage_error(std::move(text), "plan"); }

}  // namespace

bool PlanFlags::any() const {
    return pp != 0 || dp != 0 || tp != 0 || micro_batch != 0 || !stage_layers.empty() ||
           !recompute.empty() || zero >= 0;
}

Result<std::optional<TrainPlan>> plan_of_environment(const Environment& environment) {
    const auto text = environment("ARENA_PLAN");
    if (!text) return std::optional<TrainPlan>{};
    const auto offer = parse_offer_json(*text);
    if (!offer) return usage_error(offer.error().message(), "ARENA_PLAN");
    const Plan& plan = offer->plan;
    const std::string foreign = inexpressible(capabilities_of("arena-train"), Model{}, plan);
    if (!foreign.empty())
        return usage_error(
            fmt::format(
                "has {}, which arena-train cannot run; submit with --arena-launcher=arena-train",
                foreign),
            "ARENA_PLAN");
    return std::optional<TrainPlan>{
        {.layout = {plan.pp(), plan.dp(), plan.tp()},
         .stage_layers = plan.stage_layers,
         .micro_batch = plan.micro_batch,
         .micro_batches = std::vector<Index>(at(plan.dp()), plan.num_micro_batches),
         .recompute = plan.recompute,
         .zero_stage = plan.zero_stage}};
}

Result<TrainPlan> plan_of_flags(const PlanFlags& flags, const GptShape& shape, Index global_batch,
                                Index ranks) {
    TrainPlan plan;
    plan.layout.pp = std::max<Index>(flags.pp, 1);
    plan.layout.tp = std::max<Index>(flags.tp, 1);
    plan.layout.dp =
        flags.dp != 0 ? flags.dp : std::max<Index>(ranks / (plan.layout.pp * plan.layout.tp), 1);
    plan.micro_batch = std::max<Index>(flags.micro_batch, 1);
    plan.micro_batches.assign(at(plan.layout.dp),
                              global_batch / (plan.micro_batch * plan.layout.dp));
    plan.zero_stage = std::max<Index>(flags.zero, 0);
    plan.stage_layers = even_stages(shape.layers, plan.layout.pp);
    if (!flags.stage_layers.empty()) {
        auto layers = read_stage_layers(flags.stage_layers);
        if (!layers) return layers.error();
        plan.stage_layers = std::move(*layers);
    }
    const auto recompute = read_recompute(flags.recompute);
    if (!recompute) return recompute.error();
    plan.recompute = *recompute;
    return plan;
}

Status check_plan(const TrainPlan& plan, const GptShape& shape, Index global_batch, Index ranks) {
    const RankLayout& l = plan.layout;
    if (l.size() != ranks)
        return misfit(
            fmt::format("pp{} x dp{} x tp{} takes {} ranks, but this run has {}; under Slurm start "
                        "it with srun --mpi=pmix, by hand with --ranks={} or mpirun -n {}",
                        l.pp, l.dp, l.tp, l.size(), ranks, l.size(), l.size()));
    if (static_cast<Index>(plan.stage_layers.size()) != l.pp)
        return misfit(fmt::format("{} stages, but layers for {} ({})", l.pp,
                                  plan.stage_layers.size(), joined(plan.stage_layers)));
    const Index layers =
        std::accumulate(plan.stage_layers.begin(), plan.stage_layers.end(), Index{0});
    if (layers != shape.layers ||
        std::ranges::any_of(plan.stage_layers, [](Index n) { return n < 1; }))
        return misfit(fmt::format("stages of {} layers; the model has {}, and each stage needs one",
                                  joined(plan.stage_layers), shape.layers));
    if (shape.heads % l.tp != 0 || shape.ffn % l.tp != 0 || shape.vocab < l.tp)
        return misfit(
            fmt::format("tensor parallelism of {} does not divide {} heads and {} MLP columns",
                        l.tp, shape.heads, shape.ffn));
    if (plan.global_batch() != global_batch)
        return misfit(
            fmt::format("micro-batch {} x {} micro-batches x dp{} is not the global batch of {}",
                        plan.micro_batch, plan.micro_batches.front(), l.dp, global_batch));
    if (plan.zero_stage > 1)
        return misfit(fmt::format("ZeRO stage {}; arena-train knows 0 and 1", plan.zero_stage));
    return Done{};
}

std::string describe(const TrainPlan& plan) {
    std::string text = fmt::format("pp{},dp{},tp{},mb{}x{}", plan.layout.pp, plan.layout.dp,
                                   plan.layout.tp, plan.micro_batch, plan.micro_batches.front());
    if (plan.recompute != Recompute::none) text += fmt::format(",{}", to_string(plan.recompute));
    if (plan.zero_stage != 0) text += fmt::format(",zero{}", plan.zero_stage);
    if (plan.layout.pp > 1) text += fmt::format(", stages of {} layers", joined(plan.stage_layers));
    return text;
}

}  // namespace arena::train
