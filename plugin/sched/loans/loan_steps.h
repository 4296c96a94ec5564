// SPDX-License-Identifier: GPL-2.0-or-later
// What becomes of a node that is lent, one step at a time: offered, lent, returning, home. Each
// step rests on what Slurm's records say, so that a slurmctld that was killed between any two goes
// on where it was, and a step that is taken twice changes nothing. Pure.
#pragma once

#include <optional>

#include "plugin/sched/host/loans.h"
#include "policy/loans/lease.h"

namespace arena {

/// A node as it is, seen from its lease.
struct LoanNode {
    std::optional<Lease> lease = {};
    LoanGuard guard = LoanGuard::none;  ///< that is called after this very lease, if it has one
    bool settled = false;               ///< Slurm has saved that guard by now
    bool used = false;                  ///< jobs are there that are not inference's
    bool lents = false;                 ///< and all of those run in the partition for lent nodes
    bool inference = false;             ///< inference's jobs are there
    bool open = false;                  ///< to Slurm's preemption, for inference: see LoanNet
    bool up = true;
    bool gone = false;  ///< down or drained for a while, with nobody there
};

struct LoanStep {
    std::optional<Lease> lease = {};  ///< nothing: the node is home
    LoanGuard guard = LoanGuard::none;
    bool listed = false;  ///< among the nodes of the partition for lent ones
    bool operator==(const LoanStep&) const = default;
};

/// The order holds that a node is never open to both: it is guarded from inference, and that is
/// saved, before training has it; training is gone, and it is listed no more, before the guard is.
/// Where Slurm is to preempt who is there for inference, the guard goes and training gets nothing
/// there; it is guarded again, and that is saved, before it is listed again.
/// A guard without a lease stays until nobody but inference is there.
LoanStep next_step(const LoanNode& node);

/// Whether a lease has come to its end by itself: the node goes back as if it were asked for.
bool ends_by_itself(const LoanNode& node, std::int64_t now_s);

}  // namespace arena
