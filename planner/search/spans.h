// SPDX-License-Identifier: GPL-2.0-or-later
// What a plan takes where the nodes of its grid lie farther apart than they could: in several
// leaves of the network, or in several pods. The search finds the plan for nodes as near as can be;
// here that one is priced again by the links of each level.
#pragma once

#include "planner/search/query.h"

namespace arena {

struct PoolContext;
struct Topology;

/// Any plan on a grid wired so, whether it fits or not. Wants one that price_plan() takes.
Estimate price_on(const PoolContext&, const Topology&, const Plan&);

/// Sets slower and segment of a grid with a plan. A plan has a segment where it was priced by an
/// NVLink domain and its context or expert groups leave a node, or where no domain has all its
/// nodes. Of other plans a wider span is priced without a domain.
void price_spans(const PoolContext&, GridResult&);
/// The same of a plan whose nodes no domain joins.
void price_without_domain(const PoolContext&, GridResult&);

}  // namespace arena
