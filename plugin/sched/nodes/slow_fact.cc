// SPDX-License-Identifier: GPL-2.0-or-later
// See slow_fact.h.
#include "plugin/sched/nodes/slow_fact.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/names.h"
#include "base/text.h"
#include "health/signs.h"

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
    if (!cause || *cause == SlowCause::unknown || !factor || !read_device(parts[0], out.device))
        return false;
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

bool read_confidence(const Fact& fact, double& out) {
    const std::string* text = fact.find("suspected");
    if (!text) return true;
    const auto number = parse_number(*text, 0, 1);
    if (number) out = *number;
    return number && *number > 0;
}

/// "7:1000"; earlier versions wrote "7".
bool read_by(const Fact& fact, std::vector<SlowVoice>& out) {
    const std::string* text = fact.find("by");
    if (!text) return true;
    for (const std::string_view item : split(*text, ',')) {
        const std::size_t colon = item.find(':');
        const auto job = parse_integer(item.substr(0, colon), 1, UINT32_MAX);
        const auto user = colon == std::string_view::npos
                              ? std::optional<std::int64_t>(unnamed_user)
                              : parse_integer(item.substr(colon + 1), 0, UINT32_MAX);
        if (!job || !user || out.size() == SlowFact::max_by) return false;
        out.push_back({static_cast<JobId>(*job), static_cast<std::uint32_t>(*user)});
    }
    return true;
}

std::string format_by(const std::vector<SlowVoice>& by) {
    std::vector<std::string> words;
    for (const SlowVoice& voice : by)
        words.push_back(voice.user == unnamed_user ? std::to_string(voice.job)
                                                   : fmt::format("{}:{}", voice.job, voice.user));
    return join(words, ",");
}

bool has_voice(const SlowFact& fact, const SlowVoice& voice) {
    return std::any_of(fact.by.begin(), fact.by.end(),
                       [&](const SlowVoice& known) { return known.key() == voice.key(); });
}

/// Of the user who is named most often the oldest: no voice is lost as long as there is another
/// choice.
void forget_one(std::vector<SlowVoice>& by) {
    const auto named = [&](const SlowVoice& voice) {
        return std::count_if(by.begin(), by.end(),
                             [&](const SlowVoice& other) { return other.key() == voice.key(); });
    };
    by.erase(std::max_element(by.begin(), by.end(), [&](const SlowVoice& a, const SlowVoice& b) {
        return named(a) < named(b);
    }));
}

/// One job's word goes first, then what ends first.
void make_room(std::vector<SlowFact>& facts, const SlowdownRules& rules) {
    const auto worth = [&](const SlowFact& fact) {
        return std::pair(is_confirmed(fact, rules), fact.until == 0 ? last_second : fact.until);
    };
    const auto others = std::stable_partition(
        facts.begin(), facts.end(), [](const SlowFact& fact) { return fact.finding.has_value(); });
    const auto first = others - facts.begin();
    while (facts.size() - static_cast<std::size_t>(first) >= max_slow_facts)
        facts.erase(std::min_element(
            facts.begin() + first, facts.end(),
            [&](const SlowFact& a, const SlowFact& b) { return worth(a) < worth(b); }));
}

std::string device_of(const SlowFact& slow) {
    return slow.device == any_gpu ? "*" : std::to_string(slow.device);
}

std::vector<SlowFact>::iterator find_fact(std::vector<SlowFact>& facts,
                                          const SlowVerdict& verdict) {
    return std::find_if(facts.begin(), facts.end(), [&](const SlowFact& fact) {
        return !fact.finding && fact.device == verdict.device && fact.cause == verdict.cause &&
               fact.peer == verdict.peer;
    });
}

}  // namespace

SlowdownRules slowdown_rules(const Config& config) {
    SlowdownRules rules;
    rules.quarantine =
        value_of(quarantines, config.slowdown_quarantine).value_or(Quarantine::avoid);
    rules.max_quarantined_percent = config.slowdown_max_quarantined_percent;
    rules.confirmations = config.slowdown_confirmations;
    rules.recheck_s = config.slowdown_recheck_s;
    rules.check_user = config.profile_user;
    return rules;
}

std::optional<SlowFact> slow_fact(const Fact& fact, std::string* why) {
    if (fact.kind != "slow") return std::nullopt;
    SlowFact slow;
    const bool sound =
        read_value(fact.value, slow) && read_number(fact, "seen", 1, max_seen, slow.seen) &&
        read_by(fact, slow.by) && read_number(fact, "since", 0, last_second, slow.since) &&
        read_number(fact, "until", 0, last_second, slow.until) &&
        read_number(fact, "checked", 0, last_second, slow.checked) &&
        read_confidence(fact, slow.confidence);
    if (!sound) {
        *why = "slow=" + printable(fact.value) + " or what follows it is not sound";
        return std::nullopt;
    }
    if (const std::string* driver = fact.find("driver")) slow.driver = *driver;
    if (const std::string* peer = fact.find("peer")) slow.peer = *peer;
    return slow;
}

std::string short_form(const SlowFact& slow) {
    if (slow.finding) return slow.finding->code;
    return fmt::format("{}:{}:x{:.2f}", device_of(slow), slowdown::name(slow.cause), slow.factor);
}

Fact fact_of(const SlowFact& slow) {
    Fact fact{"slow",
              fmt::format("{}:{}:{:.2f}", device_of(slow), slowdown::name(slow.cause), slow.factor),
              {}};
    if (!slow.peer.empty()) fact.set("peer", slow.peer);
    fact.set("seen", std::to_string(slow.seen));
    if (!slow.by.empty()) fact.set("by", format_by(slow.by));
    if (slow.since != 0) fact.set("since", std::to_string(slow.since));
    if (slow.until != 0) fact.set("until", std::to_string(slow.until));
    if (slow.checked != 0) fact.set("checked", std::to_string(slow.checked));
    if (slow.confidence < 1) fact.set("suspected", fmt::format("{:.3g}", slow.confidence));
    if (!slow.driver.empty()) fact.set("driver", slow.driver);
    return fact;
}

SlowFact fact_of(const health::Finding& finding) {
    // Slower, and nobody knows by how much.
    constexpr double least_factor = 1.01;
    const health::Sign* sign = health::find_sign(finding.code);
    SlowFact fact;
    fact.device = health::gpu_of(finding).value_or(any_gpu);
    if (sign && sign->culprit == health::Culprit::link) fact.cause = SlowCause::communication;
    fact.factor = std::max(sign ? sign->factor : 1, least_factor);
    fact.seen = 0;
    fact.since = finding.at;
    fact.finding = finding;
    return fact;
}

std::string words_of(const SlowFact& slow) {
    if (slow.finding) return health::words_of(*slow.finding);
    const std::string what = slow.device == any_gpu ? "it" : fmt::format("GPU {}", slow.device);
    const std::string suspected =
        slow.confidence < 1
            ? fmt::format(
                  " (suspected by who waits for whom, confidence {:.2f}; no check has told)",
                  slow.confidence)
            : "";
    if (!slow.peer.empty())
        return fmt::format("its link to {} is {:.1f} times slower{}", slow.peer, slow.factor,
                           suspected);
    const char* does = slow.cause == SlowCause::compute ? "computes" : "communicates";
    return fmt::format("{} {} {:.1f} times slower{}", what, does, slow.factor, suspected);
}

SlowFact& add_verdict(std::vector<SlowFact>& facts, const SlowVerdict& verdict, std::int64_t now,
                      const SlowdownRules& rules) {
    auto at = find_fact(facts, verdict);
    const bool ends = at == facts.end() || at->until != 0;
    if (at == facts.end()) {
        make_room(facts, rules);
        SlowFact first;
        first.device = verdict.device;
        first.cause = verdict.cause;
        first.peer = verdict.peer;
        first.seen = 0;
        first.since = now;
        first.confidence = 0;
        at = facts.insert(facts.end(), first);
    }
    at->factor = verdict.factor;
    at->confidence = std::max(at->confidence, verdict.confidence);
    if (ends) at->until = now + static_cast<std::int64_t>(std::ceil(rules.recheck_s));
    const SlowVoice voice{verdict.job, verdict.user};
    if (std::any_of(at->by.begin(), at->by.end(),
                    [&](const SlowVoice& known) { return known.job == voice.job; }))
        return *at;
    at->seen += has_voice(*at, voice) ? 0 : 1;
    if (at->by.size() == SlowFact::max_by) forget_one(at->by);
    at->by.push_back(voice);
    return *at;
}

bool take_back(std::vector<SlowFact>& facts, const SlowVerdict& verdict) {
    const auto at = find_fact(facts, verdict);
    if (at == facts.end()) return false;
    const auto said = std::find_if(at->by.begin(), at->by.end(), [&](const SlowVoice& voice) {
        return voice.job == verdict.job;
    });
    if (said == at->by.end()) return false;
    const SlowVoice voice = *said;
    at->by.erase(said);
    if (!has_voice(*at, voice) && --at->seen <= 0) facts.erase(at);
    return true;
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

bool is_cleared(const SlowFact& fact, const CheckVerdict& verdict, bool whole) {
    if (fact.finding || fact.cause != SlowCause::compute) return false;
    const auto healthy = [](const DeviceVerdict& device) {
        return device.state == DeviceVerdict::State::healthy;
    };
    if (fact.device == any_gpu)
        return whole && !verdict.devices.empty() &&
               std::all_of(verdict.devices.begin(), verdict.devices.end(), healthy);
    return std::any_of(verdict.devices.begin(), verdict.devices.end(), [&](const DeviceVerdict& d) {
        return d.device == fact.device && healthy(d);
    });
}

bool prolong(SlowFact& fact, const CheckVerdict& verdict, std::int64_t now,
             const SlowdownRules& rules) {
    if (fact.finding) return false;
    double factor = 0;
    for (const DeviceVerdict& device : verdict.devices)
        if (fact.cause == SlowCause::compute && device.state == DeviceVerdict::State::slow &&
            (fact.device == any_gpu || fact.device == device.device))
            factor = std::max(factor, device.factor);
    for (const LinkVerdict& link : verdict.slow_links)
        if (fact.cause == SlowCause::communication && fact.peer.empty() &&
            (fact.device == any_gpu || fact.device == link.from || fact.device == link.to))
            factor = std::max(factor, link.factor);
    if (factor == 0) return false;
    fact.factor = std::clamp(factor, 1.0, 1e4);
    fact.checked = now;
    fact.confidence = 1;
    if (fact.until != 0) fact.until = now + static_cast<std::int64_t>(std::ceil(rules.recheck_s));
    return true;
}

bool wants_check(const SlowFact& fact, const SlowdownRules& rules) {
    const auto trusted = std::count_if(fact.by.begin(), fact.by.end(), [](const SlowVoice& voice) {
        return voice.user == admin_user;
    });
    return !fact.finding && fact.cause == SlowCause::compute && fact.checked == 0 &&
           (fact.confidence < 1 ||
            (trusted < rules.confirmations && std::ssize(fact.by) >= rules.confirmations));
}

}  // namespace arena
