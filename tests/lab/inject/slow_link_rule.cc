// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/inject/slow_link_rule.h"

namespace arena::inject {
namespace {

using watch::Op;

constexpr std::int64_t most_rank = 1 << 24, most_delay_us = 100'000'000;
constexpr std::int64_t most_bytes_per_s = 1'000'000'000'000'000;

bool take(std::string_view& text, std::string_view word) {
    if (text.size() < word.size()) return false;
    for (std::size_t i = 0; i < word.size(); ++i)
        if (text[i] != word[i]) return false;
    text.remove_prefix(word.size());
    return true;
}

bool take_number(std::string_view& text, std::int64_t most, std::int64_t& out) {
    std::int64_t value = 0;
    std::size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && value <= most)
        value = value * 10 + (text[digits++] - '0');
    if (digits == 0 || value > most) return false;
    text.remove_prefix(digits);
    out = value;
    return true;
}

bool take_pair(std::string_view& text, SlowLink& out) {
    return take(text, "ranks=") && take_number(text, most_rank, out.a) && take(text, ",") &&
           take_number(text, most_rank, out.b) && out.a != out.b;
}

/// Of the bytes that the call names, how often they go over the link; negative: none of it does.
double share_of(const LinkCall& call) {
    const std::int64_t apart = call.me < call.other ? call.other - call.me : call.me - call.other;
    const bool neighbours = apart == 1 || apart == call.ranks - 1;
    const auto others = static_cast<double>(call.ranks - 1);
    switch (call.op) {
        case Op::send:
            return call.aux == call.other ? 1 : -1;
        case Op::all_reduce:
            return neighbours ? 2 * others / static_cast<double>(call.ranks) : -1;
        case Op::all_gather:
        case Op::reduce_scatter:
            return neighbours ? others : -1;
        case Op::barrier:
            return neighbours ? 0 : -1;
        case Op::all_to_all:
            return 1;
        case Op::bcast:
        case Op::reduce:
        case Op::gather:
        case Op::scatter:
            return call.aux == call.me || call.aux == call.other ? 1 : -1;
        default:
            return -1;
    }
}

}  // namespace

SlowLink parse_slow_link(std::string_view text) {
    SlowLink link;
    if (text.size() > most_rule_bytes || !take_pair(text, link)) return {};
    if (take(text, " delay_us=") && !take_number(text, most_delay_us, link.delay_us)) return {};
    if (take(text, " bytes_per_s=") && !take_number(text, most_bytes_per_s, link.bytes_per_s))
        return {};
    take(text, "\n");
    return text.empty() ? link : SlowLink{};
}

double held_up_us(const SlowLink& link, const LinkCall& call) {
    const double share = share_of(call);
    if (share < 0) return 0;
    double us = static_cast<double>(link.delay_us);
    if (link.bytes_per_s > 0)
        us += share * static_cast<double>(call.bytes) * 1e6 / static_cast<double>(link.bytes_per_s);
    return us;
}

}  // namespace arena::inject
