// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may follow "loan reclaim".
// also: plugin/sched/loans/loan_words.cc plugin/sched/nodes/node_extra.cc src/policy/loans/lease.cc
#include "fuzz.h"
#include "plugin/sched/loans/loan_words.h"

FUZZ(text) {
    const auto reclaim = arena::parse_loan_reclaim(text);
    if (reclaim && (reclaim->nodes.empty() == (reclaim->count == 0) || reclaim->deadline_s < 0))
        std::abort();
}
