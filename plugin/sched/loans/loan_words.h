// SPDX-License-Identifier: GPL-2.0-or-later
// What is said to `arena loan`, and how a lease stands in a node's Extra.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plugin/sched/nodes/node_extra.h"
#include "policy/loans/lease.h"

namespace arena {

inline constexpr std::size_t max_loan_nodes = 4096;

struct OfferWords {
    std::vector<std::string> nodes;
    std::int64_t until = 0;  ///< epoch seconds; 0 = until it is asked for
};
/// "n[1-4] until=1790000000".
Result<OfferWords> parse_loan_offer(std::string_view words);

struct ReclaimWords {
    std::vector<std::string> nodes;
    std::int64_t count = 0;       ///< where no node is named
    std::int64_t deadline_s = 0;  ///< 0 = not given
};
/// "n[1-4] deadline=300" or "3".
Result<ReclaimWords> parse_loan_reclaim(std::string_view words);

Fact fact_of(const Lease& lease);
Result<Lease> lease_of(const Fact& fact);

/// "14:05", of the controller's clock.
std::string clock_words(std::int64_t epoch_s);

}  // namespace arena
