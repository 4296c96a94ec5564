// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `fcfs`: one first-come-first-served queue per GPU type, each job with the type and count
// that its user asked for. What a cluster without backfill, elasticity and Arena does; a baseline.
#pragma once

#include <vector>

#include "core/decision.h"
#include "policy/packing.h"

namespace arena {

/// Order: priority (larger first), submission, id. The first job of a type that does not fit now
/// blocks its type. Running jobs are left alone; jobs without a request (requested_type) wait for
/// ever. O(jobs log jobs + nodes + offers).
Decision decide_fcfs(const Snapshot&, const Offers&, const PolicyOptions&);

}  // namespace arena
