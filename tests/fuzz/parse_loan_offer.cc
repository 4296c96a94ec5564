// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may follow "loan offer".
// also: plugin/sched/loans/loan_words.cc plugin/sched/nodes/node_extra.cc src/policy/loans/lease.cc
#include "fuzz.h"
#include "plugin/sched/loans/loan_words.h"

FUZZ(text) {
    const auto offer = arena::parse_loan_offer(text);
    if (offer && (offer->nodes.empty() || offer->until < 0)) std::abort();
}
