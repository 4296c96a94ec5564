// SPDX-License-Identifier: GPL-2.0-or-later
// See offer_book.h. Runs outside slurmctld's locks.
#include "plugin/sched/plans/offer_book.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "planner/hardware/hardware.h"
#include "planner/plans/pool_network.h"
#include "planner/requests/plan_query.h"
#include "request/options.h"

namespace arena {
namespace {

/// Asked for by people: who asks again and again must not make us plan again.
constexpr std::size_t max_cached_grids = 64;
/// Before the keys of plans that are made for explain alone: their reasons name the model.
constexpr std::string_view for_explain = "explain ";
/// The same of prices of siblings.
constexpr std::string_view for_array = "array ";
constexpr std::size_t max_cached_arrays = 256;

/// The youngest of `most` values.
template <typename Map>
const typename Map::mapped_type& keep_young(Map& values, std::deque<std::string>& by_age,
                                            std::size_t most, const std::string& key,
                                            typename Map::mapped_type value) {
    const auto [at, added] = values.insert_or_assign(key, std::move(value));
    if (added) by_age.push_back(key);
    if (by_age.size() > most) {
        values.erase(by_age.front());
        by_age.pop_front();
    }
    return at->second;
}

std::string grids_key(const std::string& key, const std::string& model_name) {
    return fmt::format("{}{}|{}", for_explain, key, model_name);
}

/// Of one user, model, batch and launcher.
constexpr std::size_t max_observed_plans = 64;

bool is_same_run(const Observation& a, const Observation& b) {
    return a.plan == b.plan && a.grid.gpu_type == b.grid.gpu_type && a.grid.nodes == b.grid.nodes &&
           a.grid.gpus_per_node == b.grid.gpus_per_node;
}

/// Of two places that a job may have its nodes in, one or the other.
void merge(SitePool& pool, const SitePool& other) {
    pool.max_gpus = std::max(pool.max_gpus, other.max_gpus);
    pool.gpus_per_node = std::max(pool.gpus_per_node, other.gpus_per_node);
    pool.nodes = std::max(pool.nodes, other.nodes);
    pool.leaf_nodes = std::max(pool.leaf_nodes, other.leaf_nodes);
    pool.pod_nodes = std::max(pool.pod_nodes, other.pod_nodes);
    pool.domain_nodes = std::max(pool.domain_nodes, other.domain_nodes);
    pool.domains_alternate = pool.domains_alternate || other.domains_alternate;
    pool.cpus_per_gpu = std::min(pool.cpus_per_gpu, other.cpus_per_gpu);
    pool.memory_mb_per_gpu = std::min(pool.memory_mb_per_gpu, other.memory_mb_per_gpu);
}

}  // namespace

std::vector<SitePool> OfferBook::pools_in(const ClusterView& view, const Place& place) const {
    std::map<std::string, SitePool> found;
    std::map<std::string, PoolNetwork> networks;
    // What may be avoided for an hour is no reason to plan anew.
    for (NodeIndex index : view.snapshot.node_sets[view.whole_set(place.node_set)]) {
        const NodeState& node = view.snapshot.nodes[index];
        if (node.gpu_type.empty() || node.total_gpus == 0) continue;
        const std::string* hardware = hardware_of(config_, node.gpu_type);
        if (hardware == nullptr) continue;
        const std::int64_t all_gpus = gpus_of_node(view.snapshot.nodes, index);
        const auto share = [&](std::int64_t of_node, std::int64_t most) {
            return std::min(of_node, most) / all_gpus;
        };
        SitePool one{node.gpu_type, *hardware, node.total_gpus, node.total_gpus};
        one.nodes = 1;
        one.cpus_per_gpu =
            std::max<std::int64_t>(share(view.node_cpus[index], place.max_cpus_per_node), 1);
        if (view.memory_tracked)
            one.memory_mb_per_gpu = share(view.node_memory_mb[index], place.max_memory_mb_per_node);
        networks[node.gpu_type].count(view.snapshot, node);
        const auto [known, first] = found.try_emplace(node.gpu_type, one);
        const std::int64_t gpus = known->second.max_gpus + one.max_gpus;
        const std::int64_t nodes = known->second.nodes + 1;
        if (first) continue;
        merge(known->second, one);
        known->second.max_gpus = gpus;
        known->second.nodes = nodes;
    }
    std::vector<SitePool> pools;
    for (auto& [type, pool] : found) {
        networks[type].tell(view.snapshot.topology, pool);
        if (view.ranks_follow_network) pool.domains_alternate = false;
        pools.push_back(std::move(pool));
    }
    return pools;
}

OfferBook::OfferBook(const Config& config, std::vector<GpuType> hardware, Calibration calibration,
                     Measurements& measurements, PlanLimits limits)
    : config_(config),
      hardware_(std::move(hardware)),
      calibration_(std::move(calibration)),
      measurements_(measurements),
      desk_(std::move(limits)) {}

void OfferBook::new_round() {
    pools_.clear();
    desk_.begin_round();
    for (auto& [key, outcome] : desk_.take_made()) (void)keep(key, std::move(outcome));
}

/// Null for what explain alone asked for.
OfferList OfferBook::keep(const std::string& key, PlanOutcome outcome) {
    if (key.starts_with(for_array)) {
        (void)keep_array(key, outcome);
        return nullptr;
    }
    const bool explains = key.starts_with(for_explain);
    // Not remembered: there may be room in the next round.
    if (outcome.no_room && !explains) return std::make_shared<const std::vector<Offer>>();
    (void)keep_grids(explains ? key : grids_key(key, outcome.model_name), outcome);
    return explains ? nullptr : cache_.insert(key, std::move(outcome.offers));
}

const OfferBook::Grids* OfferBook::keep_grids(const std::string& key, PlanOutcome& outcome) {
    Grids grids{std::move(outcome.infeasible), {}, std::move(outcome.would_fit), outcome.no_room};
    if (outcome.no_room)
        grids.left_out = outcome.fault;
    else if (!outcome.fault.empty())
        grids.left_out = "the planner failed: " + outcome.fault;
    else if (outcome.in_part > 0)
        grids.left_out = fmt::format(
            "{} combinations of GPUs and stages were not looked at to the end in the {:.2g} s that "
            "planning a "
            "model may take; pin the plan (--arena-plan), ask for fewer GPUs or types, or give "
            "fewer unlike layers",
            outcome.in_part, desk_.own_seconds());
    return &keep_young(grids_, grids_by_age_, max_cached_grids, key, std::move(grids));
}

const SharedPools& OfferBook::shared_pools(const ClusterView& view, std::uint32_t node_set,
                                           const std::vector<PartitionSlot>& slots) {
    std::vector<Place> places;
    for (const PartitionSlot& slot : slots) places.push_back(slot.place);
    if (places.empty()) places.push_back({.node_set = node_set});
    const auto [at, added] = pools_.try_emplace({node_set, places});
    if (!added) return at->second;
    std::map<std::string, SitePool> found;
    for (const Place& place : places) {
        for (SitePool& pool : pools_in(view, place)) {
            const auto [known, first] = found.try_emplace(pool.gpu_type, pool);
            if (!first) merge(known->second, pool);
        }
    }
    std::vector<SitePool> list;
    for (auto& [type, pool] : found) list.push_back(std::move(pool));
    return at->second = std::make_shared<const std::vector<SitePool>>(std::move(list));
}

std::optional<GpuPool> OfferBook::pool_of(const Request& request, const SitePool& pool) {
    auto hardware = find_hardware(hardware_, pool.hardware);
    if (!hardware) return std::nullopt;
    GpuPool entry;
    entry.gpu_type = pool.gpu_type;
    set_oversubscription(*hardware, config_.leaf_oversubscription, config_.pod_oversubscription);
    entry.hardware = measurements_.with_links(pool.gpu_type, std::move(hardware).value());
    entry.framework = request.launcher;
    entry.constants = calibration_.constants(entry.hardware.name, request.launcher);
    entry.gpus_per_node = pool.gpus_per_node;
    entry.max_gpus = pool.max_gpus;
    entry.nodes = pool.nodes;
    entry.leaf_nodes = pool.leaf_nodes;
    entry.pod_nodes = pool.pod_nodes;
    entry.domain_nodes = pool.domain_nodes;
    entry.domains_alternate = pool.domains_alternate;
    entry.profile = measurements_.table(pool.gpu_type);
    return entry;
}

PlanQuery OfferBook::query(const Request& request, const std::vector<SitePool>& pools) {
    std::vector<GpuPool> entries;
    for (const SitePool& pool : pools)
        if (auto entry = pool_of(request, pool)) entries.push_back(std::move(*entry));
    return plan_query(request, std::move(entries));
}

std::string OfferBook::cache_key(const Request& request, const std::string& model_fingerprint,
                                 const std::vector<SitePool>& pools) {
    std::vector<OfferPool> facts;
    for (const SitePool& pool : pools)
        if (allows_type(request, pool.gpu_type))
            facts.push_back({pool.gpu_type, pool.hardware, pool.gpus_per_node, pool.max_gpus,
                             measurements_.version(pool.gpu_type), pool.nodes, pool.leaf_nodes,
                             pool.pod_nodes, pool.domain_nodes, pool.domains_alternate});
    return offer_key(model_fingerprint, offer_settings(request), facts);
}

OfferList OfferBook::offers(std::uint32_t user, const Request& request,
                            const std::string& model_fingerprint,
                            const std::vector<SitePool>& pools) {
    const std::string key = cache_key(request, model_fingerprint, pools);
    OfferList list = cache_.find(key);
    if (!list) {
        auto outcome = desk_.ask(user, key, [&] { return query(request, pools); });
        if (!outcome) return nullptr;
        list = keep(key, *std::move(outcome));
    }
    std::vector<Observation> observations;
    std::string versions;
    for (const std::int64_t whose : {everybody, std::int64_t{user}}) {
        const auto observed =
            observed_.find({model_fingerprint, request.global_batch, request.launcher, whose});
        if (observed == observed_.end()) continue;
        versions += fmt::format("|observed {}", observed->second.version);
        for (const ObservedRun& run : observed->second.list)
            if (counts(run)) add_observation(observations, run.observation);
    }
    if (observations.empty()) return list;
    const std::string corrected_key = key + versions;
    if (OfferList corrected = cache_.find(corrected_key)) return corrected;
    return cache_.insert(corrected_key, correct_offers(*list, observations));
}

std::optional<Estimate> OfferBook::price(const Request& request, const Offer& offer,
                                         const std::vector<SitePool>& pools) {
    const Grid& grid = offer.grid;
    const std::string* hardware = hardware_of(config_, grid.gpu_type);
    if (hardware == nullptr) return std::nullopt;
    const auto known = std::ranges::find(pools, grid.gpu_type, &SitePool::gpu_type);
    auto pool =
        pool_of(request, known != pools.end() ? *known
                                              : SitePool{.gpu_type = grid.gpu_type,
                                                         .hardware = *hardware,
                                                         .gpus_per_node = grid.gpus_per_node,
                                                         .max_gpus = grid.gpus()});
    if (!pool) return std::nullopt;
    const auto on_pool = [&] {
        return price_plan(request.model, request.global_batch, grid, offer.plan, *pool);
    };
    auto estimate = on_pool();
    if (!estimate) return std::nullopt;
    GridResult with_domain;
    with_domain.grid = grid;
    with_domain.plan = offer.plan;
    with_domain.estimate = *estimate;
    price_spans(request.model, request.global_batch, *pool, with_domain);
    if (with_domain.segment == offer.segment) return *estimate;
    pool->domain_nodes = 0;  // it was planned as if no domain joined any nodes
    estimate = on_pool();
    return estimate ? std::optional(*estimate) : std::nullopt;
}

const ObservedRun* OfferBook::latest(const ObservedRun& run) const {
    const auto observed = observed_.find(observed_key(run));
    if (observed == observed_.end()) return nullptr;
    const auto at = std::find_if(
        observed->second.list.begin(), observed->second.list.end(),
        [&](const ObservedRun& other) { return is_same_run(other.observation, run.observation); });
    return at == observed->second.list.end() ? nullptr : &*at;
}

bool OfferBook::latest_counts(const ObservedRun& run) const {
    const ObservedRun* found = latest(run);
    return found != nullptr && counts(*found);
}

bool OfferBook::observe(ObservedRun run) {
    note_agreeing(run, latest(run));
    return recall(std::move(run));
}

bool OfferBook::recall(ObservedRun run) {
    if (!is_usable(run.observation)) return false;
    Observed& observed = observed_[observed_key(run)];
    std::erase_if(observed.list, [&](const ObservedRun& old) {
        return is_same_run(old.observation, run.observation);
    });
    observed.list.push_back(std::move(run));
    if (observed.list.size() > max_observed_plans) observed.list.erase(observed.list.begin());
    observed.version = ++observations_;  // never used before: a forgotten list must not come back
    if (observed_.size() > max_observed) forget_oldest();
    return true;
}

/// Whoever reports of ever other models pushes out nothing of others'.
void OfferBook::forget_oldest() {
    std::map<std::int64_t, std::size_t> lists;
    for (const auto& [key, observed] : observed_) ++lists[std::get<3>(key)];
    const std::int64_t most =
        std::max_element(lists.begin(), lists.end(), [](const auto& a, const auto& b) {
            return a.second < b.second;
        })->first;
    auto oldest = observed_.end();
    for (auto at = observed_.begin(); at != observed_.end(); ++at)
        if (std::get<3>(at->first) == most &&
            (oldest == observed_.end() || at->second.version < oldest->second.version))
            oldest = at;
    observed_.erase(oldest);
}

std::string OfferBook::why_none(std::uint32_t user, const Request& request,
                                const std::vector<SitePool>& pools) {
    if (std::none_of(pools.begin(), pools.end(),
                     [&](const SitePool& pool) { return allows_type(request, pool.gpu_type); }))
        return "no node that it may use has a GPU type that it may have and arena.yaml maps";
    const Grids* known = grids(user, request, pools);
    if (!known) return {};
    if (known->no_room) return known->left_out;
    if (!known->left_out.empty())
        return fmt::format("no plan found in the {:.2g} s that planning a model may take",
                           plan_seconds());
    std::map<std::string, const Infeasible*> largest;
    for (const Infeasible& grid : known->infeasible) {
        const Infeasible*& most = largest[grid.grid.gpu_type];
        if (!most || grid.grid.gpus() > most->grid.gpus()) most = &grid;
    }
    std::vector<std::string> reasons;
    for (const auto& [type, grid] : largest)
        reasons.push_back(fmt::format("{} ({})", grid->reason, short_form(grid->grid)));
    if (!known->would_fit.empty()) reasons.push_back(known->would_fit);
    return reasons.empty() ? "no plan fits" : "no plan fits: " + join(reasons, "; ");
}

const OfferBook::Grids* OfferBook::grids(std::uint32_t user, const Request& request,
                                         const std::vector<SitePool>& pools) {
    const std::string key =
        grids_key(cache_key(request, fingerprint(request.model), pools), request.model.name);
    const auto at = grids_.find(key);
    if (at != grids_.end() && !at->second.no_room) return &at->second;
    auto outcome = desk_.ask(user, key, [&] { return query(request, pools); });
    if (outcome) return keep_grids(key, *outcome);
    return at == grids_.end() ? nullptr : &at->second;
}

// ---- siblings ----------------------------------------------------------------------------------

ArrayQuery OfferBook::array_query(const Request& request, const SitePool& pool,
                                  std::int64_t members) {
    SitePool whole = pool;
    whole.nodes = 0;  // it is compared with what a member would have at best
    PlanQuery alone = query(request, {whole});
    ArrayQuery query{.model = alone.model,
                     .global_batch = alone.global_batch,
                     .pool = alone.pools.front(),
                     .can = alone.can,
                     .members = members};
    query.max_members = request.array_size > 0
                            ? std::min(request.array_size, config_.array_max_members)
                            : config_.array_max_members;
    query.max_stages = query.pool.max_gpus;
    query.pool.max_gpus = std::min(pool.max_gpus, members * query.pool.max_gpus);
    // The other half is for members' own processes, and for what each rank has besides.
    query.host_bytes_per_gpu = static_cast<double>(pool.memory_mb_per_gpu << 20) / 2;
    query.buffers = static_cast<int>(config_.array_buffers);
    query.solve.seconds = config_.array_solve_s;
    query.solve.exact_blocks = static_cast<int>(config_.array_exact_blocks);
    query.solve.exact_members = static_cast<int>(config_.array_exact_members);
    query.alone = std::move(alone);
    return query;
}

const OfferBook::ArrayPrices& OfferBook::keep_array(const std::string& key, PlanOutcome& outcome) {
    if (!outcome.array) {
        ArrayOffers none;
        none.why = "not bound: the planner failed: " + outcome.fault;
        outcome.array = std::make_shared<const ArrayOffers>(std::move(none));
    }
    return keep_young(arrays_, arrays_by_age_, max_cached_arrays, key, std::move(outcome.array));
}

OfferBook::ArrayPrices OfferBook::array_offers(std::uint32_t user, const Request& request,
                                               const std::string& model_fingerprint,
                                               const SitePool& pool, std::int64_t members) {
    const std::string key =
        fmt::format("{}{}|{}|{}|{}", for_array, members, request.array_size, pool.memory_mb_per_gpu,
                    cache_key(request, model_fingerprint, {pool}));
    if (const auto at = arrays_.find(key); at != arrays_.end()) return at->second;
    auto outcome = desk_.ask_for(
        user, key, [&] { return price_siblings(array_query(request, pool, members)); });
    return outcome ? keep_array(key, *outcome) : nullptr;
}

}  // namespace arena
