// SPDX-License-Identifier: GPL-2.0-or-later
// FNV-1a, finished as splitmix64 does: names that are the same on every rank and need no exchange.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hash.h"

namespace arena::watch {

class Hash {
  public:
    Hash& bytes(const void* data, std::size_t size) {
        state_.bytes({static_cast<const char*>(data), size});
        return *this;
    }
    Hash& number(std::uint64_t value) { return bytes(&value, sizeof value); }
    Hash& text(const char* text) {
        for (; *text != '\0'; ++text) bytes(text, 1);
        return number(0);
    }
    /// Below 2^62, and never 0: a number that any reader of tables takes.
    [[nodiscard]] std::uint64_t value() const {
        const std::uint64_t v = splitmix_of(state_.value()) >> 2;
        return v == 0 ? 1 : v;
    }

  private:
    Fnv1a state_;
};

}  // namespace arena::watch
