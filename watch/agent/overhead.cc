// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/agent/overhead.h"

#include <algorithm>
#include <utility>

#include "base/statistics.h"

namespace arena::watch {
namespace {

constexpr double first_after_s = 60, again_after_s = 3600, thinned_after_s = 300;
constexpr std::size_t least_intervals = 20;
constexpr double longest_pause_s = 5;
constexpr double cycle_s = 60, recorded_share = 0.25;  ///< where it is thinned out
constexpr double clear = 0.3;  ///< of a step: how far a count of steps may be from a whole number

}  // namespace

/// Had the pause been recorded, the steps between the two beats had taken whole intervals.
std::optional<double> Overhead::share_of_turn(const RankWatch::Beat& before,
                                              std::uint64_t first_after_ns, double pause_s) {
    if (first_after_ns <= before.last_ns || before.interval_s <= 0 || pause_s <= 0)
        return std::nullopt;
    const double gap_s = static_cast<double>(first_after_ns - before.last_ns) * 1e-9;
    const double steps = gap_s / before.interval_s, whole = std::round(steps);
    if (whole < 1 || std::abs(steps - whole) > clear) return std::nullopt;
    return (whole * before.interval_s - gap_s) / pause_s;
}

Control Overhead::usual(double now_s) const {
    if (level_ == Level::stopped) return Control::pause;
    const bool rests =
        level_ == Level::thin && std::fmod(now_s, cycle_s) >= recorded_share * cycle_s;
    return rests ? Control::pause : Control::record;
}

Control Overhead::next(const RankWatch* rank, double calls_per_s, double now_s) {
    if (is_stopped() || rank == nullptr) {
        measuring_ = paused_ = false;
        return usual(now_s);
    }
    if (next_s_ < 0) next_s_ = now_s + first_after_s;
    if (!measuring_ && now_s >= next_s_ && calls_per_s >= calls_that_matter_per_s) {
        measuring_ = true;
        turn_ = 0;
        before_.reset();
        shares_.clear();
    }
    return measuring_ ? measure(*rank, now_s) : usual(now_s);
}

/// The pause has ended, and the rank has been heard since.
void Overhead::take_turn(const RankWatch& rank) {
    const std::uint64_t first_ns = rank.first_of(before_->key);
    if (first_ns <= before_->last_ns) return;
    if (const auto share = share_of_turn(*before_, first_ns, pause_s_)) shares_.push_back(*share);
    before_.reset();
    ++turn_;
}

Control Overhead::measure(const RankWatch& rank, double now_s) {
    if (paused_) {
        if (now_s < pause_ends_s_) return Control::pause;
        paused_ = false;
        pause_s_ = now_s - pause_began_s_;
        // All that was recorded before the pause has been read by now.
        before_ = rank.beat();
        if (!before_) ++turn_;
        return Control::record;
    }
    if (before_) take_turn(rank);
    if (turn_ >= turns) {
        judge(now_s);
        return usual(now_s);
    }
    const auto beat = before_ ? std::nullopt : rank.beat();
    if (!beat || beat->intervals < least_intervals) return Control::record;
    paused_ = true;
    const double steps = turn_ % 2 == 0 ? 2 : 3;
    pause_began_s_ = now_s;
    pause_ends_s_ = now_s + std::min(steps * beat->interval_s, longest_pause_s);
    return Control::pause;
}

void Overhead::judge(double now_s) {
    measuring_ = false;
    next_s_ = now_s + again_after_s;
    if (shares_.size() < least_turns) return;
    std::sort(shares_.begin(), shares_.end());
    double share = median(shares_);
    if (level_ == Level::thin) share *= recorded_share;
    if (share <= allowed) return;
    level_ = level_ == Level::full ? Level::thin : Level::stopped;
    next_s_ = now_s + thinned_after_s;
    verdict_ = TooDear{.share = share, .stopped = is_stopped()};
}

std::optional<TooDear> Overhead::verdict() { return std::exchange(verdict_, std::nullopt); }

}  // namespace arena::watch
