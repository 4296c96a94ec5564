// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may claim to be a request record; what is accepted must write and
// read back as itself.
#include "fuzz.h"
#include "request/request.h"

FUZZ(bytes) {
    const auto parsed = arena::parse_record(bytes);
    if (!parsed) return;
    const auto text = arena::format_record(*parsed);
    if (!text) return;  // escapes and defaults may make it longer than a record may be
    const auto again = arena::parse_record(*text);
    if (!again || arena::format_record(*again).value() != *text) std::abort();
}
