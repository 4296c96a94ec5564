// SPDX-License-Identifier: GPL-2.0-or-later
// See blocked_offers.h.
#include "plugin/sched/round/blocked_offers.h"

#include <algorithm>

namespace arena {
namespace {

/// How long an offer that Slurm refused for the moment is left out.
constexpr double blocked_s = 30;
/// One that no node can hold: until something changes, or so long. Of such refusals in a row each
/// makes the job rest twice as long, so that its offers are tried less and less often.
constexpr double hopeless_s = 3600;
/// How long a running job is not moved to a shape that a limit refused it.
constexpr double limited_s = 3600;
/// How long an offer is tried whose nodes Slurm calls busy, before it is left out.
constexpr double busy_s = 10;
/// What is planned but cannot be applied so many rounds in a row is left out, and said.
constexpr int stale_rounds = 3;

}  // namespace

void BlockedOffers::new_round(const ClusterView& view) {
    now_s_ = view.steady_s;
    std::int64_t free = 0, up = 0;
    for (std::size_t i = 0; i < view.snapshot.nodes.size(); ++i) {
        const NodeState& node = view.snapshot.nodes[i];
        free += node.free_cpus + node.free_gpus;
        if (node.up) up += 1 + view.node_cpus[i] + view.node_memory_mb[i] + node.total_gpus;
    }
    if (up > up_before_) {  // a node came back, or has more than it had
        blocked_.clear();
        refusals_.forget_all();
    }
    up_before_ = up;
    if (free > free_before_)
        for (auto& [job, list] : blocked_)
            std::erase_if(list, [](const Blocked& offer) { return offer.limited; });
    free_before_ = free;
}

SharedOffers BlockedOffers::open(JobId job, const OfferList& offers) {
    const auto at = blocked_.find(job);
    if (at == blocked_.end()) return offers;
    std::erase_if(at->second, [&](const Blocked& b) { return b.until_s <= now_s_; });
    if (at->second.empty()) return offers;
    std::vector<Offer> open;
    for (const Offer& offer : *offers) {
        const auto same = [&](const Blocked& b) { return b.grid.is_of(offer); };
        if (std::none_of(at->second.begin(), at->second.end(), same)) open.push_back(offer);
    }
    return open;
}

std::string BlockedOffers::why_not(JobId job, const Chosen& grid) const {
    const auto at = blocked_.find(job);
    if (at == blocked_.end()) return {};
    for (const Blocked& blocked : at->second)
        if (blocked.grid.is_of(grid) && blocked.until_s > now_s_) return blocked.why;
    return {};
}

void BlockedOffers::block(JobId job, const Chosen& grid, const std::string& why, bool limited) {
    blocked_[job].push_back({grid, now_s_ + blocked_s, why, limited});
    if (!limited) return;
    std::erase_if(limits_[job], [&](const Blocked& known) { return known.grid.is_of(grid); });
    limits_[job].push_back({grid, now_s_ + limited_s, why, limited});
}

bool BlockedOffers::is_limited(JobId job) const {
    const auto at = limits_.find(job);
    return at != limits_.end() &&
           std::any_of(at->second.begin(), at->second.end(),
                       [&](const Blocked& known) { return known.until_s > now_s_; });
}

SharedOffers BlockedOffers::to_move_to(JobId job, const OfferList& offers,
                                       const Chosen& own) const {
    const auto at = limits_.find(job);
    if (at == limits_.end()) return offers;
    std::vector<Offer> open;
    for (const Offer& offer : *offers)
        if (own.is_of(offer) ||
            std::none_of(at->second.begin(), at->second.end(), [&](const Blocked& limit) {
                return limit.grid.is_of(offer) && limit.until_s > now_s_;
            }))
            open.push_back(offer);
    return open;
}

bool BlockedOffers::refuse(JobId job, const Chosen& grid, const std::string& why, bool hopeless) {
    blocked_[job].push_back({grid, now_s_ + (hopeless ? hopeless_s : blocked_s), why});
    return refusals_.note(std::to_string(job), why, now_s_);
}

bool BlockedOffers::rests(JobId job) const { return refusals_.rests(std::to_string(job), now_s_); }

const std::string& BlockedOffers::resting_why(JobId job) const {
    return refusals_.why(std::to_string(job));
}

bool BlockedOffers::busy_too_long(JobId job, const Chosen& grid, const std::string& why) {
    const Blocked now{grid, now_s_ + busy_s, why};
    const auto at = busy_.try_emplace(job, now).first;
    if (at->second.grid != grid) at->second = now;
    if (now_s_ < at->second.until_s) return false;
    busy_.erase(at);
    block(job, grid, why);
    return true;
}

bool BlockedOffers::stale_too_often(JobId job, const Chosen& grid, const std::string& why) {
    if (++stale_[job] < stale_rounds) return false;
    stale_.erase(job);
    block(job, grid, why);
    return true;
}

void BlockedOffers::started(JobId job) {
    busy_.erase(job);
    refusals_.forget(std::to_string(job));
}

void BlockedOffers::forgive(JobId job) {
    refusals_.forget(std::to_string(job));
    blocked_.erase(job);
    limits_.erase(job);
}

}  // namespace arena
