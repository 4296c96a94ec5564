// SPDX-License-Identifier: GPL-2.0-or-later
// See loan_net.h.
#include "plugin/sched/loans/loan_net.h"

#include <algorithm>

namespace arena {
namespace {

struct Use {
    int jobs = 0;
    std::int64_t gpus = 0;    ///< of jobs that Slurm would take off
    bool preemptable = true;  ///< all of them
};

std::map<std::string, Use> uses_of(const LoanFacts& facts) {
    std::map<std::string, Use> uses;
    for (const LoanFacts::Job& job : facts.jobs)
        for (const auto& [node, gpus] : job.nodes) {
            Use& use = uses[node];
            ++use.jobs;
            use.gpus += gpus;
            use.preemptable = use.preemptable && job.preemptable;
        }
    return uses;
}

/// It fills the node: inference finds no GPU beside it.
bool fills(const Use& use, std::int64_t gpus) {
    return use.jobs == 1 && use.preemptable && gpus > 0 && use.gpus >= gpus;
}

}  // namespace

/// Nodes of the jobs that have waited for long enough; 0 where one of those that wait asks for no
/// GPU: it would find room beside whoever has them all.
std::size_t LoanNet::waited_for(const LoanFacts& facts, double steady_s) {
    std::map<std::uint32_t, double> since;
    std::int64_t nodes = 0;
    bool all_ask = true;
    for (const LoanFacts::Job& job : facts.jobs) {
        if (!job.inference || !job.pending) continue;
        const auto known = since_.find(job.id);
        const double first_s = known == since_.end() ? steady_s : known->second;
        since.emplace(job.id, first_s);
        all_ask = all_ask && job.gpus > 0;
        if (steady_s - first_s >= patience_s) nodes += std::max<std::int64_t>(job.nodes_asked, 1);
    }
    since_ = std::move(since);
    return all_ask ? static_cast<std::size_t>(nodes) : 0;
}

void LoanNet::new_round(const LoanFacts& facts, const Lent& lent, std::size_t returning,
                        double steady_s) {
    idle_.clear();
    missing_ = 0;
    const std::size_t wanted = waited_for(facts, steady_s);
    std::erase_if(open_, [&](const std::string& node) { return !lent.contains(node); });
    if (!facts.preempts || wanted <= returning) {
        open_.clear();
        return;
    }
    std::size_t lacks = wanted - returning;
    const auto uses = uses_of(facts);
    for (const auto& [node, gpus] : lent)
        if (idle_.size() < lacks && !uses.contains(node) && !open_.contains(node))
            idle_.push_back(node);
    lacks -= idle_.size();
    // One that was opened stays so while its job ends: Slurm has chosen it.
    if (lacks > 0)
        for (const auto& [node, gpus] : lent)
            if (const auto use = uses.find(node); use != uses.end() && fills(use->second, gpus))
                open_.insert(node);
    missing_ = lacks > open_.size() ? lacks - open_.size() : 0;
}

}  // namespace arena
