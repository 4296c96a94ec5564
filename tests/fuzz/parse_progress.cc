// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may lie beside a result in the profile spool; what is accepted is
// shown to people.
#include "core/profile.h"
#include "fuzz.h"

FUZZ(text) {
    const auto progress = arena::parse_progress(text);
    if (!progress) return;
    if (progress->done > progress->total || arena::short_form(*progress).size() > 64) std::abort();
}
