// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers of things as real numbers, and order statistics of samples, which are sorted, smallest
// first, where nothing else is said.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace arena {

/// Of a count: exact up to 2^53.
constexpr double real(std::int64_t count) { return static_cast<double>(count); }

/// Linear between the two neighbours (rule 7 of Hyndman and Fan, numpy's); share in [0, 1]; 0 of
/// nothing. For measurements.
inline double quantile(std::span<const double> sorted, double share) {
    if (sorted.empty()) return 0;
    const double at = share * static_cast<double>(sorted.size() - 1);
    const auto low = static_cast<std::size_t>(at);
    const std::size_t high = std::min(low + 1, sorted.size() - 1);
    return std::lerp(sorted[low], sorted[high], at - static_cast<double>(low));
}
inline double median(std::span<const double> sorted) { return quantile(sorted, 0.5); }
/// The upper of the two in the middle, a value that was there; of at least one value.
inline double median_high(std::span<const double> sorted) { return sorted[sorted.size() / 2]; }
/// Of values in any order; 0 of nothing.
inline double median_of(std::vector<double> values) {
    std::ranges::sort(values);
    return median(values);
}
/// Of values in any order; of at least one: among two the lesser is the usual one.
inline double median_low_of(std::vector<double> values) {
    std::ranges::sort(values);
    return values[(values.size() - 1) / 2];
}

/// By nearest rank, the least value that at least that share of the values does not exceed; share
/// in (0, 1]; 0 of nothing. For tails.
inline double percentile(std::span<const double> sorted, double share) {
    if (sorted.empty()) return 0;
    const auto rank =
        static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
    return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace arena
