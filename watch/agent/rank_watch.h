// SPDX-License-Identifier: GPL-2.0-or-later
// One rank as its agent sees it: from the records of its ring to iterations, times of communicators
// and silence. Values in, frames out; the clocks are the caller's.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "slowdown/period.h"
#include "watch/agent/rank_profile.h"
#include "watch/ring/ring.h"
#include "watch/wire/frames.h"

namespace arena::watch {

/// Three clocks at one moment.
struct Clocks {
    double steady_s = 0;         ///< of the caller's loop; never falls
    std::uint64_t raw_ns = 0;    ///< CLOCK_MONOTONIC_RAW, as in records
    std::uint64_t epoch_ns = 0;  ///< CLOCK_REALTIME
};

class RankWatch {
  public:
    static constexpr double silent_after_s = 10;

    explicit RankWatch(const RingOwner& owner) : owner_(owner) {}

    /// Records since the last time, in order of sequence; `lost` were overwritten unread.
    void take(std::vector<Record> records, std::uint64_t lost, const Clocks& now);
    /// Nothing was recorded for a while: what follows does not continue what was.
    void break_off();
    /// Timings are wanted for so many iterations; 0: no more.
    void profile(std::int64_t iterations, double now_s);
    /// What RankProfile::timed_since() says, where it is profiled.
    void timed_since(std::uint64_t time_ns) {
        if (profile_) profile_->timed_since(time_ns);
    }
    [[nodiscard]] bool is_profiled() const { return profile_.has_value(); }
    /// What there is to say since the last time. running: its process is there, and not stopped.
    std::vector<Frame> report(bool running, const Clocks& now);
    /// Lines for the agent's log since the last time.
    std::vector<std::string> lines();

    [[nodiscard]] const RingOwner& owner() const { return owner_; }
    [[nodiscard]] std::uint64_t calls() const { return calls_; }
    /// Whether the rank's step is known, and iterations are told.
    [[nodiscard]] bool has_period() const { return marked_ || finder_.period() > 0; }

    /// A call that comes once per step: stamps of it before and after a pause are a whole number of
    /// steps apart, which needs no record of the pause.
    struct Beat {
        slowdown::CallKey key;
        std::uint64_t last_ns = 0;  ///< its last stamp
        double interval_s = 0;      ///< mean of the last ones
        std::size_t intervals = 0;
    };
    [[nodiscard]] std::optional<Beat> beat() const;
    /// The first stamp of that call since break_off(); 0: none yet.
    [[nodiscard]] std::uint64_t first_of(const slowdown::CallKey& key) const;

  private:
    struct Seen {
        slowdown::CallKey key;
        std::uint64_t time_ns = 0;
    };
    [[nodiscard]] bool is_plausible(const Record& record, const Clocks& now);
    void take_call(const Record& record, const Clocks& now);
    void take_mark(const Record& record, const Clocks& now);
    void find_iteration(const slowdown::Call& call, const Clocks& now);
    void end_iteration(std::uint64_t end_ns, std::int64_t time_us, std::int64_t tokens,
                       std::int64_t series, const Clocks& now);
    [[nodiscard]] std::optional<Silent> silence(bool running, const Clocks& now);
    std::int64_t series_of(const slowdown::CallKey& anchor);

    RingOwner owner_;
    slowdown::PeriodFinder finder_;
    std::map<slowdown::CallKey, std::int64_t> series_;
    std::deque<Seen> recent_;    ///< since break_off(), the last few
    std::uint64_t last_ns_ = 0;  ///< the latest stamp of a call
    std::uint64_t calls_ = 0;
    bool marked_ = false;        ///< by arena_watch_step(): its calls are the steps
    std::uint64_t mark_ns_ = 0;  ///< of the step that goes on
    std::int64_t mark_tokens_ = 0;
    std::vector<Iterations> done_;  ///< not yet told
    std::optional<RankProfile> profile_;
    bool is_silent_ = false, said_silent_ = false, said_stamps_ = false, said_lost_ = false,
         bad_stamps_ = false;
    double last_step_s_ = 0;
    double heard_s_ = -1;  ///< when a record came last, or the rank
    std::vector<std::string> lines_;
};

}  // namespace arena::watch
