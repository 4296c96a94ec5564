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

std::int64_t gpu_index(std::int64_t device, std::int64_t local_rank, std::string_view visible_text,
                       std::string_view granted_text) {
    const auto visible = numbers(visible_text), granted = numbers(granted_text);
    if (!visible || !granted) return -1;
    const std::vector<std::int64_t>& seen = visible->empty() ? *granted : *visible;
    if (device < 0) device = seen.size() == 1 ? 0 : local_rank;
    if (seen.empty()) return -1;
    const std::int64_t number = at(seen, device);
    // Slurm that hides other jobs' devices counts those of the step from 0.
    const bool is_global = std::all_of(seen.begin(), seen.end(), [&](std::int64_t one) {
        return granted->empty() ||
               std::find(granted->begin(), granted->end(), one) != granted->end();
    });
    return is_global ? number : at(*granted, number);
}

}  // namespace arena::watch
