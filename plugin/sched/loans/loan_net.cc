// SPDX-License-Identifier: GPL-2.0-or-later
// See loan_net.h.
#include "plugin/sched/loans/loan_net.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace arena {
namespace {

struct Use {
    int jobs = 0;
    std::uint32_t job = 0;
    std::int64_t gpus = 0;    ///< of jobs that Slurm would take off
    bool preemptable = true;  ///< all of them
};

std::map<std::string, Use> uses_of(const LoanFacts& facts) {
    std::map<std::string, Use> uses;
    for (const LoanFacts::Job& job : facts.jobs)
        for (const auto& [node, gpus] : job.nodes) {
            Use& use = uses[node];
            ++use.jobs;
            use.job = job.id;
            use.gpus += gpus;
            use.preemptable = use.preemptable && job.preemptable;
        }
    return uses;
}

/// It fills the node: inference finds no GPU beside it.
bool fills(const Use& use, std::int64_t gpus) {
    return use.jobs == 1 && use.preemptable && gpus > 0 && use.gpus >= gpus;
}

/// What a node costs, the least first: nothing; a job that leaves already; one that was told to;
/// what training has not got; one job; several, or one that is in nobody's way.
enum class Cost { back, ending, open, idle, full, shared };

struct Candidate {
    std::string node, gpu_type;
    Cost cost = Cost::shared;
    std::int64_t gpus = 0, left = 0;
    std::uint32_t job = 0;  ///< the one that fills it
    bool taken = false;
};

/// Who waits, matched with nodes by what these cost.
class Matching {
  public:
    Matching(const LoanFacts& facts, const LoanNet::Places& places,
             const std::set<std::string>& open)
        : facts_(facts) {
        const auto uses = uses_of(facts);
        for (const auto& [node, place] : places) {
            const auto use = uses.find(node);
            all_.push_back({.node = node,
                            .gpu_type = place.gpu_type,
                            .cost = cost_of(place, use == uses.end() ? nullptr : &use->second,
                                            open.contains(node)),
                            .gpus = place.gpus,
                            .left = place.gpus,
                            .job = use == uses.end() ? 0 : use->second.job});
        }
        std::stable_sort(all_.begin(), all_.end(),
                         [](const auto& a, const auto& b) { return a.cost < b.cost; });
    }

    void serve(const LoanNet::Kind& kind, std::int64_t tasks) {
        std::vector<Candidate*> fit;
        std::int64_t most = 0;
        for (Candidate& candidate : all_)
            if (fits(candidate, kind)) {
                fit.push_back(&candidate);
                most = std::max(most, candidate.gpus);
            }
        if (most == 0) return;
        const std::int64_t nodes = std::max(kind.nodes, (kind.gpus + most - 1) / most);
        const std::int64_t each = std::max<std::int64_t>((kind.gpus + nodes - 1) / nodes, 1);
        std::erase_if(fit, [&](const Candidate* c) { return c->left < each; });
        std::stable_partition(fit.begin(), fit.end(), [](const auto* c) { return c->taken; });
        order_full(fit, nodes, each, tasks);
        for (std::int64_t task = 0; task < tasks; ++task)
            if (!serve_task(fit, nodes, each)) return;
    }

    [[nodiscard]] std::vector<std::string> taken(Cost cost) const {
        return names([&](const Candidate& c) { return c.cost == cost && c.taken; });
    }
    [[nodiscard]] std::vector<std::string> shared(const LoanNet::Wants& wants) const {
        return names([&](const Candidate& c) {
            return c.cost == Cost::shared &&
                   std::any_of(wants.begin(), wants.end(),
                               [&](const auto& want) { return fits(c, want.first); });
        });
    }

  private:
    static Cost cost_of(const LoanNet::Place& place, const Use* use, bool is_open) {
        if (place.comes_back) return Cost::back;
        if (!use) return is_open ? Cost::ending : Cost::idle;
        if (is_open) return use->preemptable ? Cost::open : Cost::ending;
        return fills(*use, place.gpus) ? Cost::full : Cost::shared;
    }

    [[nodiscard]] bool fits(const Candidate& candidate, const LoanNet::Kind& kind) const {
        if (!kind.gpu_type.empty() && kind.gpu_type != candidate.gpu_type) return false;
        return kind.partitions.empty() ||
               std::any_of(kind.partitions.begin(), kind.partitions.end(), [&](const auto& name) {
                   const auto at = facts_.inference.find(name);
                   return at != facts_.inference.end() &&
                          std::binary_search(at->second.begin(), at->second.end(), candidate.node);
               });
    }

    /// So that few jobs have to go: the smallest one that has all that is lacking, or the largest.
    static void order_full(std::vector<Candidate*>& fit, std::int64_t nodes, std::int64_t each,
                           std::int64_t tasks) {
        const auto is_full = [](const Candidate* c) { return !c->taken && c->cost == Cost::full; };
        const auto begin = std::find_if(fit.begin(), fit.end(), is_full);
        const auto end = std::find_if_not(begin, fit.end(), is_full);
        if (begin == end) return;
        std::int64_t before = 0;
        for (auto at = fit.begin(); at != begin; ++at) before += (*at)->left / each;
        const std::int64_t per_node = std::max<std::int64_t>((*begin)->gpus / each, 1);
        auto lacks =
            std::max<std::int64_t>((nodes * tasks - before + per_node - 1) / per_node, nodes);
        std::map<std::uint32_t, std::vector<Candidate*>> by_job;
        for (auto at = begin; at != end; ++at) by_job[(*at)->job].push_back(*at);
        std::set<std::pair<std::int64_t, std::uint32_t>> by_size;
        for (const auto& [job, its] : by_job) by_size.emplace(std::ssize(its), job);
        for (auto at = begin; at != end;) {
            auto best = by_size.lower_bound({lacks, 0});
            if (best == by_size.end()) best = by_size.lower_bound({by_size.rbegin()->first, 0});
            const auto [size, job] = *best;
            const std::vector<Candidate*>& its = by_job.at(job);
            at = std::copy(its.begin(), its.end(), at);
            lacks = std::max<std::int64_t>(lacks - size, 1);
            by_size.erase(best);
        }
    }

    /// On nodes of its own each; false where there are no more.
    static bool serve_task(std::vector<Candidate*>& fit, std::int64_t nodes, std::int64_t each) {
        const auto count = std::min(nodes, static_cast<std::int64_t>(fit.size()));
        for (auto at = fit.begin(); at != fit.begin() + count; ++at) {
            (*at)->left -= each;
            (*at)->taken = true;
        }
        const auto is_used_up = [&](const Candidate* c) { return c->left < each; };
        fit.erase(std::remove_if(fit.begin(), fit.begin() + count, is_used_up),
                  fit.begin() + count);
        return count == nodes;
    }

    template <typename Is>
    [[nodiscard]] std::vector<std::string> names(Is is) const {
        std::vector<std::string> names;
        for (const Candidate& candidate : all_)
            if (is(candidate)) names.push_back(candidate.node);
        std::sort(names.begin(), names.end());
        return names;
    }

    const LoanFacts& facts_;
    std::vector<Candidate> all_;  ///< by cost
};

}  // namespace

/// Of the jobs that have waited for long enough; nothing where one of those that wait asks for no
/// GPU: it would find room beside whoever has them all.
LoanNet::Wants LoanNet::wants_of(const LoanFacts& facts, double steady_s) {
    std::map<std::uint32_t, double> since;
    Wants wants;
    bool all_ask = true;
    for (const LoanFacts::Job& job : facts.jobs) {
        if (!job.inference || !job.pending) continue;
        const auto known = since_.find(job.id);
        const double first_s = known == since_.end() ? steady_s : known->second;
        since.emplace(job.id, first_s);
        all_ask = all_ask && job.gpus > 0;
        if (steady_s - first_s < patience_s) continue;
        const std::int64_t tasks = std::max<std::int64_t>(job.tasks, 1);
        wants[{.gpu_type = job.gpu_type,
               .partitions = job.partitions,
               .gpus = job.gpus / tasks,
               .nodes = std::max<std::int64_t>(job.nodes_asked / tasks, 1)}] += tasks;
    }
    since_ = std::move(since);
    return all_ask ? wants : Wants();
}

void LoanNet::new_round(const LoanFacts& facts, const Places& places, double steady_s) {
    const Wants wants = wants_of(facts, steady_s);
    const std::set<std::string> open = std::exchange(open_, {});
    idle_.clear();
    sought_.clear();
    missing_ = 0;
    if (!facts.preempts || wants.empty()) return;
    Matching matching(facts, places, open);
    // Who may have any type last: it takes what is left.
    for (auto want = wants.rbegin(); want != wants.rend(); ++want)
        matching.serve(want->first, want->second);
    for (const Cost cost : {Cost::ending, Cost::open, Cost::full})
        for (std::string& node : matching.taken(cost)) open_.insert(std::move(node));
    idle_ = matching.taken(Cost::idle);
    missing_ = matching.taken(Cost::shared).size();
    if (missing_ > 0) sought_ = matching.shared(wants);
}

}  // namespace arena
