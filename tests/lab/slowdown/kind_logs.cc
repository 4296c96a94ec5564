// SPDX-License-Identifier: GPL-2.0-or-later
// What logs of other tools and plans of injections say: read, and held against what must be true of
// them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/csv.h"
#include "base/statistics.h"
#include "base/text.h"
#include "tests/lab/slowdown/kinds.h"

namespace arena::cli {
namespace {

using slowdown::DetectorOptions;

constexpr double most = 1e15;
constexpr double most_apart = 1.2;  ///< ranks of one synchronous iteration, by the host's clocks

/// Iteration times per round and rank: ranks of a synchronous job agree.
Status evaluate_estimates(const SlowdownFiles& files, const DetectorOptions& options,
                          SlowdownReport& report) {
    const SlowdownFile& file = files.at("estimates");
    auto csv =
        sim::Csv::open(file.text, file.path, {"round", "rank", "iter_time_us_mean_of_last_two"});
    if (!csv) return csv.error();
    std::map<std::int64_t, std::vector<double>> rounds;
    while (csv->next())
        rounds[csv->integer("round", 0, 1'000'000'000)].push_back(
            csv->number("iter_time_us_mean_of_last_two", 1, most));
    if (csv->error()) return *csv->error();
    if (rounds.empty()) return usage_error("no rows", file.path);
    std::vector<double> levels;
    for (auto& [round, times] : rounds) {
        std::sort(times.begin(), times.end());
        levels.push_back(median(times));
        const double apart = times.back() / times.front();
        report.expect(fmt::format("round {}: ranks agree", round), apart <= most_apart, apart,
                      fmt::format("<= {}", most_apart));
    }
    std::vector<double> earlier(levels.begin(), levels.end() - (levels.size() > 1 ? 1 : 0));
    std::sort(earlier.begin(), earlier.end());
    const double factor = levels.back() / median(earlier);
    report.metrics["last_over_median"] = factor;
    report.metrics["is_slow"] = factor >= options.threshold;
    return Done{};
}

/// Candidates that another tool kept or dropped: by our rule the same.
Status evaluate_candidates(const SlowdownFiles& files, const DetectorOptions& options,
                           SlowdownReport& report) {
    const SlowdownFile& file = files.at("candidates");
    auto csv = sim::Csv::open(file.text, file.path, {"validated", "relative_change"});
    if (!csv) return csv.error();
    while (csv->next()) {
        const bool wanted = csv->integer("validated", 0, 1) == 1;
        // |a - b| / max(a, b); empty: it was dropped before that.
        const bool has_size = !csv->cell("relative_change").empty();
        const double change = has_size ? csv->number("relative_change", 0, 1 - 1e-9) : 0;
        const bool is_kept = 1 / (1 - change) >= options.threshold;
        report.expect(csv->where(), is_kept == wanted, is_kept, wanted);
    }
    if (csv->error()) return *csv->error();
    return Done{};
}

/// The published planner: S2 costs 5 x (current - best), and comes at the first sample from then
/// on.
Status evaluate_timeline(const SlowdownFiles& files, const DetectorOptions&,
                         SlowdownReport& report) {
    const SlowdownFile& file = files.at("timeline");
    auto csv = sim::Csv::open(file.text, file.path,
                              {"ms_since_planner_start", "dp_cost_ms", "min_iter_ms",
                               "current_iter_ms", "s2_applied_after_this_sample"});
    if (!csv) return csv.error();
    bool was_applied = false;
    while (csv->next()) {
        const double best_ms = csv->number("min_iter_ms", 0, most);
        const double cost_ms = csv->number("dp_cost_ms", -most, most);
        const double own_ms = 5 * (csv->number("current_iter_ms", 0, most) - best_ms);
        const bool is_applied = csv->integer("s2_applied_after_this_sample", 0, 1) == 1;
        const bool is_due =
            !was_applied && csv->number("ms_since_planner_start", 0, most) >= own_ms;
        if (csv->error()) break;
        report.expect(csv->where() + " cost",
                      std::abs(own_ms - cost_ms) <= 1e-6 * std::abs(own_ms) + 1e-6, own_ms,
                      cost_ms);
        report.expect(csv->where() + " S2", is_due == is_applied, is_due, is_applied);
        was_applied = was_applied || is_applied;
    }
    if (csv->error()) return *csv->error();
    return Done{};
}

/// A plan of injections: times go on, GPUs are numbers.
Status evaluate_schedule(const SlowdownFiles& files, const DetectorOptions&,
                         SlowdownReport& report) {
    const SlowdownFile& file = files.at("schedule");
    auto csv = sim::Csv::open(file.text, file.path, {"start_s", "duration_s", "kind_0comp_1comm"});
    if (!csv) return csv.error();
    double before_s = 0, injected_s = 0;
    std::size_t links = 0;
    while (csv->next()) {
        const double start_s = csv->number("start_s", 0, most);
        injected_s += csv->number("duration_s", 1e-9, most);
        links += csv->integer("kind_0comp_1comm", 0, 1) == 1;
        for (const char* place : {"node", "node_a", "node_b", "gpu_a", "gpu_b"})
            if (csv->has(place)) (void)csv->integer(place, 0, 1 << 20);
        report.expect(csv->where() + " starts after the one before", start_s >= before_s, start_s,
                      fmt::format(">= {}", before_s));
        before_s = start_s;
    }
    if (csv->error()) return *csv->error();
    report.metrics["injected_s"] = injected_s;
    report.metrics["communication"] = links;
    return Done{};
}

}  // namespace

SlowdownKind estimates_kind() {
    return {.name = "estimates",
            .command = "",
            .parts = {{"estimates", {"round", "rank", "iter_time_us_mean_of_last_two"}, ".csv"}},
            .evaluate = evaluate_estimates,
            .solve = nullptr};
}

SlowdownKind candidates_kind() {
    return {.name = "candidates",
            .command = "",
            .parts = {{"candidates", {"probability", "validated", "relative_change"}, ".csv"}},
            .evaluate = evaluate_candidates,
            .solve = nullptr};
}

SlowdownKind timeline_kind() {
    return {.name = "timeline",
            .command = "",
            .parts = {{"timeline",
                       {"ms_since_planner_start", "dp_cost_ms", "min_iter_ms", "current_iter_ms"},
                       ".csv"}},
            .evaluate = evaluate_timeline,
            .solve = nullptr};
}

SlowdownKind schedule_kind() {
    return {.name = "schedule",
            .command = "",
            .parts = {{"schedule", {"start_s", "duration_s", "kind_0comp_1comm"}, ".csv"}},
            .evaluate = evaluate_schedule,
            .solve = nullptr};
}

}  // namespace arena::cli
