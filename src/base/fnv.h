// SPDX-License-Identifier: GPL-2.0-or-later
// FNV-1a, 64 bits, for tables and for telling whether something has changed: quick, and no secret.
// Whoever chooses the bytes can choose another text of the same value, so nothing that one user
// could put there for another is found by it: that is sha256_hex()'s, in text.h.
#pragma once

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

}  // namespace arena
