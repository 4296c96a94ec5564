// SPDX-License-Identifier: GPL-2.0-or-later
// Properties that hold for every decision of policy arena, on random rounds. A fixed seed and few
// cases, so that a check costs seconds and tells the same each time; 10^5 of each:
// RC_PARAMS="seed=1 max_success=100000".
#include <rapidcheck.h>

#include <cstdio>
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
    for (const NodeIndex n : nodes)
        give_to_node(s.nodes, n, per_node, per_node * job.cpus_per_gpu,
                     per_node * job.memory_mb_per_gpu);
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

// ---- beside stock Slurm ------------------------------------------------------------------------

/// One job of a fixed count, never changed, beside jobs that hold GPUs here and there; on two-type
/// nodes, too. Layouts on more nodes take up to twice the time.
Round fragments() {
    Round r = test::random_round(pick, {6, 4, 8});
    std::erase_if(r.snapshot.jobs,
                  [](const JobState& job) { return job.phase == JobPhase::pending; });
    for (JobState& job : r.snapshot.jobs) {
        job.elastic = false;
        job.age_s = 0;
        if (pick(0, 3) == 0) job.remaining_iterations = 0;  // nobody knows when it ends
    }
    JobState job;
    job.id = 100;
    job.min_gpus = job.max_gpus = pick(1, 8);
    job.cpus_per_gpu = pick(0, 4);
    job.remaining_iterations = static_cast<double>(pick(10, 100000));
    r.snapshot.jobs.push_back(job);
    auto& offers = r.offers[job.id];
    for (const std::string& type : test::gpu_type_names) {
        const double fastest_s = static_cast<double>(pick(50, 400)) / 100;
        const double slower = static_cast<double>(pick(0, 30)) / 100;
        for (std::int64_t per_node = 4; per_node >= 1; --per_node) {
            if (job.min_gpus % per_node != 0) continue;
            Offer offer;
            offer.grid = {type, job.min_gpus / per_node, per_node, 1};
            offer.estimate.iteration_s =
                fastest_s * (1 + slower * static_cast<double>(offer.grid.nodes - 1) / 2);
            offers.push_back(offer);
        }
    }
    r.options.any_layout = false;
    r.options.search_steps = 200000;
    return r;
}

/// The offers that nodes could hold at the end of these running jobs.
std::vector<const Offer*> possible(Round r, double in_s) {
    for (const JobState& job : r.snapshot.jobs) {
        if (job.phase != JobPhase::running || job.remaining_iterations <= 0) continue;
        if (job.remaining_iterations * job.current->estimate.iteration_s <= in_s)
            give(r.snapshot, job, job.nodes, job.current->grid.gpus_per_node);
    }
    std::vector<const Offer*> list;
    const auto& offers = r.offers.at(100);
    for (const Offer& offer : offers)
        if (fits(r.snapshot, r.snapshot.jobs.back(), offer, offer.grid.gpus_per_node))
            list.push_back(&offer);
    return list;
}

/// Seconds until the job ends with the best of what is possible then.
double ends_in_s(const Round& r, double in_s) {
    const double iterations = r.snapshot.jobs.back().remaining_iterations;
    double least = INFINITY;
    const Round copy = r;
    for (const Offer* offer : possible(copy, in_s))
        least = std::min(least, in_s + iterations * offer->estimate.iteration_s);
    return least;
}

/// How often each case was met.
struct {
    int states = 0, stock_starts = 0, waits = 0;
} told;

/// What Slurm could start by a count alone, Arena starts; or says what it waits for, which ends no
/// later by what is known of those that run.
void what_stock_could_start_starts_or_ends_sooner_later() {
    const Round r = fragments();
    const bool stock_starts = !possible(r, 0).empty();
    told.states += 1;
    told.stock_starts += stock_starts;
    const Decision d = decide(r);
    const bool starts = std::any_of(d.actions.begin(), d.actions.end(), [](const Action& a) {
        return a.job == 100 && a.kind == ActionKind::start;
    });
    RC_ASSERT(!starts || stock_starts);
    if (starts || !stock_starts) return;
    told.waits += 1;
    std::string words = d.waiting.contains(100) ? d.waiting.at(100) : "";
    for (const Action& a : d.actions)
        if (a.job == 100) words = a.reason;
    RC_LOG() << words << "\n" << to_json(r.snapshot) << "\n" << to_json(r.offers) << "\n";
    RC_ASSERT(words.find("expected to be free within") != std::string::npos);
    double later_s = INFINITY;
    for (const JobState& job : r.snapshot.jobs)
        if (job.phase == JobPhase::running && job.remaining_iterations > 0)
            later_s = std::min(later_s, ends_in_s(r, job.remaining_iterations *
                                                         job.current->estimate.iteration_s));
    RC_ASSERT(later_s <= ends_in_s(r, 0));
}

void ten_states_beside_stock() {
    for (int i = 0; i < 10; ++i) what_stock_could_start_starts_or_ends_sooner_later();
}

/// More GPUs are worth no less, by the objective as arena_cases.h has it.
void an_idle_node_costs_at_most_a_hundredth() {
    const Round r = test::random_round(pick, {8, 8, 6, 8, true});
    const Round more = test::with_idle_node(pick, r);
    RC_ASSERT(test::objective_of(more, decide(more)) >= 0.99 * test::objective_of(r, decide(r)));
}

}  // namespace

PROPERTY(capacity_is_never_exceeded, "capacity is never exceeded");
PROPERTY(types_ranges_and_nodes_are_those_allowed, "types, ranges and nodes are those allowed");
PROPERTY(every_job_has_one_answer_that_fits_its_state,
         "every job has one answer that fits its state");
PROPERTY(the_same_round_has_the_same_bytes, "the same round has the same bytes");
PROPERTY(nobody_takes_what_starves_another_beyond_the_bound,
         "nobody takes what starves another beyond the bound");
PROPERTY(an_idle_node_costs_at_most_a_hundredth,
         "an idle node costs at most a hundredth of the objective");
TEST(what_stock_could_start_starts_or_ends_sooner_later_holds) {
    ck_assert(rc::check("what stock Slurm could start starts, or ends sooner later",
                        ten_states_beside_stock));
    std::printf("of %d states stock starts in %d, and Arena waits in %d of these\n", told.states,
                told.stock_starts, told.waits);
    ck_assert(told.stock_starts > told.states / 4 && told.waits > 0);
}
SUITE({.before = [] { arena::test::fix_seed(1000); }, .timeout_s = 0});
