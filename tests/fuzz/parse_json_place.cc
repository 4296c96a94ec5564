// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may be a JSON text. A fault has a place in it and printable words; a
// member of a text that is JSON is found where its name stands.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "base/json_place.h"
#include "base/text.h"

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

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (arena::nests_deeper(text, 32)) return 0;
    const auto json = arena::parse_json(text);
    if (!json) {
        check_fault(text);
        return 0;
    }
    if (!json->is_object()) return 0;
    for (const auto& [name, value] : json->items()) {
        check_member(text, name, {name});
        if (!value.is_object()) continue;
        for (const auto& [inner, unused] : value.items()) {
            (void)unused;
            if (text.find('\\') == std::string_view::npos) check_member(text, inner, {name, inner});
        }
    }
    return 0;
}
