// SPDX-License-Identifier: GPL-2.0-or-later
// Books: all that outlives a round of the scheduler. What is known of jobs is forgotten with them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "planner/requests/cluster_rules.h"
#include "plugin/sched/arrays/array_book.h"
#include "plugin/sched/belief/belief.h"
#include "plugin/sched/checks/check_book.h"
#include "plugin/sched/history/job_history.h"
#include "plugin/sched/loans/loan_book.h"
#include "plugin/sched/nodes/boot_book.h"
#include "plugin/sched/nodes/node_book.h"
#include "plugin/sched/plans/offer_book.h"
#include "plugin/sched/profiles/measurements.h"
#include "plugin/sched/profiles/profile_book.h"
#include "plugin/sched/promises/promise_watch.h"
#include "plugin/sched/round/blocked_offers.h"
#include "plugin/sched/round/queue.h"
#include "plugin/sched/round/request_cache.h"
#include "plugin/sched/slowdown/slowdown_book.h"
#include "policy/order/promises.h"

namespace arena {

/// Since when something is so, by the monotonic clock: setting the other one ends no wait and makes
/// none.
class JobClocks {
  public:
    void new_round(const ClusterView& view);
    [[nodiscard]] double now_s() const { return now_s_; }
    /// Whether slurmd accepts the job, which has run before, again.
    [[nodiscard]] bool may_launch(const JobView& job) const;
    /// Seconds since a time of the wall clock in Slurm's record of the job: by that clock when it
    /// is first asked for.
    double age_s(JobId job, double since_s);
    /// When the waiting job was first told to wait for a profile run.
    double profile_wait_since_s(JobId job) {
        return profile_wait_since_.try_emplace(job, now_s_).first->second;
    }
    template <typename Gone>
    void forget(Gone gone) {
        std::erase_if(pending_since_, gone);
        std::erase_if(profile_wait_since_, gone);
        std::erase_if(ages_, [&](const auto& entry) { return gone(entry.first); });
    }

  private:
    double now_s_ = 0, wall_s_ = 0;
    /// Of one life: it may have run between two rounds.
    struct Pending {
        std::uint32_t restart = 0;
        double since_s = 0;
    };
    std::map<JobId, Pending> pending_since_;
    std::map<JobId, double> profile_wait_since_;
    std::map<std::pair<JobId, double>, double> ages_;
};

/// What `arena explain` tells of a job.
struct JobStatus {
    std::uint32_t uid = 0;
    std::string state, reason;
    std::string unmeasured;  ///< GPU types without a profile, and why; "" = all have or are off
    OfferList offers;
    SharedRequest wanted;
    SharedPools pools;
    std::optional<Chosen> chosen;
    std::string span;        ///< running: words_of_span() of its nodes
    double iteration_s = 0;  ///< running: estimated, for these
    MovesTook moves_took_s{};
    OfferList none;                   ///< a list without an offer,
    std::string none_why;             ///< and why it has none
    std::vector<std::string> avoids;  ///< nodes that it avoids, and why
    std::string array;                ///< what becomes of it with its siblings; "" = it has none
    std::optional<Belief> work;       ///< of one that takes part in decisions
    std::string account;              ///< as Slurm charges it
    std::string unsaved;              ///< that it left without a checkpoint; "" = it did not
    SlowdownMode slowdown = SlowdownMode::off;
    std::size_t told = 0;  ///< a sum of what the history has last; 0 = nothing
};

struct Books {
    Books(Host& host, Config config, std::vector<GpuType> hardware, Calibration calibration,
          PlanLimits limits);

    /// What jobs reported before this life, from the store.
    void recall_observed();
    [[nodiscard]] std::string with_refused_update(JobId job, const std::string& reason) const;
    /// An event of the job's history: it left without the checkpoint that it was told to make.
    void note_unsaved(double at_s, JobId job, std::uint32_t uid);
    /// A job is told to leave its nodes. Where Slurm does not take that the job runs on, and
    /// nothing comes of the note.
    void note_departure(JobId job, Departure by, double now_s);
    /// Forgets jobs that are not in the view. At the end of a round.
    void forget_gone(const ClusterView& view);
    [[nodiscard]] std::map<JobId, LastRun> ends_of(const std::vector<EndedJob>& ended);
    /// What one used of what was believed of it.
    [[nodiscard]] std::optional<JobUse> use_of(const EndedJob& end);

    const SiteFacts site;
    const bool keeps_segments;  ///< as Host has it
    const Policy* policy;
    PolicyOptions options;
    Measurements measurements;
    ProfileBook profiles;
    OfferBook offers;
    RequestCache requests;
    JobClocks clocks;
    NodeBook nodes;
    BootBook boots;
    LoanBook loans;
    CheckBook checks;
    ArrayBook arrays;
    /// Jobs that are to leave some of their nodes, whatever the policy decides: each round carries
    /// out what it can, and whoever asks says so again until it is done.
    std::map<JobId, Move> imposed;
    /// Jobs that asked to leave nodes, until their marks say so.
    std::map<JobId, std::vector<AvoidedNode>> leaving;
    BlockedOffers blocked;
    Queue queue;
    PromiseBook promises;
    PromiseWatch promise_watch;
    SlowdownBook slowdown;
    JobHistory history;
    std::map<JobId, JobStatus> statuses;
    std::map<JobId, std::string> refused_updates;  ///< the latest, why
    std::map<JobId, double> patience;  ///< the first since each last ran: see Decision::patience
    double decided_s = 0;              ///< time of the last round's snapshot, 0: none yet
};

}  // namespace arena
