// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may claim to be the request of a carrier job; what is accepted reads
// back as itself, if it fits.
#include "core/profile.h"
#include "fuzz.h"

FUZZ(text) {
    const auto request = arena::parse_profile_request(text);
    if (!request) return;
    const auto written = arena::to_json(*request);
    if (written.size() > arena::max_profile_request_bytes) return;  // escapes may make it longer
    const auto again = arena::parse_profile_request(written);
    if (!again || !(*again == *request)) std::abort();
}
