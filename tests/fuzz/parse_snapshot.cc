// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may claim to be a saved snapshot, offers or a decision; what is read
// back writes and reads the same.
#include "core/decision.h"
#include "fuzz.h"

namespace {

template <typename T>
void same_again(const arena::Result<T>& value, arena::Result<T> (*parse)(std::string_view)) {
    if (!value) return;
    const auto again = parse(arena::to_json(*value));
    if (!again || !(*again == *value)) std::abort();
}

}  // namespace

FUZZ(text) {
    same_again(arena::parse_snapshot(text), &arena::parse_snapshot);
    same_again(arena::parse_offers(text), &arena::parse_offers);
    same_again(arena::parse_decision(text), &arena::parse_decision);
}
