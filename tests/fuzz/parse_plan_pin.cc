// SPDX-License-Identifier: GPL-2.0-or-later
// Any text may claim to be a pinned plan; what is accepted writes and reads the
// same.
#include "core/plan.h"
#include "fuzz.h"

FUZZ(text) {
    const auto pin = arena::parse_plan_pin(text);
    if (!pin) return;
    const auto again = arena::parse_plan_pin(arena::to_string(*pin));
    if (!again || *again != *pin) std::abort();
}
