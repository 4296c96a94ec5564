// SPDX-License-Identifier: GPL-2.0-or-later
// Layers to pipeline stages, exactly: a dynamic program over stages and layers that keeps every
// partial partition that may still become the best one. A stage counts as it is priced: seconds
// per micro-batch with embedding and head, what remains of its gradient exchange, its optimizer
// step, its bytes. A partial partition is a partial pipeline (PipelineLength) and several maxima,
// and one partition replaces another that is no better in any of them (after PipeDream's and
// Piper's programs, which have one maximum).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "planner/models/layer_sums.h"
#include "planner/plans/schedule.h"
#include "planner/search/budget.h"
#include "request/launchers.h"

namespace arena {

/// The stages of one plan as functions of the layers [begin, end) that they hold.
class StageParts {
  public:
    StageParts() = default;
    StageParts(const StageParts&) = delete;
    StageParts& operator=(const StageParts&) = delete;
    virtual ~StageParts() = default;
    /// Neither bytes without buffers, nor either direction without transfers may fall when `end`
    /// grows: which layer a stage ends with decides what it sends.
    [[nodiscard]] virtual StagePart part(std::int64_t stage, std::int64_t begin,
                                         std::int64_t end) const = 0;
    /// At most what pass_s() of the stages from `stage` on, holding the layers from `begin` on, sum
    /// to; with pass_s() of the stage before, without transfers, it must not fall when `begin`
    /// grows.
    [[nodiscard]] virtual double rest_s(std::int64_t stage, std::int64_t begin) const = 0;
    /// The longest of those stages takes at least this of a micro-batch, however they share those
    /// layers; the mean of rest_s() is known to the caller.
    [[nodiscard]] virtual double longest_s(std::int64_t /*stage*/, std::int64_t /*begin*/) const {
        return 0;
    }
    /// The last stage takes at least this of a micro-batch, whichever layers it holds.
    [[nodiscard]] virtual double last_s() const { return 0; }
    /// Whether what a stage sends is the same whichever layer it ends with; saves a comparison.
    [[nodiscard]] virtual bool sends_same() const { return false; }
};

/// The length of an iteration: 1F1B of the stages (PipelineLength) + max(exchange_s) + max(step_s)
/// + max(host_s) + fixed_s.
struct PartitionProblem {
    std::int64_t layers = 1, stages = 1, micro_batches = 1;
    double fixed_s = 0;
    double ends_s = 0;  ///< at most the maxima of exchange_s, step_s and host_s, summed
    double bytes = std::numeric_limits<double>::infinity();  ///< each stage's limit
    LayerSplit split = LayerSplit::any;
};
/// Seconds of one partition; infinite when a stage exceeds the bytes.
double iteration_seconds(const PartitionProblem&, const StageParts&,
                         std::span<const std::int64_t> stage_layers);

/// Steps that one solve() takes at most: 0.1 s. Hundreds of layers take a thousandth.
inline constexpr std::int64_t max_solve_steps = 1 << 21;
/// Partial partitions that it keeps at most: 50 MB.
inline constexpr std::size_t max_labels = 1 << 19;

/// Keeps its memory between calls. Deterministic; ties go to the partition found first.
class PartitionSolver {
  public:
    explicit PartitionSolver(PlanBudget& budget) : budget_(budget) {}
    /// The partition with the least seconds below `limit_s`, each stage at least one layer; false
    /// when there is none. O(stages layers^2) steps at worst, times the partial partitions that a
    /// limit close to the optimum leaves (few). Where that would be too many steps, the best
    /// partition found so far, or false: see ran_out().
    bool solve(const PartitionProblem&, const StageParts&, double limit_s,
               std::vector<std::int64_t>& stage_layers);
    /// Whether the last solve() was cut short, so that there may be a better partition.
    [[nodiscard]] bool ran_out() const { return steps_ < 0; }
    /// Steps that all solve() to come may take together.
    void allow(std::int64_t steps) { steps_left_ = steps; }
    void spend(std::int64_t steps) { steps_left_ -= std::min(steps, steps_left_); }
    [[nodiscard]] std::int64_t steps_left() const { return steps_left_; }

  private:
    struct Label {
        std::int64_t used = 0;
        PipelineLength pipeline;
        double exchange_s = 0, step_s = 0, host_s = 0;
        std::uint32_t parent = 0;
        [[nodiscard]] bool beats(const Label&, bool relaxed) const;
        [[nodiscard]] double ends_s() const { return exchange_s + step_s + host_s; }
    };
    bool solve_any(const PartitionProblem&, const StageParts&, double limit_s,
                   std::vector<std::int64_t>& stage_layers);
    const Label* find_best(const PartitionProblem&, const StageParts&, double limit_s,
                           bool relaxed);
    void read_off(const Label*, std::vector<std::int64_t>& stage_layers) const;
    bool solve_even(const PartitionProblem&, const StageParts&, double limit_s,
                    std::vector<std::int64_t>& stage_layers);
    void extend(const PartitionProblem&, const StageParts&, std::int64_t stage, std::uint32_t from,
                double limit_s, bool relaxed);
    [[nodiscard]] static double alone_s(const PipelineLength&, double rest_s, bool relaxed);
    [[nodiscard]] double least_s(const PartitionProblem&, const StageParts&, const Label&,
                                 double rest_s, std::int64_t after, bool relaxed) const;
    void keep(const Label&, bool relaxed);

    /// Counts steps; whether there are none left.
    bool spends(std::int64_t steps) {
        steps_ -= steps;
        if (budget_.poll(steps)) steps_ = std::min<std::int64_t>(steps_, -1);
        return ran_out();
    }

    using Bucket = std::vector<std::uint32_t>;  ///< labels that have used the same layers
    std::vector<Label> labels_;
    std::vector<Bucket> last_, next_;  ///< by layers used, after the last stage and this one
    std::vector<std::int64_t> trial_;
    PlanBudget& budget_;
    std::int64_t steps_ = 0;  ///< that this solve() has left
    std::int64_t steps_left_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace arena
