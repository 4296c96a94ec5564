// SPDX-License-Identifier: GPL-2.0-or-later
// The words of the chief's log: those that users of Greyhound know where it has them, JSON beside
// them. Where a list could be as long as the job has ranks, it is cut, and says so.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "watch/chief/checks.h"

namespace arena::watch {

using Fact = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>>;
/// json: {"event":EVENT,FACTS}.
LogLine line(std::string text, std::string_view event,
             std::initializer_list<std::pair<std::string_view, Fact>> facts = {});
/// Worth a look, even where the log is not kept.
LogLine problem(std::string text, std::string_view event,
                std::initializer_list<std::pair<std::string_view, Fact>> facts = {});

/// "Build DP clique [0, 2]", one for each group of two ranks and more.
std::vector<LogLine> clique_lines(const TrainerPlan& plan);
/// "Computation tasks dispatched!", "Communication test: [S0→R1, S2→R3]" of each pass.
std::vector<LogLine> dispatch_lines(bool gpus, const std::vector<slowdown::Pass>& passes);
/// "Computation result of rank R: min,max,avg" in ms over the rounds, and of links.
std::vector<LogLine> result_lines(const Checked& checked, const slowdown::CheckRound& rounds);
/// "Estimated iteration time: {'rank0': 12345.0}" in us; iterations one by one for machines.
LogLine estimate_line(const std::string& node, const Iterations& iterations);

}  // namespace arena::watch
