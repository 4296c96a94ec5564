// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/search/offers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace arena {

namespace {

bool is_same_shape(const Grid& a, const Grid& b) {
    return a.gpu_type == b.gpu_type && a.nodes == b.nodes && a.gpus_per_node == b.gpus_per_node &&
           a.split == b.split;
}

/// Observed over estimated, as the estimate of that plan is now; as it was where the plan is no
/// longer offered (a new profile may have changed the best plan).
double ratio_of(const Observation& o, const std::vector<Offer>& offers) {
    for (const Offer& offer : offers)
        if (is_same_shape(offer.grid, o.grid) && offer.plan == o.plan)
            return o.iteration_s / offer.estimate.iteration_s;
    return o.iteration_s / o.estimated_s;
}

}  // namespace

double observation_weight(const Observation& o, const Offer& offer) {
    if (o.grid.gpu_type != offer.grid.gpu_type) return 0;
    if (is_same_shape(o.grid, offer.grid) && o.plan == offer.plan) return 1;
    const double octaves = std::fabs(
        std::log2(static_cast<double>(o.grid.gpus()) / static_cast<double>(offer.grid.gpus())));
    return 0.5 * std::exp2(-octaves);
}

std::vector<Offer> correct_offers(std::vector<Offer> offers,
                                  std::span<const Observation> observations) {
    std::vector<std::pair<const Observation*, double>> known;  // with ln of the ratio
    for (const Observation& o : observations)
        if (is_usable(o)) known.emplace_back(&o, std::log(ratio_of(o, offers)));
    if (known.empty()) return offers;
    for (Offer& offer : offers) {
        double weights = 0, sum = 0, spread = 0;
        bool is_own = false;
        for (const auto& [o, log_ratio] : known) {
            const double weight = observation_weight(*o, offer);
            if (weight == 1) {  // its own plan: nothing else counts
                is_own = true;
                weights = 1, sum = log_ratio, spread = o->spread;
                continue;
            }
            if (is_own) continue;
            weights += weight;
            sum += weight * log_ratio;
        }
        if (weights == 0) continue;
        // Several neighbours together speak no louder than the offer's own run would. The whole
        // estimate moves: which of its parts was wrong is not known.
        scale(offer.estimate, std::exp(sum / std::max(1.0, weights)));
        const double heard = is_own ? 1 : std::min(weights, 0.75);
        const double observed = std::max(observed_error, spread);
        offer.estimate.error_bound = heard * std::min(observed, offer.estimate.error_bound) +
                                     (1 - heard) * offer.estimate.error_bound;
        if (is_own) {
            offer.estimate.source = Source::observed;
            offer.estimate.error_bound = observed;
        }
    }
    std::stable_sort(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) {
        return a.estimate.samples_per_s > b.estimate.samples_per_s;
    });
    return offers;
}

void add_observation(std::vector<Observation>& list, const Observation& o, std::size_t most) {
    if (!is_usable(o)) return;
    std::erase_if(list, [&](const Observation& old) {
        return is_same_shape(old.grid, o.grid) && old.plan == o.plan;
    });
    list.push_back(o);
    if (list.size() > most) list.erase(list.begin());
}

std::string offer_key(std::string_view model_fingerprint, std::string_view settings,
                      std::span<const OfferPool> pools) {
    std::string key = fmt::format("{}{}", model_fingerprint, settings);
    for (const OfferPool& pool : pools)
        key +=
            fmt::format("|{}:{}:{}:{}:{}:{}:{}:{}:{}:{}", pool.gpu_type, pool.hardware,
                        pool.gpus_per_node, pool.max_gpus, pool.profile_version, pool.nodes,
                        pool.leaf_nodes, pool.pod_nodes, pool.domain_nodes, pool.domains_alternate);
    return key;
}

std::size_t offer_bytes(const std::vector<Offer>& offers) {
    std::size_t bytes = sizeof offers;
    for (const Offer& offer : offers) {
        bytes += sizeof offer + offer.grid.gpu_type.capacity() +
                 offer.grid.split.capacity() * sizeof(std::int64_t);
        for (const auto* list :
             {&offer.plan.stage_layers, &offer.plan.stage_dp, &offer.plan.stage_tp})
            bytes += list->capacity() * sizeof(std::int64_t) + 16;  // malloc's own
    }
    return bytes;
}

OfferList OfferCache::find(const std::string& key) const {
    if (const auto at = lists_.find(key); at != lists_.end()) return at->second.offers;
    const auto dropped = dropped_.find(key);
    return dropped == dropped_.end() ? nullptr : dropped->second.lock();
}

OfferList OfferCache::insert(const std::string& key, std::vector<Offer> offers) {
    offers.shrink_to_fit();
    const std::size_t bytes = offer_bytes(offers) + 2 * key.size() + 128;  // both maps' nodes
    auto list = std::make_shared<const std::vector<Offer>>(std::move(offers));
    if (const auto at = lists_.find(key); at != lists_.end()) {
        bytes_ -= at->second.bytes;
        by_age_.erase(at->second.age);
    }
    dropped_.erase(key);
    lists_[key] = {list, bytes, next_};
    by_age_[next_++] = key;
    bytes_ += bytes;
    while (bytes_ > max_bytes_ && lists_.size() > 1) drop_oldest();
    return list;
}

void OfferCache::drop_oldest() {
    const auto oldest = lists_.find(by_age_.begin()->second);
    bytes_ -= oldest->second.bytes;
    dropped_[oldest->first] = oldest->second.offers;
    lists_.erase(oldest);
    by_age_.erase(by_age_.begin());
    if (dropped_.size() < dropped_limit_) return;
    std::erase_if(dropped_, [](const auto& entry) { return entry.second.expired(); });
    dropped_limit_ = 2 * dropped_.size() + 64;
}

}  // namespace arena
