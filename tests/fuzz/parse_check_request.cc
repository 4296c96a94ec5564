// SPDX-License-Identifier: GPL-2.0-or-later
// The request of a carrier, as a profiler reads it from its environment.
// also: src/checks/node_check_json.cc
#include "checks/node_check.h"
#include "fuzz.h"

FUZZ(text) {
    (void)arena::request_kind(text);
    const auto request = arena::parse_check_request(text);
    if (!request) return;
    const auto again = arena::parse_check_request(arena::to_json(*request));
    if (!again || !(*again == *request)) std::abort();
}
