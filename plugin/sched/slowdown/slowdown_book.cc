// SPDX-License-Identifier: GPL-2.0-or-later
// See slowdown_book.h.
#include "plugin/sched/slowdown/slowdown_book.h"

#include <fmt/format.h>

#include <algorithm>

namespace arena {
namespace {

bool is_at(const SlowEvent& event, const std::string& node) {
    return event.report.at.node == node || event.report.peer.node == node;
}

void make_room(std::vector<SlowEvent>& events) {
    if (events.size() < SlowdownBook::max_events) return;
    const auto over = std::find_if_not(events.begin(), events.end(),
                                       [](const SlowEvent& event) { return event.open(); });
    events.erase(over != events.end() ? over : events.begin());
}

const SlowEvent* worst(const std::vector<SlowEvent>& events) {
    const SlowEvent* found = nullptr;
    for (const SlowEvent& event : events)
        if (event.open() && (found == nullptr || event.report.factor > found->report.factor))
            found = &event;
    return found;
}

}  // namespace

bool SlowdownBook::on_slow_report(const LeftSlowReport& left) {
    const SlowReport& told = left.report;
    std::vector<SlowEvent>& events = jobs_[left.job];
    std::erase_if(events, [&](const SlowEvent& e) { return e.report.life != told.life; });
    auto at = std::find_if(events.begin(), events.end(),
                           [&](const SlowEvent& known) { return same_event(known.report, told); });
    const bool is_new = at == events.end();
    if (is_new) {
        make_room(events);
        events.push_back({.report = told, .user = left.user, .gpus = left.gpus});
        at = std::prev(events.end());
        at->report.lost_s = 0;
        ++counts_.events;
        counts_.of_links += told.cause == SlowCause::communication;
    }
    const SlowReport before = std::exchange(at->report, told);
    at->report.lost_s = std::max(before.lost_s, told.lost_s);
    counts_.lost_gpu_s += (at->report.lost_s - before.lost_s) *
                          static_cast<double>(std::max<std::int64_t>(left.gpus, 1));
    const bool is_news =
        is_new || before.action != told.action || (before.relief == 0) != (told.relief == 0);
    if (is_news) at->cleared = false;
    return is_news;
}

void SlowdownBook::begin_life(JobId job, std::uint32_t life) {
    const auto at = jobs_.find(job);
    if (at == jobs_.end()) return;
    std::erase_if(at->second, [&](const SlowEvent& e) { return e.report.life != life; });
    if (at->second.empty()) jobs_.erase(at);
}

const std::vector<SlowEvent>& SlowdownBook::events(JobId job) const {
    static const std::vector<SlowEvent> none;
    const auto at = jobs_.find(job);
    return at == jobs_.end() ? none : at->second;
}

std::string SlowdownBook::words_of(JobId job) const {
    double lost_s = 0;
    for (const SlowEvent& event : events(job)) lost_s += event.report.lost_s;
    const std::string lost = fmt::format("lost={:.0f}s", lost_s);
    const SlowEvent* event = worst(events(job));
    if (event == nullptr) return lost;
    return fmt::format("slow={} action={} {}", slow_word(event->report),
                       to_string(event->report.action), lost);
}

bool SlowdownBook::is_suspected(const std::string& node) const {
    return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& job) {
        return std::any_of(job.second.begin(), job.second.end(), [&](const SlowEvent& event) {
            return event.open() && is_at(event, node);
        });
    });
}

std::size_t SlowdownBook::open() const {
    std::size_t open = 0;
    for (const auto& [job, events] : jobs_)
        for (const SlowEvent& event : events) open += event.open() ? 1 : 0;
    return open;
}

bool SlowdownBook::is_over(JobId job, const std::string& node) const {
    bool known = false;
    for (const SlowEvent& event : events(job)) {
        if (!is_at(event, node)) continue;
        if (event.open()) return false;
        known = true;
    }
    return known;
}

bool SlowdownBook::is_slow_still(JobId job, const SlowReport& told) const {
    const auto& all = events(job);
    return std::any_of(all.begin(), all.end(), [&](const SlowEvent& event) {
        const SlowReport& known = event.report;
        const bool same = known.at == told.at && known.peer == told.peer;
        const bool reversed = known.at == told.peer && known.peer == told.at;
        return event.open() && known.cause == told.cause && (same || reversed);
    });
}

std::set<JobId> SlowdownBook::clear(const std::string& node, std::optional<SlowCause> cause) {
    std::set<JobId> changed;
    for (auto& [job, events] : jobs_)
        for (SlowEvent& event : events) {
            const bool meant = !cause || event.report.cause == *cause;
            if (!meant || !event.open() || !is_at(event, node)) continue;
            event.cleared = true;
            changed.insert(job);
        }
    return changed;
}

}  // namespace arena
