// SPDX-License-Identifier: GPL-2.0-or-later
// What parse_layer_operator() takes reads the same when it is written again.
#include "core/model.h"
#include "fuzz.h"

FUZZ(text) {
    const auto parsed = arena::parse_layer_operator(text);
    if (!parsed) return;
    const auto again = arena::parse_layer_operator(arena::to_string(*parsed));
    if (!again || !(*again == *parsed)) std::abort();
}
