// SPDX-License-Identifier: GPL-2.0-or-later
// What a rank's calls of each communicator took per iteration, from the timings that the recorder
// writes while it is asked to. A timing comes when its call's work has ended, which may be after
// the iteration: it belongs to the iteration in which the call was made.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "watch/ring/record.h"
#include "watch/wire/frames.h"

namespace arena::watch {

class RankProfile {
  public:
    /// Of so many iterations, begun at a clock of seconds.
    RankProfile(std::int64_t iterations, double now_s) : wanted_(iterations), begun_s_(now_s) {}
    void add(const Record& timing, double now_s);
    /// Calls made from that time on (as Record::time_ns) are timed. The first word of it holds; an
    /// iteration that ended before was read late and has no timings.
    void timed_since(std::uint64_t time_ns);
    /// An iteration ended by a call of that time (as Record::time_ns).
    void end_iteration(std::uint64_t time_ns, double now_s);
    /// Once: when the iterations are there and their timings had a second to come, or after 900 s
    /// with what is there (iterations 0: nothing). rank is the caller's to fill in.
    [[nodiscard]] std::optional<GroupTimes> result(double now_s);

  private:
    [[nodiscard]] GroupTimes sum_up() const;
    void complete(double now_s);

    std::int64_t wanted_;
    double begun_s_, complete_s_ = -1;
    std::uint64_t since_ns_ = 0;          ///< 0: not known yet
    std::vector<std::uint64_t> ends_ns_;  ///< the first ends the one that is left out
    std::vector<Record> timings_;
};

}  // namespace arena::watch
