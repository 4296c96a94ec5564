// SPDX-License-Identifier: GPL-2.0-or-later
#include "slowdown/event.h"

#include <algorithm>
#include <vector>

#include "base/statistics.h"

namespace arena::slowdown {
namespace {

constexpr std::size_t kept = 128;       ///< samples: an onset is never reported later
constexpr std::size_t back_for = 10;    ///< samples at the healthy level, where no change tells
constexpr double nearly_healthy = 0.5;  ///< of what the threshold allows above it

}  // namespace

EventTracker::EventTracker(const DetectorOptions& options)
    : options_(options), detector_(options) {}

double EventTracker::lost(const Sample& sample) const {
    const double healthy_s = event_->healthy * (sample.tokens > 0 ? sample.tokens : 1);
    return std::max(0.0, sample.time_s - healthy_s);
}

Result<Step> EventTracker::add(double time_s, double tokens) {
    const auto change = detector_.add(time_s, tokens);
    if (!change) return change.error();
    recent_.push_back({time_s, tokens});
    if (recent_.size() > kept) recent_.pop_front();
    if (is_open()) event_->lost_s += lost(recent_.back());
    if (*change) return is_open() ? change_level(**change) : open(**change);
    if (is_open() && is_back()) return close(detector_.samples() - back_for);
    return Step::none;
}

Step EventTracker::open(const Change& change) {
    if (!change.is_onset()) return Step::none;  // faster than ever: the new healthy level
    event_ = Event{.onset = change.change_at,
                   .reported_at = change.reported_at,
                   .evidence = change.evidence,
                   .healthy = change.before,
                   .present = change.after,
                   .worst = change.after,
                   .lost_s = 0,
                   .relief = {}};
    const std::size_t since = std::min(recent_.size(), detector_.samples() - change.change_at);
    std::for_each(recent_.end() - static_cast<std::ptrdiff_t>(since), recent_.end(),
                  [this](const Sample& sample) { event_->lost_s += lost(sample); });
    return Step::onset;
}

Step EventTracker::change_level(const Change& change) {
    if (!change.is_onset() && change.after < options_.threshold * event_->healthy)
        return close(change.change_at);
    event_->present = change.after;
    event_->worst = std::max(event_->worst, change.after);
    return Step::changed;
}

/// The iterations behind the relief are healthy: what they took is no loss.
Step EventTracker::close(std::size_t relief) {
    const std::size_t healthy = std::min(recent_.size(), detector_.samples() - relief);
    for (std::size_t i = recent_.size() - healthy; i < recent_.size(); ++i)
        event_->lost_s -= lost(recent_[i]);
    event_->lost_s = std::max(0.0, event_->lost_s);
    event_->relief = relief;
    return Step::relief;
}

/// Relief in steps too small to be changes.
bool EventTracker::is_back() const {
    if (detector_.samples() < event_->reported_at + 2 * back_for) return false;
    std::vector<double> levels;
    for (std::size_t i = recent_.size() - back_for; i < recent_.size(); ++i)
        levels.push_back(recent_[i].level());
    std::sort(levels.begin(), levels.end());
    return median(levels) < (1 + nearly_healthy * (options_.threshold - 1)) * event_->healthy;
}

}  // namespace arena::slowdown
