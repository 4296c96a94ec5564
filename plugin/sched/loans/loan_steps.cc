// SPDX-License-Identifier: GPL-2.0-or-later
// See loan_steps.h.
#include "plugin/sched/loans/loan_steps.h"

namespace arena {
namespace {

LoanStep stay(const LoanNode& node, LoanGuard guard, bool listed) {
    return {.lease = node.lease, .guard = guard, .listed = listed};
}

/// Jobs of training's are there already where Slurm was killed before it had saved that it is lent.
LoanStep after_offered(const LoanNode& node) {
    LoanStep step = stay(node, LoanGuard::lent, false);
    const bool free = node.up && (!node.used || node.lents) && !node.inference;
    if (node.guard == LoanGuard::lent && node.settled && free) step.lease->state = LeaseState::lent;
    return step;
}

/// Slurm's records of the guard may be older than those of the lease.
LoanStep after_lent(const LoanNode& node) {
    if (node.gone) return {};
    if (node.open || node.inference)
        return stay(node, node.open ? LoanGuard::none : node.guard, false);
    return stay(node, LoanGuard::lent, node.guard == LoanGuard::lent && node.settled);
}

}  // namespace

LoanStep next_step(const LoanNode& node) {
    if (!node.lease) return {.guard = node.used ? node.guard : LoanGuard::none};
    switch (node.lease->state) {
        case LeaseState::offered:
            return node.gone ? LoanStep{} : after_offered(node);
        case LeaseState::lent:
            return after_lent(node);
        case LeaseState::returning:
            return node.used ? stay(node, LoanGuard::returning, true) : LoanStep{};
        case LeaseState::broken:
            break;
    }
    return stay(node, node.used ? node.guard : LoanGuard::none, false);
}

bool ends_by_itself(const LoanNode& node, std::int64_t now_s) {
    if (!node.lease) return false;
    const bool is_open =
        node.lease->state == LeaseState::offered || node.lease->state == LeaseState::lent;
    const bool over = node.lease->until_s > 0 && node.lease->until_s <= now_s;
    // Where inference has got it all the same, it needs it.
    return is_open && (over || (node.lease->state == LeaseState::lent && node.inference));
}

}  // namespace arena
