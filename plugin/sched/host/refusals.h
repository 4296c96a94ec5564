// SPDX-License-Identifier: GPL-2.0-or-later
// Refusals: what Slurm did not give, although it looked as if it would: to profile runs a node that
// the snapshot shows free, or a partition as a whole; to a job a shape. Each question leaves
// something behind, a cancelled job or lines in the log: what refuses is left alone for a while,
// twice as long after each further refusal.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace arena {

class Refusals {
  public:
    /// A streak is over when nothing was asked for forget_s after it could have been.
    struct Pace {
        double first_rest_s = 0, longest_rest_s = 0, forget_s = 0;
    };
    explicit Refusals(Pace pace) : pace_(pace) {}

    /// Forgets what has not been asked for long, and what need not be remembered: that says itself
    /// why it refused.
    void forget_old(double now_s, const std::function<bool(const std::string& what)>& remembered);
    /// True at the first refusal of a streak, and when the reason is another: worth a line in the
    /// log.
    [[nodiscard]] bool note(const std::string& what, const std::string& why, double now_s);
    /// It gave what was asked for.
    void forget(const std::string& what) { refusals_.erase(what); }
    /// Whether it refused so lately that it is not to be asked now.
    [[nodiscard]] bool rests(const std::string& what, double now_s) const;
    /// Whether it refused in a streak that is not over: others are asked first.
    [[nodiscard]] bool refused(const std::string& what) const { return refusals_.contains(what); }
    /// The latest reason; only of what refused.
    [[nodiscard]] const std::string& why(const std::string& what) const {
        return refusals_.at(what).why;
    }

    /// Whatever it was, it may be given now.
    void forget_all() { refusals_.clear(); }

  private:
    struct Refusal {
        double rest_s = 0, until_s = 0;
        std::string why;
    };
    Pace pace_;
    std::map<std::string, Refusal> refusals_;
};

}  // namespace arena
