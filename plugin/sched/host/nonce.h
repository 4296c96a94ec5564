// SPDX-License-Identifier: GPL-2.0-or-later
// A word that nobody can guess: what names a profile run, and the key of a watched job.
#pragma once

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cstdint>
#include <string>

namespace arena {

/// 128 bits of the kernel's randomness as 32 hex digits; "" where it gives none.
inline std::string new_nonce() {
    std::array<std::uint64_t, 2> words{};
    if (::getrandom(words.data(), sizeof words, 0) != static_cast<ssize_t>(sizeof words)) return {};
    return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

}  // namespace arena
