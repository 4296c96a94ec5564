// SPDX-License-Identifier: GPL-2.0-or-later
// See slow_fact.h.
#include "plugin/sched/nodes/slow_fact.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/names.h"
#include "base/text.h"

namespace arena {
namespace {

constexpr std::array<Name<Quarantine>, 4> quarantines{{
    {Quarantine::report, "report"},
    {Quarantine::avoid, "avoid"},
    {Quarantine::reserve, "reserve"},
    {Quarantine::drain, "drain"},
}};
constexpr std::int64_t max_device = 4095, max_seen = 1000000;
/// A node says since when it is up in whole seconds, counted anew each time.
constexpr std::int64_t boot_jitter_s = 5;
/// By how much a clock may be set back without anybody having set it.
constexpr std::int64_t clock_jitter_s = 60;
/// Far beyond any time, and from being too large to add to.
constexpr std::int64_t last_second = std::int64_t{1} << 40;

bool read_device(std::string_view text, std::int64_t& out) {
    out = any_gpu;
    if (text == "*") return true;
    const auto number = parse_integer(text, 0, max_device);
    if (number) out = *number;
    return number.has_value();
}

/// "1:compute:2.10"
bool read_value(std::string_view text, SlowFact& out) {
    const auto parts = split(text, ':');
    if (parts.size() != 3) return false;
    const auto cause = parse_slow_cause(parts[1]);
    const auto factor = parse_number(parts[2], 1, 1e4);
    if (!cause || !factor || !read_device(parts[0], out.device)) return false;
    out.cause = *cause;
    out.factor = *factor;
    return true;
}

bool read_number(const Fact& fact, std::string_view key, std::int64_t min, std::int64_t max,
                 std::int64_t& out) {
    const std::string* text = fact.find(key);
    if (!text) return true;
    const auto number = parse_integer(*text, min, max);
    if (number) out = *number;
    return number.has_value();
}

bool read_by(const Fact& fact, std::vector<JobId>& out) {
    const std::string* text = fact.find("by");
    if (!text) return true;
    for (const std::string_view item : split(*text, ',')) {
        const auto id = parse_integer(item, 1, UINT32_MAX);
        if (!id || out.size() == SlowFact::max_by) return false;
        out.push_back(static_cast<JobId>(*id));
    }
    return true;
}

/// One job's word goes first, then what ends first.
void make_room(std::vector<SlowFact>& facts, const SlowdownRules& rules) {
    const auto worth = [&](const SlowFact& fact) {
        return std::pair(is_confirmed(fact, rules), fact.until == 0 ? last_second : fact.until);
    };
    while (facts.size() >= max_slow_facts)
        facts.erase(std::min_element(
            facts.begin(), facts.end(),
            [&](const SlowFact& a, const SlowFact& b) { return worth(a) < worth(b); }));
}

std::string device_of(const SlowFact& slow) {
    return slow.device == any_gpu ? "*" : std::to_string(slow.device);
}

}  // namespace

SlowdownRules slowdown_rules(const Config& config) {
    SlowdownRules rules;
    rules.quarantine =
        value_of(quarantines, config.slowdown_quarantine).value_or(Quarantine::avoid);
    rules.max_quarantined_percent = config.slowdown_max_quarantined_percent;
    rules.confirmations = config.slowdown_confirmations;
    rules.recheck_s = config.slowdown_recheck_s;
    return rules;
}

std::optional<SlowFact> slow_fact(const Fact& fact, std::string* why) {
    if (fact.kind != "slow") return std::nullopt;
    SlowFact slow;
    const bool sound =
        read_value(fact.value, slow) && read_number(fact, "seen", 1, max_seen, slow.seen) &&
        read_by(fact, slow.by) && read_number(fact, "since", 0, last_second, slow.since) &&
        read_number(fact, "until", 0, last_second, slow.until);
    if (!sound) {
        *why = "slow=" + printable(fact.value) + " or what follows it is not sound";
        return std::nullopt;
    }
    if (const std::string* driver = fact.find("driver")) slow.driver = *driver;
    return slow;
}

std::string short_form(const SlowFact& slow) {
    return fmt::format("{}:{}:x{:.2f}", device_of(slow), slowdown::name(slow.cause), slow.factor);
}

Fact fact_of(const SlowFact& slow) {
    Fact fact{"slow",
              fmt::format("{}:{}:{:.2f}", device_of(slow), slowdown::name(slow.cause), slow.factor),
              {}};
    fact.set("seen", std::to_string(slow.seen));
    if (!slow.by.empty()) fact.set("by", fmt::format("{}", fmt::join(slow.by, ",")));
    if (slow.since != 0) fact.set("since", std::to_string(slow.since));
    if (slow.until != 0) fact.set("until", std::to_string(slow.until));
    if (!slow.driver.empty()) fact.set("driver", slow.driver);
    return fact;
}

std::string words_of(const SlowFact& slow) {
    const std::string what = slow.device == any_gpu ? "it" : fmt::format("GPU {}", slow.device);
    const char* does = slow.cause == SlowCause::compute ? "computes" : "communicates";
    return fmt::format("{} {} {:.1f} times slower", what, does, slow.factor);
}

void add_verdict(std::vector<SlowFact>& facts, const SlowVerdict& verdict, std::int64_t now,
                 const SlowdownRules& rules) {
    auto at = std::find_if(facts.begin(), facts.end(), [&](const SlowFact& fact) {
        return fact.device == verdict.device && fact.cause == verdict.cause;
    });
    if (at == facts.end()) {
        make_room(facts, rules);
        SlowFact first;
        first.device = verdict.device;
        first.cause = verdict.cause;
        first.seen = 0;
        first.since = now;
        at = facts.insert(facts.end(), first);
    }
    at->factor = verdict.factor;
    at->until = now + static_cast<std::int64_t>(std::ceil(rules.recheck_s));
    if (std::find(at->by.begin(), at->by.end(), verdict.job) != at->by.end()) return;
    if (at->by.size() == SlowFact::max_by) at->by.erase(at->by.begin());
    at->by.push_back(verdict.job);
    ++at->seen;
}

void set_back(SlowFact& fact, std::int64_t now) {
    const std::int64_t ahead = fact.since - now;
    if (ahead <= clock_jitter_s) return;
    fact.since = now;
    if (fact.until != 0) fact.until = std::max(fact.until - ahead, now + 1);
}

bool is_over(const SlowFact& fact, std::int64_t now, std::int64_t booted,
             const std::string& driver) {
    if (fact.until != 0 && now >= fact.until) return true;
    if (fact.since != 0 && booted > fact.since + boot_jitter_s) return true;
    return !fact.driver.empty() && !driver.empty() && fact.driver != driver;
}

std::vector<NodeIndex> choose_quarantined(std::vector<Suspect> suspects,
                                          const std::vector<NodeState>& nodes,
                                          const SlowdownRules& rules,
                                          const std::set<NodeIndex>& gone) {
    std::map<std::string_view, double> of_type, usable;
    for (NodeIndex i = 0; i < nodes.size(); ++i) {
        of_type[nodes[i].gpu_type] += nodes[i].total_gpus > 0;
        usable[nodes[i].gpu_type] += nodes[i].total_gpus > 0 && !gone.contains(i);
    }
    std::sort(suspects.begin(), suspects.end(), [](const Suspect& a, const Suspect& b) {
        return std::pair(-a.since, a.node) < std::pair(-b.since, b.node);
    });
    std::map<std::string_view, double> taken;
    std::vector<NodeIndex> chosen;
    for (const Suspect& suspect : suspects) {
        const std::string_view type = nodes[suspect.node].gpu_type;
        const double share = std::floor(of_type[type] * rules.max_quarantined_percent / 100);
        const double most = rules.max_quarantined_percent > 0 ? std::max(share, 1.0) : 0;
        if (taken[type] + 1 > std::min(most, of_type[type] - 1)) continue;
        const bool is_usable = !gone.contains(suspect.node);
        if (is_usable && usable[type] <= 1) continue;
        usable[type] -= is_usable;
        ++taken[type];
        chosen.push_back(suspect.node);
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
}

}  // namespace arena
