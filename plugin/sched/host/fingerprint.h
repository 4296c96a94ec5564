// SPDX-License-Identifier: GPL-2.0-or-later
// Fingerprint: 64 bits of what a decision rested on (FNV-1a), so that it can be asked under the
// lock whether it still stands, without keeping or comparing the texts. All of them are of one job:
// its user could fool nobody else.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/hash.h"

namespace arena {

class Fingerprint {
  public:
    /// A field ends where it ends: ("ab", "c") is not ("a", "bc").
    Fingerprint& add(std::string_view text) {
        state_.bytes(text);
        return add(static_cast<std::uint64_t>(text.size()));
    }
    Fingerprint& add(std::uint64_t number) {
        for (int i = 0; i < 8; ++i) state_.mix(number >> (8 * i) & 0xff);
        return *this;
    }
    [[nodiscard]] std::uint64_t value() const { return state_.value(); }

  private:
    Fnv1a state_;
};

}  // namespace arena
