// SPDX-License-Identifier: GPL-2.0-or-later
// Jobs with several places (partitions): no policy mixes nodes of two, the first that has room is
// taken, limits of a place hold; and what the scheduler makes of it.
#include <algorithm>
#include <random>

#include "baselines/registry.h"
#include "policy/places.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;

namespace {

Offer offer_of(const char* type, std::int64_t nodes, std::int64_t per_node, double iteration_s) {
    Offer o;
    o.grid = {type, nodes, per_node, 1};
    o.plan.stage_layers = {1};
    o.plan.stage_dp = {nodes * per_node};
    o.plan.stage_tp = {1};
    o.estimate.iteration_s = iteration_s;
    return o;
}

JobState pending(JobId id, std::vector<Place> places) {
    JobState job;
    job.id = id;
    job.priority = 100 - id;
    job.max_gpus = INT64_MAX;
    job.remaining_iterations = 1000;
    job.requested_type = "a40";
    job.places = std::move(places);
    return job;
}

/// n0, n1 of four GPUs each, one in each of the places {0}, {1}; set 2 has both.
struct TwoPlaces {
    Snapshot s;
    Offers offers;
    TwoPlaces() {
        s.time_s = 1000;
        s.nodes = {{"n0", "a40", 4, 4, 16, 64000}, {"n1", "a40", 4, 4, 16, 64000}};
        s.node_sets = {{0}, {1}, {0, 1}};
    }
    JobState& job(JobId id, std::vector<Offer> list, std::vector<Place> places) {
        s.jobs.push_back(pending(id, std::move(places)));
        s.jobs.back().node_set = 2;
        s.jobs.back().requested_gpus = list.front().grid.gpus();
        offers[id] = std::move(list);
        return s.jobs.back();
    }
    /// The one start of the decision; nullptr: none. Each policy is asked.
    template <typename Check>
    void each(Check check) {
        for (const Policy& policy : policies()) {
            const Decision d = policy.decide(s, offers, {});
            const Action* start = nullptr;
            for (const Action& a : d.actions)
                if (a.kind == ActionKind::start) start = &a;
            check(policy, start);
        }
    }
};

TEST(nodes_of_two_places_are_never_mixed) {
    TwoPlaces two;
    two.job(1, {offer_of("a40", 2, 4, 1)}, {{.node_set = 0}, {.node_set = 1}});
    two.each([](const Policy& p, const Action* start) {
        ck_assert_msg(!start, "%s started it", std::string(p.name).c_str());
    });
    two.s.jobs[0].places = {{.node_set = 2}};
    two.each([](const Policy& p, const Action* start) {
        ck_assert_msg(start, "%s did not start it", std::string(p.name).c_str());
    });
}

TEST(the_first_place_with_room_is_taken) {
    TwoPlaces two;
    two.job(1, {offer_of("a40", 1, 4, 1)}, {{.node_set = 1}, {.node_set = 0}});
    two.each([](const Policy& p, const Action* start) {
        ck_assert_msg(start && start->place == 0 && start->nodes == std::vector<NodeIndex>{1}, "%s",
                      std::string(p.name).c_str());
    });
    two.s.nodes[1].free_gpus = 3;
    two.each([](const Policy& p, const Action* start) {
        ck_assert_msg(start && start->place == 1 && start->nodes == std::vector<NodeIndex>{0}, "%s",
                      std::string(p.name).c_str());
    });
}

TEST(the_limits_of_a_place_hold) {
    TwoPlaces two;
    JobState& job = two.job(1, {offer_of("a40", 1, 4, 1)}, {{.node_set = 0}});
    const auto never = [&](const char* what) {
        two.each([&](const Policy& p, const Action* start) {
            ck_assert_msg(!start, "%s: %s", std::string(p.name).c_str(), what);
        });
    };
    job.places[0].min_nodes = 2;
    never("fewer nodes than MinNodes");
    job.places[0] = {.node_set = 0, .max_nodes = 0};
    never("more nodes than MaxNodes");
    job.cpus_per_gpu = 4;
    job.places[0] = {.node_set = 0, .max_cpus_per_node = 15};
    never("more CPUs than MaxCPUsPerNode");
    job.memory_mb_per_gpu = 1000;
    job.places[0] = {.node_set = 0, .max_memory_mb_per_node = 3999};
    never("more memory than MaxMemPerNode");
    job.places[0] = {0, 1, 1, 16, 4000};
    two.each([](const Policy& p, const Action* start) {
        ck_assert_msg(start, "%s", std::string(p.name).c_str());
    });
}

bool stands_in(const Snapshot& s, const JobState& job, const Action& a) {
    const Place place = job.places.empty() ? Place{.node_set = job.node_set} : job.places[a.place];
    const auto& set = s.node_sets[place.node_set];
    return allows(place, job, a.offer.grid.nodes, a.offer.grid.gpus_per_node) &&
           std::all_of(a.nodes.begin(), a.nodes.end(),
                       [&](NodeIndex n) { return std::binary_search(set.begin(), set.end(), n); });
}

TEST(no_policy_leaves_the_places_of_random_jobs) {
    std::mt19937 random(20221);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    std::map<std::string_view, int> starts;
    for (int round = 0; round < 300; ++round) {
        Snapshot s;
        Offers offers;
        s.time_s = 1000;
        const auto nodes = static_cast<NodeIndex>(pick(1, 8));
        for (NodeIndex n = 0; n < nodes; ++n)
            s.nodes.push_back({"n", pick(0, 1) ? "a40" : "a100", 4, pick(0, 4), 16, 64000});
        s.node_sets.resize(4);
        for (NodeIndex n = 0; n < nodes; ++n) {
            s.node_sets[0].push_back(n);
            for (std::size_t set = 1; set < 4; ++set)
                if (pick(0, 1)) s.node_sets[set].push_back(n);
        }
        for (JobId id = 1; id <= static_cast<JobId>(pick(1, 8)); ++id) {
            JobState job = pending(id, {});
            for (std::int64_t p = pick(0, 3); p > 0; --p)
                job.places.push_back(
                    {static_cast<std::uint32_t>(pick(1, 3)), pick(1, 2), pick(1, 4)});
            const char* type = pick(0, 1) ? "a40" : "a100";
            for (const std::int64_t per_node : {1, 2, 4})
                for (std::int64_t count = 1; count <= 3; ++count)
                    offers[id].push_back(offer_of(type, count, per_node,
                                                  10.0 / static_cast<double>(count * per_node)));
            job.requested_type = type;
            job.requested_gpus = std::int64_t{1} << pick(0, 2);
            s.jobs.push_back(std::move(job));
        }
        for (const Policy& policy : policies()) {
            for (const Action& a : policy.decide(s, offers, {}).actions) {
                if (a.kind != ActionKind::start) continue;
                ++starts[policy.name];
                ck_assert_msg(stands_in(s, s.jobs[a.job - 1], a), "%s, round %d, job %u",
                              std::string(policy.name).c_str(), round, a.job);
            }
        }
    }
    for (const Policy& policy : policies()) ck_assert_int_gt(starts[policy.name], 50);
}

TEST(places_survive_json) {
    TwoPlaces two;
    two.job(1, {offer_of("a40", 1, 4, 1)}, {{.node_set = 1}, {0, 2, 3, 16, 4000}});
    ck_assert(parse_snapshot(to_json(two.s)).value() == two.s);
    const Decision d = find_policy("fifo")->decide(two.s, two.offers, {});
    ck_assert(parse_decision(to_json(d)).value() == d);
    two.s.jobs[0].places[0].node_set = 3;
    assert_refused(parse_snapshot(to_json(two.s)), "places");
}

// ---- the scheduler ---------------------------------------------------------------------------

/// One node; the job may have it in the given partition.
struct PlaceScene : Scene {
    explicit PlaceScene(PartitionSlot slot) {
        node("n1", "a40", 4, 4);
        job(1).slots = {std::move(slot)};
    }
};

TEST(a_job_starts_in_the_partition_that_was_planned) {
    PlaceScene scene({"second", {.node_set = 0}});
    scene.scheduler()->round();
    ck_assert(called(scene.host, "start 1 n1"));
    assert_text(scene.host.last_shape.partition, "second");
}

TEST(where_only_time_min_fits_slurms_backfill_starts_the_job) {
    PlaceScene scene({"short", {.node_set = 0}, true});
    scene.scheduler()->round();
    ck_assert(called(scene.host, "release 1"));
    ck_assert(!called(scene.host, "start 1 n1"));
}

TEST(no_partition_that_takes_the_job_is_its_reason_in_slurms_word) {
    Scene scene;
    scene.node("n1", "a40", 4, 4);
    scene.job(1).no_place = "PartitionTimeLimit";
    scene.scheduler()->round();
    ck_assert(scene.host.calls.empty());
    ck_assert_uint_eq(scene.host.reasons.size(), 1);
    assert_text(scene.host.reasons[0].text, "PartitionTimeLimit");
}

TEST(a_plan_that_is_stale_again_and_again_is_said) {
    PlaceScene scene({"main", {.node_set = 0}});
    scene.host.next_start = {ApplyOutcome::stale, "partition main does not take it"};
    auto scheduler = scene.scheduler();
    scheduler->round();
    const Grid first = scene.host.last_shape.offer.grid;
    scheduler->round();
    ck_assert(scene.host.reasons.empty() && scene.host.errors.empty());
    scheduler->round();
    ck_assert_uint_eq(scene.host.reasons.size(), 1);
    ck_assert(scene.host.reasons[0].text.find("partition main does not take it") !=
              std::string::npos);
    scheduler->round();
    ck_assert(scene.host.last_shape.offer.grid != first);
}

}  // namespace
