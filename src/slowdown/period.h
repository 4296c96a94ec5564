// SPDX-License-Identifier: GPL-2.0-or-later
// The step that repeats in a stream of communication calls, and how long each took. The anchor (the
// largest reduction: the gradient synchronisation) finds the period in calls; of all positions in
// the period one is chosen that gives the times (anchor to anchor is up to 12 % off). Where steps
// differ in length it is the step's own border: there all parts of a step are as much longer as the
// step is, while an interval cut in the midst is part of two steps, and varies less than either.
// Where they do not, or calls come anywhere in a step, it is the one whose intervals vary least.
// Exact repetition instead of autocorrelation, which needs 20 steps and mistakes an inner
// loop for the step. A stream whose calls are all alike has no period but one call.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/result.h"
#include "slowdown/calls.h"

namespace arena::slowdown {

struct Iteration {
    std::int64_t end_us = 0;  ///< when the call came that ends it
    std::int64_t duration_us = 0;
    std::size_t period = 0;  ///< calls
    /// Iterations of one series have one anchor: times of another were of something else, and are
    /// no baseline of these.
    std::size_t series = 0;
};

class PeriodFinder {
  public:
    /// A call in, at most one iteration out, the first within 5 iterations; a change of period is
    /// followed within 5. Amortised O(1) per call. Error: time goes back.
    Result<std::optional<Iteration>> add(const Call& call);
    /// Calls per iteration; 0: not known.
    [[nodiscard]] std::size_t period() const;
    /// Valid where period() > 0.
    [[nodiscard]] const CallKey& anchor() const { return anchor_; }

  private:
    struct Seen {
        CallKey key;
        std::int64_t time_us = 0;
    };
    [[nodiscard]] bool is_doubtful() const;
    [[nodiscard]] std::size_t calls_per_step() const;
    void consider(const CallKey& key, std::size_t at);
    void challenge(const CallKey& key, std::size_t at);
    [[nodiscard]] std::size_t longest_gap() const;
    void note_odd(std::size_t at, std::size_t gap);
    void take_anchor(const CallKey& key);
    void take_next_anchor();
    void on_anchor(std::size_t at);
    void on_gap(std::size_t at, std::size_t gap);
    void take_pattern(std::size_t length, std::size_t at);
    [[nodiscard]] bool resume(std::size_t at);
    void end_block(std::size_t at);
    void choose_position();
    void take_steadiest();
    [[nodiscard]] std::size_t find_border() const;
    [[nodiscard]] double spread(std::size_t position) const;
    [[nodiscard]] std::size_t usable_blocks(std::size_t position) const;
    struct Shape {
        /// Mean, of the places of calls in the step, from one step to the next; in its lengths.
        double change = 0;
        double length_us = 0;  ///< mean, of a step
    };
    template <typename Measure>
    [[nodiscard]] std::size_t least_of(std::size_t before, const Measure& measure) const;
    [[nodiscard]] Shape shape(std::size_t position) const;
    [[nodiscard]] std::optional<Iteration> measure(std::size_t at) const;
    [[nodiscard]] std::int64_t time_at(std::size_t at) const { return calls_[at - first_].time_us; }
    [[nodiscard]] bool is_burst() const;
    void trim();
    void forget();

    std::deque<Seen> calls_;
    std::size_t first_ = 0;                        ///< number of calls_.front() in the stream
    std::size_t epoch_ = 0;                        ///< where the program began, or began anew
    std::map<CallKey, std::size_t> counts_;        ///< of calls_, behind epoch_
    std::map<CallKey, std::size_t> since_anchor_;  ///< counts since the last anchor
    std::map<CallKey, std::size_t> series_of_;     ///< of anchors so far
    std::size_t last_series_ = 0;
    std::set<CallKey> irregular_;
    bool has_anchor_ = false;
    CallKey anchor_;
    std::size_t last_anchor_ = 0, anchors_ = 0;
    std::size_t doubt_until_ = 0;                 ///< number of a call
    std::size_t last_odd_ = 0, longest_odd_ = 0;  ///< gap that the pattern does not explain
    std::deque<std::size_t> gaps_;                ///< calls between anchors, the last few
    std::vector<std::size_t> pattern_;            ///< gaps of one period; empty: not known
    std::size_t phase_ = 0;                       ///< in pattern_, of the next gap
    std::size_t fresh_ = 0;           ///< gaps since one that the pattern does not explain
    std::deque<std::size_t> blocks_;  ///< where periods ended: numbers of anchor calls
    std::size_t position_ = 0;        ///< calls after a block's end; 0: not chosen
    std::size_t border_ = 0;          ///< such a one that is the step's own; 0: not known
    std::size_t ended_ = 0;           ///< blocks since the pattern
};

}  // namespace arena::slowdown
