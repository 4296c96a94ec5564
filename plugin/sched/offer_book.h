// SPDX-License-Identifier: GPL-2.0-or-later
// OfferBook: planner answers, remembered. Jobs with the same model, batch, range and GPU pools share
// one list of offers; a new profile of a type makes a new list, and so does what a running job reports.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/config.h"
#include "core/request.h"
#include "planner/offers.h"
#include "planner/planner.h"
#include "plugin/sched/host.h"
#include "plugin/sched/profile_book.h"

namespace arena {

/// GPUs of one type that a job's nodes have in all, free or not.
struct SitePool {
    std::string gpu_type, hardware;
    std::int64_t gpus_per_node = 0, max_gpus = 0;
    std::int64_t cpus_per_gpu = 1, memory_mb_per_gpu = 0;  ///< even share of the poorest node
};

class OfferBook {
  public:
    OfferBook(const Config& config, std::vector<GpuType> hardware, ProfileBook& profiles);

    /// Mapped types on the nodes of a set; unmapped ones are left out.
    const std::vector<SitePool>& pools(const ClusterView& view, std::uint32_t node_set);
    /// Forget pools: call once a round, before anything else.
    void new_round() { pools_.clear(); }
    /// model_fingerprint is that of the request's model: computing it costs more than the look-up.
    OfferList offers(const Request& request, const std::string& model_fingerprint,
                     const std::vector<SitePool>& pools);
    /// Corrects the offers of this model and batch from now on. The entry point for whoever learns how
    /// long iterations of a running job take; Slurm itself does not know, so nothing calls it yet.
    void observe(const Request& request, const std::string& model_fingerprint, const Observation&);
    /// The same query's grids with reasons, for explain; good until the next call.
    const std::vector<GridResult>& grids(const Request& request, const std::vector<SitePool>& pools);

  private:
    struct Observed {
        std::vector<Observation> list;
        std::uint64_t version = 0;
    };

    PlanQuery query(const Request& request, const std::vector<SitePool>& pools);
    std::string cache_key(const Request& request, const std::string& model_fingerprint,
                          const std::vector<SitePool>& pools);

    Config config_;
    std::vector<GpuType> hardware_;
    ProfileBook& profiles_;
    std::map<std::uint32_t, std::vector<SitePool>> pools_;
    OfferCache cache_;
    std::map<std::pair<std::string, std::int64_t>, Observed> observed_;  ///< by model and batch
    std::map<std::string, std::vector<GridResult>> grids_;
};

}  // namespace arena
