// SPDX-License-Identifier: GPL-2.0-or-later
// FNV-1a, 64 bits, for tables and for telling whether something has changed, and SplitMix64, for
// random numbers that are the same on every machine: quick, and no secret. Whoever chooses the
// bytes can choose another text of the same value, so nothing that one user could put there for
// another is found by it: that is sha256_hex()'s, in text.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace arena {

class Fnv1a {
  public:
    /// A byte, or a word of a table's key.
    constexpr Fnv1a& mix(std::uint64_t unit) {
        value_ = (value_ ^ unit) * 0x100000001b3;
        return *this;
    }
    constexpr Fnv1a& bytes(std::string_view text) {
        for (const char c : text) mix(static_cast<unsigned char>(c));
        return *this;
    }
    [[nodiscard]] constexpr std::uint64_t value() const { return value_; }

  private:
    std::uint64_t value_ = 0xcbf29ce484222325;
};

/// What SplitMix64 (Steele, Lea, Flood, OOPSLA'14) adds from number to number.
inline constexpr std::uint64_t splitmix_step = 0x9e3779b97f4a7c15;

/// The number that it makes of a state: every bit depends on each.
constexpr std::uint64_t splitmix_of(std::uint64_t state) {
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
    state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
    return state ^ (state >> 31);
}

/// The next number after the seed.
constexpr std::uint64_t splitmix(std::uint64_t seed) { return splitmix_of(seed + splitmix_step); }

class SplitMix {
  public:
    explicit SplitMix(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() { return splitmix_of(state_ += splitmix_step); }
    /// 0 to count - 1; count of at least 1, below 2^32.
    std::size_t below(std::size_t count) {
        return static_cast<std::size_t>(((next() >> 32) * count) >> 32);
    }
    /// [0, 1)
    double share() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  private:
    std::uint64_t state_;
};

}  // namespace arena
