// SPDX-License-Identifier: GPL-2.0-or-later
// SlowdownBook: what watched jobs have said of slow GPUs and links, event by event, for who asks
// and for what each job shows. Plain values; what becomes of the nodes is not decided here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugin/common/shared.h"

namespace arena {

/// As last told.
struct SlowEvent {
    SlowReport report;
    std::uint32_t user = 0;
    std::int64_t gpus = 0;  ///< of the whole job, which all wait for the slow one
    bool cleared = false;   ///< its node was taken for healthy since
    [[nodiscard]] bool open() const { return report.relief == 0 && !cleared; }
};

class SlowdownBook {
  public:
    /// Events of one job; one more takes the place of the oldest, first of those that are over.
    static constexpr std::size_t max_events = 16;

    struct Counts {
        std::uint64_t events = 0, moves = 0;
        std::uint64_t of_links = 0;  ///< of the events: those of communication
        double lost_gpu_s = 0;
    };

    /// Takes a report in. True where it says more than that more was lost. Events of the job's
    /// earlier lives are forgotten.
    bool on_slow_report(const LeftSlowReport& left);
    /// The job is in this life of its own: what it said in others is over.
    void begin_life(JobId job, std::uint32_t life);
    /// A job left a node because of what it said.
    void count_move() { ++counts_.moves; }

    /// In the order in which the job told of them first; none of an unknown job.
    [[nodiscard]] const std::vector<SlowEvent>& events(JobId job) const;
    [[nodiscard]] const std::map<JobId, std::vector<SlowEvent>>& jobs() const { return jobs_; }
    /// "slow=n3/1:compute:x2.1 action=S2 lost=41s", the worst of its open events and what all have
    /// cost; without an open one "lost=41s".
    [[nodiscard]] std::string words_of(JobId job) const;
    /// "n3: GPU 1 ..." is known of it: an open event names the node.
    [[nodiscard]] bool is_suspected(const std::string& node) const;
    [[nodiscard]] std::size_t open() const;
    [[nodiscard]] const Counts& counts() const { return counts_; }

    /// The node is healthy, says an administrator or a check: its open events, of this cause only
    /// where one is given, count no more. Whose they were.
    std::set<JobId> clear(const std::string& node, std::optional<SlowCause> cause = {});
    /// What the job said of the node is over: no reason to leave it any more.
    [[nodiscard]] bool is_over(JobId job, const std::string& node) const;

    /// An event that is open is of the same GPU or the same two ends.
    [[nodiscard]] bool is_slow_still(JobId job, const SlowReport& told) const;

    template <typename Gone>
    void forget(Gone gone) {
        std::erase_if(jobs_, gone);
    }

  private:
    std::map<JobId, std::vector<SlowEvent>> jobs_;
    Counts counts_;
};

}  // namespace arena
