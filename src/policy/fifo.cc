// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `fifo`: see fifo.h for the rules.
#include "policy/fifo.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "policy/packing.h"
#include "policy/reservation.h"

namespace arena {
namespace {

constexpr const char* infeasible_words = "no grid is feasible on the GPU types and counts allowed";

struct Candidate {
    const Offer* offer;
    const Choice* choice;  ///< that it is a layout of
};

/// Earliest finish first. Work left and time now are the same for all offers of one job, so the
/// iteration time alone decides; ties go to fewer GPUs, then to a fixed order of grids and plans,
/// of one plan to that which needs the shorter segments.
bool better(const Candidate& a, const Candidate& b) {
    const auto key = [](const Offer& o) {
        const double iteration_s = o.estimate.iteration_s;
        return std::tuple(iteration_s, o.grid.gpus(), o.grid.is_uneven(),
                          std::tie(o.grid, o.plan, o.segment));
    };
    return key(*a.offer) < key(*b.offer);
}

class Fifo {
  public:
    explicit Fifo(const Problem& problem)
        : problem_(problem),
          open_(problem, Packing::Ties::first),
          free_(open_),
          claims_(problem.snapshot().nodes.size()),
          candidates_(problem.kinds()) {}
    Decision decide();

  private:
    struct Claims {
        std::int64_t jobs = 0;
        JobId first = 0;
    };
    const std::vector<Candidate>& candidates_of(const Task&);
    bool start(const Task&);
    void wait(const Task&);
    std::string wait_reason(const Task&, const Candidate& shape);

    const Problem& problem_;
    Packing open_;                ///< nodes that a waiting job claims are closed
    Packing free_;                ///< the same, but that they are not
    std::vector<Claims> claims_;  ///< by node
    std::vector<std::vector<Candidate>> candidates_;  ///< by kind of task, best first
    Decision decision_;
};

const std::vector<Candidate>& Fifo::candidates_of(const Task& task) {
    std::vector<Candidate>& known = candidates_[task.kind];
    if (!known.empty()) return known;
    for (const Choice& choice : problem_.choices(task))
        for (const Offer* offer : problem_.offers(choice)) known.push_back({offer, &choice});
    std::sort(known.begin(), known.end(), better);
    return known;
}

bool Fifo::start(const Task& task) {
    Placement found;
    for (const auto& [offer, choice] : candidates_of(task)) {
        if (!open_.place_as(task, *choice, *offer, offer->grid.gpus_per_node, found)) continue;
        free_.put(task, found);
        decision_.actions.push_back(action_for(task, found, "fastest offer that fits now"));
        return true;
    }
    return false;
}

std::string Fifo::wait_reason(const Task& task, const Candidate& shape) {
    const Grid& grid = shape.offer->grid;
    Placement found;
    const auto fits = [&](const Offer* o) {  // as start() takes it, in its own layout
        return free_.place_as(task, *shape.choice, *o, o->grid.gpus_per_node, found);
    };
    if (!std::ranges::any_of(problem_.offers(*shape.choice), fits))
        return fmt::format("waits for {}: {}", short_form(grid),
                           why_not_free(problem_, task, *shape.choice, free_));
    free_.remove(task, found);
    const auto claimed = std::find_if(found.nodes.begin(), found.nodes.end(),
                                      [&](NodeIndex n) { return claims_[n].jobs > 0; });
    return fmt::format("waits for {}: kept for JobId={}, which is ahead", short_form(grid),
                       claims_[*claimed].first);
}

void Fifo::wait(const Task& task) {
    const JobId job = task.job->id;
    std::vector<Candidate> shapes = candidates_of(task);
    std::stable_partition(shapes.begin(), shapes.end(),
                          [](const Candidate& shape) { return !shape.offer->grid.is_uneven(); });
    for (const Candidate& shape : shapes) {
        const std::vector<NodeIndex> hosts = hosts_of(problem_, task, *shape.offer);
        if (hosts.empty()) continue;
        std::string reason = wait_reason(task, shape);
        std::int64_t ahead = 0;
        for (const NodeIndex n : hosts) {
            ahead = std::max(ahead, claims_[n].jobs);
            if (claims_[n].jobs++ == 0) claims_[n].first = job;
            open_.close(n);
        }
        // Released, Slurm would put uneven pieces on whatever nodes.
        if (ahead >= problem_.options().reserve_depth || shape.offer->grid.is_uneven())
            return void(decision_.waiting.emplace(job, std::move(reason)));
        return decision_.actions.push_back({.kind = ActionKind::reshape_and_wait,
                                            .job = job,
                                            .offer = *shape.offer,
                                            .reason = std::move(reason)});
    }
    decision_.waiting.emplace(job, task.choice_count > 0 ? nowhere_words : infeasible_words);
}

Decision Fifo::decide() {
    for (const std::size_t i : waiting_in_order(problem_)) {
        const Task& task = problem_.tasks()[i];
        if (!start(task)) wait(task);
    }
    return std::move(decision_);
}

}  // namespace

Decision decide_fifo(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options) {
    const Problem problem(snapshot, offers, options, Scope::starts);
    Decision decision = Fifo(problem).decide();
    for (const JobState& job : snapshot.jobs)
        if (job.phase == JobPhase::pending && !offers.contains(job.id))
            decision.waiting.emplace(job.id, infeasible_words);
    return decision;
}

}  // namespace arena
