// SPDX-License-Identifier: GPL-2.0-or-later
// One profile run: operators in the given order, each once, until done or the budget ends. Knows no
// device, no file and no clock of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profiler/core/measure.h"
#include "profiler/core/operator.h"

namespace arena {

struct SessionOptions {
    double budget_s = 60;            ///< wall seconds by now(), preparing included
    std::vector<std::string> known;  ///< op_hash() of operators not to measure again
    std::function<double()> now;     ///< monotonic seconds
    std::function<void(const ProfileEntry&)> on_entry;  ///< called once per measured operator
    std::function<void(const OpShape&)> on_begin = [](const OpShape&) {};
};

struct SessionOutcome {
    ProfileStatus status = ProfileStatus::complete;
    std::string reason;  ///< empty when complete
    double device_seconds = 0;
    std::size_t wanted = 0;  ///< distinct and not known
    std::size_t measured = 0;
};

/// complete: all wanted operators were measured (also when there were none). partial: some.
/// failed: none though some were wanted. An operator that would take longer than what is left of
/// the budget, judged by operators of its kind measured before, is left out; shorter ones after it
/// are not.
SessionOutcome run_session(Backend&, const std::vector<OpShape>&, const SessionOptions&);

/// The shapes of the list, each once, without the known ones; order kept.
std::vector<OpShape> wanted_shapes(const std::vector<OpShape>&,
                                   const std::vector<std::string>& known);

}  // namespace arena
