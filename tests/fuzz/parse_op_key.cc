// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may claim to be an operator key of a profile; what is read back must
// write the same key.
#include "core/profile.h"
#include "fuzz.h"

FUZZ(key) {
    const auto shape = arena::parse_op_key(key);
    if (shape && arena::op_key(*shape) != key) std::abort();
}
