// SPDX-License-Identifier: GPL-2.0-or-later
// Text form of JobMark: key=value pairs joined by semicolons; unknown keys are ignored.
#include "plugin/common/job_mark.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/names.h"
#include "base/text.h"

namespace arena {
namespace {

constexpr std::size_t max_bytes = 1024;
constexpr std::array<Name<Phase>, 7> phases{{
    {Phase::held, "held"},
    {Phase::released, "released"},
    {Phase::starting, "starting"},
    {Phase::started, "started"},
    {Phase::checkpointing, "checkpointing"},
    {Phase::off, "off"},
    {Phase::observed, "observed"},
}};
constexpr std::array<Name<OtherHold>, 3> holds{{
    {OtherHold::none, "none"},
    {OtherHold::user, "user"},
    {OtherHold::admin, "admin"},
}};

template <typename E, std::size_t N>
bool assign_named(const std::array<Name<E>, N>& names, std::string_view text, E& out) {
    const std::optional<E> value = value_of(names, text);
    out = value.value_or(out);
    return value.has_value();
}

bool assign_moves(JobMark& mark, std::string_view value) {
    for (std::string_view item : split(value, ',')) {
        auto time = parse_integer(item, 0, INT64_MAX);
        if (!time || mark.moves.size() == JobMark::max_moves) return false;
        mark.moves.push_back(*time);
    }
    return true;
}

bool assign_took(JobMark& mark, std::string_view value) {
    for (std::string_view item : split(value, ',')) {
        const std::size_t at = item.find('+');
        if (at == std::string_view::npos || mark.took.size() == JobMark::max_took) return false;
        const auto leave_s = parse_integer(item.substr(0, at), 0, JobMark::most_took_s);
        const auto start_s = parse_integer(item.substr(at + 1), 0, JobMark::most_took_s);
        if (!leave_s || !start_s) return false;
        mark.took.push_back({*leave_s, *start_s});
    }
    return true;
}

bool assign_stayed(JobMark& mark, std::string_view value) {
    for (std::string_view item : split(value, ',')) {
        const auto seconds = parse_integer(item, 1, JobMark::most_took_s);
        if (!seconds || mark.stayed.size() == JobMark::max_took) return false;
        mark.stayed.push_back(*seconds);
    }
    return true;
}

/// What the move that ends with a start `now` took until there. Nothing of one whose clocks
/// disagree, or that took longer than a day.
void add_took(JobMark& mark, std::int64_t now) {
    const std::int64_t saved_s = mark.left_at - mark.leaves_at, waited_s = now - mark.left_at;
    const std::int64_t leave_s = saved_s + (waited_s <= JobMark::most_requeue_s ? waited_s : 0);
    if (saved_s < 0 || waited_s < 0 || leave_s > JobMark::most_took_s) return;
    if (mark.took.size() == JobMark::max_took) mark.took.erase(mark.took.begin());
    mark.took.push_back({leave_s, 0});
}

bool is_node_name(std::string_view text) {
    return !text.empty() && text.size() <= JobMark::max_node_bytes &&
           std::all_of(text.begin(), text.end(), [](char c) {
               const bool alnum =
                   (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
               return alnum || c == '-' || c == '.' || c == '_';
           });
}

bool assign_avoid(JobMark& mark, std::string_view value) {
    for (std::string_view item : split(value, ',')) {
        const std::size_t at = item.find('@');
        if (at == std::string_view::npos || mark.avoid.size() == JobMark::max_avoided) return false;
        const auto until = parse_integer(item.substr(at + 1), 0, INT64_MAX);
        if (!until || !is_node_name(item.substr(0, at))) return false;
        mark.avoid.push_back({std::string(item.substr(0, at)), *until});
    }
    return true;
}

bool assign_field(JobMark& mark, std::string_view key, std::string_view value, bool& versioned) {
    if (key == "v") {
        versioned = value == "1";
        return versioned;
    }
    if (key == "phase") return assign_named(phases, value, mark.phase);
    if (key == "hold") return assign_named(holds, value, mark.hold);
    if (key == "moves") return assign_moves(mark, value);
    if (key == "avoid") return assign_avoid(mark, value);
    if (key == "took") return assign_took(mark, value);
    if (key == "stayed") return assign_stayed(mark, value);
    if (key == "asks") {
        mark.asks = value == "1";
        return mark.asks;
    }
    if (key == "signal") {
        const auto number = parse_integer(value, 0, 64);
        if (number) mark.signal = static_cast<int>(*number);
        return number.has_value();
    }
    std::uint32_t* const word = key == "restart"   ? &mark.restart
                                : key == "array"   ? &mark.array
                                : key == "unsaved" ? &mark.unsaved
                                : key == "plan"    ? &mark.plan
                                                   : nullptr;
    if (word != nullptr) {
        const auto number = parse_integer(value, 0, UINT32_MAX);
        if (number) *word = static_cast<std::uint32_t>(*number);
        return number.has_value();
    }
    std::int64_t* const field = key == "since"    ? &mark.since
                                : key == "done"   ? &mark.done
                                : key == "saved"  ? &mark.saved
                                : key == "waited" ? &mark.waited_since
                                : key == "lost"   ? &mark.lost
                                : key == "leaves" ? &mark.leaves_at
                                : key == "left"   ? &mark.left_at
                                                  : nullptr;
    if (field == nullptr) return true;
    auto number = parse_integer(value, 0, INT64_MAX);
    if (number) *field = *number;
    return number.has_value();
}

/// True of "v=N;...", N above this version's.
bool is_newer(std::string_view text) {
    if (!text.starts_with("v=")) return false;
    const auto version = parse_integer(text.substr(2, text.find(';') - 2), 0, INT64_MAX);
    return version && *version > 1;
}

/// All that later versions keep: who holds the job.
JobMark parse_newer(std::string_view text) {
    constexpr std::string_view key = "hold=";
    JobMark mark;
    mark.newer = true;
    for (std::string_view pair : split(text.substr(0, max_bytes), ';'))
        if (pair.starts_with(key) && !assign_named(holds, pair.substr(key.size()), mark.hold))
            mark.hold = OtherHold::admin;
    return mark;
}

}  // namespace

std::string_view to_string(Phase phase) { return name_of(phases, phase); }
std::string_view to_string(OtherHold hold) { return name_of(holds, hold); }

JobMark next_mark(const std::optional<JobMark>& before, Phase phase, std::uint32_t restart,
                  OtherHold hold, std::int64_t now, bool array_is_lost) {
    JobMark mark = before.value_or(JobMark{});
    mark.phase = phase;
    mark.restart = restart;
    mark.hold = hold;
    mark.since = now;
    mark.asks = false;
    if (phase != Phase::checkpointing || !before || before->restart != restart) mark.plan = 0;
    std::erase_if(mark.avoid, [&](const AvoidedNode& avoided) { return avoided.until <= now; });
    const bool saves = before && before->phase == Phase::checkpointing;
    if (phase == Phase::checkpointing) {
        if (!saves) {
            mark.leaves_at = now;
            mark.left_at = 0;
        }
        return mark;
    }
    if (saves && before->restart != restart) {
        mark.unsaved = 0;
        if (mark.leaves_at > 0 && mark.left_at == 0) mark.left_at = now;
    }
    if (phase == Phase::started) {
        if (mark.left_at > 0) add_took(mark, now);
        mark.leaves_at = mark.left_at = 0;
    }
    mark.saved = mark.signal = 0;
    if (phase != Phase::held || mark.array == 0) return mark;
    mark.lost += array_is_lost && before->restart != restart ? 1 : 0;
    mark.array = 0;
    return mark;
}

JobMark stays(JobMark before, std::int64_t now) {
    const std::int64_t told = before.leaves_at;
    const std::uint32_t plan = before.plan + 1;
    JobMark mark = next_mark(before, Phase::started, before.restart, before.hold, now);
    mark.plan = plan;
    mark.unsaved = 0;
    mark.leaves_at = told;
    return mark;
}

void add_move(JobMark& mark, std::int64_t at) {
    if (mark.moves.size() == JobMark::max_moves) mark.moves.erase(mark.moves.begin());
    mark.moves.push_back(at);
}

bool note_start(JobMark& mark, double start_s) {
    if (mark.phase != Phase::started || mark.took.empty() || mark.took.back().start_s != 0 ||
        !(start_s >= 0 && start_s <= static_cast<double>(JobMark::most_took_s)))
        return false;
    mark.took.back().start_s = std::max<std::int64_t>(std::llround(start_s), 1);
    return true;
}

bool note_stay(JobMark& mark, double first_step) {
    const double took_s = first_step - static_cast<double>(mark.leaves_at);
    if (mark.phase != Phase::started || mark.plan == 0 || mark.leaves_at == 0 || !(took_s >= 0) ||
        took_s > static_cast<double>(JobMark::most_took_s))
        return false;
    if (mark.stayed.size() == JobMark::max_took) mark.stayed.erase(mark.stayed.begin());
    mark.stayed.push_back(std::max<std::int64_t>(std::llround(took_s), 1));
    mark.leaves_at = 0;
    return true;
}

JobMark left_saved(JobMark mark, std::uint32_t restart, std::int64_t now) {
    mark = next_mark(mark, Phase::checkpointing, restart, mark.hold, now);
    mark.unsaved = 0;
    if (mark.leaves_at > 0) mark.left_at = now;
    return mark;
}

JobMark left_unsaved(JobMark mark, std::uint32_t restart, std::int64_t now) {
    const std::int64_t saved = mark.saved;
    const std::uint32_t unsaved = mark.unsaved + 1;
    mark = next_mark(mark, Phase::checkpointing, restart, mark.hold, now);
    mark.done = saved;
    mark.unsaved = unsaved;
    mark.leaves_at = mark.left_at = 0;  // a move that failed says nothing of one that does not
    return mark;
}

void add_avoided(JobMark& mark, const std::vector<AvoidedNode>& nodes) {
    for (AvoidedNode add : nodes) {
        if (!is_node_name(add.node)) continue;
        for (const AvoidedNode& known : mark.avoid)
            if (known.node == add.node) add.until = std::max(add.until, known.until);
        std::erase_if(mark.avoid, [&](const AvoidedNode& known) { return known.node == add.node; });
        if (mark.avoid.size() == JobMark::max_avoided) mark.avoid.erase(mark.avoid.begin());
        mark.avoid.push_back(std::move(add));
    }
}

std::string format_mark(const JobMark& mark) {
    std::string text =
        fmt::format("v=1;phase={};restart={};hold={};since={}", to_string(mark.phase), mark.restart,
                    to_string(mark.hold), mark.since);
    if (mark.done != 0) text += fmt::format(";done={}", mark.done);
    if (mark.waited_since != 0) text += fmt::format(";waited={}", mark.waited_since);
    if (!mark.moves.empty()) text += fmt::format(";moves={}", fmt::join(mark.moves, ","));
    for (std::size_t i = 0; i < mark.avoid.size(); ++i)
        text += fmt::format("{}{}@{}", i == 0 ? ";avoid=" : ",", mark.avoid[i].node,
                            mark.avoid[i].until);
    if (mark.array != 0) text += fmt::format(";array={}", mark.array);
    if (mark.lost != 0) text += fmt::format(";lost={}", mark.lost);
    if (mark.saved != 0) text += fmt::format(";saved={}", mark.saved);
    if (mark.signal != 0) text += fmt::format(";signal={}", mark.signal);
    if (mark.unsaved != 0) text += fmt::format(";unsaved={}", mark.unsaved);
    if (mark.leaves_at != 0) text += fmt::format(";leaves={}", mark.leaves_at);
    if (mark.left_at != 0) text += fmt::format(";left={}", mark.left_at);
    for (std::size_t i = 0; i < mark.took.size(); ++i)
        text += fmt::format("{}{}+{}", i == 0 ? ";took=" : ",", mark.took[i].leave_s,
                            mark.took[i].start_s);
    if (mark.plan != 0) text += fmt::format(";plan={}", mark.plan);
    if (mark.asks) text += ";asks=1";
    if (!mark.stayed.empty()) text += fmt::format(";stayed={}", fmt::join(mark.stayed, ","));
    return text;
}

std::optional<JobMark> parse_mark(std::string_view text) {
    if (is_newer(text)) return parse_newer(text);
    if (text.size() > max_bytes) return std::nullopt;
    JobMark mark;
    bool versioned = false;
    for (std::string_view pair : split(text, ';')) {
        const std::size_t equals = pair.find('=');
        if (equals == std::string_view::npos) return std::nullopt;
        if (!assign_field(mark, pair.substr(0, equals), pair.substr(equals + 1), versioned))
            return std::nullopt;
    }
    if (!versioned) return std::nullopt;
    return mark;
}

}  // namespace arena
