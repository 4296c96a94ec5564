// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `aryl` on small clusters: who starts first, who grows, who makes room, on whose nodes.
#include <algorithm>
#include <cmath>

#include "policy/arena/arena_policy.h"
#include "policy/aryl/aryl_policy.h"
#include "policy/aryl/two_phase.h"
#include "policy/fifo.h"
#include "sim/random.h"
#include "suite.h"

using namespace arena;

namespace {

/// Nodes of 8 GPUs of type "a": so many own ones, then lent ones.
Snapshot cluster(int own, int lent) {
    Snapshot snapshot;
    snapshot.time_s = 100000;
    snapshot.node_sets.emplace_back();
    for (int n = 0; n < own + lent; ++n) {
        NodeState node{.name = "n" + std::to_string(n),
                       .gpu_type = "a",
                       .total_gpus = 8,
                       .free_gpus = 8,
                       .free_cpus = 1 << 20,
                       .free_memory_mb = 1 << 20};
        node.lent = n < own ? "" : "L1";
        snapshot.nodes.push_back(node);
        snapshot.node_sets[0].push_back(static_cast<NodeIndex>(n));
    }
    return snapshot;
}

/// Linear speed-up: 8, 16, 24, ... GPUs, and 4.
SharedOffers linear_offers() {
    std::vector<Offer> list;
    for (const std::int64_t gpus : {4, 8, 16, 24, 32}) {
        Offer offer;
        offer.grid = {.gpu_type = "a",
                      .nodes = std::max<std::int64_t>(1, gpus / 8),
                      .gpus_per_node = std::min<std::int64_t>(8, gpus),
                      .stages = 1};
        offer.estimate.iteration_s = 80.0 / static_cast<double>(gpus);
        list.push_back(offer);
    }
    return {list};
}

struct Case {
    Snapshot snapshot;
    Offers offers;
    PolicyOptions options;

    JobState& add(JobId id, std::int64_t gpus, double iterations, bool elastic) {
        JobState& job = snapshot.jobs.emplace_back();
        job.id = id;
        job.max_gpus = INT64_MAX;
        job.requested_gpus = gpus;
        job.requested_type = "a";
        job.remaining_iterations = iterations;
        job.elastic = elastic;
        offers[id] = linear_offers();
        return job;
    }
    void run(JobState& job, std::vector<NodeIndex> nodes) {
        job.phase = JobPhase::running;
        const auto wanted = static_cast<std::int64_t>(nodes.size()) * 8;
        for (const Offer& offer : offers[job.id])
            if (offer.grid.gpus() == wanted) job.current = offer;
        for (const NodeIndex n : nodes) snapshot.nodes[n].free_gpus -= 8;
        job.nodes = std::move(nodes);
    }
    [[nodiscard]] Decision decide() const { return decide_aryl(snapshot, offers, options); }
};

const Action* action_of(const Decision& decision, JobId id) {
    const auto at = std::find_if(decision.actions.begin(), decision.actions.end(),
                                 [&](const Action& a) { return a.job == id; });
    return at == decision.actions.end() ? nullptr : &*at;
}

}  // namespace

TEST(the_shortest_base_starts_first_and_what_does_not_fit_is_skipped) {
    Case c{.snapshot = cluster(3, 0), .offers = {}, .options = {}};
    c.options.reserve_depth = 0;
    c.run(c.add(9, 8, 1000, false), {0});
    c.add(1, 8, 1000, false);
    c.add(2, 24, 30, false);  // no room, though short
    c.add(3, 8, 100, false);
    c.add(4, 8, 500, false);
    const Decision decision = c.decide();
    ck_assert(action_of(decision, 3) && action_of(decision, 4));
    ck_assert(!action_of(decision, 1) && !action_of(decision, 2));
    ck_assert(decision.waiting.contains(1) && decision.waiting.contains(2));
}

TEST(an_elastic_job_starts_with_its_base_and_takes_what_is_left) {
    Case c{.snapshot = cluster(4, 0), .offers = {}, .options = {}};
    c.add(1, 16, 10000, true);
    const Action* alone = nullptr;
    const Decision decision = c.decide();
    ck_assert((alone = action_of(decision, 1)) != nullptr);
    ck_assert_int_eq(alone->offer.grid.gpus(), 32);
    c.add(2, 24, 100, false);
    const Decision both = c.decide();
    ck_assert_int_eq(action_of(both, 2)->offer.grid.gpus(), 24);
    ck_assert_int_eq(action_of(both, 1)->offer.grid.gpus(), 8);
}

TEST(a_running_job_gives_its_flexible_gpus_to_a_waiting_base_demand) {
    Case c{.snapshot = cluster(4, 0), .offers = {}, .options = {}};
    c.run(c.add(1, 16, 10000, true), {0, 1, 2, 3});
    c.add(2, 16, 5000, false);
    const Decision decision = c.decide();
    const Action* shrinks = action_of(decision, 1);
    ck_assert(shrinks && shrinks->kind == ActionKind::resize);
    ck_assert_int_eq(shrinks->offer.grid.gpus(), 16);
    ck_assert(action_of(decision, 2)->kind == ActionKind::start);
}

TEST(a_change_has_to_save_more_than_its_restarts) {
    Case c{.snapshot = cluster(2, 0), .offers = {}, .options = {}};
    c.run(c.add(1, 8, 12, true), {0});  // 120 s left; a restart costs 70 s
    ck_assert(c.decide().actions.empty());
    c.snapshot.jobs[0].remaining_iterations = 1000;
    ck_assert_int_eq(action_of(c.decide(), 1)->offer.grid.gpus(), 16);
    c.snapshot.jobs[0].start_s = c.snapshot.time_s - 100;  // too soon
    ck_assert(c.decide().actions.empty());
}

TEST(base_stands_on_own_nodes_and_the_rest_on_lent_ones) {
    Case c{.snapshot = cluster(3, 3), .offers = {}, .options = {}};
    c.add(1, 16, 10000, true);
    c.add(2, 16, 10, false);
    const Decision decision = c.decide();
    const Action *grown = action_of(decision, 1), *rigid = action_of(decision, 2);
    ck_assert(grown && rigid);
    for (const NodeIndex n : rigid->nodes) ck_assert_uint_lt(n, 3);
    const auto own =
        std::count_if(grown->nodes.begin(), grown->nodes.end(), [](NodeIndex n) { return n < 3; });
    ck_assert_int_eq(own, 1);
    ck_assert_int_eq(static_cast<int>(grown->nodes.size()), 4);
}

TEST(no_policy_starts_anything_on_a_node_that_is_returning) {
    Case c{.snapshot = cluster(1, 1), .offers = {}, .options = {}};
    c.snapshot.nodes[1].returning_s = c.snapshot.time_s + 300;
    c.add(1, 8, 1000, false);
    c.add(2, 8, 1000, false);
    for (const auto decide : {&decide_fifo, static_cast<PolicyFunction>(&decide_arena),
                              static_cast<PolicyFunction>(&decide_aryl)}) {
        const Decision decision = decide(c.snapshot, c.offers, c.options);
        int started = 0;
        for (const Action& action : decision.actions) {
            if (action.kind != ActionKind::start) continue;
            ++started;
            ck_assert(action.nodes == std::vector<NodeIndex>{0});
        }
        ck_assert_int_ge(started, 1);
    }
}

TEST(a_job_that_waited_too_long_keeps_others_from_its_type) {
    Case c{.snapshot = cluster(2, 0), .offers = {}, .options = {}};
    c.options.reserve_depth = 0;
    c.run(c.add(1, 8, 10000, false), {0});
    c.add(2, 16, 100, false);
    c.add(3, 8, 10, false);
    ck_assert(action_of(c.decide(), 3));
    c.snapshot.jobs[1].age_s = 1e6;
    ck_assert(!action_of(c.decide(), 3));
}

// ---- the knapsack ------------------------------------------------------------------------------

namespace {

double best_by_trying(const std::vector<Growth>& jobs, std::size_t at, std::int64_t left) {
    if (at == jobs.size()) return 0;
    double best = best_by_trying(jobs, at + 1, left);
    for (const Growth::Step& step : jobs[at].steps)
        if (step.gpus <= left)
            best = std::max(best, step.saved_s + best_by_trying(jobs, at + 1, left - step.gpus));
    return best;
}

}  // namespace

TEST(what_is_left_is_shared_out_as_well_as_trying_everything_does) {
    sim::Random random(1);
    for (int i = 0; i < 400; ++i) {
        std::vector<Growth> jobs(random.below(6));
        const auto unit = static_cast<std::int64_t>(1 + random.below(4));
        for (Growth& job : jobs)
            for (std::size_t k = random.below(5); k > 0; --k)
                job.steps.push_back({unit * static_cast<std::int64_t>(1 + random.below(8)),
                                     random.uniform(-5, 100)});
        const auto capacity = static_cast<std::int64_t>(random.below(60));
        const Shares shares = share_out(jobs, capacity);
        ck_assert(shares.is_exact);
        ck_assert_double_eq_tol(shares.saved_s, best_by_trying(jobs, 0, capacity), 1e-6);
        std::int64_t used = 0;
        for (std::size_t j = 0; j < jobs.size(); ++j)
            if (shares.chosen[j] >= 0)
                used += jobs[j].steps[static_cast<std::size_t>(shares.chosen[j])].gpus;
        ck_assert_int_le(used, capacity);
    }
}

TEST(the_largest_share_out_is_exact) {
    sim::Random random(2);
    std::vector<Growth> jobs(500);
    for (Growth& job : jobs)
        for (std::int64_t gpus = 1; gpus <= 16; ++gpus)
            job.steps.push_back({gpus, random.uniform(0, 100) * static_cast<double>(gpus)});
    const Shares shares = share_out(jobs, 4096);
    ck_assert(shares.is_exact && shares.bound_s == shares.saved_s);
}
