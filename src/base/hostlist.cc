// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/hostlist.h"

#include <algorithm>

namespace arena {
namespace {

constexpr std::size_t max_list_bytes = 1 << 20, max_host_bytes = 255;

bool is_host_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
}

}  // namespace

std::optional<std::string> parse_first_host(std::string_view list) {
    if (list.size() > max_list_bytes) return std::nullopt;
    std::string host;
    while (!list.empty() && list.front() != ',') {
        if (list.front() == '[') {
            const std::size_t close = list.find(']');
            if (close == std::string_view::npos) return std::nullopt;
            const std::string_view range = list.substr(1, close - 1);
            const std::string_view first = range.substr(0, range.find_first_of(",-"));
            if (first.empty()) return std::nullopt;
            host += first;
            list.remove_prefix(close + 1);
        } else {
            host += list.front();
            list.remove_prefix(1);
        }
        if (host.size() > max_host_bytes) return std::nullopt;
    }
    if (host.empty() || !std::all_of(host.begin(), host.end(), is_host_char)) return std::nullopt;
    return host;
}

std::int64_t master_port(std::int64_t job, std::int64_t step) {
    constexpr std::int64_t first = 20000, ports = 10000, between_steps = 997;
    return first + (job % ports + step % ports * between_steps) % ports;
}

}  // namespace arena
