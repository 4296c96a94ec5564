// SPDX-License-Identifier: GPL-2.0-or-later
// What parse_promises() takes reads the same when it is written again.
// also: plugin/sched/promises/promise_file.cc src/policy/order/promises.cc
// src/policy/order/availability.cc
#include "fuzz.h"
#include "plugin/sched/promises/promise_file.h"

FUZZ(text) {
    const auto kept = arena::parse_promises(text);
    if (!kept) return;
    const auto twice = arena::parse_promises(arena::format_promises(*kept));
    if (!twice || !(*twice == *kept)) std::abort();
}
