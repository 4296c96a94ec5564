// SPDX-License-Identifier: GPL-2.0-or-later
// Any text may come as a job's report; what is accepted is in range and says
// itself again.
#include "core/observation.h"
#include "fuzz.h"

FUZZ(text) {
    const auto report = arena::parse_report(text);
    if (!report) return;
    if (!arena::check_report(*report) || !arena::parse_report(arena::format_report(*report)))
        std::abort();
}
