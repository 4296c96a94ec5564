// SPDX-License-Identifier: GPL-2.0-or-later
// The planner against measured runs: prices each row of a table from its model, plan and hardware
// facts (never from its source or id) and says how far off it was, whether memory agreed, and
// whether the estimate would have chosen the right plan.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/hardware.h"
#include "core/offer.h"
#include "planner/evaluate/measured.h"
#include "planner/hardware/calibration.h"

namespace arena {

/// A row with its estimate, or why it has none.
struct EvaluatedRow {
    const MeasuredRow* row = nullptr;
    std::string reason;  ///< empty = priced
    Plan plan;
    Estimate estimate;
    bool fits = false;  ///< memory_bytes_per_gpu within the type's memory
    bool known_framework = false, known_device = false, known_network = false;  ///< in the table
    [[nodiscard]] bool priced() const { return reason.empty(); }
    /// Priced, measured, and the run did not fail.
    [[nodiscard]] bool timed() const;
    [[nodiscard]] double error() const;  ///< estimated / measured - 1
};

struct EvaluateOptions {
    const std::vector<GpuType>& hardware;
    const Calibration& calibration;
};
EvaluatedRow evaluate_row(const MeasuredRow&, const EvaluateOptions&);
std::vector<EvaluatedRow> evaluate_rows(const std::vector<MeasuredRow>&, const EvaluateOptions&);

/// Statistics of |error| over timed rows.
struct ErrorSummary {
    std::size_t n = 0, skipped = 0;
    double mean_abs = 0, median_abs = 0, p90_abs = 0, bias = 0;
};
ErrorSummary summarise(const std::vector<const EvaluatedRow*>&);
using RowKey = std::function<std::string(const MeasuredRow&)>;
std::map<std::string, ErrorSummary> summarise_by(const std::vector<EvaluatedRow>&, const RowKey&);

/// Over groups of rows that differ only in the plan (same model shape, seq, precision, framework,
/// gpu, gpus, global batch): measured time of the plan with the least estimate over the least
/// measured, minus 1, averaged over groups of two and more; the share of pairs that differ by more
/// than 5 % and are ranked right; Kendall's tau over all pairs.
struct ChoiceSummary {
    std::size_t groups = 0, pairs = 0;
    double regret_mean = 0, regret_max = 0, pair_order = 0, kendall_tau = 0;
};
ChoiceSummary summarise_choice(const std::vector<EvaluatedRow>&);

/// Feasibility: rows that ran (ok) and that did not (OOM), and how many are predicted so; error of
/// the predicted bytes where they are given.
struct MemorySummary {
    std::size_t ok = 0, ok_fits = 0, oom = 0, oom_refused = 0;
    ErrorSummary bytes;
};
MemorySummary summarise_memory(const std::vector<EvaluatedRow>&);

}  // namespace arena
