// SPDX-License-Identifier: GPL-2.0-or-later
// Random numbers that are the same with every library: a seed gives the same schedule everywhere.
#pragma once

#include <cstddef>
#include <cstdint>

namespace arena::array {

/// SplitMix64 (Steele, Lea, Flood, OOPSLA'14).
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }
    /// 0 to count - 1; count of at least 1.
    std::size_t below(std::size_t count) {
        return static_cast<std::size_t>(((next() >> 32) * count) >> 32);
    }
    /// [0, 1)
    double share() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  private:
    std::uint64_t state_;
};

}  // namespace arena::array
