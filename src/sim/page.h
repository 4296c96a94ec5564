// SPDX-License-Identifier: GPL-2.0-or-later
// A picture of simulations: one HTML page that needs no network, no other file and no library.
// Charts are inline SVG, so that they print, zoom and read without a script; the script only picks
// jobs out. Leaves out on purpose: what would make a page grow with the trace (see PageLimits).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "html/chart.h"
#include "sim/lower_bound.h"
#include "sim/metrics.h"
#include "sim/workload.h"

namespace arena::sim {

/// Of the whole page, dealt out evenly to its runs. The stays of the fewest GPU-seconds are left
/// out, and the page says how many and what part of the GPU time the rest is. With these limits a
/// page of up to twenty runs stays under 6 MiB whatever was simulated.
struct PageLimits {
    std::size_t stays = 12000;       ///< coloured shapes of the charts of GPUs
    std::size_t rectangles = 48000;  ///< that they consist of
    std::size_t jobs = 1000;         ///< rows of the tables of jobs, the longest JCT first
};

/// What the runs have in common, for people: ("trace", "philly.csv"), ("round", "300 s").
using PageFacts = html::Facts;

/// Well-formed as XML, too. The runs need their stays (SimulationOptions::keep_stays). Every name
/// is escaped and cut to 64 bytes. Same arguments, same bytes.
std::string page_html(const Workload&, const std::vector<Metrics>& runs,
                      const std::optional<Bound>&, const PageFacts&, const PageLimits& = {});

}  // namespace arena::sim
