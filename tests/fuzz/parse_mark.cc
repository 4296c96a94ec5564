// SPDX-License-Identifier: GPL-2.0-or-later
// Any text may stand in ARENA_STATE; what is accepted writes and reads the same,
// but for a later version's, which is never written.

// also: plugin/common/job_mark.cc
#include "fuzz.h"
#include "plugin/common/job_mark.h"

FUZZ(text) {
    const auto mark = arena::parse_mark(text);
    if (mark && !mark->newer && arena::parse_mark(arena::format_mark(*mark)) != mark) std::abort();
}
