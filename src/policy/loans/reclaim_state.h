// SPDX-License-Identifier: GPL-2.0-or-later
// A set of returned servers with the change of cost that turning each server would make, kept up
// to date: what greedy rules, exhaustive search and local search all walk over.
#pragma once

#include <span>
#include <vector>

#include "policy/loans/reclaim.h"

namespace arena {

class ReclaimState {
  public:
    /// Keeps the reference. Nothing is returned at first. O(parts).
    explicit ReclaimState(const ReclaimProblem&);

    /// One number for the order of costs: less is better. Whole below 2^53 where weights are.
    [[nodiscard]] double cost() const { return cost_; }
    /// Of the preempted jobs; only grows while servers are added.
    [[nodiscard]] double weight() const { return weight_; }
    /// What turning the server adds to cost().
    [[nodiscard]] double change(ServerIndex s) const { return change_[s]; }
    [[nodiscard]] std::span<const double> changes() const { return change_; }
    [[nodiscard]] bool is_returned(ServerIndex s) const { return returned_[s] != 0; }
    [[nodiscard]] std::vector<ServerIndex> returned() const;
    /// Returns the server, or takes it back. O(parts of the jobs on it).
    void turn(ServerIndex);

  private:
    struct Load {
        double weight;               ///< of its preemption, in units of cost()
        std::int32_t spare;          ///< servers that it can still lose
        std::int32_t lost = 0;       ///< base servers that are returned
        std::int32_t gpus_kept = 0;  ///< on servers that stay
        std::int32_t parts_lost = 0;
    };
    struct Entry {
        std::uint32_t job, part;
    };
    void weigh();
    [[nodiscard]] double cost_of_job(const Load&) const;
    [[nodiscard]] double change_by(const Load&, double now, const ReclaimProblem::Part&) const;
    void turn_part(std::uint32_t job, const ReclaimProblem::Part&, bool to_returned);

    const ReclaimProblem& problem_;
    double unit_ = 1, collateral_unit_ = 1, restart_unit_ = 0;
    std::vector<Load> loads_;
    std::vector<Entry> entries_;  ///< by server
    std::vector<std::uint32_t> first_;
    std::vector<unsigned char> returned_;
    std::vector<double> change_;
    double cost_ = 0, weight_ = 0;
};

}  // namespace arena
