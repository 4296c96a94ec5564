// SPDX-License-Identifier: GPL-2.0-or-later
// See loan_words.h.
#include "plugin/sched/loans/loan_words.h"

#include <fmt/format.h>

#include <ctime>
#include <optional>

#include "base/hostlist.h"
#include "base/text.h"

namespace arena {
namespace {

constexpr std::int64_t latest_s = 1'000'000'000'000, longest_s = 86400;

/// The value of the one word KEY=VALUE that may follow; nothing where none does.
Result<std::optional<std::string_view>> option_of(std::string_view rest, std::string_view key) {
    if (rest.empty()) return std::optional<std::string_view>();
    const std::string before = std::string(key) + "=";
    if (!rest.starts_with(before) || rest.find(' ') != std::string_view::npos)
        return usage_error(fmt::format("\"{}\" is not {}SECONDS", printable(rest), before));
    return std::optional(rest.substr(before.size()));
}

struct Halves {
    std::string_view first, rest;
};
Halves halves_of(std::string_view words) {
    const std::size_t blank = words.find(' ');
    if (blank == std::string_view::npos) return {words, {}};
    return {words.substr(0, blank), words.substr(blank + 1)};
}

}  // namespace

Result<OfferWords> parse_loan_offer(std::string_view words) {
    const auto [list, rest] = halves_of(words);
    auto nodes = parse_hostlist(list, max_loan_nodes);
    if (!nodes) return nodes.error();
    const auto until = option_of(rest, "until");
    if (!until) return until.error();
    OfferWords offer{.nodes = std::move(*nodes)};
    if (!*until) return offer;
    const auto time = parse_integer(**until, 1, latest_s);
    if (!time)
        return usage_error(fmt::format("until={} is no time in epoch seconds", printable(**until)));
    offer.until = *time;
    return offer;
}

Result<ReclaimWords> parse_loan_reclaim(std::string_view words) {
    const auto [list, rest] = halves_of(words);
    const auto deadline = option_of(rest, "deadline");
    if (!deadline) return deadline.error();
    ReclaimWords reclaim;
    if (*deadline) {
        const auto seconds = parse_integer(**deadline, 1, longest_s);
        if (!seconds)
            return usage_error(fmt::format("deadline={} is not accepted; give 1 to {} seconds",
                                           printable(**deadline), longest_s));
        reclaim.deadline_s = *seconds;
    }
    if (const bool counts = list.find_first_not_of("0123456789") == std::string_view::npos;
        counts && !list.empty()) {
        const auto count = parse_integer(list, 1, static_cast<std::int64_t>(max_loan_nodes));
        if (!count)
            return usage_error(fmt::format("{} nodes cannot be asked for; give 1 to {}",
                                           printable(list), max_loan_nodes));
        reclaim.count = *count;
        return reclaim;
    }
    auto nodes = parse_hostlist(list, max_loan_nodes);
    if (!nodes) return nodes.error();
    reclaim.nodes = std::move(*nodes);
    return reclaim;
}

Fact fact_of(const Lease& lease) {
    Fact fact;
    const std::string text = format_lease(lease);
    for (const std::string_view word : split(text, ' ')) {
        const std::size_t equals = word.find('=');
        const std::string_view key = word.substr(0, equals), value = word.substr(equals + 1);
        if (fact.kind.empty()) {
            fact.kind = key;
            fact.value = value;
        } else {
            fact.set(key, std::string(value));
        }
    }
    return fact;
}

Result<Lease> lease_of(const Fact& fact) {
    std::string text = fact.kind + "=" + fact.value;
    for (const auto& [key, value] : fact.attributes) text += " " + key + "=" + value;
    return parse_lease(text);
}

std::string clock_words(std::int64_t epoch_s) {
    const auto at = static_cast<std::time_t>(epoch_s);
    std::tm local{};
    ::localtime_r(&at, &local);
    return fmt::format("{:02}:{:02}", local.tm_hour, local.tm_min);
}

}  // namespace arena
