// SPDX-License-Identifier: GPL-2.0-or-later
// Lines over time and distributions, as inline SVG: see page_parts.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "sim/page_parts.h"

namespace arena::sim {
namespace {

constexpr double width = 640, height = 240, left = 62, right = 12, top = 10, bottom = 40;
/// Parts of the time axis; more would be narrower than a pixel.
constexpr std::size_t bins = 400;
/// Points of a distribution.
constexpr std::size_t quantiles = 300;

/// Where values lie on the picture.
struct Scale {
    double from = 0, to = 1;
    bool logarithmic = false;
    double start = 0, length = 1;
    [[nodiscard]] double at(double v) const {
        const double part =
            logarithmic ? std::log(v / from) / std::log(to / from) : (v - from) / (to - from);
        return start + length * std::clamp(part, 0.0, 1.0);
    }
};

/// 1, 2 or 5 times a power of ten: about `wanted` steps to `most`.
double nice_step(double most, int wanted) {
    const double rough = most / wanted, power = std::pow(10, std::floor(std::log10(rough)));
    for (const double f : {1.0, 2.0, 5.0}) {
        if (f * power >= rough) return f * power;
    }
    return 10 * power;
}

double largest_y(const Chart& chart) {
    double most = 0;
    for (const Series& s : chart.series) {
        for (const auto& [x, y] : s.points) most = std::max(most, y);
    }
    return most > 0 ? most : 1;
}

Scale x_scale(const Chart& chart) {
    Scale scale{.from = chart.logarithmic ? 1.0 : 0.0,
                .to = 10,
                .logarithmic = chart.logarithmic,
                .start = left,
                .length = width - left - right};
    double least = 1e300, most = 0;
    for (const Series& s : chart.series) {
        if (s.points.empty()) continue;
        least = std::min(least, s.points.front().first);
        most = std::max(most, s.points.back().first);
    }
    if (most <= 0) return scale;
    scale.to = most;
    if (chart.logarithmic) {
        scale.from = least / 1.2;
        scale.to = std::max(most * 1.05, scale.from * 10);
    }
    return scale;
}

std::string tick_x(double x, std::string_view label) {
    return fmt::format(
        "<path class=\"grid\" d=\"M{0} {1}V{2}\"/><text x=\"{0}\" y=\"{3}\" "
        "text-anchor=\"middle\">{4}</text>",
        pixel(x), pixel(top), pixel(height - bottom), pixel(height - bottom + 14), label);
}

std::string x_axis(const Chart& chart, const Scale& x) {
    std::string out;
    if (chart.ratios) {
        for (const double v : {0.001, 0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0}) {
            if (v >= x.from && v <= x.to) out += tick_x(x.at(v), fmt::format("{:g}", v));
        }
    } else if (chart.logarithmic) {
        static constexpr double times[] = {0.1,  1,        10,    60,     600,
                                           3600, 6 * 3600, 86400, 864000, 8640000};
        for (const double v : times) {
            if (v >= x.from && v <= x.to) out += tick_x(x.at(v), short_time(v));
        }
    } else {
        for (const double v : time_ticks(x.to, 6)) out += tick_x(x.at(v), short_time(v));
    }
    return out + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                             pixel(left + (width - left - right) / 2), pixel(height - 6),
                             escaped(chart.x_label));
}

std::string y_axis(const Chart& chart, const Scale& y) {
    std::string out;
    const double step = nice_step(y.to, 5);
    for (double v = 0; v <= y.to * 1.0001; v += step) {
        out += fmt::format(
            "<path class=\"grid\" d=\"M{0} {1}H{2}\"/><text x=\"{3}\" y=\"{4}\" "
            "text-anchor=\"end\">{5}</text>",
            pixel(left), pixel(y.at(v)), pixel(width - right), pixel(left - 5), pixel(y.at(v) + 4),
            chart.percent ? fmt::format("{:.0f}%", 100 * v) : readable(v));
    }
    return out;
}

std::string line(const Series& series, std::size_t style, const Scale& x, const Scale& y) {
    if (series.points.empty()) return "";
    std::string d;
    std::string last_x, last_y;
    for (const auto& [px, py] : series.points) {
        const std::string sx = pixel(x.at(px)), sy = pixel(y.at(py));
        if (d.empty()) {
            d = "M" + sx + " " + sy;
        } else {
            if (sx != last_x) d += "H" + sx;
            if (sy != last_y) d += "V" + sy;
        }
        last_x = sx;
        last_y = sy;
    }
    return fmt::format("<path class=\"line s{}\" d=\"{}\"><title>{}</title></path>",
                       style % line_styles, d, escaped(series.name));
}

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

std::string pixel(double value) {
    const double tenths = std::round(value * 10) / 10;
    return fmt::format("{}", tenths == 0 ? 0.0 : tenths);
}

std::string readable(double value) {
    if (std::abs(value) < 10) return fmt::format("{:.3g}", value);
    std::string digits = fmt::format("{:.0f}", value);
    for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (value < 0 ? 1 : 0);
         at -= 3) {
        digits.insert(static_cast<std::size_t>(at), ",");
    }
    return digits;
}

std::string short_time(double seconds) {
    if (seconds < 60) return fmt::format("{:.3g} s", seconds);
    if (seconds < 3600) return fmt::format("{:.3g} min", seconds / 60);
    if (seconds < 86400) return fmt::format("{:.3g} h", seconds / 3600);
    return fmt::format("{:.3g} d", seconds / 86400);
}

std::vector<double> time_ticks(double most_s, int wanted) {
    static constexpr double steps[] = {1,     2,     5,     10,     30,     60,
                                       120,   300,   600,   1200,   3600,   7200,
                                       21600, 43200, 86400, 172800, 432000, 864000};
    const double rough = most_s / wanted;
    double step = 0;
    for (const double s : steps) {
        step = s;
        if (s >= rough) break;
    }
    if (step < rough) step = 86400 * nice_step(most_s / 86400, wanted);
    std::vector<double> ticks;
    for (double v = 0; v <= most_s; v += step) ticks.push_back(v);
    return ticks;
}

std::string chart_svg(const Chart& chart) {
    const Scale x = x_scale(chart);
    const Scale y{.to = chart.percent ? 1 : largest_y(chart),
                  .start = height - bottom,
                  .length = -(height - bottom - top)};
    std::string out = fmt::format(
        "<figure><figcaption>{0}</figcaption>\n<svg viewBox=\"0 0 {1} {2}\" role=\"img\" "
        "aria-label=\"{0}: {3}\">",
        escaped(chart.title, 200), width, height, escaped(chart.summary, 1000));
    out += x_axis(chart, x) + y_axis(chart, y);
    for (std::size_t i = 0; i < chart.series.size(); ++i) out += line(chart.series[i], i, x, y);
    return out + "</svg></figure>\n";
}

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
