// SPDX-License-Identifier: GPL-2.0-or-later
// LoanNet: what becomes of lent nodes when inference waits and nobody has asked for them. Where
// Slurm preempts jobs on lent nodes for it, idle nodes go home, and a node that one job has for
// itself is opened to Slurm's preemption: inference can start there only once that job is gone.
// Others are asked back. Pure: time is an argument.
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
    /// Lent nodes that nobody has asked back, and their GPUs.
    using Lent = std::map<std::string, std::int64_t>;

    /// Once a round. `returning`: nodes on their way back; `steady_s`: monotonic.
    void new_round(const LoanFacts& facts, const Lent& lent, std::size_t returning,
                   double steady_s);
    /// It is inference's once Slurm has taken off who is there; training starts nothing there.
    [[nodiscard]] bool is_open(const std::string& node) const { return open_.contains(node); }
    [[nodiscard]] const std::set<std::string>& open() const { return open_; }
    /// Idle ones that are to go home.
    [[nodiscard]] const std::vector<std::string>& idle() const { return idle_; }
    /// Nodes that inference lacks beyond what comes back, idle and open ones.
    [[nodiscard]] std::size_t missing() const { return missing_; }

  private:
    [[nodiscard]] std::size_t waited_for(const LoanFacts& facts, double steady_s);
    std::map<std::uint32_t, double> since_;  ///< by waiting job
    std::set<std::string> open_;
    std::vector<std::string> idle_;
    std::size_t missing_ = 0;
};

}  // namespace arena
