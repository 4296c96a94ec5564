// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `arena`: the choice of jobs that are never changed, which is for life.
#include <algorithm>
#include <cmath>

#include "policy/arena/arena_policy.h"
#include "sim/random.h"
#include "suite.h"

using namespace arena;

namespace {

Offer offer_of(const std::string& type, std::int64_t gpus, double iteration_s) {
    Offer offer;
    offer.grid = {type, 1, gpus, 1};
    offer.estimate.iteration_s = iteration_s;
    return offer;
}

JobState waiting_job(JobId id, double iterations, bool elastic = false) {
    JobState job;
    job.id = id;
    job.max_gpus = INT64_MAX;
    job.cpus_per_gpu = 0;
    job.remaining_iterations = iterations;
    job.elastic = elastic;
    return job;
}

JobState running_job(JobId id, double iterations, const Offer& offer, NodeIndex node,
                     double start_s, bool elastic = false) {
    JobState job = waiting_job(id, iterations, elastic);
    job.phase = JobPhase::running;
    job.current = offer;
    job.nodes = {node};
    job.start_s = start_s;
    job.restarts = 1;
    return job;
}

PolicyOptions alone() {
    PolicyOptions options;
    options.reserve_depth = 0;
    return options;
}

/// n1: four idle a40; n2: four h100, which job 1 holds for `left_s` more.
Snapshot h100_soon_free(double left_s) {
    Snapshot s;
    s.time_s = 1e9;
    s.nodes = {{"n1", "a40", 4, 4, 0, 0}, {"n2", "h100", 4, 0, 0, 0}};
    s.node_sets = {{0, 1}};
    s.jobs = {running_job(1, left_s, offer_of("h100", 4, 1), 1, 1e9 - 5000), waiting_job(2, 1000)};
    return s;
}

const Offers seventeen_times{{1, {offer_of("h100", 4, 1)}},
                             {2, {offer_of("h100", 4, 0.89), offer_of("a40", 4, 15.1)}}};

}  // namespace

TEST(a_choice_for_life_waits_for_a_much_better_type_that_is_soon_free) {
    ck_assert(decide_arena(h100_soon_free(600), seventeen_times, alone()).actions.empty());
    ck_assert(decide_arena(h100_soon_free(9000), seventeen_times, alone()).actions.empty());
    Snapshot limited = h100_soon_free(600);  // the same by its time limit
    limited.jobs[0].remaining_iterations = 0;
    limited.jobs[0].time_limit_s = 600;
    ck_assert(decide_arena(limited, seventeen_times, alone()).actions.empty());
}

TEST(the_wait_ends_where_it_does_not_pay_or_nobody_knows_its_end) {
    const auto starts_on_a40 = [](const Snapshot& s) {
        const Decision d = decide_arena(s, seventeen_times, alone());
        return d.actions.size() == 1 && d.actions[0].kind == ActionKind::start &&
               d.actions[0].job == 2 && d.actions[0].offer.grid.gpu_type == "a40";
    };
    ck_assert(starts_on_a40(h100_soon_free(20000)));  // 15,100 s on a40
    Snapshot overran = h100_soon_free(1);
    overran.jobs[0].overrun = true;
    ck_assert(starts_on_a40(overran));
    Snapshot endless = h100_soon_free(600);
    endless.jobs[0].remaining_iterations = endless.jobs[0].time_limit_s = 0;
    ck_assert(starts_on_a40(endless));
    Snapshot starved = h100_soon_free(600);
    starved.jobs[1].age_s = 8 * 86400;
    ck_assert(starts_on_a40(starved));
}

TEST(no_whole_node_is_taken_for_what_the_estimates_may_be_off) {
    Snapshot s;
    s.nodes = {{"n1", "h100", 16, 16, 0, 0}};
    s.node_sets = {{0}};
    s.jobs = {waiting_job(1, 1e6)};
    const Offers offers{
        {1,
         {offer_of("h100", 16, 0.0360), offer_of("h100", 4, 0.0374), offer_of("h100", 1, 0.14)}}};
    const Decision d = decide_arena(s, offers, alone());
    ck_assert(d.actions.size() == 1 && d.actions[0].offer.grid.gpus() == 4);
}

TEST(with_others_behind_it_a_job_takes_the_gpus_that_it_makes_good_use_of) {
    Snapshot s;
    s.nodes = {{"n1", "h100", 8, 8, 0, 0}};
    s.node_sets = {{0}};
    Offers offers;
    for (JobId id = 1; id <= 8; ++id) {
        s.jobs.push_back(waiting_job(id, 10000 + static_cast<double>(id)));
        offers[id] = {offer_of("h100", 8, 0.3), offer_of("h100", 1, 1.0)};
    }
    const Decision d = decide_arena(s, offers, alone());
    ck_assert_uint_eq(d.actions.size(), 8);
    for (const Action& a : d.actions) ck_assert_int_eq(a.offer.grid.gpus(), 1);
}

/// Equal models on idle GPUs of all kinds, and offers of every ratio: where nothing runs somebody
/// starts.
TEST(without_running_jobs_nobody_waits_for_nothing) {
    sim::Random random(21);
    for (int round = 0; round < 2000; ++round) {
        Snapshot s;
        const std::vector<std::string> types{"a40", "a100", "h100"};
        s.node_sets.emplace_back();
        for (NodeIndex n = 0; n < 1 + random.below(5); ++n) {
            const auto gpus = static_cast<std::int64_t>(1 + random.below(8));
            s.nodes.push_back({"n" + std::to_string(n), types[random.below(3)], gpus, gpus, 0, 0});
            s.node_sets[0].push_back(n);
        }
        Offers offers;
        bool could = false;
        for (JobId id = 1; id <= 1 + static_cast<JobId>(random.below(6)); ++id) {
            s.jobs.push_back(waiting_job(id, std::exp(8 + 3 * random.normal())));
            s.jobs.back().age_s = random.uniform(0, 6 * 86400.0);
            for (const std::string& type : types) {
                for (const std::int64_t gpus : {1, 2, 4, 8}) {
                    if (random.uniform() < 0.5) continue;
                    offers[id].push_back(offer_of(type, gpus, std::exp(2 * random.normal())));
                    could |=
                        std::any_of(s.nodes.begin(), s.nodes.end(), [&](const NodeState& node) {
                            return node.gpu_type == type && node.free_gpus >= gpus;
                        });
                }
            }
        }
        const Decision d = decide_arena(s, offers, alone());
        ck_assert_msg(could == !d.actions.empty(), "round %d: %zu actions", round,
                      d.actions.size());
    }
}
