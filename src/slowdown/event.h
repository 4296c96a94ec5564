// SPDX-License-Identifier: GPL-2.0-or-later
// A slowdown from onset to relief: since when, against which healthy time, and how much time it has
// cost. Changes of the level while it lasts (worse, or better by a mitigation) are of the same
// event.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "base/result.h"
#include "slowdown/verify.h"

namespace arena::slowdown {

struct Event {
    std::size_t onset = 0;        ///< first slow iteration
    std::size_t reported_at = 0;  ///< iteration that decided it
    Evidence evidence = Evidence::change_point;
    double healthy = 0;  ///< level before the onset: seconds, or seconds per token
    double present =
        0;  ///< level of now, in the same unit; of the last slow ones behind the relief
    double worst = 0;
    double lost_s = 0;  ///< sum of what iterations since the onset took beyond healthy
    std::optional<std::size_t> relief;  ///< first healthy iteration
    [[nodiscard]] double factor() const { return present / healthy; }
};

enum class Step { none, onset, changed, relief };

class EventTracker {
  public:
    explicit EventTracker(const DetectorOptions& options = {});
    /// One iteration: time_s and tokens as Detector::add takes them. What happened by it; the event
    /// is event() then. Errors: those of Detector::add.
    Result<Step> add(double time_s, double tokens = 0);
    /// The last event: open while it has no relief. Nothing before the first onset.
    [[nodiscard]] const std::optional<Event>& event() const { return event_; }
    [[nodiscard]] bool is_open() const { return event_ && !event_->relief; }

  private:
    struct Sample {
        double time_s = 0, tokens = 0;
        [[nodiscard]] double level() const { return tokens > 0 ? time_s / tokens : time_s; }
    };
    [[nodiscard]] double lost(const Sample& sample) const;
    Step open(const Change& change);
    Step change_level(const Change& change);
    Step close(std::size_t relief);
    [[nodiscard]] bool is_back() const;

    DetectorOptions options_;
    Detector detector_;
    std::deque<Sample> recent_;
    std::optional<Event> event_;
};

}  // namespace arena::slowdown
