// SPDX-License-Identifier: GPL-2.0-or-later
// Counts of values in buckets with fixed upper bounds, for who watches how they are distributed
// over time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace arena {

class Histogram {
  public:
    /// Upper bounds, ascending; above the last one is a bucket without a bound.
    explicit Histogram(std::span<const double> bounds)
        : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {}
    /// What is no number counts nowhere.
    void add(double value) {
        if (!std::isfinite(value)) return;
        const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value);
        ++counts_[static_cast<std::size_t>(at - bounds_.begin())];
        sum_ += value;
    }
    [[nodiscard]] const std::vector<double>& bounds() const { return bounds_; }
    /// Of each bucket alone, not of those below it.
    [[nodiscard]] const std::vector<std::uint64_t>& counts() const { return counts_; }
    [[nodiscard]] double sum() const { return sum_; }

  private:
    std::vector<double> bounds_;
    std::vector<std::uint64_t> counts_;
    double sum_ = 0;
};

}  // namespace arena
