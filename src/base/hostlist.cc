// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/hostlist.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"

namespace arena {
namespace {

constexpr std::size_t max_list_bytes = 1 << 20, max_host_bytes = 255;

bool is_host_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
}

/// Where the comma is that ends the first word; brackets keep theirs.
std::size_t end_of_word(std::string_view list) {
    bool inside = false;
    for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i] == '[') inside = true;
        if (list[i] == ']') inside = false;
        if (list[i] == ',' && !inside) return i;
    }
    return list.size();
}

/// Writes a list out, within a number of nodes.
class HostlistReader {
  public:
    explicit HostlistReader(std::size_t most) : most_(most) {}

    Status take(const std::string& before, std::string_view rest) {
        const std::size_t open = rest.find('[');
        const std::string head = before + std::string(rest.substr(0, open));
        if (open == std::string_view::npos) return add(head);
        const std::size_t close = rest.find(']', open);
        if (close == std::string_view::npos) return refuse(rest);
        const std::string_view inside = rest.substr(open + 1, close - open - 1);
        for (const std::string_view range : split(inside, ','))
            if (Status status = take_range(head, range, rest.substr(close + 1)); !status)
                return status;
        return Done{};
    }
    std::vector<std::string> finish() { return std::move(hosts_); }
    static Error refuse(std::string_view what) {
        return usage_error(
            fmt::format("\"{}\" is no list of nodes such as n1,n[4-7]", printable(what, 100)));
    }

  private:
    Status take_range(const std::string& head, std::string_view range, std::string_view rest) {
        const std::size_t dash = range.find('-');
        const std::string_view low = range.substr(0, dash),
                               high = dash == std::string_view::npos ? low : range.substr(dash + 1);
        constexpr std::int64_t most_number = 999'999'999;
        const auto from = parse_integer(low, 0, most_number);
        const auto to = parse_integer(high, 0, most_number);
        if (!from || !to || *from > *to || low.size() > 9) return refuse(range);
        for (std::int64_t n = *from; n <= *to; ++n)
            if (Status status = take(fmt::format("{}{:0{}}", head, n, low.size()), rest); !status)
                return status;
        return Done{};
    }
    Status add(std::string host) {
        const bool is_host = !host.empty() && host.size() <= max_host_bytes &&
                             std::all_of(host.begin(), host.end(), is_host_char);
        if (!is_host) return refuse(host);
        if (hosts_.size() == most_) return usage_error(fmt::format("more than {} nodes", most_));
        if (!seen_.insert(host).second)
            return usage_error(fmt::format("node {} is there twice", host));
        hosts_.push_back(std::move(host));
        return Done{};
    }

    std::size_t most_;
    std::vector<std::string> hosts_;
    std::set<std::string> seen_;
};

}  // namespace

Result<std::vector<std::string>> parse_hostlist(std::string_view list, std::size_t most) {
    constexpr std::size_t max_bytes = 64 * 1024, max_brackets = 4;
    if (list.size() > max_bytes) return usage_error("the list of nodes is longer than 64 KiB");
    HostlistReader reader(most);
    for (bool more = true; more;) {
        const std::size_t end = end_of_word(list);
        const std::string_view word = list.substr(0, end);
        if (std::count(word.begin(), word.end(), '[') > static_cast<std::ptrdiff_t>(max_brackets))
            return HostlistReader::refuse(word);
        if (Status status = reader.take({}, word); !status) return status.error();
        more = end < list.size();
        if (more) list.remove_prefix(end + 1);
    }
    return reader.finish();
}

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

bool is_address(const std::string& host) {
    in6_addr any{};
    return ::inet_pton(AF_INET, host.c_str(), &any) == 1 ||
           ::inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

bool is_host(std::string_view text) {
    if (is_address(std::string(text))) return true;
    return !text.empty() && text.size() <= max_host_bytes && text.front() != '-' &&
           text.front() != '.' && std::all_of(text.begin(), text.end(), is_host_char);
}

std::int64_t master_port(std::int64_t job, std::int64_t step) {
    constexpr std::int64_t first = 20000, ports = 10000, between_steps = 997;
    return first + (job % ports + step % ports * between_steps) % ports;
}

std::optional<double> parse_elapsed(std::string_view text) {
    std::int64_t days = 0;
    const std::size_t dash = text.find('-');
    if (dash != std::string_view::npos) {
        const auto some = parse_integer(text.substr(0, dash), 0, 100'000);
        if (!some) return std::nullopt;
        days = *some;
        text.remove_prefix(dash + 1);
    }
    const auto parts = split(text, ':');
    if (parts.size() != 3 && (parts.size() != 2 || dash != std::string_view::npos))
        return std::nullopt;
    std::int64_t clock_s = 0;
    for (const std::string_view part : parts) {
        const auto number = parse_integer(part, 0, 60);
        if (!number) return std::nullopt;
        clock_s = 60 * clock_s + *number;
    }
    return static_cast<double>(86400 * days + clock_s);
}

}  // namespace arena
