// SPDX-License-Identifier: GPL-2.0-or-later
// Which rank computes slowly and which link carries slowly, while training stands still
// (Greyhound's validation): the same matrix product on every device, then the same bytes over named
// links. Compared is a device or link with what it did before: numbers, no verdict.
//
// Products of all ranks run at once, as devices do at work. Where ranks compute on processors, and
// a machine has fewer of them than its ranks have threads, they would measure each other: there
// they take turns, and links too, asleep meanwhile. (Four ranks on two processors, 12
// checks: a product took 0.15 to 0.57 ms at once, 0.152 to 0.157 ms in turns.)
#pragma once

#include <string>
#include <vector>

#include "train/comm/comm.h"
#include "train/core/device.h"
#include "train/run/control.h"
#include "train/run/rank_host.h"

namespace arena::train {

/// Ranks as they were started.
struct CheckResult {
    Index id = 0;
    std::vector<double> gpu_ms;      ///< of each rank: one product; empty where not asked for
    std::vector<std::string> types;  ///< of each rank's device
    struct Link {
        Index from = 0, to = 0;
        double ms = 0;          ///< there link_bytes(), back one element
        double latency_ms = 0;  ///< of one element, one way
    };
    std::vector<Link> links;  ///< in the order of the passes
    double seconds = 0;       ///< that training stood still, on this rank
};

class HardwareCheck {
  public:
    /// Collective. Takes the memory that it needs now: later there may be none. References outlive
    /// it; `threads` are those of each rank.
    HardwareCheck(Comm& world, Device&, const Environment&, int threads);

    [[nodiscard]] const std::vector<RankHost>& hosts() const { return hosts_; }
    /// What a transfer carries: so much that the fastest of the first pairs takes 5 ms, at most 64
    /// MiB; 0 of one rank.
    [[nodiscard]] double link_bytes() const;
    /// Collective; a word that check_word() took. Complete on all ranks.
    CheckResult run(const Check&);

  private:
    void choose_length();
    [[nodiscard]] std::vector<Check::Pass> without_disturbance(const Check::Pass&) const;
    double product_ms();
    double seconds_of(Index products);
    std::vector<CheckResult::Link> time_pass(const Check::Pass&);
    void time_link(CheckResult::Link&);

    Comm& world_;
    Device& device_;
    std::vector<RankHost> hosts_;
    Turns turns_;
    std::unique_ptr<Group> group_;
    Array<Element> a_, b_, c_;  ///< square matrices
    Array<Element> message_;
};

}  // namespace arena::train
