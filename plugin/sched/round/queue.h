// SPDX-License-Identifier: GPL-2.0-or-later
// Queue: place and time, what waiting jobs want to know. A held job has no priority in Slurm's
// eyes, and its backfill makes no estimate for it; here is where it stands and when it will start,
// with what, as far as anybody can say.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "plugin/sched/round/round.h"
#include "policy/forecast.h"
#include "policy/order/promises.h"

namespace arena {

/// In the queue of those that may use some of the same nodes.
struct QueuePosition {
    std::size_t number = 1;
    JobId ahead = 0;  ///< the last one before it; 0 = none
    bool ordinary_ahead = false;
    std::optional<ExpectedStart> expected;
};

class Queue {
  public:
    /// What Slurm is to show of held jobs; nothing where the last estimate is young. No promised
    /// job is expected to end later than promised. Never takes long, and stops where `stopping`
    /// says so.
    std::optional<std::vector<Host::Expected>> look_forward(const Round& round,
                                                            const Policy& policy,
                                                            const PromiseBook& promises,
                                                            const std::function<bool()>& stopping);
    /// After look_forward(); left out: jobs that run by now.
    void note_positions(const Round& round, const std::function<bool(JobId)>& runs);
    /// Of the last round; null: the job is not in the queue.
    [[nodiscard]] const QueuePosition* find(JobId job) const;
    [[nodiscard]] std::size_t size() const { return positions_.size(); }
    template <typename Gone>
    void forget(Gone gone) {
        std::erase_if(expected_, gone);
    }

  private:
    void expect_promises(const Round&, const PromiseBook&);

    std::map<JobId, QueuePosition> positions_;
    std::map<JobId, ExpectedStart> expected_;
    double looked_forward_s_ = -INFINITY;
};

}  // namespace arena
