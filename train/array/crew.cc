// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/array/crew.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "train/members/frames.h"

namespace arena::train {

std::string to_text(const Boundary& b) {
    Json leavers = Json::array(), newcomers = Json::array();
    for (const Boundary::Leaver& one : b.leavers) leavers.push_back({one.id, one.save});
    for (const Boundary::Newcomer& one : b.newcomers)
        newcomers.push_back({one.id, format_array_frame(MemberJoin{one.options})});
    return dump_json({{"leavers", leavers},
                      {"newcomers", newcomers},
                      {"idle", b.idle},
                      {"iterations", b.iterations},
                      {"end", b.end}});
}

Boundary read_boundary(const std::string& text) {
    const Json json = parse_json(text).value();
    Boundary b;
    for (const Json& one : json["leavers"])
        b.leavers.push_back({one[0].get<MemberId>(), one[1].get<bool>()});
    for (const Json& one : json["newcomers"]) {
        auto frame = parse_array_frame(one[1].get<std::string>()).value();
        b.newcomers.push_back({one[0].get<MemberId>(), std::get<MemberJoin>(frame).options});
    }
    b.idle = json["idle"].get<std::vector<MemberId>>();
    b.iterations = json["iterations"].get<Index>();
    b.end = json["end"].get<bool>();
    return b;
}

Crew::Crew(MemberSource& source, ArrayLimits limits, double idle_s, Clock clock)
    : source_(source),
      limits_(std::move(limits)),
      idle_s_(idle_s),
      clock_(std::move(clock)),
      empty_since_s_(clock_()) {}

void Crew::take_events() {
    for (MemberEvent& event : source_.take_events()) events_.push_back(std::move(event));
}

bool Crew::has_news(bool told) {
    take_events();
    return told || !events_.empty() || (is_empty() && clock_() - empty_since_s_ >= idle_s_);
}

void Crew::ended(MemberId id) {
    members_.erase(id);
    if (members_.empty()) empty_since_s_ = clock_();
}

/// "" = it may come.
std::string Crew::why_not(const MemberOptions& options) const {
    const auto same = [&](const auto& one) { return one.second == options.member; };
    if (std::ranges::any_of(members_, same))
        return fmt::format("member {} of this array is attached already", options.member);
    if (static_cast<Index>(members_.size()) >= limits_.members)
        return fmt::format("this array has {} members, which is all it takes", limits_.members);
    return "";
}

void Crew::take_in(MemberEvent& event, Boundary& b) {
    if (const Status good = check_member(event.options, limits_); !good)
        return source_.end(event.id, exit_code(good.error().code), good.error().message());
    if (const std::string why = why_not(event.options); !why.empty())
        return source_.end(event.id, exit_code(ErrorCode::environment), why);
    members_[event.id] = event.options.member;
    b.newcomers.push_back({event.id, std::move(event.options)});
}

/// Leavers first: a member that was requeued may be here before its end was seen.
Boundary Crew::next(bool told, Index iterations) {
    take_events();
    Boundary b{.leavers = {}, .newcomers = {}, .idle = {}, .iterations = iterations};
    const auto leave = [&](MemberId id, bool save) {
        if (members_.erase(id) > 0) b.leavers.push_back({id, save});
    };
    for (const MemberEvent& event : events_)
        if (event.what != MemberEvent::What::join)
            leave(event.id, event.what == MemberEvent::What::leave);
    const auto gave_up = [&](const MemberEvent& join) {
        return std::ranges::any_of(events_, [&](const MemberEvent& other) {
            return other.id == join.id && other.what == MemberEvent::What::gone;
        });
    };
    if (told)
        while (!members_.empty()) leave(members_.begin()->first, true);
    std::vector<MemberEvent> later;
    for (MemberEvent& event : events_) {
        if (event.what != MemberEvent::What::join || told || gave_up(event)) continue;
        take_in(event, b);
    }
    for (const MemberEvent& event : events_)  // told to leave before it was here
        if (event.what == MemberEvent::What::leave && members_.contains(event.id))
            later.push_back(event);
    events_ = std::move(later);
    for (const auto& [id, member] : members_)
        if (!source_.keeps_up(id)) b.idle.push_back(id);
    if (members_.empty() && b.leavers.empty())
        b.end = told || clock_() - empty_since_s_ >= idle_s_;
    else
        empty_since_s_ = clock_();
    b.end |= told;
    return b;
}

}  // namespace arena::train
