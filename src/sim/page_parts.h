// SPDX-License-Identifier: GPL-2.0-or-later
// Parts of the page of page.h, each as text: charts over time, the chart of GPUs.
#pragma once

#include <string>
#include <vector>

#include "html/chart.h"
#include "html/document.h"
#include "sim/page.h"

namespace arena::sim {

using html::Chart;
using html::chart_svg;
using html::escaped;
using html::pixel;
using html::readable;
using html::Series;
using html::short_time;
using html::time_ticks;

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
