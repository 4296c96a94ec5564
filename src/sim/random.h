// SPDX-License-Identifier: GPL-2.0-or-later
// Random numbers that are the same on every machine: splitmix64 with our own distributions, because
// those of <random> differ between libraries.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/hash.h"

namespace arena::sim {

class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(splitmix(seed)) {}
    std::uint64_t bits() { return splitmix(state_ += splitmix_step); }
    /// In (0, 1).
    double uniform() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1.0p-53; }
    double uniform(double min, double max) { return min + (max - min) * uniform(); }
    /// In [0, n).
    std::size_t below(std::size_t n) {
        return static_cast<std::size_t>(uniform() * static_cast<double>(n));
    }
    double exponential(double mean) { return -mean * std::log(uniform()); }
    /// Standard normal (Box-Muller, one of the pair).
    double normal() {
        const double radius = std::sqrt(-2 * std::log(uniform()));
        return radius * std::cos(2 * std::numbers::pi * uniform());
    }

  private:
    std::uint64_t state_;
};

}  // namespace arena::sim
