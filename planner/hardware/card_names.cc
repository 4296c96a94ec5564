// SPDX-License-Identifier: GPL-2.0-or-later
// See card_names.h.
#include "planner/hardware/card_names.h"

#include <algorithm>

#include "base/text.h"
#include "planner/hardware/hardware.h"

namespace arena {
namespace {

/// "NVIDIA A100-SXM4-80GB" -> a100, sxm4, 80gb.
std::vector<std::string> name_parts(std::string_view word) {
    constexpr std::string_view vendor_words[] = {"nvidia", "tesla", "geforce", "quadro"};
    std::vector<std::string> parts;
    while (!word.empty()) {
        const std::size_t end = word.find_first_of("-_ ");
        std::string part = lower_word(word.substr(0, end));
        const bool is_vendor = std::find(std::begin(vendor_words), std::end(vendor_words), part) !=
                               std::end(vendor_words);
        if (!part.empty() && !is_vendor) parts.push_back(std::move(part));
        word.remove_prefix(end == std::string_view::npos ? word.size() : end + 1);
    }
    return parts;
}

}  // namespace

std::string lower_word(std::string_view word) {
    std::string lower(word);
    for (char& c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return lower;
}

bool same_word(std::string_view a, std::string_view b) {
    return a.size() == b.size() && lower_word(a) == lower_word(b);
}

bool same_card(std::string_view name, std::string_view word) {
    const std::string card = join(name_parts(name), "");  // as "RTX3090" is RTX-3090
    return !card.empty() && card == join(name_parts(word), "");
}

bool same_card(const GpuType& type, std::string_view word) {
    return same_card(type.name, word) ||
           std::any_of(type.aliases.begin(), type.aliases.end(),
                       [&](const std::string& alias) { return same_card(alias, word); });
}

std::vector<std::string> hardware_like(const std::vector<GpuType>& types, std::string_view word) {
    std::vector<std::string> names;
    if (const auto type = find_hardware(types, word)) names.push_back(type->name);
    const std::vector<std::string> begin = name_parts(word);
    for (const GpuType& type : types) {
        const std::vector<std::string> parts = name_parts(type.name);
        const bool begins = !begin.empty() && begin.size() <= parts.size() &&
                            std::equal(begin.begin(), begin.end(), parts.begin());
        if (begins && (names.empty() || names.front() != type.name)) names.push_back(type.name);
    }
    return names;
}

}  // namespace arena
