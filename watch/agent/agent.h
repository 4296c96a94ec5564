// SPDX-License-Identifier: GPL-2.0-or-later
// The agent of a node: what its ranks' rings say, as frames for the chief; what the chief wants, as
// orders to the rings. Values in, frames out; rings, sockets and clocks are its loop's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "watch/agent/overhead.h"
#include "watch/agent/rank_watch.h"
#include "watch/wire/frames.h"

namespace arena::watch {

/// What one ring gave since the last time.
struct RingNews {
    std::string ring;  ///< its name: a rank that starts anew has another
    RingOwner owner;
    std::int64_t gpu = -1;  ///< gpu_index()
    std::vector<Record> records;
    std::uint64_t lost = 0;
    bool running = true;  ///< its process is there, and not stopped
    bool ended = false;   ///< its process is gone, and all it wrote is read
};

class Agent {
  public:
    Agent(std::string node, double poll_s) : node_(std::move(node)), poll_s_(poll_s) {}

    void take(RingNews news, const Clocks& now);
    /// The chief is connected, again: what it does not know yet is said again.
    void connected();
    /// What only a chief says is obeyed, all else left out.
    void on(const Frame& frame, double now_s);
    /// After each reading of all rings: what they are to do until the next.
    Control control(const Clocks& now);
    /// Once per poll: what there is to say.
    std::vector<Frame> report(const Clocks& now);
    std::vector<std::string> lines();

    /// Seconds until the rings must be read again: often enough that none of `capacity` records
    /// overflows, at most a poll.
    [[nodiscard]] double read_within_s(std::uint64_t capacity, double now_s) const;
    [[nodiscard]] std::size_t ranks() const { return ranks_.size(); }

  private:
    struct Rank {
        RankWatch watch;
        std::int64_t gpu = -1;
        bool running = true, ended = false, told = false;
        std::uint64_t calls = 0;  ///< at the last measure of the rate
    };
    void measure_rate(double now_s);
    [[nodiscard]] const RankWatch* any_with_period() const;

    std::string node_;
    double poll_s_;
    bool said_hello_ = false;
    std::int64_t awaited_ = 0;  ///< iterations that ranks are profiled for once they come
    std::map<std::string, Rank> ranks_;
    Overhead overhead_;
    Control control_ = Control::record;
    double rate_at_s_ = -1, calls_per_s_ = 0;  ///< of the rank that makes most
    std::vector<std::string> lines_;
};

}  // namespace arena::watch
