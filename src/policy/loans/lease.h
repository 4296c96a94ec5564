// SPDX-License-Identifier: GPL-2.0-or-later
// The lease of a node: by which loan an inference node is with training, and until when. Its text
// is one fact of a node, as Slurm's Extra field keeps it:
// "loan=L7 state=returning since=1790000000 until=1790000300".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena {

enum class LeaseState {
    offered,    ///< nobody's: inference starts nothing more there, and what runs there ends first
    lent,       ///< training's: it may start jobs there
    returning,  ///< nobody's: takes no new job, is given back when it is empty or at `until`
    broken,     ///< an administrator changed what the lease rests on: Arena leaves the node alone
};
std::string_view to_string(LeaseState);
std::optional<LeaseState> parse_lease_state(std::string_view);

/// Each greater than all that nodes and reservations show: a guard is told from one of an older
/// lease of its node. It may begin again where a restart finds nothing lent.
using LoanNumber = std::uint64_t;

struct Lease {
    LoanNumber loan = 0;  ///< 1 to 10^18
    LeaseState state = LeaseState::lent;
    std::int64_t since_s = 0;  ///< epoch seconds: of the loan; 0 = not known
    /// Epoch seconds. offered, lent: when it goes back by itself, 0 = when it is asked for;
    /// returning: the deadline, never 0.
    std::int64_t until_s = 0;
    /// returning: jobs that are let run there, since they end in time; ascending, at most
    /// most_ends.
    std::vector<std::uint32_t> ends = {};
    static constexpr std::size_t most_ends = 16;
    bool operator==(const Lease&) const = default;
};

/// "L7".
std::string loan_name(LoanNumber);
/// Errors: what is not a letter L and a number from 1 to 10^18 without leading zeros.
Result<LoanNumber> parse_loan_name(std::string_view);

/// "loan=L7 state=returning since=1790000000 until=1790003600 ends=12:15"; times that are 0, and
/// `ends` without jobs, are left out.
std::string format_lease(const Lease&);
/// The same again: words apart by one blank, `loan` first, the others in any order, each at most
/// once; at most 512 bytes. Errors: an unknown word or state, a returning lease without a deadline,
/// `ends` of another state.
Result<Lease> parse_lease(std::string_view text);

}  // namespace arena
