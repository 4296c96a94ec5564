// SPDX-License-Identifier: GPL-2.0-or-later
// Properties that hold for every decision of policy arena, on random rounds. A fixed seed and few
// cases, so that a check costs seconds and tells the same each time; 10^5 of each:
// RC_PARAMS="seed=1 max_success=100000".
#include <rapidcheck.h>

#include <set>

#include "arena_cases.h"
#include "policy/arena/arena_policy.h"
#include "property.h"

using namespace arena;
using arena::test::Round;

namespace {

/// The whole range from the first test on: rapidcheck would start with small numbers.
std::int64_t pick(std::int64_t min, std::int64_t max) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(min, max + 1));
}

Round any_round(const test::RoundSize& size = {}) {
    Round r = test::random_round(pick, size);
    r.options.objective = *rc::gen::element(Objective::jct, Objective::jct, Objective::throughput,
                                            Objective::fairness);
    if (pick(0, 3) == 0) r.options.search_steps = pick(1, 2000);
    if (pick(0, 3) == 0) r.options.shares = {{"a", 70}, {"b", 30}};
    for (JobState& job : r.snapshot.jobs) job.account = pick(0, 1) == 0 ? "a" : "b";
    // Any moment, so also between appointed times.
    const double later_s = static_cast<double>(pick(0, 100000));
    r.snapshot.time_s += later_s;
    for (JobState& job : r.snapshot.jobs)
        job.start_s += job.phase == JobPhase::running ? later_s : 0;
    return r;
}

Decision decide(const Round& r) { return decide_arena(r.snapshot, r.offers, r.options); }

const JobState& job_of(const Round& r, JobId id) { return r.snapshot.jobs[id - 1]; }

bool holds_gpus(const Action& a) {
    return a.kind == ActionKind::start || a.kind == ActionKind::resize;
}

void give(Snapshot& s, const JobState& job, const std::vector<NodeIndex>& nodes,
          std::int64_t per_node) {
    for (const NodeIndex n : nodes) {
        s.nodes[n].free_gpus += per_node;
        s.nodes[n].free_cpus += per_node * job.cpus_per_gpu;
        s.nodes[n].free_memory_mb += per_node * job.memory_mb_per_gpu;
    }
}

/// What is free when a decision has been carried out.
Snapshot after(const Round& r, const Decision& d) {
    Snapshot s = r.snapshot;
    for (const Action& a : d.actions) {
        const JobState& job = job_of(r, a.job);
        const bool leaves = a.kind == ActionKind::resize || a.kind == ActionKind::preempt;
        if (leaves) give(s, job, job.nodes, job.current->grid.gpus_per_node);
        if (holds_gpus(a)) give(s, job, a.nodes, -a.offer.grid.gpus_per_node);
    }
    return s;
}

void capacity_is_never_exceeded() {
    const Round r = any_round();
    for (const NodeState& node : after(r, decide(r)).nodes) {
        RC_ASSERT(node.free_gpus >= 0 && node.free_gpus <= node.total_gpus);
        RC_ASSERT(node.free_cpus >= 0);
        RC_ASSERT(node.free_memory_mb >= 0);
    }
}

void types_ranges_and_nodes_are_those_allowed() {
    const Round r = any_round();
    for (const Action& a : decide(r).actions) {
        if (a.kind == ActionKind::preempt) continue;
        const JobState& job = job_of(r, a.job);
        const Grid& grid = a.offer.grid;
        RC_ASSERT(test::time_of(r, job, grid.gpu_type, grid.gpus()) > 0);
        const auto& offers = r.offers.at(a.job);
        RC_ASSERT(r.options.any_layout || std::count(offers.begin(), offers.end(), a.offer) == 1);
        if (!holds_gpus(a)) continue;
        const std::set<NodeIndex> distinct(a.nodes.begin(), a.nodes.end());
        const auto& set = r.snapshot.node_sets[job.node_set];
        RC_ASSERT(static_cast<std::int64_t>(distinct.size()) == grid.nodes &&
                  distinct.size() == a.nodes.size());
        RC_ASSERT(std::includes(set.begin(), set.end(), distinct.begin(), distinct.end()));
        for (const NodeIndex n : a.nodes) RC_ASSERT(r.snapshot.nodes[n].gpu_type == grid.gpu_type);
    }
}

void every_job_has_one_answer_that_fits_its_state() {
    const Round r = any_round();
    const Decision d = decide(r);
    std::set<JobId> answered;
    for (const Action& a : d.actions) {
        const JobState& job = job_of(r, a.job);
        const bool moves = a.kind == ActionKind::resize || a.kind == ActionKind::preempt;
        RC_ASSERT(answered.insert(a.job).second);
        RC_ASSERT(moves == (job.phase == JobPhase::running));
        RC_ASSERT(!moves || job.elastic);
        RC_ASSERT(!a.reason.empty());
    }
    for (const auto& [id, why] : d.waiting) {
        RC_ASSERT(answered.insert(id).second);
        RC_ASSERT(job_of(r, id).phase == JobPhase::pending && !why.empty());
    }
    for (const JobState& job : r.snapshot.jobs) {
        bool offered = false;
        for (const Offer& o : r.offers.at(job.id)) {
            std::int64_t gpus = 0;
            for (const NodeIndex n : r.snapshot.node_sets[job.node_set]) {
                const NodeState& node = r.snapshot.nodes[n];
                if (node.gpu_type == o.grid.gpu_type) gpus += node.total_gpus;
            }
            offered = offered || (test::time_of(r, job, o.grid.gpu_type, o.grid.gpus()) > 0 &&
                                  o.grid.gpus() <= gpus);
        }
        if (job.phase == JobPhase::pending && offered) RC_ASSERT(answered.count(job.id) == 1U);
    }
}

void the_same_round_has_the_same_bytes() {
    const Round r = any_round();
    const Round copy = r;
    RC_ASSERT(to_json(decide(r)) == to_json(decide(copy)));
}

bool fits(const Snapshot& s, const JobState& job, const Offer& offer, std::int64_t per_node) {
    std::int64_t good = 0;
    for (const NodeIndex n : s.node_sets[job.node_set]) {
        const NodeState& node = s.nodes[n];
        good += node.gpu_type == offer.grid.gpu_type && node.free_gpus >= per_node &&
                node.free_cpus >= per_node * job.cpus_per_gpu &&
                node.free_memory_mb >= per_node * job.memory_mb_per_gpu;
    }
    return good >= offer.grid.gpus() / per_node;
}

bool waits_too_long(const JobState& job) {
    const double starts = std::min(4.0, 1.0 + static_cast<double>(job.restarts));
    return job.phase == JobPhase::pending && job.age_s > test::week_s * starts;
}

/// Whoever waits beyond the bound gets something that it could have with all others stopped, but
/// those that may not be stopped and those that waited so long too: in its first hour on its GPUs
/// such a job keeps them.
void nobody_takes_what_starves_another_beyond_the_bound() {
    Round r = any_round();
    r.options.search_steps = 200000;
    for (JobState& job : r.snapshot.jobs) {
        if (job.phase == JobPhase::running) job.age_s = std::min(job.age_s, test::week_s / 2);
    }
    const Decision d = decide(r);
    Snapshot s = after(r, d);
    std::map<JobId, const Action*> holders;
    for (const Action& a : d.actions) {
        if (holds_gpus(a)) holders[a.job] = &a;
    }
    for (const JobState& job : r.snapshot.jobs) {  // everybody who may be out of the way
        const auto at = holders.find(job.id);
        if (at != holders.end() && !waits_too_long(job)) {
            give(s, job, at->second->nodes, at->second->offer.grid.gpus_per_node);
        } else if (at == holders.end() && test::is_movable(job)) {
            const bool stopped = std::any_of(d.actions.begin(), d.actions.end(),
                                             [&](const Action& a) { return a.job == job.id; });
            if (!stopped) give(s, job, job.nodes, job.current->grid.gpus_per_node);
        }
    }
    for (const JobState& job : r.snapshot.jobs) {
        if (!waits_too_long(job) || holders.contains(job.id)) continue;
        for (const Offer& o : r.offers.at(job.id)) {
            const double fastest = test::time_of(r, job, o.grid.gpu_type, o.grid.gpus());
            if (fastest <= 0 || o.estimate.iteration_s > 1.05 * fastest) continue;
            RC_LOG() << "job " << job.id << " could have " << short_form(o.grid) << "\n";
            RC_ASSERT(!fits(s, job, o, o.grid.gpus_per_node));
        }
    }
}

/// More GPUs are worth no less, by the objective as arena_cases.h has it.
void an_idle_node_costs_at_most_a_hundredth() {
    const Round r = test::random_round(pick, {8, 8, 6, 8, true});
    const Round more = test::with_idle_node(pick, r);
    RC_ASSERT(test::objective_of(more, decide(more)) >= 0.99 * test::objective_of(r, decide(r)));
}

}  // namespace

int main() {
    test::fix_seed(1000);
    bool good = true;
    good &= rc::check("capacity is never exceeded", capacity_is_never_exceeded);
    good &= rc::check("types, ranges and nodes are those allowed",
                      types_ranges_and_nodes_are_those_allowed);
    good &= rc::check("every job has one answer that fits its state",
                      every_job_has_one_answer_that_fits_its_state);
    good &= rc::check("the same round has the same bytes", the_same_round_has_the_same_bytes);
    good &= rc::check("nobody takes what starves another beyond the bound",
                      nobody_takes_what_starves_another_beyond_the_bound);
    good &= rc::check("an idle node costs at most a hundredth of the objective",
                      an_idle_node_costs_at_most_a_hundredth);
    return good ? 0 : 1;
}
