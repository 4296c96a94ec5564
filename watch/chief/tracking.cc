// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/chief/tracking.h"

#include <algorithm>

namespace arena::watch {
namespace {

using slowdown::Step;

constexpr std::size_t kept = 128;           ///< iterations whose ends are known
constexpr std::size_t enough_samples = 20;  ///< of a rank that votes

}  // namespace

Step Series::add(const IterationTime& one) {
    if (!recent_.empty() && (recent_.back().tokens > 0) != (one.tokens > 0))
        *this = Series(threshold_);
    const auto step = tracker_.add(one.time_s, one.tokens);
    if (!step) return Step::none;
    recent_.push_back(one);
    if (recent_.size() > kept) recent_.pop_front();
    ++samples_;
    return *step;
}

std::int64_t Series::onset_ms() const {
    const std::size_t first = samples_ - recent_.size();
    const std::size_t at = std::clamp(event().onset, first, samples_ - 1) - first;
    return recent_[at].end_ms - static_cast<std::int64_t>(recent_[at].time_s * 1000);
}

JobSteps Tracking::add(const StepDone& step) {
    if (trainer_.empty()) {
        trainer_.emplace_back(threshold_);
        ranks_.clear();
        ranks_are_slow_ = false;
    }
    const IterationTime one{step.seconds, static_cast<double>(step.tokens), step.end_ms};
    return {trainer_.front().add(one), {one}};
}

bool Tracking::is_fresh(const Rank& rank, double now_s) const {
    return rank.series.samples() >= enough_samples && now_s <= rank.heard_s + 10 + 3 * poll_s_;
}

/// Nothing: others are tracked.
Tracking::Rank* Tracking::track(const Iterations& iterations, double now_s) {
    auto at = ranks_.find(iterations.rank);
    if (at == ranks_.end() && ranks_.size() >= most_series) {
        const auto stale = std::ranges::find_if(ranks_, [&](const auto& rank) {
            return now_s > rank.second.heard_s + 60 + 10 * poll_s_;
        });
        if (stale == ranks_.end()) return nullptr;
        ranks_.erase(stale);
    }
    if (at == ranks_.end() || at->second.number != iterations.series)
        at = ranks_
                 .insert_or_assign(iterations.rank,
                                   Rank{Series(threshold_), iterations.series, now_s})
                 .first;
    at->second.heard_s = now_s;
    return &at->second;
}

Step Tracking::vote(double now_s, bool lead_changed) {
    std::size_t voters = 0, slow = 0;
    for (const auto& [number, rank] : ranks_) {
        if (!is_fresh(rank, now_s)) continue;
        ++voters;
        slow += rank.series.is_open();
    }
    const bool before = ranks_are_slow_;
    if (voters > 0) ranks_are_slow_ = 2 * slow >= voters;
    if (ranks_are_slow_ != before) return before ? Step::relief : Step::onset;
    return before && lead_changed ? Step::changed : Step::none;
}

JobSteps Tracking::add(const Iterations& iterations, double now_s) {
    // A trainer that is silent saves a checkpoint, is checked or suspended: what is known stays.
    if (!trainer_.empty()) return {};
    Rank* rank = track(iterations, now_s);
    if (rank == nullptr) return {};
    const bool leads = iterations.rank == ranks_.begin()->first;
    JobSteps seen;
    bool changed = false;
    for (const Iterations::One& done : iterations.done) {
        const IterationTime one{static_cast<double>(done.time_us) / 1e6,
                                static_cast<double>(done.tokens), done.end_ms};
        changed = rank->series.add(one) == Step::changed || changed;
        if (leads) seen.steps.push_back(one);
    }
    seen.step = vote(now_s, leads && changed);
    return seen;
}

std::int64_t Tracking::lead() const {
    return trainer_.empty() && !ranks_.empty() ? ranks_.begin()->first : -1;
}

/// Of ranks: the one in the middle of those that are slow.
Tracking::Event Tracking::event() const {
    const auto of = [](const Series& series) {
        const slowdown::Event& event = series.event();
        return Event{event.healthy, event.present, event.lost_s, series.onset_ms()};
    };
    if (!trainer_.empty()) return trainer_.front().is_open() ? of(trainer_.front()) : Event{};
    std::vector<const Series*> slow;
    for (const auto& [number, rank] : ranks_)
        if (rank.series.is_open()) slow.push_back(&rank.series);
    if (slow.empty()) return {};
    const auto middle = slow.begin() + std::ssize(slow) / 2;
    std::ranges::nth_element(slow, middle, {},
                             [](const Series* one) { return one->event().factor(); });
    return of(**middle);
}

}  // namespace arena::watch
