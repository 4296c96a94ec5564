// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/search/partition.h"

#include <algorithm>

#include "base/statistics.h"

namespace arena {

namespace {

/// The same stages in another order sum to the same but for this.
constexpr double rounding = 1 + 1e-14;

std::int64_t in_flight(const PartitionProblem& problem, std::int64_t stage) {
    return std::min(problem.micro_batches, problem.stages - stage);
}

}  // namespace

double iteration_seconds(const PartitionProblem& problem, const StageParts& parts,
                         std::span<const std::int64_t> stage_layers) {
    PipelineLength pipeline;
    double exchange = 0, step = 0, host = 0;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < stage_layers.size(); ++i) {
        const auto stage = static_cast<std::int64_t>(i);
        const StagePart part = parts.part(stage, begin, begin + stage_layers[i]);
        if (part.bytes > problem.bytes) return infinity;
        begin += stage_layers[i];
        pipeline.add(part.forward_s, part.backward_s, in_flight(problem, stage),
                     problem.micro_batches);
        exchange = std::max(exchange, part.exchange_s);
        step = std::max(step, part.step_s);
        host = std::max(host, part.host_s);
    }
    return pipeline.closed_s + exchange + step + host + problem.fixed_s;
}

/// Nothing of it is worse.
bool PartitionSolver::Label::beats(const Label& other, bool relaxed) const {
    const auto at_most = [](double a, double b) { return a <= b * rounding; };
    return at_most(pipeline.open_s, other.pipeline.open_s) && at_most(step_s, other.step_s) &&
           at_most(exchange_s, other.exchange_s) && at_most(host_s, other.host_s) &&
           (relaxed ? at_most(pipeline.sum_s, other.pipeline.sum_s)
                    : pipeline.at_most(other.pipeline, rounding));
}

bool PartitionSolver::solve(const PartitionProblem& problem, const StageParts& parts,
                            double limit_s, std::vector<std::int64_t>& stage_layers) {
    if (problem.stages < 1 || problem.layers < problem.stages) return false;
    const std::int64_t allowed = std::min(steps_left_, max_solve_steps);
    steps_ = allowed;
    const bool found = problem.split == LayerSplit::any || problem.stages == 1
                           ? solve_any(problem, parts, limit_s, stage_layers)
                           : solve_even(problem, parts, limit_s, stage_layers);
    spend(allowed - std::max<std::int64_t>(0, steps_));
    return found;
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
        spends(stages);
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
        for (std::int64_t first = 1; first < ends && !ran_out(); ++first)
            attempt(first, middle, ends - first);
        if (inner == 0 || ran_out()) break;
    }
    return found;
}

/// What the label and stages after it that sum to rest_s take at least.
double PartitionSolver::least_s(const PartitionProblem& problem, const StageParts& parts,
                                const Label& label, double rest_s, std::int64_t after,
                                bool relaxed) const {
    const double so_far = alone_s(label.pipeline, rest_s, relaxed);
    const double ends_s = std::max(label.ends_s(), problem.ends_s) + problem.fixed_s;
    if (after == 0) return so_far + ends_s;
    const double longest =
        std::max(rest_s / real(after), parts.longest_s(problem.stages - after, label.used));
    const double behind =
        label.pipeline.sum_s +
        least_pipeline_seconds(rest_s, longest, after, problem.micro_batches, parts.last_s());
    return std::max(so_far, behind) + ends_s;
}

/// What this much of a pipeline and stages that sum to rest_s take at least.
double PartitionSolver::alone_s(const PipelineLength& pipeline, double rest_s, bool relaxed) {
    return relaxed ? pipeline.open_s + 2 * rest_s : pipeline.least_s(rest_s);
}

/// Appends the children of a label: stage `stage` takes one layer more each time, until it alone is
/// too slow or too large.
void PartitionSolver::extend(const PartitionProblem& problem, const StageParts& parts,
                             std::int64_t stage, std::uint32_t from, double limit_s, bool relaxed) {
    const Label parent = labels_[from];
    const double beyond_s = problem.ends_s + problem.fixed_s;
    const std::int64_t after = problem.stages - stage - 1, m = problem.micro_batches;
    const std::int64_t most = problem.layers - after, own = in_flight(problem, stage);
    for (std::int64_t end = after == 0 ? most : parent.used + 1; end <= most; ++end) {
        if (spends(1)) return;
        const StagePart part = parts.part(stage, parent.used, end);
        if (part.bytes - part.buffer_bytes > problem.bytes) break;
        if (part.bytes > problem.bytes) continue;
        Label child{end,
                    parent.pipeline,
                    std::max(parent.exchange_s, part.exchange_s),
                    std::max(parent.step_s, part.step_s),
                    std::max(parent.host_s, part.host_s),
                    from};
        child.pipeline.add(part.forward_s, part.backward_s, own, m);
        const double rest = after == 0 ? 0 : parts.rest_s(stage + 1, end);
        if (alone_s(child.pipeline, rest, relaxed) + beyond_s >= limit_s) {
            if (parts.sends_same()) break;
            PipelineLength least = parent.pipeline;  // grows with `end`
            const double transfer = part.boundary_s / 2;
            least.add(part.forward_s - transfer, part.backward_s - transfer, own, m);
            if (alone_s(least, rest, relaxed) + beyond_s >= limit_s) break;
            continue;
        }
        if (least_s(problem, parts, child, rest, after, relaxed) < limit_s) keep(child, relaxed);
    }
}

/// Adds a label unless one that has used the same layers is no worse, and drops those it beats.
void PartitionSolver::keep(const Label& label, bool relaxed) {
    Bucket& bucket = next_[static_cast<std::size_t>(label.used)];
    spends(static_cast<std::int64_t>(bucket.size() / 4));
    for (const std::uint32_t other : bucket)
        if (labels_[other].beats(label, relaxed)) return;
    std::erase_if(bucket,
                  [&](std::uint32_t other) { return label.beats(labels_[other], relaxed); });
    bucket.push_back(static_cast<std::uint32_t>(labels_.size()));
    labels_.push_back(label);
    if (labels_.size() > max_labels) steps_ = std::min<std::int64_t>(steps_, -1);
}

/// The last stage's label with the least seconds; null when none is below the limit. Relaxed: of
/// the pipeline's paths only those that fill and drain by the last stage count, which compares
/// partial partitions by two numbers instead of seven.
const PartitionSolver::Label* PartitionSolver::find_best(const PartitionProblem& problem,
                                                         const StageParts& parts, double limit_s,
                                                         bool relaxed) {
    labels_.assign(1, {});
    const auto sizes = static_cast<std::size_t>(problem.layers) + 1;
    last_.resize(std::max(last_.size(), sizes));
    next_.resize(last_.size());
    const auto clear = [&](std::vector<Bucket>& buckets) {
        for (std::size_t i = 0; i < sizes; ++i) buckets[i].clear();
    };
    clear(last_);
    last_[0].push_back(0);
    for (std::int64_t stage = 0; stage < problem.stages; ++stage) {
        clear(next_);
        spends(problem.layers / 16);
        for (std::size_t used = 0; used < sizes && !ran_out(); ++used)
            for (const std::uint32_t from : last_[used])
                extend(problem, parts, stage, from, limit_s, relaxed);
        if (ran_out()) return nullptr;
        last_.swap(next_);
    }
    const auto seconds = [&](std::uint32_t at) {
        const Label& l = labels_[at];
        return (relaxed ? l.pipeline.open_s : l.pipeline.closed_s) + l.ends_s();
    };
    const Bucket& whole = last_[sizes - 1];
    const auto best =
        std::min_element(whole.begin(), whole.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return seconds(a) < seconds(b); });
    return best == whole.end() ? nullptr : &labels_[*best];
}

void PartitionSolver::read_off(const Label* label, std::vector<std::int64_t>& stage_layers) const {
    for (std::size_t i = stage_layers.size(); i-- > 0; label = &labels_[label->parent])
        stage_layers[i] = label->used - labels_[label->parent].used;
}

/// No partition is shorter than the relaxed program's best, so that one is the answer if it is
/// really as short, as it nearly always is.
bool PartitionSolver::solve_any(const PartitionProblem& problem, const StageParts& parts,
                                double limit_s, std::vector<std::int64_t>& stage_layers) {
    trial_.resize(static_cast<std::size_t>(problem.stages));
    bool found = false;
    if (problem.micro_batches > problem.stages) {
        const Label* relaxed = find_best(problem, parts, limit_s, true);
        if (relaxed == nullptr) return false;
        const PipelineLength& pipeline = relaxed->pipeline;
        const double seconds = pipeline.closed_s + relaxed->ends_s() + problem.fixed_s;
        found = seconds < limit_s;
        if (found) {
            read_off(relaxed, trial_);
            stage_layers = trial_;
            limit_s = seconds;
            if (pipeline.closed_s <= pipeline.open_s) return true;
        }
    }
    const Label* best = find_best(problem, parts, limit_s, false);
    if (best == nullptr) return found;
    stage_layers.resize(static_cast<std::size_t>(problem.stages));
    read_off(best, stage_layers);
    return true;
}

}  // namespace arena
