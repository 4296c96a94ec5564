// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may claim to be ARENA_PLAN; what is accepted writes and reads the
// same.
#include "core/offer.h"
#include "fuzz.h"

FUZZ(text) {
    const auto offer = arena::parse_offer_json(text);
    if (!offer) return;
    const auto written = arena::to_json(*offer);
    const auto again = arena::parse_offer_json(written);
    if (!again || arena::to_json(*again) != written) std::abort();
}
