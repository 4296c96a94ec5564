// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `fifo`: see fifo.h for the rules. GPU types become small numbers once per decision and the
// scratch vectors are reused, so that trying an offer neither allocates nor compares strings.
#include "policy/fifo.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>

#include "policy/places.h"
#include "policy/reservation.h"

namespace arena {
namespace {

constexpr std::int32_t unknown_type = -1;

/// An offer that the job's own limits allow, with its GPU type as a number.
struct Candidate {
    const Offer* offer = nullptr;
    std::int32_t type = unknown_type;
};

/// Earliest finish first. Work left and time now are the same for all offers of one job, so the
/// iteration time alone decides; ties go to fewer GPUs, then to a fixed order of grids and plans.
bool better(const Candidate& a, const Candidate& b) {
    const auto key = [](const Candidate& c) {
        return std::make_tuple(c.offer->estimate.iteration_s, c.offer->grid.gpus());
    };
    if (key(a) != key(b)) return key(a) < key(b);
    return std::tie(a.offer->grid, a.offer->plan) < std::tie(b.offer->grid, b.offer->plan);
}

struct Node {
    std::int32_t type = unknown_type;
    std::int64_t total_gpus = 0, free_gpus = 0, free_cpus = 0, free_memory_mb = 0;
    std::int64_t claims = 0;  ///< waiting jobs that claim this node
    JobId first_claimant = 0;
};

class Fifo {
  public:
    Fifo(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options);
    Decision decide();

  private:
    std::int32_t type_of(std::string_view name) const;
    void sort_nodes_by_type();
    /// Nodes of the place that have the GPU type, ascending.
    const std::vector<NodeIndex>& nodes_of(const Place& place, std::int32_t type) const;
    bool could_hold(const Place& place, const JobState& job, const Candidate& candidate) const;
    bool find_nodes_in(const Place& place, const JobState& job, const Candidate& candidate,
                       bool ignore_claims);
    const std::vector<NodeIndex>& hosts_of(const JobState& job, const Candidate& shape);
    void collect_candidates(const JobState& job);
    bool could_ever_fit(const JobState& job, const Candidate& candidate) const;
    bool find_nodes(const JobState& job, const Candidate& candidate, bool ignore_claims);
    void serve(const JobState& job);
    bool start(const JobState& job);
    void wait(const JobState& job);
    void claim(const JobState& job, const Candidate& shape);
    std::int64_t claims_ahead(const JobState& job, const Candidate& shape);
    std::string wait_reason(const JobState& job, const Candidate& shape);

    const Snapshot& snapshot_;
    const Offers& offers_;
    const PolicyOptions& options_;
    std::map<std::string_view, std::int32_t> types_;
    std::vector<Node> nodes_;
    std::vector<std::vector<NodeIndex>> typed_nodes_;  ///< [node set * types + type]
    std::vector<Candidate> candidates_;                ///< of the job at hand, best first
    std::vector<NodeIndex> found_;                     ///< nodes of the offer at hand
    std::uint32_t found_place_ = 0;                    ///< where they are
    std::vector<NodeIndex> hosts_;                     ///< see hosts_of()
    Decision decision_;
};

Fifo::Fifo(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options)
    : snapshot_(snapshot), offers_(offers), options_(options) {
    nodes_.reserve(snapshot.nodes.size());
    for (const NodeState& node : snapshot.nodes) {
        std::int32_t type = unknown_type;
        if (!node.gpu_type.empty()) {
            type = types_.emplace(node.gpu_type, static_cast<std::int32_t>(types_.size()))
                       .first->second;
        }
        // Nobody knows when one that is down or drained comes back: no shape waits for it.
        nodes_.push_back({.type = type,
                          .total_gpus = node.up ? node.total_gpus : 0,
                          .free_gpus = node.free_gpus,
                          .free_cpus = node.free_cpus,
                          .free_memory_mb = node.free_memory_mb});
    }
    sort_nodes_by_type();
}

std::int32_t Fifo::type_of(std::string_view name) const {
    const auto at = types_.find(name);
    return at == types_.end() ? unknown_type : at->second;
}

/// Trying an offer looks only at nodes of its type.
void Fifo::sort_nodes_by_type() {
    typed_nodes_.resize(snapshot_.node_sets.size() * types_.size());
    for (std::size_t set = 0; set < snapshot_.node_sets.size(); ++set) {
        for (const NodeIndex index : snapshot_.node_sets[set]) {
            const std::int32_t type = nodes_[index].type;
            if (type == unknown_type) continue;
            typed_nodes_[set * types_.size() + static_cast<std::size_t>(type)].push_back(index);
        }
    }
}

const std::vector<NodeIndex>& Fifo::nodes_of(const Place& place, std::int32_t type) const {
    static const std::vector<NodeIndex> none;
    const std::size_t at = place.node_set * types_.size() + static_cast<std::size_t>(type);
    return at < typed_nodes_.size() ? typed_nodes_[at] : none;
}

/// Offers outside the job's types or GPU range, or of a type that no node has, are left out.
void Fifo::collect_candidates(const JobState& job) {
    candidates_.clear();
    const auto entry = offers_.find(job.id);
    if (entry == offers_.end()) return;
    for (const Offer& offer : entry->second) {
        const std::int64_t gpus = offer.grid.gpus();
        const std::int32_t type = type_of(offer.grid.gpu_type);
        const bool allowed =
            job.gpu_types.empty() || std::find(job.gpu_types.begin(), job.gpu_types.end(),
                                               offer.grid.gpu_type) != job.gpu_types.end();
        if (!allowed || type == unknown_type || gpus < job.min_gpus || gpus > job.max_gpus)
            continue;
        candidates_.push_back({&offer, type});
    }
    std::sort(candidates_.begin(), candidates_.end(), better);
}

/// Whether the node (of the shape's type), were it empty, could be one of the nodes of this shape.
bool could_host(const Node& node, const Candidate& shape) {
    return node.total_gpus >= shape.offer->grid.gpus_per_node;
}

bool Fifo::could_hold(const Place& place, const JobState& job, const Candidate& candidate) const {
    const Grid& grid = candidate.offer->grid;
    if (!allows(place, job, grid.nodes, grid.gpus_per_node)) return false;
    std::int64_t missing = grid.nodes;
    for (const NodeIndex index : nodes_of(place, candidate.type)) {
        if (could_host(nodes_[index], candidate) && --missing == 0) return true;
    }
    return false;
}

bool Fifo::could_ever_fit(const JobState& job, const Candidate& candidate) const {
    return any_place(
        job, [&](const Place& place, std::uint32_t) { return could_hold(place, job, candidate); });
}

/// Nodes of all places that could hold the shape, each once: any of them may become the job's.
const std::vector<NodeIndex>& Fifo::hosts_of(const JobState& job, const Candidate& shape) {
    hosts_.clear();
    (void)any_place(job, [&](const Place& place, std::uint32_t) {
        if (!could_hold(place, job, shape)) return false;
        for (const NodeIndex index : nodes_of(place, shape.type)) {
            if (could_host(nodes_[index], shape)) hosts_.push_back(index);
        }
        return false;
    });
    if (job.places.size() > 1) {
        std::sort(hosts_.begin(), hosts_.end());
        hosts_.erase(std::unique(hosts_.begin(), hosts_.end()), hosts_.end());
    }
    return hosts_;
}

bool Fifo::find_nodes(const JobState& job, const Candidate& candidate, bool ignore_claims) {
    return any_place(job, [&](const Place& place, std::uint32_t index) {
        found_place_ = index;
        return find_nodes_in(place, job, candidate, ignore_claims);
    });
}

/// Fills found_ with grid.nodes nodes that have room now, fullest first; false when there are
/// fewer.
bool Fifo::find_nodes_in(const Place& place, const JobState& job, const Candidate& candidate,
                         bool ignore_claims) {
    const Grid& grid = candidate.offer->grid;
    if (!allows(place, job, grid.nodes, grid.gpus_per_node)) return false;
    const std::int64_t cpus = grid.gpus_per_node * job.cpus_per_gpu;
    const std::int64_t memory_mb = grid.gpus_per_node * job.memory_mb_per_gpu;
    found_.clear();
    for (const NodeIndex index : nodes_of(place, candidate.type)) {
        const Node& node = nodes_[index];
        if (node.free_gpus < grid.gpus_per_node) continue;
        if (node.free_cpus < cpus || node.free_memory_mb < memory_mb) continue;
        if (node.claims == 0 || ignore_claims) found_.push_back(index);
    }
    const auto wanted = static_cast<std::size_t>(grid.nodes);
    if (found_.size() < wanted) return false;
    const auto fuller = [&](NodeIndex a, NodeIndex b) {
        return std::tie(nodes_[a].free_gpus, a) < std::tie(nodes_[b].free_gpus, b);
    };
    std::partial_sort(found_.begin(), found_.begin() + grid.nodes, found_.end(), fuller);
    found_.resize(wanted);
    std::sort(found_.begin(), found_.end());
    return true;
}

bool Fifo::start(const JobState& job) {
    for (const Candidate& candidate : candidates_) {
        if (!find_nodes(job, candidate, false)) continue;
        const Grid& grid = candidate.offer->grid;
        for (const NodeIndex index : found_) {
            nodes_[index].free_gpus -= grid.gpus_per_node;
            nodes_[index].free_cpus -= grid.gpus_per_node * job.cpus_per_gpu;
            nodes_[index].free_memory_mb -= grid.gpus_per_node * job.memory_mb_per_gpu;
        }
        decision_.actions.push_back({ActionKind::start, job.id, *candidate.offer, found_, "",
                                     "fastest offer that fits now", found_place_});
        return true;
    }
    return false;
}

std::int64_t Fifo::claims_ahead(const JobState& job, const Candidate& shape) {
    std::int64_t most = 0;
    for (const NodeIndex index : hosts_of(job, shape)) most = std::max(most, nodes_[index].claims);
    return most;
}

void Fifo::claim(const JobState& job, const Candidate& shape) {
    for (const NodeIndex index : hosts_of(job, shape)) {
        Node& node = nodes_[index];
        if (node.claims++ == 0) node.first_claimant = job.id;
    }
}

std::string Fifo::wait_reason(const JobState& job, const Candidate& shape) {
    const std::string grid = short_form(shape.offer->grid);
    if (!find_nodes(job, shape, true))
        return fmt::format("waits for {}: not enough free now", grid);
    for (const NodeIndex index : found_) {
        if (nodes_[index].claims == 0) continue;
        return fmt::format("waits for {}: kept for JobId={}, which is ahead", grid,
                           nodes_[index].first_claimant);
    }
    return fmt::format("waits for {}: not enough free now", grid);
}

void Fifo::wait(const JobState& job) {
    const auto shape = std::find_if(candidates_.begin(), candidates_.end(),
                                    [&](const Candidate& c) { return could_ever_fit(job, c); });
    if (shape == candidates_.end()) {
        decision_.waiting.emplace(
            job.id, candidates_.empty() ? "no grid is feasible on the GPU types and counts allowed"
                                        : nowhere_words);
        return;
    }
    const Offer& offer = *shape->offer;
    std::string reason = wait_reason(job, *shape);
    const bool reserve = claims_ahead(job, *shape) < options_.reserve_depth;
    claim(job, *shape);
    if (reserve) {
        decision_.actions.push_back(
            {ActionKind::reshape_and_wait, job.id, offer, {}, "", std::move(reason)});
    } else {
        decision_.waiting.emplace(job.id, std::move(reason));
    }
}

void Fifo::serve(const JobState& job) {
    collect_candidates(job);
    if (!start(job)) wait(job);
}

Decision Fifo::decide() {
    std::vector<const JobState*> queue;
    for (const JobState& job : snapshot_.jobs) {
        if (job.phase == JobPhase::pending) queue.push_back(&job);
    }
    std::sort(queue.begin(), queue.end(), [](const JobState* a, const JobState* b) {
        return std::make_tuple(-a->priority, a->submit_s, a->id) <
               std::make_tuple(-b->priority, b->submit_s, b->id);
    });
    for (const JobState* job : queue) serve(*job);
    return std::move(decision_);
}

}  // namespace

Decision decide_fifo(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options) {
    return Fifo(snapshot, offers, options).decide();
}

}  // namespace arena
