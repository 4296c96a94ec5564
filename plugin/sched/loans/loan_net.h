// SPDX-License-Identifier: GPL-2.0-or-later
// LoanNet: what becomes of lent nodes when inference waits and nobody has asked for them. Where
// Slurm preempts jobs on lent nodes for it, idle nodes go home, and as many nodes as are lacking
// that one job has for itself are opened to Slurm's preemption: inference can start there only once
// that job is gone. Others are asked back. Pure: time is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plugin/sched/host/loans.h"

namespace arena {

class LoanNet {
  public:
    /// By then whoever asks for nodes has asked for them.
    static constexpr double patience_s = 5;
    /// A node of inference's that it has not got.
    struct Place {
        std::string gpu_type = {};
        std::int64_t gpus = 0;
        bool comes_back = false;  ///< it was asked back, or has just come home
    };
    using Places = std::map<std::string, Place>;

    /// Once a round; `steady_s`: monotonic.
    void new_round(const LoanFacts& facts, const Places& places, double steady_s);
    /// It is inference's once Slurm has taken off who is there; training starts nothing there.
    [[nodiscard]] bool is_open(const std::string& node) const { return open_.contains(node); }
    [[nodiscard]] const std::set<std::string>& open() const { return open_; }
    /// Idle ones that are to go home.
    [[nodiscard]] const std::vector<std::string>& idle() const { return idle_; }
    /// Nodes that inference lacks beyond what comes back, idle and open ones, and lent ones in use
    /// that would do, ascending.
    [[nodiscard]] std::size_t missing() const { return missing_; }
    [[nodiscard]] const std::vector<std::string>& sought() const { return sought_; }

    /// What jobs of one kind wait for.
    struct Kind {
        std::string gpu_type;                 ///< "": any
        std::vector<std::string> partitions;  ///< of inference's
        std::int64_t gpus = 0;                ///< of one task, on all its nodes
        std::int64_t nodes = 1;               ///< of one task
        auto operator<=>(const Kind&) const = default;
    };
    using Wants = std::map<Kind, std::int64_t>;  ///< tasks

  private:
    [[nodiscard]] Wants wants_of(const LoanFacts& facts, double steady_s);
    std::map<std::uint32_t, double> since_;  ///< by waiting job
    std::set<std::string> open_;
    std::vector<std::string> idle_, sought_;
    std::size_t missing_ = 0;
};

}  // namespace arena
