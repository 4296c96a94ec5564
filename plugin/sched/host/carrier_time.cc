// SPDX-License-Identifier: GPL-2.0-or-later
// See carrier_time.h.
#include "plugin/sched/host/carrier_time.h"

#include <algorithm>
#include <cmath>

namespace arena {

std::optional<std::int64_t> limit_for_member(const CarrierTime& carrier, std::int64_t minutes) {
    constexpr double to_end_s = 60;
    const double member_s = minutes == no_limit ? INFINITY : 60 * static_cast<double>(minutes);
    const double wanted = std::ceil((carrier.now_s - carrier.start_s + member_s + to_end_s) / 60);
    const std::int64_t raised = std::isinf(wanted) ? no_limit : static_cast<std::int64_t>(wanted);
    const std::int64_t limit = std::max(carrier.minutes, std::min(raised, carrier.most));
    if (limit >= raised) return limit;
    const double left_s = carrier.start_s + 60 * static_cast<double>(limit) - carrier.now_s;
    return left_s >= member_s / 2 ? std::optional(limit) : std::nullopt;
}

}  // namespace arena
