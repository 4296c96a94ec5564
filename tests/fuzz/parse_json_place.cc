// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may be a JSON text. A fault has a place in it and printable words; a
// member of a text that is JSON is found where its name stands.
#include "base/json.h"
#include "base/json_place.h"
#include "base/text.h"
#include "fuzz.h"

namespace {

void check_fault(std::string_view text) {
    const arena::JsonFault fault = arena::find_json_fault(text);
    const arena::TextPlace end = arena::place_in(text, text.size());
    if (fault.place.line < 1 || fault.place.column < 1 || fault.place.line > end.line) std::abort();
    if (arena::printable(fault.what, 160) != fault.what) std::abort();
}

void check_member(std::string_view text, const std::string& name,
                  const std::vector<std::string_view>& path) {
    const auto at = arena::find_json_key(text, path);
    if (name.find_first_of("\\\"") != std::string::npos) return;
    if (at && text.substr(*at, name.size() + 2) != '"' + name + '"') std::abort();
    // Names with escapes in the text are not found: only where there are none must one be.
    if (!at && text.find('\\') == std::string_view::npos) std::abort();
}

}  // namespace

FUZZ(text) {
    if (arena::nests_deeper(text, 32)) return;
    const auto json = arena::parse_json(text);
    if (!json) {
        check_fault(text);
        return;
    }
    if (!json->is_object()) return;
    for (const auto& [name, value] : json->items()) {
        check_member(text, name, {name});
        if (!value.is_object()) continue;
        for (const auto& [inner, unused] : value.items()) {
            (void)unused;
            if (text.find('\\') == std::string_view::npos) check_member(text, inner, {name, inner});
        }
    }
}
