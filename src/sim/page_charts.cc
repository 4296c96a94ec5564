// SPDX-License-Identifier: GPL-2.0-or-later
// What the simulator draws over time, and its distributions: see page_parts.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "sim/page_parts.h"

namespace arena::sim {
namespace {

/// Parts of the time axis; more would be narrower than a pixel.
constexpr std::size_t bins = 400;
/// Points of a distribution.
constexpr std::size_t quantiles = 300;

/// Adds rate x time over [from, to) to the parts of the axis it touches.
void spread(std::vector<double>& sums, double bin_s, double from_s, double to_s, double rate) {
    const auto last = sums.size() - 1;
    for (auto b = std::min(last, static_cast<std::size_t>(from_s / bin_s)); b <= last; ++b) {
        const double start = static_cast<double>(b) * bin_s;
        if (start >= to_s) break;
        sums[b] += rate * std::max(0.0, std::min(to_s, start + bin_s) - std::max(from_s, start));
    }
}

/// One series per run: the mean over each part of rate(stay) between begin(stay) and the stay's
/// end.
template <typename Begin, typename Rate>
std::vector<Series> over_time(const std::vector<Metrics>& runs, double until_s, Begin begin,
                              Rate rate) {
    const double bin_s = until_s / static_cast<double>(bins);
    std::vector<Series> out;
    for (const Metrics& run : runs) {
        std::vector<double> sums(bins, 0);
        for (const Stay& stay : run.stays) {
            if (begin(stay) < stay.to_s) spread(sums, bin_s, begin(stay), stay.to_s, rate(stay));
        }
        Series& series = out.emplace_back(Series{run.policy, {}});
        for (std::size_t b = 0; b < bins; ++b) {
            series.points.emplace_back(static_cast<double>(b) * bin_s, sums[b] / bin_s);
        }
        series.points.emplace_back(until_s, sums.back() / bin_s);
    }
    return out;
}

/// Share of the values that are at most x.
Series cumulative(const std::string& name, std::vector<double> values) {
    std::sort(values.begin(), values.end());
    Series series{name, {}};
    const auto n = values.size();
    const std::size_t points = std::min(n, quantiles);
    if (n > 0) series.points.emplace_back(values.front(), 0.0);
    for (std::size_t i = 1; i <= points; ++i) {
        const std::size_t rank = i * n / points;
        series.points.emplace_back(values[rank - 1],
                                   static_cast<double>(rank) / static_cast<double>(n));
    }
    return series;
}

template <typename Number>
std::string summary_of(const std::vector<Metrics>& runs, Number number) {
    std::vector<std::string> parts;
    for (const Metrics& run : runs) parts.push_back(run.policy + " " + number(run));
    return join(parts, ", ");
}

}  // namespace

Chart throughput_chart(const Workload& workload, const std::vector<Metrics>& runs, double until_s) {
    Chart chart{.title = "Throughput, samples/s", .x_label = "time since the first job"};
    chart.series = over_time(
        runs, until_s, [](const Stay& s) { return s.progress_s; },
        [&](const Stay& s) {
            return static_cast<double>(workload.profiles[workload.jobs[s.job].profile].batch) /
                   s.iteration_s;
        });
    chart.summary =
        summary_of(runs, [](const Metrics& m) { return "mean " + readable(m.throughput_mean); });
    return chart;
}

Chart utilisation_chart(const Workload& workload, const std::vector<Metrics>& runs,
                        double until_s) {
    Chart chart{
        .title = "GPUs held by jobs", .x_label = "time since the first job", .percent = true};
    const auto all = static_cast<double>(workload.gpus());
    chart.series = over_time(
        runs, until_s, [](const Stay& s) { return s.from_s; },
        [&](const Stay& s) {
            const Profile& profile = workload.profiles[workload.jobs[s.job].profile];
            return static_cast<double>(profile.offers[s.offer].grid.gpus()) / all;
        });
    chart.summary = summary_of(runs, [](const Metrics& m) {
        return fmt::format("mean {:.1f}%", 100 * m.gpu_utilization);
    });
    return chart;
}

Chart jct_chart(const std::vector<Metrics>& runs) {
    Chart chart{.title = "Jobs that took at most so long (JCT; unfinished jobs until the end)",
                .x_label = "JCT",
                .percent = true,
                .logarithmic = true};
    for (const Metrics& run : runs) {
        std::vector<double> values;
        for (const JobOutcome& outcome : run.outcomes)
            values.push_back(std::max(outcome.jct_s, 0.1));
        chart.series.push_back(cumulative(run.policy, std::move(values)));
    }
    chart.summary = summary_of(runs, [](const Metrics& m) {
        return "median " + short_time(m.jct_s.p50) + " and mean " + short_time(m.jct_s.mean);
    });
    return chart;
}

Chart beside_chart(const std::vector<Metrics>& runs, std::size_t which) {
    const std::string& other = runs.front().beside[which].policy;
    Chart chart{
        .title = fmt::format("Jobs that took at most so many times their JCT under {}", other),
        .x_label = fmt::format("JCT / JCT under {}", other),
        .percent = true,
        .logarithmic = true,
        .ratios = true};
    for (const Metrics& run : runs) {
        std::vector<double> ratios = run.beside[which].ratios;
        for (double& ratio : ratios) ratio = std::max(ratio, 1e-6);
        chart.series.push_back(cumulative(run.policy, std::move(ratios)));
    }
    chart.summary = summary_of(runs, [&](const Metrics& m) {
        const Beside& b = m.beside[which];
        return fmt::format("median {:.3g}, p99 {:.3g}, {:.1f}% above 1", b.ratio.p50, b.ratio.p99,
                           100 * b.above_1);
    });
    return chart;
}

}  // namespace arena::sim
