// SPDX-License-Identifier: GPL-2.0-or-later
// What watching costs, measured by turns: the ranks of a node are recorded, then for two or three
// steps not, then recorded again. A call that comes once per step (Beat) before and after a pause
// says how much sooner its steps ended, without a record of them. The median of 44 turns tells 1 %
// where single steps vary by several. Above 1 % watching is thinned out to a quarter of the time,
// and if that is not enough, it stops.
//
// Pauses delay what is found: it is measured only where ranks make so many calls that it could
// matter, a minute after the first step is known and then once an hour.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "watch/agent/rank_watch.h"

namespace arena::watch {

class Overhead {
  public:
    static constexpr double allowed = 0.01;
    static constexpr std::size_t turns = 44, least_turns = 22;
    /// Calls per second of a rank, from which on their cost (0.1 us, at most 1 us each) could be a
    /// tenth of what is allowed.
    static constexpr double calls_that_matter_per_s = 1000;

    /// What the rings are to be told from now on: record, or pause. To be asked at each poll, after
    /// what came was taken; `rank` is any one whose steps are known, or none.
    Control next(const RankWatch* rank, double calls_per_s, double now_s);
    /// A verdict, once: what it costs, and whether watching stops.
    std::optional<TooDear> verdict();
    [[nodiscard]] bool is_stopped() const { return level_ == Level::stopped; }
    /// When next() is to be asked at the latest.
    [[nodiscard]] double wake_s() const { return paused_ ? pause_ends_s_ : INFINITY; }

    /// By how much a step that is recorded takes longer, as a share of one that is not, by a pause
    /// of that length between two beats; nothing: they are no whole number of steps apart, so that
    /// these cannot be counted.
    static std::optional<double> share_of_turn(const RankWatch::Beat& before,
                                               std::uint64_t first_after_ns, double pause_s);

  private:
    enum class Level { full, thin, stopped };
    Control measure(const RankWatch& rank, double now_s);
    void take_turn(const RankWatch& rank);
    void judge(double now_s);
    [[nodiscard]] Control usual(double now_s) const;

    Level level_ = Level::full;
    bool measuring_ = false, paused_ = false;
    double next_s_ = -1, pause_began_s_ = 0, pause_ends_s_ = 0;
    double pause_s_ = 0;  ///< as it was
    std::size_t turn_ = 0;
    std::optional<RankWatch::Beat> before_;  ///< of a pause whose steps are not counted yet
    std::vector<double> shares_;
    std::optional<TooDear> verdict_;
};

}  // namespace arena::watch
