// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may be how long something lasts; what comes out is seconds within bounds.
#include "base/hostlist.h"
#include "fuzz.h"

FUZZ(text) {
    const auto seconds = arena::parse_elapsed(text);
    if (seconds && !(*seconds >= 0 && *seconds < 100'002.0 * 86400)) std::abort();
}
