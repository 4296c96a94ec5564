// SPDX-License-Identifier: GPL-2.0-or-later
// See recognise.h. Offsets and page kinds: https://www.sqlite.org/fileformat2.html, sections 1.3
// and 1.6.
#include "store/recognise.h"

namespace arena::sql {
namespace {

constexpr std::string_view magic{"SQLite format 3\0", 16};
constexpr std::size_t id_offset = 68, page_bytes = 4096;

unsigned big_endian(std::string_view bytes) {
    unsigned value = 0;
    for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
    return value;
}

bool header_is_ours(std::string_view start) {
    const std::string_view beginning = start.substr(0, magic.size());
    if (beginning.empty() || !magic.starts_with(beginning)) return false;
    return start.size() < id_offset + 4 || big_endian(start.substr(id_offset, 4)) == application_id;
}

bool has_operators(std::string_view page) {
    constexpr std::string_view kinds{"\x02\x05\x0a\x0d", 4};  // of SQLite's b-tree pages
    return kinds.find(page.front()) != std::string_view::npos &&
           (page.find("/forward/") != std::string_view::npos ||
            page.find("/backward/") != std::string_view::npos);
}

}  // namespace

bool is_left_of_store(std::string_view start, std::size_t size) {
    if (header_is_ours(start)) return true;
    if (size % page_bytes != 0) return false;
    const std::string_view first = start.substr(0, page_bytes);
    if (first.find("CREATE TABLE runs(") != std::string_view::npos &&
        first.find("model_fingerprint TEXT") != std::string_view::npos)
        return true;
    for (std::size_t at = page_bytes; at + page_bytes <= start.size(); at += page_bytes)
        if (has_operators(start.substr(at, page_bytes))) return true;
    return false;
}

}  // namespace arena::sql
