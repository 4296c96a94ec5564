// SPDX-License-Identifier: GPL-2.0-or-later
// A schedule at once: always the block that can start first. It needs no search, and beats what the
// authors of ArrayPipe recorded of their genetic algorithm on most of their instances. Which of
// several that can start equally early is a matter of ranks, and what ranks are best, of a search
// (polish_ranks() of polish.h).
#pragma once

#include <cstdint>
#include <vector>

#include "array/line.h"
#include "array/schedule.h"

namespace arena::array {

/// Places of 2 job + (1 where backward) in a list of all of them: the lower goes first.
using Ranks = std::vector<int>;

enum class Prefer { backward, forward };
/// The preferred direction goes first, then the job with more work in all, then the lowest job.
Ranks list_ranks(const Instance& instance, Prefer prefer);

/// Makes orders of one instance, again and again, without allocation.
class ListRule {
  public:
    ListRule(const Instance& instance, const Rules& rules);
    /// False: rules leave no block that may go. O(blocks x jobs).
    bool run(const Ranks& ranks);
    [[nodiscard]] const Order& order() const { return order_; }
    [[nodiscard]] const Line& line() const { return line_; }

  private:
    [[nodiscard]] std::int64_t key(int job, const Ranks& ranks) const;

    const Instance* instance_;
    Line fresh_, line_;
    Order order_;
    std::vector<std::int64_t> keys_;  ///< by job: earliest start and rank of its next block
    std::vector<int> device_;         ///< by job: of its next block
};

/// What the list rule makes; one_by_one() where it comes to no end.
Order list_order(const Instance& instance, const Rules& rules, Prefer prefer = Prefer::backward);

}  // namespace arena::array
