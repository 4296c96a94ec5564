// SPDX-License-Identifier: GPL-2.0-or-later
// Layers to pipeline stages, exactly: a dynamic program over stages and layers that keeps every
// partial deal which may still become the best one. A stage counts as it is priced: seconds per
// micro-batch with embedding and head, what remains of its gradient exchange, its optimizer step,
// its bytes. The slowest of each decides, not the sum, so a partial deal is a point of several
// maxima (after PipeDream's and Piper's programs, which have the first maximum alone).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/launchers.h"

namespace arena {

/// What one stage contributes to an iteration.
struct StagePart {
    double pass_s = 0;      ///< one micro-batch, forward and backward, with its transfer onwards
    double exchange_s = 0;  ///< of the gradients, what nothing hides; the longest counts
    double step_s = 0;      ///< optimizer, device; the longest counts
    double host_s = 0;      ///< per iteration, by layers; the longest counts
    double bytes = 0;       ///< device memory
    double boundary_s = 0;  ///< the transfer's share of pass_s
};

/// The stages of one plan as functions of the layers [begin, end) that they hold.
class StageParts {
  public:
    StageParts() = default;
    StageParts(const StageParts&) = delete;
    StageParts& operator=(const StageParts&) = delete;
    virtual ~StageParts() = default;
    /// bytes must not fall when `end` grows.
    [[nodiscard]] virtual StagePart part(std::int64_t stage, std::int64_t begin,
                                         std::int64_t end) const = 0;
    /// At most the pass_s that stages holding the layers from `begin` on sum to.
    [[nodiscard]] virtual double rest_s(std::int64_t begin) const = 0;
    /// Whether pass_s, and pass_s + rest_s(end), never fall when `end` grows; then a stage that is
    /// too slow alone ends the search of longer ones.
    [[nodiscard]] virtual bool is_monotone() const { return true; }
};

/// The length of an iteration: sum(pass_s) + pass_weight * max(pass_s) + max(exchange_s) +
/// max(step_s) + max(host_s) + fixed_s. pass_weight = micro-batches - 1 for 1F1B.
struct PartitionProblem {
    std::int64_t layers = 1, stages = 1;
    double pass_weight = 0, fixed_s = 0;
    double bytes = std::numeric_limits<double>::infinity();  ///< each stage's limit
    LayerSplit split = LayerSplit::any;
};
/// Seconds of one deal; infinite when a stage exceeds the bytes.
double iteration_seconds(const PartitionProblem&, const StageParts&,
                         std::span<const std::int64_t> stage_layers);

/// Keeps its memory between calls. Deterministic; ties go to the deal found first.
class PartitionSolver {
  public:
    /// The deal with the least seconds below `limit_s`, each stage at least one layer; false when
    /// there is none. O(stages layers^2) steps at worst, times the partial deals that a limit close
    /// to the optimum leaves (few).
    bool solve(const PartitionProblem&, const StageParts&, double limit_s,
               std::vector<std::int64_t>& stage_layers);

  private:
    struct Label {
        std::int64_t used;
        double sum_s, pass_s, exchange_s, step_s, host_s;
        std::uint32_t parent;
    };
    bool solve_any(const PartitionProblem&, const StageParts&, double limit_s,
                   std::vector<std::int64_t>& stage_layers);
    bool solve_even(const PartitionProblem&, const StageParts&, double limit_s,
                    std::vector<std::int64_t>& stage_layers);
    void extend(const PartitionProblem&, const StageParts&, std::int64_t stage, std::uint32_t from,
                double limit_s);
    void keep_best(std::size_t begin);

    std::vector<Label> labels_;
    std::vector<std::int64_t> trial_;
};

}  // namespace arena
