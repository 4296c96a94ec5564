// SPDX-License-Identifier: GPL-2.0-or-later
// See run_machine.h.
#include "plugin/sched/profiles/run_machine.h"

#include <algorithm>

namespace arena {
namespace {

/// How long a node is waited for where Slurm gives none of those that are shown free.
constexpr double busy_s = 10;
/// How long a run lets jobs before it have its node, should these not start although the policy
/// said so.
constexpr double yield_s = 10;

}  // namespace

bool RunMachine::has_carrier() const {
    return std::holds_alternative<Running>(state_) ||
           std::holds_alternative<AwaitingResult>(state_);
}

void RunMachine::loses_carrier() {
    if (!has_carrier()) return;
    if (failures_.count > 0 && failures_.count >= tries_)
        state_ = Failed{};
    else
        state_ = Idle{};
}

void RunMachine::fails(const std::string& node, const std::string& reason, double at_s) {
    ++failures_.count;
    failures_.last_s = std::max(failures_.last_s, at_s);
    failures_.reason = reason;
    if (!node.empty()) failures_.nodes.insert(node);
    if (failures_.count >= tries_ && !has_carrier()) state_ = Failed{};
}

void RunMachine::forgets_failures() {
    failures_ = {};
    if (std::holds_alternative<Failed>(state_)) state_ = Idle{};
}

RunMachine::Waiting& RunMachine::waiting() {
    auto* waits = std::get_if<Waiting>(&state_);
    return waits ? *waits : state_.emplace<Waiting>();
}

void RunMachine::yields(double now_s) {
    auto& since_s = waiting().yields_since_s;
    if (!since_s) since_s = now_s;
}

bool RunMachine::has_yielded(double now_s) const {
    const auto* waits = std::get_if<Waiting>(&state_);
    return waits && waits->yields_since_s && now_s >= *waits->yields_since_s + yield_s;
}

bool RunMachine::may_wait_for_node(double now_s) {
    auto& since_s = waiting().busy_since_s;
    if (!since_s) since_s = now_s;
    if (now_s < *since_s + busy_s) return true;
    since_s.reset();
    return false;
}

void RunMachine::stops_waiting(std::optional<double> Waiting::*since_s) {
    if (auto* waits = std::get_if<Waiting>(&state_)) (waits->*since_s).reset();
}

bool RunMachine::has_given_up(double now_s, double backoff_s) {
    if (failures_.count > 0 && now_s - failures_.last_s >= backoff_s) forgets_failures();
    return std::holds_alternative<Failed>(state_);
}

bool RunMachine::forget_old(double now_s) {
    if (auto* waits = std::get_if<Waiting>(&state_)) {
        if (waits->busy_since_s && now_s > *waits->busy_since_s + 2 * busy_s)
            waits->busy_since_s.reset();
        if (waits->yields_since_s && now_s > *waits->yields_since_s + 2 * yield_s)
            waits->yields_since_s.reset();
        if (!waits->busy_since_s && !waits->yields_since_s) state_ = Idle{};
    }
    return std::holds_alternative<Idle>(state_) && failures_.count == 0;
}

}  // namespace arena
