// SPDX-License-Identifier: GPL-2.0-or-later
// What parse_boots() takes reads the same when it is written again.
// also: plugin/sched/nodes/boot_file.cc
#include "fuzz.h"
#include "plugin/sched/nodes/boot_file.h"

FUZZ(text) {
    const auto kept = arena::parse_boots(text);
    if (!kept) return;
    const auto twice = arena::parse_boots(arena::format_boots(*kept));
    if (!twice || !(*twice == *kept)) std::abort();
}
