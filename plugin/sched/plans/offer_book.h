// SPDX-License-Identifier: GPL-2.0-or-later
// OfferBook: planner answers, remembered. Jobs with the same model, batch, range and GPU pools
// share one list of offers; a new profile of a type makes a new list, and so does what a running
// job reports.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "planner/search/offers.h"
#include "planner/search/planner.h"
#include "plugin/sched/host/host.h"
#include "plugin/sched/plans/plan_desk.h"
#include "plugin/sched/profiles/measurements.h"
#include "request/request.h"
#include "site/config.h"

namespace arena {

/// GPUs of one type that a job's nodes have in all, free or not.
struct SitePool {
    std::string gpu_type, hardware;
    std::int64_t gpus_per_node = 0, max_gpus = 0;
    std::int64_t cpus_per_gpu = 1, memory_mb_per_gpu = 0;  ///< even share of the poorest node
    std::int64_t nodes = 0, leaf_nodes = 0, pod_nodes = 0, domain_nodes = 0;  ///< as GpuPool's
    bool domains_alternate = false;
};

using SharedPools = std::shared_ptr<const std::vector<SitePool>>;

inline constexpr std::size_t max_observed = 1024;

class OfferBook {
  public:
    OfferBook(const Config& config, std::vector<GpuType> hardware, Calibration calibration,
              Measurements& measurements, PlanLimits limits = {});

    /// Mapped types on the nodes of a job, by the place that has most of each; unmapped ones are
    /// left out.
    const std::vector<SitePool>& pools(const ClusterView& view, const JobView& job) {
        return *shared_pools(view, job);
    }
    /// The same, to be kept beyond the round.
    const SharedPools& shared_pools(const ClusterView& view, const JobView& job) {
        return shared_pools(view, job.node_set, job.slots);
    }
    /// Of some of its slots; of its nodes where there are none.
    const SharedPools& shared_pools(const ClusterView& view, std::uint32_t node_set,
                                    const std::vector<PartitionSlot>& slots);
    /// Forget pools, take in the plans that were made: call once a round, before anything else.
    void new_round();
    /// Null while the plan is in the user's queue (plan_desk.h): ask again in the next round.
    /// model_fingerprint is that of the request's model: computing it costs more than the look-up.
    /// Corrected by what jobs of this user reported, and by what counts for everybody.
    OfferList offers(std::uint32_t user, const Request& request,
                     const std::string& model_fingerprint, const std::vector<SitePool>& pools);
    /// The uncorrected estimate of an offer as it is now, on the job's pools; of a type that they
    /// lack it is as if there were no others of its GPUs. Nothing where the site has no such GPU
    /// type any more or the plan is none.
    std::optional<Estimate> price(const Request& request, const Offer& offer,
                                  const std::vector<SitePool>& pools);
    /// Corrects its user's offers of this model, batch and launcher from now on, or everybody's if
    /// it is shared. False, and nothing changes, when the times are no measurement (see
    /// is_usable()); what does not count yet waits (see counts()). Remembers the latest
    /// observation of each grid and plan, 64 per user, model, batch and launcher. Of max_observed
    /// of those, the user with most of them loses the oldest.
    bool observe(ObservedRun run);
    /// The same of a row of the store, which knows what it agrees with.
    bool recall(ObservedRun run);
    /// Whether what was observed last of the run's user, model, batch, launcher, grid and plan
    /// counts.
    [[nodiscard]] bool latest_counts(const ObservedRun& run) const;
    [[nodiscard]] std::size_t observed() const { return observed_.size(); }
    /// Of the same query, for explain.
    struct Grids {
        std::vector<Infeasible> infeasible;
        std::string left_out;   ///< what was not looked at, and why; "" = nothing
        std::string would_fit;  ///< what the user could ask for instead, where nothing is offered
        bool no_room = false;   ///< there was no memory for a plan: it is asked for again
    };
    /// Null while they are in the user's queue; good until the next call.
    const Grids* grids(std::uint32_t user, const Request& request,
                       const std::vector<SitePool>& pools);
    /// Why offers() has none: of each type what the planner says of its most GPUs, and what would
    /// fit; "" while grids() are in the user's queue.
    std::string why_none(std::uint32_t user, const Request& request,
                         const std::vector<SitePool>& pools);
    using ArrayPrices = std::shared_ptr<const ArrayOffers>;
    /// What so many siblings could do with the GPUs of the pool together. Null while that is in the
    /// user's queue; where the planner itself failed, ways that are all impossible.
    ArrayPrices array_offers(std::uint32_t user, const Request& request,
                             const std::string& model_fingerprint, const SitePool& pool,
                             std::int64_t members);
    [[nodiscard]] PlanDesk::Stats planning() const { return desk_.stats(); }
    [[nodiscard]] double plan_seconds() const { return desk_.own_seconds(); }

  private:
    struct Observed {
        std::vector<ObservedRun> list;  ///< the newest last
        std::uint64_t version = 0;  ///< of the whole book's observations, at the latest one here
    };

    /// Model, batch, launcher, and whose jobs it counts for.
    using ObservedKey = std::tuple<std::string, std::int64_t, std::string, std::int64_t>;
    static constexpr std::int64_t everybody = -2;
    static ObservedKey observed_key(const ObservedRun& run) {
        return {run.model_fingerprint, run.global_batch, run.launcher,
                run.shared ? everybody : run.user};
    }
    [[nodiscard]] std::vector<SitePool> pools_in(const ClusterView& view, const Place& place) const;
    [[nodiscard]] const ObservedRun* latest(const ObservedRun& run) const;
    void forget_oldest();
    std::optional<GpuPool> pool_of(const Request& request, const SitePool& pool);
    PlanQuery query(const Request& request, const std::vector<SitePool>& pools);
    std::string cache_key(const Request& request, const std::string& model_fingerprint,
                          const std::vector<SitePool>& pools);

    OfferList keep(const std::string& key, PlanOutcome outcome);
    const Grids* keep_grids(const std::string& key, PlanOutcome& outcome);
    const ArrayPrices& keep_array(const std::string& key, PlanOutcome& outcome);
    ArrayQuery array_query(const Request& request, const SitePool& pool, std::int64_t members);

    Config config_;
    std::vector<GpuType> hardware_;
    Calibration calibration_;
    Measurements& measurements_;
    std::map<std::pair<std::uint32_t, std::vector<Place>>, SharedPools> pools_;
    OfferCache cache_;
    std::map<ObservedKey, Observed> observed_;
    std::uint64_t observations_ = 0;
    std::map<std::string, Grids> grids_;
    std::deque<std::string> grids_by_age_;
    std::map<std::string, ArrayPrices> arrays_;
    std::deque<std::string> arrays_by_age_;
    PlanDesk desk_;
};

}  // namespace arena
