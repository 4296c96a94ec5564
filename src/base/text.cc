// SPDX-License-Identifier: GPL-2.0-or-later
// Text helpers: see text.h. Numbers go through from_chars, so the locale never changes a meaning.
#include "base/text.h"

#include <fmt/format.h>
#include <nettle/sha2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

namespace arena {

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t min,
                                          std::int64_t max) {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc() || rest != end || value < min || value > max) {
        return std::nullopt;
    }
    return value;
}

std::optional<double> parse_number(std::string_view text, double min, double max) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc() || rest != end) return std::nullopt;
    if (!std::isfinite(value) || value < min || value > max) return std::nullopt;
    return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const std::size_t at = text.find(separator);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos) return parts;
        text.remove_prefix(at + 1);
    }
}

std::string_view trim(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n\v\f";
    const std::size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
    return fmt::format("{}", fmt::join(parts, separator));
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, change});
        }
    }
    return row.back();
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
    constexpr std::size_t longest = 256;  // keeps hostile input from costing quadratic time
    if (word.size() > longest) return {};
    std::string_view best;
    std::size_t best_distance = word.size() / 2 + 1;
    for (const std::string_view candidate : candidates) {
        const std::size_t distance = edit_distance(word, candidate);
        if (distance >= best_distance) continue;
        best_distance = distance;
        best = candidate;
    }
    return std::string(best);
}

std::string printable(std::string_view text, std::size_t max) {
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        std::string piece(1, c);
        if (byte < 0x20 || byte > 0x7e) piece = fmt::format("\\x{:02x}", byte);
        if (out.size() + piece.size() > max) break;
        out += piece;
    }
    return out;
}

std::string sha256_hex(std::string_view text) {
    sha256_ctx context{};
    sha256_init(&context);
    sha256_update(&context, text.size(), reinterpret_cast<const std::uint8_t*>(text.data()));
    std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
    sha256_digest(&context, digest.size(), digest.data());
    return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string human_bytes(double bytes) {
    constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    std::size_t unit = 0;
    while (std::abs(bytes) >= 1024 && unit + 1 < std::size(units)) {
        bytes /= 1024;
        ++unit;
    }
    return unit == 0 ? fmt::format("{:.0f} B", bytes)
                     : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string human_seconds(double seconds) {
    const double size = std::abs(seconds);
    if (size == 0) return "0 s";
    if (size < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
    if (size < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
    if (size < 120) return fmt::format("{:.3g} s", seconds);
    if (size < 7200) return fmt::format("{:.1f} min", seconds / 60);
    if (size < 48 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
    return fmt::format("{:.1f} d", seconds / 86400);
}

}  // namespace arena
