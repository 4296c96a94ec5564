// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/observation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/statistics.h"
#include "base/text.h"

namespace arena {
namespace {

constexpr double max_iteration_s = 86400, max_spread = 10, max_trained_s = 1e9;
constexpr std::int64_t max_steps = std::int64_t{1} << 30;

/// Of short_form(Grid) and short_form(Plan).
bool is_short_form(std::string_view text) {
    return !text.empty() && text.size() <= 128 &&
           text.find_first_of("; =\t\n") == std::string_view::npos && printable(text, 128) == text;
}

/// False when the value of a known key is not accepted, or the key is not known.
bool read_item(IterationReport& report, std::string_view key, std::string_view value) {
    if (key == "iteration_s") {
        report.iteration_s = parse_number(value, 0, max_iteration_s).value_or(-1);
        return report.iteration_s > 0;
    }
    if (key == "spread") {
        report.spread = parse_number(value, 0, max_spread).value_or(-1);
        return report.spread >= 0;
    }
    if (key == "steps") {
        report.steps = parse_integer(value, min_reported_steps, max_steps).value_or(0);
        return report.steps != 0;
    }
    if (key == "trained_s") {
        report.trained_s = parse_number(value, 0, max_trained_s).value_or(-1);
        return report.trained_s >= 0;
    }
    if (key == "grid") report.grid = value;
    if (key == "plan") report.plan = value;
    return key == "grid" || key == "plan";
}

}  // namespace

bool is_usable(const Observation& o) {
    if (!(o.iteration_s > 0) || !(o.estimated_s > 0)) return false;
    const double ratio = o.iteration_s / o.estimated_s;
    return std::isfinite(ratio) && ratio > 0;
}

std::string off_words(double measured_s, double estimated_s) {
    constexpr double the_same = 1.005;
    const bool is_slower = measured_s > estimated_s;
    const double times = is_slower ? measured_s / estimated_s : estimated_s / measured_s;
    if (times < the_same) return "as estimated";
    return fmt::format("{:.3g} times {}", times, is_slower ? "slower" : "faster");
}

namespace {

double ratio_of(const Observation& o) { return o.iteration_s / o.estimated_s; }

bool within(double a, double b, double factor) { return a <= b * factor && b <= a * factor; }

}  // namespace

void note_agreeing(ObservedRun& run, const ObservedRun* before) {
    run.agreeing.clear();
    if (before && within(ratio_of(run.observation), ratio_of(before->observation), agreeing_ratio))
        run.agreeing = before->agreeing;
    std::erase(run.agreeing, run.job);
    run.agreeing.push_back(run.job);
    if (run.agreeing.size() > outlier_jobs) run.agreeing.erase(run.agreeing.begin());
}

bool counts(const ObservedRun& run) {
    return run.shared || run.agreeing.size() >= outlier_jobs ||
           counts_alone(run.observation, run.steps);
}

bool counts_alone(const Observation& o, std::int64_t steps) {
    return steps >= enough_steps || within(o.iteration_s, o.estimated_s, max_single_ratio);
}

bool fits_run_time(double iteration_s, std::int64_t steps, double ran_s) {
    constexpr double clock_s = 1;  // Slurm tells the start in whole seconds
    return iteration_s * static_cast<double>(steps) <= ran_s + clock_s;
}

StepTimes step_times(std::vector<double> seconds) {
    seconds.erase(seconds.begin(), seconds.begin() + warm_up_steps);
    std::sort(seconds.begin(), seconds.end());
    const double median_s = median(seconds);
    return {median_s, (quantile(seconds, 0.75) - quantile(seconds, 0.25)) / median_s};
}

Status check_report(const IterationReport& report) {
    if (!(report.iteration_s > 0) || report.iteration_s > max_iteration_s)
        return usage_error("takes seconds above 0, at most 86400", "--iteration-s");
    if (!(report.spread >= 0) || report.spread > max_spread)
        return usage_error("takes 0 to 10", "--spread");
    if (report.steps < min_reported_steps || report.steps > max_steps)
        return usage_error(
            fmt::format("takes {} to 2^30: fewer steps have no median", min_reported_steps),
            "--steps");
    if (report.trained_s != -1 && !(report.trained_s >= 0 && report.trained_s <= max_trained_s))
        return usage_error("takes seconds, 0 to 10^9", "--trained-s");
    if (!is_short_form(report.grid) || !is_short_form(report.plan))
        return usage_error("is no plan that Arena gives", "plan");
    return Done{};
}

std::string format_report(const IterationReport& report) {
    return fmt::format(
        "{}iteration_s={:.6g};spread={:.4g};steps={};{}grid={};plan={}", report_prefix,
        report.iteration_s, report.spread, report.steps,
        report.trained_s < 0 ? "" : fmt::format("trained_s={:.3f};", report.trained_s), report.grid,
        report.plan);
}

Status parse_report_items(std::string_view text, std::string_view prefix,
                          const std::function<bool(std::string_view, std::string_view)>& read) {
    constexpr std::size_t max_report_bytes = 512;
    if (!text.starts_with(prefix) || text.size() > max_report_bytes)
        return usage_error("is no report");
    std::set<std::string_view> seen;
    for (const std::string_view item : split(text.substr(prefix.size()), ';')) {
        const std::size_t equal = item.find('=');
        if (equal == std::string_view::npos || !seen.insert(item.substr(0, equal)).second ||
            !read(item.substr(0, equal), item.substr(equal + 1)))
            return usage_error(
                fmt::format("'{}' is not accepted in a report", printable(item, 40)));
    }
    return Done{};
}

Result<IterationReport> parse_report(std::string_view text) {
    IterationReport report;
    const auto read = [&](std::string_view key, std::string_view value) {
        return read_item(report, key, value);
    };
    if (auto wrong = parse_report_items(text, report_prefix, read); !wrong) return wrong.error();
    if (auto wrong = check_report(report); !wrong) return wrong.error();
    return report;
}

}  // namespace arena
