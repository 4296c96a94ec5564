// SPDX-License-Identifier: GPL-2.0-or-later
// How long the job that trains members of arrays runs for one that is about to start. Pure.
#pragma once

#include <cstdint>
#include <optional>

namespace arena {

/// What Slurm gives the job that trains members, in minutes; no_limit: none.
inline constexpr std::int64_t no_limit = INT64_MAX;
struct CarrierTime {
    double start_s = 0, now_s = 0;
    std::int64_t minutes = no_limit;  ///< as it is
    std::int64_t most = no_limit;     ///< to which it may be raised
};
/// Its limit for a member that starts now and may run for so many minutes: so long that the member
/// ends first, where that is allowed, else what there is if that is half of the member's time at
/// least. Nothing: less is left. The member's own limit stays; one that the end of its carrier
/// interrupts comes back.
std::optional<std::int64_t> limit_for_member(const CarrierTime& carrier, std::int64_t minutes);

}  // namespace arena
