// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/agent/gpu_index.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.h"

namespace arena::watch {
namespace {

/// Nothing: it does not consist of numbers (UUIDs of GPUs, parts of MIG).
std::optional<std::vector<std::int64_t>> numbers(std::string_view text) {
    std::vector<std::int64_t> all;
    if (text.empty()) return all;
    for (const std::string_view word : split(text, ',')) {
        const auto number = parse_integer(trim(word), 0, 4095);
        if (!number) return std::nullopt;
        all.push_back(*number);
    }
    return all;
}

std::int64_t at(const std::vector<std::int64_t>& list, std::int64_t index) {
    const bool inside = index >= 0 && index < static_cast<std::int64_t>(list.size());
    return inside ? list[static_cast<std::size_t>(index)] : -1;
}

}  // namespace

std::int64_t gpu_index(std::int64_t device, std::string_view visible_text,
                       std::string_view granted_text) {
    const auto visible = numbers(visible_text), granted = numbers(granted_text);
    if (!visible || !granted) return -1;
    const std::vector<std::int64_t>& seen = visible->empty() ? *granted : *visible;
    if (device < 0 && seen.size() == 1) device = 0;
    const std::int64_t number = at(seen, device);
    if (number < 0 || granted->empty()) return number;
    // Slurm that hides other jobs' devices counts those of the step from 0: a part of them can be
    // read both ways.
    const bool is_global = std::all_of(seen.begin(), seen.end(), [&](std::int64_t one) {
        return std::find(granted->begin(), granted->end(), one) != granted->end();
    });
    const bool is_counted = std::all_of(seen.begin(), seen.end(), [&](std::int64_t one) {
        return one < static_cast<std::int64_t>(granted->size());
    });
    const std::int64_t counted = at(*granted, number);
    if (is_global && is_counted) return counted == number ? number : -1;
    return is_global ? number : counted;
}

}  // namespace arena::watch
