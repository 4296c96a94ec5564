// SPDX-License-Identifier: GPL-2.0-or-later
// Fingerprint: 64 bits of what a decision rested on (FNV-1a), so that it can be asked under the
// lock whether it still stands, without keeping or comparing the texts. Not for bytes that somebody
// may choose to collide.
#pragma once

#include <cstdint>
#include <string_view>

namespace arena {

class Fingerprint {
  public:
    /// A field ends where it ends: ("ab", "c") is not ("a", "bc").
    Fingerprint& add(std::string_view text) {
        for (const char c : text) mix(static_cast<unsigned char>(c));
        return add(static_cast<std::uint64_t>(text.size()));
    }
    Fingerprint& add(std::uint64_t number) {
        for (int i = 0; i < 8; ++i) mix(static_cast<unsigned char>(number >> (8 * i)));
        return *this;
    }
    [[nodiscard]] std::uint64_t value() const { return value_; }

  private:
    void mix(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
    std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace arena
