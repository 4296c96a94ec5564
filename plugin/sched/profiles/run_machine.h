// SPDX-License-Identifier: GPL-2.0-or-later
// RunMachine: how far the measuring of one model on one GPU type is. A state machine without clock
// or host: it is told what happened and when, by the monotonic clock. It takes failures along from
// one try to the next.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "core/cluster.h"

namespace arena {

class RunMachine {
  public:
    /// Nothing goes on: measured, not asked for, or to be tried again.
    struct Idle {};
    /// It is due and has no node.
    struct Waiting {
        std::optional<double> yields_since_s;  ///< it lets jobs before it have its node
        std::optional<double> busy_since_s;    ///< Slurm gives no node that is shown free
    };
    struct Running {
        JobId carrier = 0;
        double began_s = 0;
        std::string progress;  ///< " 12/40, about 1 min"; "" before the run has told
    };
    /// Its carrier has ended; the result is not there yet.
    struct AwaitingResult {
        JobId carrier = 0;
        double began_s = 0;
    };
    /// The tries are used up, until the back-off is over.
    struct Failed {};
    using State = std::variant<Idle, Waiting, Running, AwaitingResult, Failed>;

    /// Failures of tries that follow each other.
    struct Failures {
        std::int64_t count = 0;
        double last_s = -INFINITY;
        std::string reason;
        std::set<std::string> nodes;
    };

    explicit RunMachine(std::int64_t tries) : tries_(tries) {}

    [[nodiscard]] const State& state() const { return state_; }
    [[nodiscard]] const Failures& failures() const { return failures_; }
    /// Running, or awaiting its result: a carrier is in Slurm's job list.
    [[nodiscard]] bool has_carrier() const;

    /// A carrier is seen or started.
    void runs(Running running) { state_ = std::move(running); }
    void awaits_result(AwaitingResult waiting) { state_ = waiting; }
    /// The job list no longer has its carrier, or it is done with.
    void loses_carrier();
    /// Without a node it counts as a try where there is none to name.
    void fails(const std::string& node, const std::string& reason, double at_s);
    void forgets_failures();

    /// It waits, and lets jobs before it have its node.
    void yields(double now_s);
    /// Whether it has let them have it for so long, and they did not take it.
    [[nodiscard]] bool has_yielded(double now_s) const;
    /// It waits for a node that Slurm calls busy; false when it has waited long enough.
    [[nodiscard]] bool may_wait_for_node(double now_s);
    void stops_waiting(std::optional<double> Waiting::*since_s);
    /// Whether it is not to be tried now; forgets failures that are so old.
    [[nodiscard]] bool has_given_up(double now_s, double backoff_s);
    /// Forgets waits that nobody has gone on with. True when nothing is left to remember.
    [[nodiscard]] bool forget_old(double now_s);

  private:
    Waiting& waiting();

    std::int64_t tries_;
    State state_;
    Failures failures_;
};

}  // namespace arena
