// SPDX-License-Identifier: GPL-2.0-or-later
// See slow_report.h.
#include "reports/slow_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "core/limits.h"
#include "core/observation.h"

namespace arena {
namespace {

constexpr double max_factor = 1000, max_lost_s = 1e8;
constexpr std::int64_t last_second = std::int64_t{1} << 33;  ///< in the year 2242
constexpr std::int64_t max_life = UINT32_MAX, max_steps = std::int64_t{1} << 40;

template <typename Enum, std::size_t n>
std::optional<Enum> parse_word(std::string_view text,
                               const std::array<std::string_view, n>& words) {
    const auto at = std::find(words.begin(), words.end(), text);
    if (at == words.end()) return std::nullopt;
    return static_cast<Enum>(at - words.begin());
}

bool is_node_name(std::string_view name) {
    const auto accepted = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c == '-' || c == '_' || c == '.';
    };
    return !name.empty() && name.size() <= limits::name_bytes && name.front() != '-' &&
           std::all_of(name.begin(), name.end(), accepted);
}

/// False where the value is no such number.
template <typename Target>
bool read_number(std::string_view text, std::int64_t max, Target& target) {
    const auto value = parse_integer(text, 0, max);
    if (value) target = static_cast<Target>(*value);
    return value.has_value();
}

bool read_number(std::string_view text, double max, double& target) {
    const auto value = parse_number(text, 0, max);
    if (value) target = *value;
    return value.has_value();
}

template <typename Parsed, typename T>
bool keep(const Parsed& value, T& target) {
    if (value) target = *value;
    return static_cast<bool>(value);
}

/// False when the value of a known key is not accepted, or the key is not known.
bool read_item(SlowReport& report, std::string_view key, std::string_view value) {
    if (key == "life") return read_number(value, max_life, report.life);
    if (key == "onset") return read_number(value, last_second, report.onset);
    if (key == "relief") return read_number(value, last_second, report.relief);
    if (key == "steps") return read_number(value, max_steps, report.steps);
    if (key == "factor") return read_number(value, max_factor, report.factor);
    if (key == "confidence") return read_number(value, 1.0, report.confidence);
    if (key == "lost_s") return read_number(value, max_lost_s, report.lost_s);
    if (key == "at") return keep(parse_slow_place(value, key), report.at);
    if (key == "peer") return keep(parse_slow_place(value, key), report.peer);
    if (key == "cause") return keep(parse_slow_cause(value), report.cause);
    if (key == "action") return keep(parse_slow_action(value), report.action);
    return false;
}

Status check_numbers(const SlowReport& report) {
    if (report.onset < 1 || report.onset > last_second)
        return usage_error("takes seconds since the epoch", "--onset");
    if (report.relief != 0 && (report.relief < report.onset || report.relief > last_second))
        return usage_error("takes seconds since the epoch, not before --onset", "--relief");
    if (!(report.factor > 1) || report.factor > max_factor)
        return usage_error("takes a number above 1, at most 1000", "--factor");
    if (!(report.confidence > 0) || report.confidence > 1)
        return usage_error("takes a number above 0, at most 1", "--confidence");
    if (!(report.lost_s >= 0) || report.lost_s > max_lost_s)
        return usage_error("takes seconds, 0 to 100000000", "--lost-s");
    if (report.steps < 0 || report.steps > max_steps)
        return usage_error("takes a number of steps", "--steps");
    return Done{};
}

bool is_place(const SlowPlace& place) {
    return is_node_name(place.node) && place.gpu >= any_gpu && place.gpu < limits::gpus_per_node;
}

}  // namespace

std::string_view to_string(SlowAction action) {
    return slow_actions[static_cast<std::size_t>(action)];
}

std::string to_string(const SlowPlace& place) {
    return place.gpu == any_gpu ? place.node : fmt::format("{}/{}", place.node, place.gpu);
}

Result<SlowPlace> parse_slow_place(std::string_view text, std::string_view key) {
    const std::size_t slash = text.find('/');
    SlowPlace place{std::string(text.substr(0, slash)), any_gpu};
    bool good = is_node_name(place.node);
    if (slash != std::string_view::npos)
        good = read_number(text.substr(slash + 1), limits::gpus_per_node - 1, place.gpu) && good;
    if (good) return place;
    return usage_error(fmt::format("'{}' is not NODE or NODE/GPU, with a GPU from 0 to {}",
                                   printable(text, 40), limits::gpus_per_node - 1),
                       fmt::format("--{}", key));
}

std::optional<SlowCause> parse_slow_cause(std::string_view text) {
    return parse_word<SlowCause>(text, slowdown::causes);
}

std::optional<SlowAction> parse_slow_action(std::string_view text) {
    return parse_word<SlowAction>(text, slow_actions);
}

bool same_event(const SlowReport& a, const SlowReport& b) {
    return a.life == b.life && a.onset == b.onset && a.at == b.at && a.peer == b.peer;
}

std::string slow_word(const SlowReport& report) {
    const bool is_known = report.cause != SlowCause::unknown;
    std::string word = fmt::format("{}{}{}:{}:x{:.1f}", is_known ? to_string(report.at) : "steps",
                                   report.peer.node.empty() ? "" : "+", to_string(report.peer),
                                   slowdown::name(report.cause), report.factor);
    if (report.is_suspicion()) word += fmt::format(":suspected={:.2f}", report.confidence);
    return word;
}

Status check_slow_report(const SlowReport& report) {
    if (auto wrong = check_numbers(report); !wrong) return wrong;
    if (report.cause == SlowCause::unknown) {
        if (report.at == SlowPlace{} && report.peer == SlowPlace{}) return Done{};
        return usage_error("names what is slow: nothing where the cause is unknown", "--at");
    }
    if (!is_place(report.at)) return usage_error("takes NODE or NODE/GPU", "--at");
    const bool alone = report.peer == SlowPlace{};
    if (!alone && !is_place(report.peer)) return usage_error("takes NODE or NODE/GPU", "--peer");
    if (report.cause == SlowCause::compute && !alone)
        return usage_error("is the other end of a link: none where the cause is compute", "--peer");
    if (report.cause == SlowCause::compute) return Done{};
    const bool two_gpus =
        report.at.gpu != any_gpu && report.peer.gpu != any_gpu && report.at.gpu != report.peer.gpu;
    if (alone || (report.at.node == report.peer.node && !two_gpus))
        return usage_error(
            "takes another node, or another GPU of the node, where the cause is "
            "communication",
            "--peer");
    return Done{};
}

std::string format_slow_report(const SlowReport& report) {
    std::string text = fmt::format(
        "{}life={};onset={};{}cause={};factor={:.6g};action={};lost_s={:.6g}", slow_report_prefix,
        report.life, report.onset,
        report.at.node.empty() ? "" : fmt::format("at={};", to_string(report.at)),
        slowdown::name(report.cause), report.factor, to_string(report.action), report.lost_s);
    if (report.is_suspicion()) text += fmt::format(";confidence={:.3g}", report.confidence);
    if (report.steps != 0) text += fmt::format(";steps={}", report.steps);
    if (!report.peer.node.empty()) text += fmt::format(";peer={}", to_string(report.peer));
    if (report.relief != 0) text += fmt::format(";relief={}", report.relief);
    return text;
}

Result<SlowReport> parse_slowdown_report(std::string_view text) {
    SlowReport report;
    const auto read = [&](std::string_view key, std::string_view value) {
        return read_item(report, key, value);
    };
    if (auto wrong = parse_report_items(text, slow_report_prefix, read); !wrong)
        return wrong.error();
    if (auto wrong = check_slow_report(report); !wrong) return wrong.error();
    return report;
}

}  // namespace arena
