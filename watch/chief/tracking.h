// SPDX-License-Identifier: GPL-2.0-or-later
// Is the job slow? From the steps that its trainer tells or, without one, the iterations of its
// ranks. A synchronous job is slow on all ranks at once: a few dozen of them tell as much as all,
// and half of those must agree, so that the noise of one is no event.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "slowdown/event.h"
#include "watch/wire/frames.h"

namespace arena::watch {

struct IterationTime {
    double time_s = 0;  ///< finite, > 0
    double tokens = 0;  ///< 0: not said
    std::int64_t end_ms = 0;
    [[nodiscard]] double level() const { return tokens > 0 ? time_s / tokens : time_s; }
};

/// Iterations of one rank, or steps of the trainer.
class Series {
  public:
    explicit Series(double threshold) : threshold_(threshold), tracker_(options()) {}
    /// What it changed. A time out of range is left out; tokens that begin or end to be said begin
    /// the series anew.
    slowdown::Step add(const IterationTime& one);
    [[nodiscard]] bool is_open() const { return tracker_.is_open(); }
    /// Of an event: is there where is_open().
    [[nodiscard]] const slowdown::Event& event() const { return *tracker_.event(); }
    /// When the event's first slow iteration began.
    [[nodiscard]] std::int64_t onset_ms() const;
    [[nodiscard]] std::size_t samples() const { return samples_; }

  private:
    [[nodiscard]] slowdown::DetectorOptions options() const {
        return {.threshold = threshold_, .verify = true, .prior = {}};
    }
    double threshold_;
    slowdown::EventTracker tracker_;
    std::deque<IterationTime> recent_;
    std::size_t samples_ = 0;
};

/// What a frame told of the job.
struct JobSteps {
    slowdown::Step step = slowdown::Step::none;
    std::vector<IterationTime> steps;  ///< each step of the job once
};

class Tracking {
  public:
    static constexpr std::size_t most_series = 64;  ///< ranks that are tracked

    Tracking(double threshold, double poll_s) : threshold_(threshold), poll_s_(poll_s) {}
    JobSteps add(const StepDone& step);
    /// Counts nothing while the trainer tells steps: where they are parked, ranks' iterations are
    /// long.
    JobSteps add(const Iterations& iterations, double now_s);
    void trainer_is_gone() { trainer_.clear(); }

    /// Of the event that `step` told of, in seconds, or seconds per token where these are said.
    struct Event {
        double healthy = 0, present = 0, lost_s = 0;
        std::int64_t onset_ms = 0;
    };
    /// Healthy 0: there is none.
    [[nodiscard]] Event event() const;
    /// Rank whose agent tells of it; -1: the trainer.
    [[nodiscard]] std::int64_t lead() const;

  private:
    struct Rank {
        Series series;
        std::int64_t number = 0;  ///< Iterations::series
        double heard_s = 0;
    };
    [[nodiscard]] bool is_fresh(const Rank& rank, double now_s) const;
    Rank* track(const Iterations& iterations, double now_s);
    slowdown::Step vote(double now_s, bool lead_changed);

    double threshold_, poll_s_;
    std::vector<Series> trainer_;  ///< one, or none
    std::map<std::int64_t, Rank> ranks_;
    bool ranks_are_slow_ = false;
};

}  // namespace arena::watch
