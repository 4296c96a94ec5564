// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/wire/sealed_line.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <sys/random.h>

#include <algorithm>

namespace arena::watch {
namespace {

constexpr std::string_view greeting = "arena-watch 1 ";
constexpr std::size_t nonce_chars = 32, mac_chars = 32;

const std::uint8_t* octets(std::string_view text) {
    return reinterpret_cast<const std::uint8_t*>(text.data());
}

std::string hex(const std::uint8_t* bytes, std::size_t count) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
        text += digits[bytes[i] >> 4];
        text += digits[bytes[i] & 15];
    }
    return text;
}

std::optional<std::uint8_t> digit(char c) {
    if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
    return std::nullopt;
}

std::string_view view_of(const Digest& digest) {
    return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

std::optional<WatchKey> parse_watch_key(std::string_view text) {
    WatchKey key{};
    if (text.size() != 2 * key.size()) return std::nullopt;
    for (std::size_t i = 0; i < key.size(); ++i) {
        const auto high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (!high || !low) return std::nullopt;
        key[i] = static_cast<std::uint8_t>(*high << 4 | *low);
    }
    return key;
}

Digest authenticate(std::string_view key, std::string_view text) {
    hmac_sha256_ctx context;
    Digest digest;
    hmac_sha256_set_key(&context, key.size(), octets(key));
    hmac_sha256_update(&context, text.size(), octets(text));
    hmac_sha256_digest(&context, digest.size(), digest.data());
    return digest;
}

std::string_view bytes_of(const WatchKey& key) {
    return {reinterpret_cast<const char*>(key.data()), key.size()};
}

std::string new_nonce() {
    std::array<std::uint8_t, nonce_chars / 2> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
    return hex(bytes.data(), bytes.size());
}

bool is_nonce(std::string_view text) {
    return text.size() == nonce_chars &&
           std::all_of(text.begin(), text.end(), [](char c) { return digit(c).has_value(); });
}

Seal::Seal(const WatchKey& key, std::string_view direction, std::string_view nonces) {
    std::string words("arena-watch 1 ");
    words.append(direction).append(" ").append(nonces);
    key_ = authenticate(bytes_of(key), words);
}

/// Of the line's number, big-endian, and its text; the first half, which is 128 bits.
std::string Seal::mac(std::string_view text) const {
    std::string numbered;
    for (int shift = 56; shift >= 0; shift -= 8)
        numbered += static_cast<char>(next_ >> shift & 0xff);
    numbered += text;
    const Digest digest = authenticate(view_of(key_), numbered);
    return hex(digest.data(), mac_chars / 2);
}

std::string Seal::seal(std::string_view text) {
    std::string line = mac(text) + " ";
    line += text;
    ++next_;
    return line;
}

std::optional<std::string_view> Seal::open(std::string_view line) {
    if (line.size() < seal_chars || line[mac_chars] != ' ') return std::nullopt;
    const std::string_view text = line.substr(seal_chars);
    const std::string wanted = mac(text);
    if (nettle_memeql_sec(wanted.data(), line.data(), mac_chars) == 0) return std::nullopt;
    ++next_;
    return text;
}

std::string format_greeting(std::string_view nonce) {
    return std::string(greeting) + std::string(nonce);
}

std::optional<std::string_view> parse_greeting(std::string_view line) {
    if (!line.starts_with(greeting) || !is_nonce(line.substr(greeting.size()))) return std::nullopt;
    return line.substr(greeting.size());
}

}  // namespace arena::watch
