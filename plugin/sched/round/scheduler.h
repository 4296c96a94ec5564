// SPDX-License-Identifier: GPL-2.0-or-later
// Scheduler: one round is survey -> collect -> profile -> plan -> decide -> apply -> say why. Plain
// C++ on a Host; the plug-in's thread calls it, unit tests drive it with a scripted host.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "core/decision.h"
#include "planner/requests/cluster_rules.h"
#include "plugin/common/shared.h"
#include "plugin/sched/host/host.h"
#include "plugin/sched/host/refusals.h"
#include "plugin/sched/plans/offer_book.h"
#include "plugin/sched/profiles/measurements.h"
#include "plugin/sched/profiles/profile_book.h"
#include "plugin/sched/round/launch.h"
#include "plugin/sched/round/wish_book.h"
#include "policy/policy.h"
#include "site/config.h"
#include "site/gpu_facts.h"

namespace arena {

/// Counters of the life of this plug-in; `arena stats` prints them.
struct SchedulerStats {
    std::uint64_t rounds = 0, starts = 0, releases = 0, reholds = 0, checkpoints = 0, moves = 0,
                  requeues = 0;
    std::uint64_t opt_outs = 0, reports = 0, stale = 0, failed_starts = 0, faults = 0;
    std::uint64_t timed_rounds =
        0;  ///< since times were last counted afresh: of max_ms and total_ms
    double last_ms = 0, max_ms = 0, total_ms = 0;
    double survey_ms = 0, collect_ms = 0, plan_ms = 0, decide_ms = 0, apply_ms = 0,
           forecast_ms = 0;  ///< last round
    std::size_t jobs_pending = 0, jobs_running = 0;
};

class Scheduler {
  public:
    Scheduler(Host& host, Config config, std::vector<GpuType> hardware, Calibration calibration,
              PlanLimits limits = {});

    /// One round. Not thread-safe; never called with locks held.
    void round();

    /// A running job's iteration time: corrects the offers of its like from now on and goes to the
    /// store.
    void observe(const LeftReport& left, double now_s);

    /// JSON documents for the socket: see `arena explain`, `arena stats`, `arena snapshot save`.
    /// explain is empty when uid may not see the job, or there is none.
    std::string explain(JobId job, bool privileged, std::uint32_t uid);
    [[nodiscard]] std::string stats_json(bool privileged = true, std::uint32_t uid = 0) const;
    /// Longest and mean times are counted afresh; counters are not.
    void forget_times();
    /// Everybody's places; of others' jobs that, and their ids where `sees_others`.
    [[nodiscard]] std::string queue_json(bool privileged, std::uint32_t uid,
                                         bool sees_others) const;
    [[nodiscard]] std::string snapshot_json() const;
    void count_fault() { ++stats_.faults; }
    /// An update that job_modify took or refused: why it was refused stands before what the job
    /// waits for, until another is taken or the job starts.
    void note_update(const LeftUpdate&);

  private:
    /// What the decision on a job may lead to now.
    enum class Role {
        waits,    ///< it may be started or released
        returns,  ///< nothing yet: it counts as waiting, but still saves its state or has only just
                  ///< ended
        runs,     ///< it may be moved
    };
    struct Planned {  ///< a job that takes part in this round's decision
        const JobView* view;
        const Wish* wish;
        const std::vector<SitePool>* pools;
        OfferList offers;
        Role role;
        std::size_t state;  ///< its place in snapshot_.jobs
    };
    struct Return {  ///< what a job that saves its state is about to give back
        NodeIndex node;
        std::int64_t gpus, cpus, memory_mb;
    };
    struct Blocked {  ///< an offer that Slurm refused a moment ago
        Grid grid;
        double until_s;
        std::string why;
        bool limited = false;  ///< by a limit, which may be lifted as soon as a job ends
    };
    struct Place {  ///< in the queue of those that may use some of the same nodes
        std::size_t number = 1;
        JobId ahead = 0;  ///< the last one before it; 0 = none
        bool ordinary_ahead = false;
        std::optional<ExpectedStart> expected;
    };
    struct Last {  ///< what explain tells
        std::uint32_t uid = 0;
        std::string state, reason;
        std::string
            unmeasured;  ///< which GPU types have no profile, and why; "" = all have or are off
        OfferList offers;
        SharedWish wish;
        SharedPools pools;
        std::optional<Grid> chosen;
        OfferList none;        ///< a list without an offer,
        std::string none_why;  ///< and why it has none
    };

    [[nodiscard]] nlohmann::json profile_users(bool privileged, std::uint32_t uid) const;
    [[nodiscard]] const std::vector<SitePool>& pools_of(const JobView& job);
    void recall_observed();
    void note_settled();
    [[nodiscard]] bool settled(const JobView& job) const;
    void follow_running(const JobView& job, const Wish& wish);
    void follow_checkpointing(const JobView& job, const Wish& wish, const Offer& offer);
    [[nodiscard]] bool checkpoint(const JobView& job, bool moved);
    [[nodiscard]] double done_iterations(const JobView& job);
    [[nodiscard]] double age_s(JobId job, double since_s);
    [[nodiscard]] bool ready_for_signals(const JobView& job);
    [[nodiscard]] bool movable(const JobView& job, const Wish& wish);
    [[nodiscard]] JobState state_of(const JobView& job, const Wish& wish,
                                    const std::vector<SitePool>& pools);
    void add_running(const JobView& job, const Wish& wish, const Offer& offer);
    void add_returning(const JobView& job, const Wish& wish, const Offer& offer);
    void see_what_is_free();
    void look_ahead();
    void keep_for(const Planned& planned, const Action& action);
    void take_part(const JobView& job, const Wish& wish, JobState state, OfferList offers,
                   Role role);
    void follow_unplannable(const JobView& job);
    void consider(const JobView& job);
    void opt_out(const JobView& job, const Wish& wish, const std::vector<SitePool>& pools);
    bool wait_for_profile(const JobView& job, const Wish& wish, const std::vector<SitePool>& pools);
    [[nodiscard]] OfferList known_offers(const JobView& job, const Wish& wish,
                                         const std::vector<SitePool>& pools);
    [[nodiscard]] bool worth_waiting(const JobView& job, const ProfileAnswer& answer);
    void add_waiting(const JobView& job, const Wish& wish, const std::vector<SitePool>& pools);
    [[nodiscard]] const std::string& why_no_plan(const JobView& job, const Wish& wish,
                                                 const OfferList& none);
    [[nodiscard]] SharedOffers unblocked(JobId job, const OfferList& offers);
    [[nodiscard]] Shape shape_for(const Planned& planned, const Offer& offer,
                                  std::string_view state) const;
    void apply(const Decision& decision);
    [[nodiscard]] bool take_free_nodes(const Action& action);
    void apply_waiting(const Planned& planned, const Action& action);
    void apply_move(const Planned& planned, const Action& action);
    void note_stale(const Planned& planned, const Grid& grid, const std::string& why);
    void apply_start(const Planned& planned, const Action& action);
    void apply_release(const Planned& planned, const Action& action);
    void take_back(const std::map<JobId, const Action*>& actions);
    void keep_trying(const Planned& planned, const Offer& offer, const std::string& why);
    void block(JobId job, const Grid& grid, const std::string& why, bool limited = false);
    void refused_shape(const Planned& planned, const Offer& offer, const ApplyResult& result);
    void forgive(JobId job);
    void note_returned();
    void wait_reason(const JobView& job, const std::string& text);
    void wait_for_slurm(const JobView& job, const std::string& reason);
    using PoolKey = std::tuple<std::uint32_t, bool, std::int64_t, std::int64_t, std::int64_t>;
    [[nodiscard]] const std::vector<TypePool>& pools_with(std::uint32_t node_set, bool up_only,
                                                          const NodeNeeds& needs);
    [[nodiscard]] bool nodes_are_down(const Planned& planned);
    [[nodiscard]] std::string why_no_node(const JobView& job, const Wish& wish,
                                          const JobState& state);
    void say_refused_update(const JobView& job);
    [[nodiscard]] std::string with_refused_update(JobId job, const std::string& reason) const;
    void say_why(const Decision& decision);
    void note_places();
    void look_forward();
    void forget_gone();

    Host& host_;
    Config config_;
    SiteFacts site_;
    Measurements measurements_;
    ProfileBook profiles_;
    OfferBook offers_book_;
    WishBook wishes_;
    const Policy* policy_;
    PolicyOptions policy_options_;
    double decided_s_ = 0;  ///< time of the last round's snapshot, 0: none yet
    SchedulerStats stats_;

    ClusterView view_;
    Snapshot snapshot_;
    Offers offers_;
    std::map<JobId, Planned> planned_;
    std::vector<Return> returns_;  ///< of this round
    std::vector<Taken> taken_;     ///< of each node, by ready jobs before the one considered
    std::size_t ready_ = 0;        ///< jobs so far in this round
    std::size_t ready_seen_ = 0;   ///< those that taken_ knows
    std::size_t looks_ = 0;        ///< how often it was made in this round
    std::map<JobId, double> settled_since_;
    std::map<std::pair<JobId, double>, double> ages_;  ///< see age_s()
    std::map<JobId, double>
        profile_wait_since_;  ///< when a waiting job was first told to wait for a run
    std::map<JobId, std::vector<Blocked>> blocked_;
    std::int64_t free_before_ = 0;  ///< CPUs and GPUs free in the last round
    std::int64_t up_before_ = 0;    ///< of all nodes that took jobs then
    /// By job: shapes that Slurm refused in a row.
    Refusals refusals_{{.first_rest_s = 1, .longest_rest_s = 1800, .forget_s = 3600}};
    std::map<JobId, Blocked> busy_;  ///< offers whose nodes were not free after all
    std::map<JobId, int> stale_;     ///< rounds in a row that could not be applied
    std::map<JobId, Last> last_;
    std::map<JobId, Place> places_;  ///< of the last round
    std::map<JobId, ExpectedStart> expected_;
    std::map<JobId, double> patience_;  ///< the first since each last ran: see Decision::patience
    double looked_forward_s_ = -INFINITY;
    std::map<JobId, std::string> refused_updates_;  ///< the latest, why
    std::vector<Host::Reason> reasons_;
    std::map<PoolKey, std::vector<TypePool>> pools_with_;  ///< of this round
};

}  // namespace arena
