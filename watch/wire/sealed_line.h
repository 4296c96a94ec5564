// SPDX-License-Identifier: GPL-2.0-or-later
// Lines that only who has the job's key can have written. Every process of a node can connect to
// the chief's port, and a chief's port can be another's: each line carries an HMAC-SHA256 (by
// nettle) of its text and its number, under a key of its own for each connection and direction, so
// that nothing is forged, replayed, reflected or reordered. Not secret: what it says may be read.
//
//   chief:  "arena-watch 1 NONCE"                 in the clear; NONCE, NONCE2: 32 hex digits
//   caller: line 0, text NONCE2                   it has the key, and this is no replay
//   chief:  line 0, text "welcome"                so is the chief, for this caller
//   both:   lines 1, 2, ...
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace arena::watch {

using WatchKey = std::array<std::uint8_t, 16>;
using Digest = std::array<std::uint8_t, 32>;

constexpr std::size_t seal_chars = 33;  ///< of a line, before its text: 32 hex digits, a blank

/// 32 hex digits, as in ARENA_WATCH_KEY. Untrusted.
std::optional<WatchKey> parse_watch_key(std::string_view text);
/// HMAC-SHA256.
Digest authenticate(std::string_view key, std::string_view text);
std::string_view bytes_of(const WatchKey& key);

/// 32 hex digits of the kernel's randomness, as a key has them, too; "" where it gives none.
std::string new_nonce();
/// Untrusted.
bool is_nonce(std::string_view text);

/// One direction of one connection. Writer and reader have one each, made from the same words.
class Seal {
  public:
    /// `direction` is "up" (to the chief) or "down"; `nonces` are those said so far.
    Seal(const WatchKey& key, std::string_view direction, std::string_view nonces);
    /// The next line, without its end. `text` has no newline.
    std::string seal(std::string_view text);
    /// The text of the next line, which points into it; nothing: not written by the other end, not
    /// the next one, or damaged. Untrusted.
    std::optional<std::string_view> open(std::string_view line);

  private:
    [[nodiscard]] std::string mac(std::string_view text) const;
    Digest key_;
    std::uint64_t next_ = 0;
};

/// "arena-watch 1 NONCE".
std::string format_greeting(std::string_view nonce);
/// Its nonce. Untrusted.
std::optional<std::string_view> parse_greeting(std::string_view line);

}  // namespace arena::watch
