// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/partition.h"

#include <algorithm>

namespace arena {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Nothing of `a` is worse than of `b`.
template <typename Label>
bool dominates(const Label& a, const Label& b) {
    return a.sum_s <= b.sum_s && a.pass_s <= b.pass_s && a.exchange_s <= b.exchange_s &&
           a.step_s <= b.step_s && a.host_s <= b.host_s;
}

}  // namespace

double iteration_seconds(const PartitionProblem& problem, const StageParts& parts,
                         std::span<const std::int64_t> stage_layers) {
    double sum = 0, pass = 0, exchange = 0, step = 0, host = 0;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < stage_layers.size(); ++i) {
        const StagePart part =
            parts.part(static_cast<std::int64_t>(i), begin, begin + stage_layers[i]);
        if (part.bytes > problem.bytes) return infinity;
        begin += stage_layers[i];
        sum += part.pass_s;
        pass = std::max(pass, part.pass_s);
        exchange = std::max(exchange, part.exchange_s);
        step = std::max(step, part.step_s);
        host = std::max(host, part.host_s);
    }
    return sum + problem.pass_weight * pass + exchange + step + host + problem.fixed_s;
}

bool PartitionSolver::solve(const PartitionProblem& problem, const StageParts& parts,
                            double limit_s, std::vector<std::int64_t>& stage_layers) {
    if (problem.stages < 1 || problem.layers < problem.stages) return false;
    return problem.split == LayerSplit::any || problem.stages == 1
               ? solve_any(problem, parts, limit_s, stage_layers)
               : solve_even(problem, parts, limit_s, stage_layers);
}

/// Even stages, or all first and last stages around an even middle: few enough to try.
bool PartitionSolver::solve_even(const PartitionProblem& problem, const StageParts& parts,
                                 double limit_s, std::vector<std::int64_t>& stage_layers) {
    const std::int64_t stages = problem.stages, layers = problem.layers, inner = stages - 2;
    bool found = false;
    const auto attempt = [&](std::int64_t first, std::int64_t middle, std::int64_t last) {
        trial_.assign(static_cast<std::size_t>(stages), middle);
        trial_.front() = first;
        trial_.back() = last;
        const double seconds = iteration_seconds(problem, parts, trial_);
        if (seconds >= limit_s) return;
        limit_s = seconds;
        stage_layers = trial_;
        found = true;
    };
    if (problem.split == LayerSplit::even) {
        const std::int64_t each = layers / stages;
        if (layers % stages == 0) attempt(each, each, each);
        return found;
    }
    for (std::int64_t middle = 1; middle * inner <= layers - 2; ++middle) {
        const std::int64_t ends = layers - middle * inner;
        for (std::int64_t first = 1; first < ends; ++first) attempt(first, middle, ends - first);
        if (inner == 0) break;
    }
    return found;
}

/// Appends the children of a label: stage `stage` takes one layer more each time, until it alone is
/// too slow or too large.
void PartitionSolver::extend(const PartitionProblem& problem, const StageParts& parts,
                             std::int64_t stage, std::uint32_t from, double limit_s) {
    const Label parent = labels_[from];
    const std::int64_t after = problem.stages - stage - 1;
    const std::int64_t most = problem.layers - after;
    for (std::int64_t end = after == 0 ? most : parent.used + 1; end <= most; ++end) {
        const StagePart part = parts.part(stage, parent.used, end);
        Label child{end,
                    parent.sum_s + part.pass_s,
                    std::max(parent.pass_s, part.pass_s),
                    std::max(parent.exchange_s, part.exchange_s),
                    std::max(parent.step_s, part.step_s),
                    std::max(parent.host_s, part.host_s),
                    from};
        const double rest = after == 0 ? 0 : parts.rest_s(end);
        if (part.bytes > problem.bytes) break;
        if (child.sum_s + rest + problem.pass_weight * child.pass_s + problem.fixed_s >= limit_s) {
            if (parts.is_monotone()) break;
            continue;
        }
        const double slowest =
            after == 0 ? child.pass_s : std::max(child.pass_s, rest / static_cast<double>(after));
        const double least = child.sum_s + rest + problem.pass_weight * slowest + child.exchange_s +
                             child.step_s + child.host_s + problem.fixed_s;
        if (least < limit_s) labels_.push_back(child);
    }
}

/// Of the labels from `begin` on that have used the same layers, keeps those that nothing beats.
void PartitionSolver::keep_best(std::size_t begin) {
    const auto first = labels_.begin() + static_cast<std::ptrdiff_t>(begin);
    std::stable_sort(first, labels_.end(), [](const Label& a, const Label& b) {
        return a.used != b.used ? a.used < b.used : a.pass_s < b.pass_s;
    });
    std::size_t kept = begin, group = begin;
    for (std::size_t i = begin; i < labels_.size(); ++i) {
        if (kept > group && labels_[group].used != labels_[i].used) group = kept;
        const bool beaten =
            std::any_of(labels_.begin() + static_cast<std::ptrdiff_t>(group),
                        labels_.begin() + static_cast<std::ptrdiff_t>(kept),
                        [&](const Label& other) { return dominates(other, labels_[i]); });
        if (!beaten) labels_[kept++] = labels_[i];
    }
    labels_.resize(kept);
}

bool PartitionSolver::solve_any(const PartitionProblem& problem, const StageParts& parts,
                                double limit_s, std::vector<std::int64_t>& stage_layers) {
    labels_.clear();
    labels_.push_back({0, 0, 0, 0, 0, 0, 0});
    std::size_t begin = 0;
    for (std::int64_t stage = 0; stage < problem.stages; ++stage) {
        const std::size_t end = labels_.size();
        for (std::size_t from = begin; from < end; ++from)
            extend(problem, parts, stage, static_cast<std::uint32_t>(from), limit_s);
        keep_best(end);
        begin = end;
    }
    if (begin == labels_.size()) return false;
    const auto seconds = [&](const Label& l) {
        return l.sum_s + problem.pass_weight * l.pass_s + l.exchange_s + l.step_s + l.host_s;
    };
    std::size_t at = begin;
    for (std::size_t i = begin + 1; i < labels_.size(); ++i)
        if (seconds(labels_[i]) < seconds(labels_[at])) at = i;
    stage_layers.resize(static_cast<std::size_t>(problem.stages));
    for (std::size_t i = stage_layers.size(); i-- > 0; at = labels_[at].parent)
        stage_layers[i] = labels_[at].used - labels_[labels_[at].parent].used;
    return true;
}

}  // namespace arena
