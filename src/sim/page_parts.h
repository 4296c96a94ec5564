// SPDX-License-Identifier: GPL-2.0-or-later
// Parts of the page of page.h, each as text: axes, charts over time, the chart of GPUs.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "html/document.h"
#include "sim/page.h"

namespace arena::sim {

using html::escaped;
/// "68,046" or, below ten, "2.75".
std::string readable(double value);
/// "45 s", "2.5 h", "6.94 d": one unit, for axes and tables.
std::string short_time(double seconds);
/// A coordinate in tenths of a pixel, without needless zeros.
std::string pixel(double value);
/// Round values from 0 to at most `most`, about `wanted` of them.
std::vector<double> time_ticks(double most_s, int wanted);
/// Number of line styles (colour and dashes); series beyond take them again from the first.
inline constexpr std::size_t line_styles = 16;

struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;  ///< x ascending; y holds until the next x
};
struct Chart {
    std::string title, x_label, summary = {};
    bool percent = false;      ///< y from 0 to 100 %, given as 0..1
    bool logarithmic = false;  ///< x > 0
    bool ratios = false;       ///< x is no time; logarithmic only
    std::vector<Series> series = {};
};
std::string chart_svg(const Chart&);
/// Mean over each part of [0, until_s) of what the runs' stays add up to.
Chart throughput_chart(const Workload&, const std::vector<Metrics>&, double until_s);
Chart utilisation_chart(const Workload&, const std::vector<Metrics>&, double until_s);
/// Share of the submitted jobs with a JCT of at most x.
Chart jct_chart(const std::vector<Metrics>&);
/// Share of the jobs with a ratio of at most x beside the policy of that index in Metrics::beside,
/// which the runs have in common.
Chart beside_chart(const std::vector<Metrics>&, std::size_t which);

struct GanttLimits {
    std::size_t stays = 0, rectangles = 0;
};
/// GPUs by node from top to bottom, time from left to right, one colour per job.
std::string gantt_figure(const Workload&, const Metrics&, double until_s, GanttLimits);
/// What was lent under each run that has it; "" where none has.
std::string loans_section(const std::vector<Metrics>&);
/// What a stay ran as: "2x4xa40", followed by its plan where the offer has one.
std::string shape_of(const Offer&);

}  // namespace arena::sim
