// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `elasticflow-ls` (Gu et al., ASPLOS 2023, with loose deadlines): the type is the user's,
// the count is the policy's. Jobs are admitted in order with the fewest GPUs that run them; what is
// left goes, doubling by doubling, to whom it adds most speed. Repaired against the Arena
// artifact's port: a job that can never run blocks nobody (it has no offers here at all), GPUs that
// a departure frees are dealt out at once, jobs whose count does not change keep their nodes (there
// every admission re-packed the type), speeds are relative, not samples/s.
#pragma once

#include "core/decision.h"
#include "policy/policy.h"

namespace arena {

/// First come, first served per GPU type at the minimum; a job that does not fit blocks its type. A
/// running job grows only when that adds a tenth of its speed and it has run for half an hour as it
/// is; it shrinks when the minimum of another needs the GPUs, or when doubling another adds twice
/// as much. A job that is not elastic has what it asked for.
Decision decide_elasticflow(const Snapshot&, const Offers&, const PolicyOptions&);

/// Not published: the same in the order of time to finish at the minimum, with doublings to whom
/// they add most per time left, so that it knows the work left as policy `arena` does; running jobs
/// may be stopped.
Decision decide_elasticflow_informed(const Snapshot&, const Offers&, const PolicyOptions&);

}  // namespace arena
