// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may claim to be a table of collectives; what is accepted is within
// its limits and reads back as itself.
#include "core/comm_table.h"
#include "fuzz.h"

FUZZ(text) {
    const auto times = arena::parse_comm_csv(text, "", "");
    if (!times) return;
    for (const auto& time : *times)
        if (!arena::check_comm_time(time)) std::abort();
    const auto again = arena::parse_comm_csv(arena::to_csv(*times), "", "");
    if (!again || again->size() != times->size()) std::abort();
}
