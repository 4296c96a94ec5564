// SPDX-License-Identifier: GPL-2.0-or-later
// What parse_lease() takes survives its text form, and fits a fact of a node.
// also: src/policy/loans/lease.cc plugin/sched/nodes/node_extra.cc
#include "fuzz.h"
#include "plugin/sched/nodes/node_extra.h"
#include "policy/loans/lease.h"

FUZZ(text) {
    const auto lease = arena::parse_lease(text);
    if (!lease) return;
    const std::string again = arena::format_lease(*lease);
    const auto twice = arena::parse_lease(again);
    if (!twice || !(*twice == *lease)) std::abort();
    const arena::NodeExtra extra = arena::parse_node_extra("arena:v1 " + again);
    if (!extra.broken.empty() || extra.facts.size() != 1 || !extra.after.empty()) std::abort();
}
