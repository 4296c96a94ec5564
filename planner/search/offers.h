// SPDX-License-Identifier: GPL-2.0-or-later
// Offers after planning: remembered by what they depend on, and corrected by what running jobs
// report. A reported iteration time replaces the estimate of the very plan that ran; estimates of
// the same GPU type at other counts and plans move the same way, less the farther they are, since
// what the model gets wrong (a fabric, a framework, a data loader) it gets wrong nearby too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/observation.h"
#include "core/offer.h"

namespace arena {

/// Least error bound of an observed offer: runs of one plan on a shared fabric differ by
/// as much and more.
inline constexpr double observed_error = 0.05;

/// The best so many of a job's offers are what people see of them, unless they ask for all.
inline constexpr std::size_t top_offers = 5;

/// How far an observation speaks for an offer: 1 for its own plan, 0 for other GPU types; 1/2 at
/// the same number of GPUs under another plan, and half of that for each factor of two in GPUs.
double observation_weight(const Observation&, const Offer&);

/// Offers (uncorrected, of one model and batch) with observations applied, best samples/s first.
/// Pure. An offer whose own plan was observed has source `observed`; the others keep their source,
/// and their bound shrinks by the share that the observations speak for.
std::vector<Offer> correct_offers(std::vector<Offer>, std::span<const Observation>);

/// Adds to a list, newest last: one per grid and plan, at most `most`.
void add_observation(std::vector<Observation>&, const Observation&, std::size_t most = 64);

using OfferList = std::shared_ptr<const std::vector<Offer>>;

/// A pool as far as offers depend on it. profile_version changes with every import.
struct OfferPool {
    std::string gpu_type, hardware;
    std::int64_t gpus_per_node = 0, max_gpus = 0;
    std::uint64_t profile_version = 0;
    std::int64_t nodes = 0, leaf_nodes = 0, pod_nodes = 0, domain_nodes = 0;  ///< as GpuPool's
    bool domains_alternate = false;
};
/// Everything that offers depend on, as text: a new profile makes another key. `settings`:
/// offer_settings().
std::string offer_key(std::string_view model_fingerprint, std::string_view settings,
                      std::span<const OfferPool>);

/// Lists by key. Bounded: the oldest lists go when `max_bytes` are exceeded; one that somebody
/// still holds is found all the same, so that a queue of more models than fit is not planned again
/// and again.
class OfferCache {
  public:
    explicit OfferCache(std::size_t max_bytes = std::size_t{50} << 20) : max_bytes_(max_bytes) {}
    /// Null when absent.
    [[nodiscard]] OfferList find(const std::string& key) const;
    OfferList insert(const std::string& key, std::vector<Offer>);
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    [[nodiscard]] std::size_t lists() const { return lists_.size(); }

  private:
    struct Entry {
        OfferList offers;
        std::size_t bytes = 0;
        std::uint64_t age = 0;
    };
    void drop_oldest();

    std::size_t max_bytes_, bytes_ = 0;
    std::uint64_t next_ = 0;
    std::map<std::string, Entry> lists_;
    std::map<std::uint64_t, std::string> by_age_;
    std::map<std::string, std::weak_ptr<const std::vector<Offer>>> dropped_;
    std::size_t dropped_limit_ = 64;  ///< how many there may be before the forgotten ones go
};
/// Heap and own bytes of a list.
std::size_t offer_bytes(const std::vector<Offer>&);

}  // namespace arena
