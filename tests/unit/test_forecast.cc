// SPDX-License-Identifier: GPL-2.0-or-later
// When waiting jobs are expected to start: the policy's own answers, at the moments when jobs end.
#include <cmath>
#include <limits>

#include "policy/arena/slurm_policies.h"
#include "policy/forecast.h"
#include "suite.h"

using namespace arena;

namespace {

Offer offer_of(std::int64_t gpus, double iteration_s) {
    Offer offer;
    offer.grid = {"a40", 1, gpus, 1};
    offer.plan.stage_layers = {12};
    offer.plan.stage_dp = {gpus};
    offer.plan.stage_tp = {1};
    offer.estimate.iteration_s = iteration_s;
    return offer;
}

JobState waiting(JobId id, double time_limit_s) {
    JobState job;
    job.id = id;
    job.submit_s = id;
    job.max_gpus = 4;
    job.time_limit_s = time_limit_s;
    return job;
}

/// One node of four GPUs, all of them another's until second 1100; it is second 1000.
struct Scene {
    Snapshot snapshot;
    Offers offers;
    ForecastLimits limits;
    const Policy* policy = find_slurm_policy("fifo");

    Scene() {
        snapshot.time_s = 1000;
        snapshot.nodes = {{"n1", "a40", 4, 0, 0, 64000}};
        snapshot.node_sets = {{0}};
        snapshot.others = {{.job = 90, .end_s = 1100, .parts = {{0, 4, 16, 0}}}};
    }
    void add(JobId id, std::int64_t gpus, double time_limit_s) {
        snapshot.jobs.push_back(waiting(id, time_limit_s));
        offers[id] = {offer_of(gpus, 1)};
    }
    std::map<JobId, ExpectedStart> starts() {
        return forecast_starts(*policy, snapshot, offers, {}, limits);
    }
};

bool near(double a, double b) { return std::abs(a - b) < 1; }

TEST(a_job_starts_when_the_one_before_it_ends) {
    Scene scene;
    scene.add(1, 4, 600);
    scene.add(2, 4, 600);
    scene.add(3, 4, 600);
    const auto starts = scene.starts();
    ck_assert_uint_eq(starts.size(), 3);
    ck_assert(near(starts.at(1).start_s, 1100));
    // A start costs a moment of launching, which counts against no limit here: 600 s are 600 s.
    ck_assert(near(starts.at(2).start_s, 1700));
    ck_assert(near(starts.at(3).start_s, 2300));
    ck_assert(starts.at(1).grid == offer_of(4, 1).grid);
}

/// Four nodes of two racks come free: two of each, or three of one and one of the other.
TEST(a_start_is_expected_with_one_of_two_plans_of_a_grid) {
    for (const bool whole : {true, false}) {
        Scene scene;
        SwitchTable racks;
        scene.snapshot.topology = NetworkKind::block;
        scene.snapshot.nodes.clear();
        for (const char* rack : {"r1", "r1", "r1", "r2", "r2", "r2"}) {
            const std::string name = "n" + std::to_string(scene.snapshot.nodes.size());
            scene.snapshot.nodes.push_back({name, "a40", 4, 0, 0, 64000});
            scene.snapshot.nodes.back().leaf = racks.add({rack});
        }
        scene.snapshot.switches = racks.take();
        scene.snapshot.node_sets = {{0, 1, 2, 3, 4, 5}};
        scene.snapshot.others = {{.job = 90, .end_s = 1100, .parts = {}}};
        for (const NodeIndex n : {0U, 1U, whole ? 4U : 2U, 3U})
            scene.snapshot.others[0].parts.push_back({n, 4, 16, 0});
        scene.add(1, 16, 6000);
        scene.snapshot.jobs[0].max_gpus = 16;
        Offer twin = offer_of(16, 1);
        twin.grid = {"a40", 4, 4, 1};
        Offer of_rack = twin;
        of_rack.segment = 2;
        twin.estimate.iteration_s = 1.02;
        scene.offers[1] = {of_rack, twin};
        const auto starts = scene.starts();
        ck_assert_uint_eq(starts.size(), 1);
        ck_assert_int_eq(starts.at(1).grid.segment, whole ? 2 : 1);
        ck_assert(starts.at(1).grid.is_of(whole ? of_rack : twin));
        ck_assert(!starts.at(1).grid.is_of(whole ? twin : of_rack));
    }
}

TEST(jobs_that_fit_together_start_together) {
    Scene scene;
    scene.add(1, 2, 600);
    scene.add(2, 2, 600);
    scene.add(3, 1, 600);
    const auto starts = scene.starts();
    ck_assert(near(starts.at(2).start_s, 1100));
    ck_assert(near(starts.at(3).start_s, 1700));
}

TEST(known_work_ends_a_job_before_its_limit) {
    Scene scene;
    scene.add(1, 4, 3600);
    scene.add(2, 4, 600);
    scene.snapshot.jobs[0].remaining_iterations = 100;  // of 1 s
    const double launch_s = RestartCost{}.seconds(4);
    ck_assert(near(scene.starts().at(2).start_s, 1100 + 100 + launch_s));
}

TEST(behind_a_job_without_an_end_nobody_knows) {
    Scene scene;
    scene.add(1, 4, 0);
    scene.add(2, 4, 600);
    const auto starts = scene.starts();
    ck_assert(starts.contains(1));
    ck_assert(!starts.contains(2));
    scene.snapshot.others[0].end_s = std::numeric_limits<double>::infinity();
    ck_assert(scene.starts().empty());
}

TEST(a_running_job_of_ours_ends_too) {
    Scene scene;
    scene.add(1, 4, 250);
    scene.add(2, 4, 600);
    JobState& running = scene.snapshot.jobs[0];
    running.phase = JobPhase::running;
    running.elastic = true;
    running.current = offer_of(4, 1);
    running.nodes = {0};
    scene.snapshot.others.clear();
    const auto starts = scene.starts();
    ck_assert(!starts.contains(1));
    ck_assert(near(starts.at(2).start_s, 1250));
}

TEST(every_policy_of_slurm_can_be_asked) {
    for (const Policy& policy : slurm_policies()) {
        Scene scene;
        scene.policy = &policy;
        for (JobId id = 1; id <= 20; ++id) scene.add(id, 4, 600);
        const auto starts = scene.starts();
        ck_assert_uint_eq(starts.size(), 20);
    }
}

TEST(the_limits_bound_the_work) {
    Scene scene;
    for (JobId id = 1; id <= 100; ++id) scene.add(id, 4, 600);
    scene.limits.decisions = 5;
    ck_assert_uint_eq(scene.starts().size(), 4);  // the first decision finds everything taken
    scene.limits.decisions = 64;
    scene.limits.jobs = 3;
    ck_assert_uint_eq(scene.starts().size(), 3);
    int asked = 0;
    scene.limits.go_on = [&] { return ++asked <= 2; };
    ck_assert_uint_eq(scene.starts().size(), 1);
}

}  // namespace
