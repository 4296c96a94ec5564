// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/search/shard_parts.h"

#include <algorithm>

#include "base/statistics.h"

namespace arena {

namespace {

constexpr std::int64_t steps_of_a_cut = 10;  ///< a step is one of the program's

}  // namespace

ShardParts::ShardParts(const PoolContext& context, const Topology& topology, const Shard& shard,
                       const PlanChoice& choice, PartBuffers& buffers)
    : context_(context),
      shard_(shard),
      choice_(choice),
      iteration_(context, topology, shard, choice),
      buffers_(buffers) {
    const auto stages = static_cast<std::size_t>(choice.stages);
    const auto sizes = static_cast<std::size_t>(context.model.layers) + 1;
    ++buffers_.candidate;
    if (remembers_parts() && buffers_.parts.size() < stages * sizes)
        buffers_.parts.resize(stages * sizes);
    buffers_.extra_s.assign(stages + 1, 0);
    for (std::size_t i = stages; i-- > 0;) {
        const double extra_s =
            below_bounds * iteration_.least_extra_s(static_cast<std::int64_t>(i));
        buffers_.extra_s[i] = buffers_.extra_s[i + 1] + extra_s;
        if (i + 1 == stages)
            last_s_ = below_bounds * shard.least_layer_s(choice.recompute) + extra_s;
        else
            least_extra_s_ = std::min(least_extra_s_, extra_s);
    }
    buffers_.rest_s.resize(sizes);
    layer_s_ = below_bounds * iteration_.least_layers_s({0, 1});
    for (std::size_t i = 0; i < sizes; ++i) {
        const LayerRange rest{static_cast<std::int64_t>(i), context.model.layers};
        buffers_.rest_s[i] = shard.is_homogeneous()
                                 ? real(rest.size()) * layer_s_
                                 : below_bounds * iteration_.least_layers_s(rest);
    }
}

StagePart ShardParts::part(std::int64_t stage, std::int64_t begin, std::int64_t end) const {
    if (!remembers_parts()) return iteration_.part(stage, {begin, end});
    const std::int64_t sizes = context_.model.layers + 1;
    PartBuffers::Part& known =
        buffers_.parts[static_cast<std::size_t>(stage * sizes + end - begin)];
    if (known.candidate != buffers_.candidate)
        known = {iteration_.part(stage, {begin, end}), buffers_.candidate};
    return known.part;
}

double ShardParts::rest_s(std::int64_t stage, std::int64_t begin) const {
    return buffers_.rest_s[static_cast<std::size_t>(begin)] +
           buffers_.extra_s[static_cast<std::size_t>(stage)];
}

double ShardParts::longest_s(std::int64_t stage, std::int64_t begin) const {
    if (shard_.is_homogeneous()) return longest_homogeneous_s(stage, context_.model.layers - begin);
    return buffers_.longest_s.empty() ? 0 : longest(stage, begin);
}

/// Stages with the least extra, and the last one, which may have more: either some stage has one
/// layer more than the mean, or the last one has what the others leave.
double ShardParts::longest_homogeneous_s(std::int64_t stage, std::int64_t layers) const {
    const std::int64_t others = choice_.stages - stage - 1;
    const auto extra_s = [&](std::int64_t i) {
        return buffers_.extra_s[static_cast<std::size_t>(i)] -
               buffers_.extra_s[static_cast<std::size_t>(i) + 1];
    };
    const double last_s = extra_s(choice_.stages - 1);
    if (others == 0) return real(layers) * layer_s_ + last_s;
    const double least_s = std::min(least_extra_s_, last_s);
    const std::int64_t mean = (layers + others) / (others + 1), left = layers - others * mean;
    const double even_s = real(mean) * layer_s_ + least_s;
    const double left_s = real(left) * layer_s_ + last_s;
    const double longest_s = left_s <= even_s ? even_s : std::min(left_s, even_s + layer_s_);
    return std::max(longest_s, last_s_);
}

/// From the last stage to the first: a stage that takes more layers is longer and those after it
/// are shorter, so the best cut is where they meet.
void ShardParts::find_longest(PlanBudget& budget) {
    const std::int64_t stages = choice_.stages, layers = context_.model.layers;
    buffers_.longest_s.assign(static_cast<std::size_t>(stages * (layers + 1)), 0);
    for (std::int64_t stage = stages - 1; stage >= 0; --stage)
        for (std::int64_t begin = stage; begin <= layers - (stages - stage); ++begin) {
            if (budget.poll(steps_of_a_cut)) return forget_longest();
            longest(stage, begin) = best_cut_s(stage, begin);
        }
}

PartitionProblem ShardParts::problem(LayerSplit split) const {
    return {.layers = context_.model.layers,
            .stages = choice_.stages,
            .micro_batches = choice_.micro_batches,
            .fixed_s = iteration_.fixed_s(),
            .ends_s = below_bounds * iteration_.least_ends_s(),
            .bytes = real(context_.pool.hardware.memory_bytes),
            .split = split};
}

double& ShardParts::longest(std::int64_t stage, std::int64_t begin) const {
    const std::int64_t sizes = context_.model.layers + 1;
    return buffers_.longest_s[static_cast<std::size_t>(stage * sizes + begin)];
}

/// The longest stage from `stage` on for the best end of that one.
double ShardParts::best_cut_s(std::int64_t stage, std::int64_t begin) const {
    const std::int64_t after = choice_.stages - stage - 1, layers = context_.model.layers;
    const auto i = static_cast<std::size_t>(stage);
    const double extra = buffers_.extra_s[i] - buffers_.extra_s[i + 1];
    const auto own_s = [&](std::int64_t end) {
        return below_bounds * iteration_.least_layers_s({begin, end}) + extra;
    };
    if (after == 0) return own_s(layers);
    std::int64_t shorter = begin, longer = layers - after;  // than what is after it; at least
    while (longer - shorter > 1) {
        const std::int64_t middle = (shorter + longer) / 2;
        (own_s(middle) < longest(stage + 1, middle) ? shorter : longer) = middle;
    }
    const double cut = std::max(own_s(longer), longest(stage + 1, longer));
    return shorter > begin ? std::min(cut, longest(stage + 1, shorter)) : cut;
}

}  // namespace arena
