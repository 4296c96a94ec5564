// SPDX-License-Identifier: GPL-2.0-or-later
// Which rank computes slowly and which link carries slowly, while training stands still
// (Greyhound's validation): the same matrix product on every device, then the same bytes over named
// links. Compared is a device or link with what it did before: numbers, no verdict.
//
// Products of all ranks run at once, as devices do at work. Where ranks compute on processors, and
// a machine has fewer of them than its ranks have threads, they would measure each other: there
// they take turns, and links too, asleep meanwhile. (Four ranks on two processors, 12
// checks: a product took 0.15 to 0.57 ms at once, 0.152 to 0.157 ms in turns.)
//
// It has groups of its own, with a limit: where a rank or a link hangs, the others leave the check
// after that time and go on training, as far as that goes without the one that hangs.
#pragma once

#include <functional>
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
    std::string failure;      ///< why it was given up, and nothing of it counts; "" = it was not
};

class HardwareCheck {
  public:
    /// Collective. Takes the memory that it needs now: later there may be none. References outlive
    /// it; `threads` are those of each rank, `limit_s` is of each check.
    HardwareCheck(Comm& world, Device&, const Environment&, int threads,
                  double limit_s = longest_check_s);

    [[nodiscard]] const std::vector<RankHost>& hosts() const { return hosts_; }
    /// What a transfer carries: so much that the fastest of the first pairs takes 5 ms, at most 64
    /// MiB; 0 of one rank.
    [[nodiscard]] double link_bytes() const;
    using Tell = std::function<void(const CheckResult&)>;
    /// Collective; a word that check_word() took. Complete on all ranks, or given up by all. Called
    /// with it: `tell`, by a rank that gives it up before it waits for the others to do so, else at
    /// the end.
    CheckResult run(const Check&, const Tell& tell = {});

  private:
    /// What is used between ranks; left behind where that was given up.
    struct Paths {
        std::unique_ptr<Comm> comm;
        std::unique_ptr<Group> group;
        Array<Element> message;
    };
    void join();
    void choose_length();
    [[nodiscard]] std::vector<double> least_ms();
    [[nodiscard]] bool measure(const Check&, CheckResult&);
    [[nodiscard]] bool is_given_up_by_any(bool by_me);
    void leave_behind();
    [[nodiscard]] std::vector<Check::Pass> without_disturbance(const Check::Pass&) const;
    double product_ms();
    double seconds_of(Index products);
    std::vector<CheckResult::Link> time_pass(const Check::Pass&);
    void time_link(CheckResult::Link&);

    Comm& world_;
    Device& device_;
    std::vector<RankHost> hosts_;
    Turns turns_;
    Array<Element> a_, b_, c_;  ///< square matrices
    double limit_s_;
    Paths paths_;
    std::vector<Paths> left_;
};

}  // namespace arena::train
