// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may lie in the profile spool; what is read back writes and reads the
// same.
#include "core/profile.h"
#include "fuzz.h"

FUZZ(text) {
    const auto profile = arena::parse_profile(text);
    if (!profile) return;
    const auto again = arena::parse_profile(arena::to_json(*profile));
    if (!again || !(*again == *profile)) std::abort();
}
