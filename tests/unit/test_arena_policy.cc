// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `arena`: its knapsack against exhaustive search, what a running job keeps and gives up,
// and whole simulations, in which the simulator checks every decision for capacity.
#include <algorithm>
#include <cmath>

#include "arena_cases.h"
#include "philly.h"
#include "policy/arena/arena_policy.h"
#include "policy/arena/long_queue.h"
#include "policy/fifo.h"
#include "policy/knapsack.h"
#include "policy/replay.h"
#include "sim/generate.h"
#include "sim/random.h"
#include "sim/simulator.h"
#include "suite.h"

using namespace arena;
using namespace arena::sim;

namespace {

using Groups = std::vector<std::vector<Item>>;

double optimum(const Groups& groups, std::size_t at, std::vector<std::int64_t>& free) {
    if (at == groups.size()) return 0;
    double best = optimum(groups, at + 1, free);
    for (const Item& item : groups[at]) {
        auto& left = free[static_cast<std::size_t>(item.type)];
        if (item.gpus > left) continue;
        left -= item.gpus;
        best = std::max(best, item.value + optimum(groups, at + 1, free));
        left += item.gpus;
    }
    return best;
}

/// At most 6 jobs on 8 GPUs of two types, with values that grow slower than the GPUs, as speeds do.
Groups random_groups(Random& random) {
    Groups groups(1 + random.below(6));
    for (auto& group : groups) {
        const double weight = std::exp(2 * random.normal()), power = random.uniform(0.4, 1);
        for (const std::int32_t type : {0, 1}) {
            const double speed = random.uniform(0.5, 1.5);
            for (const std::int32_t gpus : {1, 2, 4}) {
                if (random.uniform() < 0.25) continue;
                group.push_back({type, gpus, weight * speed * std::pow(gpus, power)});
            }
        }
    }
    return groups;
}

Knapsack knapsack_of(const Groups& groups, const std::vector<std::int64_t>& capacity) {
    Knapsack knapsack(capacity);
    for (const auto& group : groups) {
        knapsack.add_group();
        for (const Item& item : group) knapsack.add(item);
    }
    return knapsack;
}

Offer offer_of(const std::string& type, std::int64_t gpus, double iteration_s) {
    Offer offer;
    offer.grid = {type, 1, gpus, 1};
    offer.estimate.iteration_s = iteration_s;
    return offer;
}

JobState job_of(JobId id, double iterations) {
    JobState job;
    job.id = id;
    job.max_gpus = INT64_MAX;
    job.cpus_per_gpu = 0;
    job.remaining_iterations = iterations;
    job.elastic = true;
    job.age_s = 7200;
    return job;
}

/// One node of four GPUs; job 1 runs on `gpus` of them since long ago.
Snapshot running_on(std::int64_t gpus, double iterations, double iteration_s) {
    Snapshot s;
    s.time_s = 100000;
    s.nodes = {{"n1", "a40", 4, 4 - gpus, 0, 0}};
    s.node_sets = {{0}};
    JobState job = job_of(1, iterations);
    job.phase = JobPhase::running;
    job.current = offer_of("a40", gpus, iteration_s);
    job.nodes = {0};
    s.jobs = {job};
    return s;
}

/// Without ordinary jobs beside ours nothing need be reserved.
PolicyOptions alone() {
    PolicyOptions options;
    options.reserve_depth = 0;
    return options;
}

Action only_action(const Decision& d) {
    ck_assert_uint_eq(d.actions.size(), 1);
    return d.actions[0];
}

}  // namespace

/// Job 1, elastic, runs on all four GPUs with hours to go; job 2 is an ordinary one of two GPUs.
Snapshot beside_ordinary(double due_s, Offers& offers) {
    Snapshot s = running_on(4, 100000, 1);
    JobState ordinary = job_of(2, 0);
    ordinary.ordinary = true;
    ordinary.elastic = false;
    ordinary.time_limit_s = 3600;
    ordinary.due_s = due_s;
    s.jobs.push_back(ordinary);
    offers[1] = {offer_of("a40", 4, 1), offer_of("a40", 2, 1.9)};
    offers[2] = {offer_of("a40", 2, 3600)};
    return s;
}

TEST(an_elastic_job_gives_back_what_a_promised_ordinary_job_wants) {
    Offers offers;
    Snapshot s = beside_ordinary(110000, offers);
    const Action action = only_action(decide_arena(s, offers, alone()));
    ck_assert(action.kind == ActionKind::resize && action.job == 1);
    ck_assert_int_eq(action.offer.grid.gpus(), 2);
    // Slurm has not started it yet, a round later: its GPUs stay free.
    s.jobs[0].current = offers[1][1];
    s.jobs[0].start_s = s.time_s;
    s.nodes[0].free_gpus = 2;
    s.time_s += 10;
    ck_assert(decide_arena(s, offers, alone()).actions.empty());
    // No promise, no room: it stands far behind, or Slurm does not start it.
    Offers others;
    s = beside_ordinary(0, others);
    ck_assert(decide_arena(s, others, alone()).actions.empty());
}

TEST(an_elastic_job_that_can_have_no_less_leaves_and_slurm_keeps_its_nodes_from_it) {
    Offers offers;
    const Snapshot s = beside_ordinary(110000, offers);
    offers[1] = {offer_of("a40", 4, 1)};
    offers[2] = {offer_of("a40", 2, 100)};
    Snapshot soon = s;
    soon.jobs[1].time_limit_s = 100;
    PolicyOptions options = alone();
    const Action leaves = only_action(decide_arena(soon, offers, options));
    ck_assert(leaves.kind == ActionKind::preempt && leaves.job == 1);
    ck_assert_str_eq(leaves.reason.c_str(), "makes room for ordinary job 2, which Slurm starts");
    // It waits now, and stands before the ordinary job in Slurm's own queue.
    options.reserve_depth = 1;
    soon.jobs[0].phase = JobPhase::pending;
    soon.jobs[0].current.reset();
    soon.jobs[0].nodes.clear();
    soon.jobs[0].restarts = 1;
    soon.nodes[0].free_gpus = 4;
    ck_assert(decide_arena(soon, offers, options).actions.empty());
}

TEST(the_knapsack_is_near_the_optimum_and_below_its_bound) {
    Random random(11);
    std::vector<double> ratios;
    for (int i = 0; i < 1000; ++i) {
        const Groups groups = random_groups(random);
        std::vector<std::int64_t> capacity{4, 4};
        const double best = optimum(groups, 0, capacity);
        Knapsack knapsack = knapsack_of(groups, capacity);
        const auto chosen = knapsack.solve(1000000);
        std::vector<std::int64_t> used{0, 0};
        for (std::size_t g = 0; g < groups.size(); ++g) {
            if (chosen[g] < 0) continue;
            const Item& item = groups[g][static_cast<std::size_t>(chosen[g])];
            used[static_cast<std::size_t>(item.type)] += item.gpus;
        }
        ck_assert(used[0] <= 4 && used[1] <= 4);
        ck_assert_msg(knapsack.bound() >= best * (1 - 1e-9), "bound %g, optimum %g",
                      knapsack.bound(), best);
        if (best > 0) ratios.push_back(knapsack.value(chosen) / best);
    }
    std::sort(ratios.begin(), ratios.end());
    printf("# knapsack / optimum: worst %.3f, p1 %.3f, median %.4f\n", ratios.front(),
           ratios[ratios.size() / 100], ratios[ratios.size() / 2]);
    fflush(stdout);
    ck_assert(ratios[ratios.size() / 2] >= 0.995);
    ck_assert(ratios.front() >= 0.90);
}

/// The whole decision with nodes, running jobs and node sets; tests/bench/arena-optimum has more of
/// it.
TEST(a_decision_is_near_the_optimum_of_its_objective) {
    Random random(1);
    const arena::test::Pick pick = [&](std::int64_t min, std::int64_t max) {
        return min +
               static_cast<std::int64_t>(random.below(static_cast<std::size_t>(max - min + 1)));
    };
    const arena::test::Quality q = arena::test::quality_of(pick, 1000, decide_arena);
    ck_assert_uint_ge(q.of_optimum.size(), 900);
    ck_assert_double_le(q.of_optimum.back(), 1 + 1e-9);
    ck_assert_double_ge(q.of_optimum.front(), 0.999);
    ck_assert_double_ge(q.with_node.front(), 0.99);
}

/// Too large for the exact way: prices, repair and local search against the Lagrangian bound.
TEST(large_knapsacks_come_near_the_lagrangian_bound) {
    Random random(13);
    double worst = 1;
    for (int i = 0; i < 50; ++i) {
        Groups groups;
        while (groups.size() < 80) groups.push_back(random_groups(random).front());
        Knapsack knapsack = knapsack_of(groups, {48, 48});
        const double value = knapsack.value(knapsack.solve(200000));
        worst = std::min(worst, value / knapsack.bound());
        ck_assert(value <= knapsack.bound() * (1 + 1e-9));
    }
    printf("# large knapsacks / bound: worst %.4f\n", worst);
    fflush(stdout);
    ck_assert(worst >= 0.98);
}

TEST(however_large_the_budget_is_memory_is_bounded) {
    Random random(14);
    const std::int64_t endless = std::int64_t{1} << 40;
    Groups groups;
    while (groups.size() < 80) groups.push_back(random_groups(random).front());
    const auto solved = [&](const std::vector<std::int64_t>& capacity) {
        Knapsack knapsack = knapsack_of(groups, capacity);
        const double value = knapsack.value(knapsack.solve(endless));
        ck_assert(value <= knapsack.bound() * (1 + 1e-9) && value >= 0.98 * knapsack.bound());
        return knapsack.solved_exactly();
    };
    ck_assert(solved({48, 48}));  // 80 * 49 * 49 cells
    ck_assert(80 * 1001 * 1001 > max_exact_cells && !solved({1000, 1000}));
    ck_assert(!solved({endless, endless, endless}));
}

TEST(few_steps_still_give_a_valid_choice) {
    Random random(12);
    for (int i = 0; i < 200; ++i) {
        const Groups groups = random_groups(random);
        Knapsack knapsack = knapsack_of(groups, {4, 4});
        std::int64_t used[2] = {0, 0};
        const auto chosen = knapsack.solve(1);
        for (std::size_t g = 0; g < groups.size(); ++g) {
            if (chosen[g] < 0) continue;
            const Item& item = groups[g][static_cast<std::size_t>(chosen[g])];
            used[item.type] += item.gpus;
        }
        ck_assert(used[0] <= 4 && used[1] <= 4);
        ck_assert(knapsack.value(chosen) > 0 || groups[0].empty());
    }
}

TEST(a_running_job_moves_only_when_it_pays) {
    const Offers faster{{1, {offer_of("a40", 1, 1.0), offer_of("a40", 2, 0.5)}}};
    const Snapshot long_run = running_on(1, 1e5, 1.0);
    const Action grows = only_action(decide_arena(long_run, faster, alone()));
    ck_assert(grows.kind == ActionKind::resize && grows.offer.grid.gpus() == 2);
    const Offers hardly{{1, {offer_of("a40", 1, 1.0), offer_of("a40", 2, 0.96)}}};
    ck_assert(decide_arena(long_run, hardly, alone()).actions.empty());
    const Snapshot nearly_done = running_on(1, 100, 1.0);
    ck_assert(decide_arena(nearly_done, faster, alone()).actions.empty());
    const ArenaRules eager{.growth_restarts = 0, .grow_factor = 1};
    ck_assert(only_action(decide_arena(long_run, hardly, alone(), eager)).kind ==
              ActionKind::resize);
}

TEST(two_moves_that_agree_take_the_place_of_the_sites_restart_cost) {
    const RestartCost site{.checkpoint_s = 30, .per_gpu_s = 10, .launch_cap_s = 40};
    const struct {
        MovesTook took;
        double cost_s;
    } cases[] = {{{}, 50},          {{2, 0, 0}, 50},     {{9999, 0, 0}, 50}, {{2, 4, 0}, 4},
                 {{4, 2, 0}, 4},    {{90, 80, 0}, 80},   {{2, 9999, 0}, 50}, {{2, 9999, 3}, 3},
                 {{7, 8, 9999}, 8}, {{900, 900, 0}, 100}};  // at most twice the site's
    for (const auto& [took, cost_s] : cases) ck_assert_double_eq(site.seconds(2, took), cost_s);
    ck_assert_double_eq(site.longest_s({}), 70);
    ck_assert_double_eq(site.longest_s({2, 3, 0}), 3);
    // A little work is left: the job grows where its moves take seconds, and nowhere else.
    const Offers faster{{1, {offer_of("a40", 1, 1.0), offer_of("a40", 2, 0.5)}}};
    Snapshot s = running_on(1, 700, 1.0);
    for (const MovesTook took : {MovesTook{}, MovesTook{2}, MovesTook{2, 500}}) {
        s.jobs[0].moves_took_s = took;
        ck_assert(decide_arena(s, faster, alone()).actions.empty());
    }
    s.jobs[0].moves_took_s = {2, 3};
    ck_assert(only_action(decide_arena(s, faster, alone())).kind == ActionKind::resize);
    s = running_on(1, 4000, 1.0);
    ck_assert(only_action(decide_arena(s, faster, alone())).kind == ActionKind::resize);
    s.jobs[0].moves_took_s = {300, 300};
    ck_assert(decide_arena(s, faster, alone()).actions.empty());
}

TEST(who_was_moved_often_stays) {
    Snapshot s = running_on(1, 1e5, 1.0);
    const Offers larger{{1, {offer_of("a40", 1, 1.0), offer_of("a40", 2, 0.75)}}};
    const Offers other{{1, {offer_of("a40", 1, 1.0), offer_of("a100", 1, 0.4)}}};
    s.nodes.push_back({"n2", "a100", 1, 1, 0, 0});
    s.node_sets = {{0, 1}};
    for (const Offers& offers : {larger, other}) {
        s.jobs[0].restarts = 2;
        ck_assert(only_action(decide_arena(s, offers, alone())).kind == ActionKind::resize);
        s.jobs[0].restarts = 100;  // in two hours
        ck_assert(decide_arena(s, offers, alone()).actions.empty());
        s.jobs[0].age_s = 1e7;
        ck_assert(only_action(decide_arena(s, offers, alone())).kind == ActionKind::resize);
        s.jobs[0].age_s = 7200;
    }
}

/// As in a cluster: minutes after its start a job grew, gave way to another, which ended.
TEST(a_young_job_that_gave_way_grows_again) {
    Snapshot s = running_on(2, 1e6, 0.2);
    const Offers offers{{1, {offer_of("a40", 2, 0.2), offer_of("a40", 4, 0.11)}}};
    for (const double age_s : {1.0, 60.0, 600.0, 7200.0}) {
        s.jobs[0].age_s = age_s;
        s.jobs[0].restarts = 4;
        ck_assert(only_action(decide_arena(s, offers, alone())).offer.grid.gpus() == 4);
        s.jobs[0].restarts = 40;
        ck_assert(decide_arena(s, offers, alone()).actions.empty());
    }
}

TEST(a_long_job_makes_room_for_a_short_one_if_it_is_elastic) {
    Snapshot s = running_on(4, 1e6, 1.0);
    s.jobs.push_back(job_of(2, 1000));
    const Offers offers{{1, {offer_of("a40", 4, 1.0), offer_of("a40", 2, 1.8)}},
                        {2, {offer_of("a40", 2, 1.0)}}};
    const Decision d = decide_arena(s, offers, alone());
    ck_assert_uint_eq(d.actions.size(), 2);
    for (const Action& a : d.actions) {
        ck_assert(a.kind == (a.job == 1 ? ActionKind::resize : ActionKind::start));
        ck_assert(a.offer.grid.gpus() == 2);
    }
    s.jobs[0].elastic = false;
    const Decision rigid = decide_arena(s, offers, alone());
    ck_assert(rigid.actions.empty() && rigid.waiting.contains(2));
    s.jobs[0].elastic = true;
    s.nodes.push_back({"n2", "a40", 4, 0, 0, 0});
    s.nodes[0].gpu_type.clear();  // it was given GPUs of two types since
    ck_assert(decide_arena(s, offers, alone()).actions.empty());
    s.nodes[0].gpu_type = "a40";
    s.jobs[0].nodes.clear();  // where it runs is not known: it cannot be moved
    ck_assert(decide_arena(s, offers, alone()).actions.empty());
}

TEST(who_waits_first_in_slurms_order_has_a_shape_reserved) {
    Snapshot s;
    s.time_s = 1000;
    s.nodes = {{"n1", "a40", 4, 0, 0, 0}, {"n2", "a40", 4, 0, 0, 0}, {"n3", "a100", 2, 0, 0, 0}};
    s.node_sets = {{0, 1, 2}, {0}};
    Offers offers;
    for (JobId id = 1; id <= 4; ++id) {
        s.jobs.push_back(job_of(id, 1000));
        s.jobs.back().priority = static_cast<double>(id);
        offers[id] = {offer_of("a40", 4, 1.0), offer_of("a40", 2, 1.9)};
    }
    Offer two_nodes = offer_of("a40", 8, 0.5);
    two_nodes.grid.nodes = 2;
    two_nodes.grid.gpus_per_node = 4;
    offers[4].push_back(two_nodes);
    s.jobs[3].node_set = 1;  // never finds two nodes
    offers[1] = {offer_of("a100", 2, 1.0)};
    const Decision d = decide_arena(s, offers, {});
    ck_assert_uint_eq(d.actions.size(), 2);
    for (const Action& a : d.actions) {
        ck_assert(a.kind == ActionKind::reshape_and_wait && (a.job == 4 || a.job == 1));
        ck_assert_int_eq(a.offer.grid.gpus(), a.job == 4 ? 4 : 2);
        ck_assert(!d.waiting.contains(a.job));
    }
    ck_assert(d.waiting.contains(2) && d.waiting.contains(3));
    PolicyOptions deeper;
    deeper.reserve_depth = 2;
    ck_assert_uint_eq(decide_arena(s, offers, deeper).actions.size(), 3);
}

TEST(priority_and_a_week_of_waiting_come_first) {
    Snapshot s;
    s.time_s = 1e6;
    s.nodes = {{"n1", "a40", 1, 1, 0, 0}};
    s.node_sets = {{0}};
    s.jobs = {job_of(1, 1000), job_of(2, 2000)};
    const Offers offers{{1, {offer_of("a40", 1, 1)}}, {2, {offer_of("a40", 1, 1)}}};
    ck_assert(only_action(decide_arena(s, offers, alone())).job == 1);
    s.jobs[1].priority = 10;
    ck_assert(only_action(decide_arena(s, offers, alone())).job == 2);
    s.jobs[0].age_s = 8 * 86400;
    ck_assert(only_action(decide_arena(s, offers, alone())).job == 1);
}

/// Jobs 1 to 3 have waited for too long; job 11 holds the GPU of the first node for good, job 12,
/// elastic, that of the second.
Snapshot overdue() {
    Snapshot s;
    s.time_s = 1e6;
    s.nodes = {{"n1", "a40", 1, 0, 8, 0}, {"n2", "a40", 1, 0, 4, 0}};
    s.node_sets = {{0, 1}, {0}};
    for (const NodeIndex node : {0u, 1u}) {
        JobState& job = s.jobs.emplace_back(job_of(11 + node, 1000));
        job.phase = JobPhase::running;
        job.elastic = node == 1;
        job.current = offer_of("a40", 1, 1);
        job.nodes = {node};
    }
    for (const JobId id : {1, 2, 3})
        s.jobs.emplace_back(job_of(id, 1000)).age_s = 9 * 86400 - static_cast<double>(id);
    return s;
}

TEST(who_waited_too_long_is_not_taken_for_another_that_found_no_room) {
    SharedOffers offer;
    offer.own() = {offer_of("a40", 1, 1)};
    const Offers offers{{1, offer}, {2, offer}, {3, offer}, {11, offer}, {12, offer}};
    const auto started = [&](const Snapshot& s) {
        std::vector<JobId> jobs;
        for (const Action& action : decide_arena(s, offers, alone()).actions)
            if (action.kind == ActionKind::start) jobs.push_back(action.job);
        return jobs;
    };
    ck_assert(started(overdue()) == std::vector<JobId>{1});
    Snapshot by_nodes = overdue(), by_cpus = overdue(), by_count = overdue();
    for (const std::size_t i : {2u, 3u}) {
        by_nodes.jobs[i].node_set = 1;
        by_cpus.jobs[i].cpus_per_gpu = 6;
        by_count.jobs[i].min_gpus = 2;
    }
    for (const Snapshot& s : {by_nodes, by_cpus, by_count})
        ck_assert(started(s) == std::vector<JobId>{3});
}

/// Two kinds of waiting jobs, many more than there are GPUs, some of which have waited for too
/// long.
Snapshot long_queue_of(Random& random, Offers& offers) {
    Snapshot s;
    s.time_s = 1e7;
    s.nodes = {
        {"n1", "a40", 4, 4, 64, 64}, {"n2", "a100", 4, 4, 64, 64}, {"n3", "a40", 4, 4, 64, 64}};
    s.node_sets = {{0, 1, 2}};
    SharedOffers kinds[2];
    for (SharedOffers& kind : kinds)
        for (const char* type : {"a40", "a100"})
            for (const std::int64_t gpus : {1, 2, 4})
                kind.own().push_back(
                    offer_of(type, gpus, random.uniform(0.5, 1) / std::pow(gpus, 0.8)));
    for (JobId id = 1; id <= static_cast<JobId>(long_queue) + 500; ++id) {
        JobState& job =
            s.jobs.emplace_back(job_of(id, std::ceil(std::exp(8 + 2 * random.normal()))));
        job.age_s = random.uniform(0, 1.01 * 7 * 86400);
        job.submit_s = s.time_s - job.age_s;
        offers[id] = kinds[random.below(2)];
    }
    return s;
}

TEST(jobs_out_of_reach_of_a_long_queue_change_nothing) {
    Random random(5);
    for (int n = 0; n < 20; ++n) {
        Offers offers;
        Snapshot s = long_queue_of(random, offers);
        if (n % 2 == 0)
            for (JobState& job : s.jobs) job.age_s = std::min(job.age_s, 86400.0);
        PolicyOptions whole = alone();
        whole.reserve_depth = 0, whole.explain = true, whole.search_steps = 100'000'000;
        PolicyOptions thinned = whole;
        thinned.explain = false;
        const auto never = [](const JobState&) { return false; };
        const std::vector<bool> left_out = out_of_reach(s, offers, never);
        ck_assert_int_gt(std::count(left_out.begin(), left_out.end(), true), 1400);
        const auto actions_of = [&](const PolicyOptions& options) {
            std::vector<Action> actions = decide_arena(s, offers, options).actions;
            for (Action& action : actions) action.reason.clear();  // words are for who asks
            return actions;
        };
        ck_assert(actions_of(thinned) == actions_of(whole));
        s.jobs.front().elastic = false;
        ck_assert(out_of_reach(s, offers, never).empty());
    }
}

/// Four GPUs are free, two on each of two nodes; a job that runs on the others says anew each time
/// that it ends in `left_s`.
Snapshot scattered(double time_s, double left_s) {
    Snapshot s;
    s.time_s = time_s;
    s.nodes = {{"n1", "a40", 4, 2, 0, 0}, {"n2", "a40", 4, 2, 0, 0}};
    s.node_sets = {{0, 1}};
    for (const NodeIndex node : {0u, 1u}) {
        JobState job = job_of(10 + node, left_s);
        job.phase = JobPhase::running;
        job.elastic = false;
        job.current = offer_of("a40", 2, 1.0);
        job.nodes = {node};
        s.jobs.push_back(job);
    }
    s.jobs.push_back(job_of(1, 100000));
    s.jobs.back().elastic = false;
    return s;
}

TEST(patience_ends_where_the_nodes_that_were_waited_for_slide_away) {
    const Offers offers{{1, {offer_of("a40", 4, 1.0), offer_of("a40", 1, 3.9)}}};
    const Decision first = decide_arena(scattered(1000, 500), offers, alone());
    ck_assert(first.actions.empty() && first.waiting.contains(1));
    ck_assert_uint_eq(first.patience.size(), 1);
    const double until_s = first.patience.at(1);
    ck_assert(until_s >= 1500 && until_s < 1000 + 500 + 3600);
    const Result<Decision> read = parse_decision(to_json(first));
    ck_assert(read.ok() && *read == first);
    for (const bool over : {false, true}) {
        Snapshot later = scattered(until_s + (over ? 1 : -1), 500);
        later.jobs.back().patient_until_s = until_s;
        const Decision d = decide_arena(later, offers, alone());
        if (over) ck_assert_int_eq(only_action(d).offer.grid.gpus(), 1);
        if (!over) ck_assert(d.actions.empty());
    }
    Snapshot together = scattered(1000, 500);
    together.nodes[0].free_gpus = 4;
    together.jobs.erase(together.jobs.begin());
    const Decision d = decide_arena(together, offers, alone());
    ck_assert(only_action(d).offer.grid.gpus() == 4 && d.patience.empty());
}

TEST(a_decision_repeats_from_its_document) {
    Snapshot s = running_on(4, 1e6, 1.0);
    s.jobs.push_back(job_of(2, 1000));
    Replay replay{
        s,
        {{1, {offer_of("a40", 4, 1.0), offer_of("a40", 2, 1.8)}}, {2, {offer_of("a40", 2, 1.0)}}},
        {}};
    replay.options.restart = {5, 6, 7};
    replay.options.objective = Objective::fairness;
    replay.options.any_layout = true;
    const Result<Replay> read = parse_replay(to_json(replay));
    ck_assert(read.ok() && *read == replay);
    ck_assert(to_json(decide_arena(read->snapshot, read->offers, read->options)) ==
              to_json(decide_arena(s, replay.offers, replay.options)));
}

TEST(generated_traces_run_to_their_end_under_every_objective_and_budget) {
    const auto table = parse_throughputs(
        "model,params,global_batch,gpu_type,num_nodes,gpus_per_node,iter_time_s\n"
        "bert,1B,8,a40,1,1,8\nbert,1B,8,a40,1,2,5\nbert,1B,8,a40,2,2,3\nbert,1B,8,a40,3,1,3.9\n"
        "bert,1B,8,v100,1,4,2\nbert,2B,8,a40,2,2,4\nbert,2B,8,v100,1,2,5\nbert,2B,8,v100,1,4,3\n",
        "p");
    const auto cluster = parse_cluster(
        "nodes:\n  - {gpu_type: a40, count: 5, gpus_per_node: 2}\n"
        "  - {gpu_type: v100, count: 2, gpus_per_node: 4}\n",
        "c");
    ck_assert(table.ok() && cluster.ok());
    for (const std::uint64_t seed : {1, 2, 3}) {
        GeneratorOptions generator;
        generator.jobs = 120;
        generator.load = 1.3;
        generator.seed = seed;
        const auto trace = generate_trace(*cluster, *table, generator);
        ck_assert(trace.ok());
        for (const PlacementRule rule : {PlacementRule::nodes, PlacementRule::pools}) {
            WorkloadOptions binding;
            binding.placement = rule;
            const auto w = bind_workload(*cluster, *trace, *table, binding);
            ck_assert(w.ok());
            for (const Objective objective :
                 {Objective::jct, Objective::throughput, Objective::fairness}) {
                SimulationOptions options;
                options.placement = rule;
                options.policy.objective = objective;
                options.policy.order = QueueOrder::value;
                options.policy.search_steps = seed == 3 ? 1 : 200000;
                options.errors = {0.2, 0.5, seed};
                const auto m = simulate(*w, "arena", decide_arena, options);
                ck_assert_msg(m.ok(), "seed %d: %s", static_cast<int>(seed),
                              m.ok() ? "" : m.error().message().c_str());
                ck_assert_int_eq(m->finished, 120);
            }
        }
    }
}

TEST_NEEDING(the_philly_trace_on_160_and_1280_gpus_keeps_its_numbers,
             arena::test::lacks_reference(arena::test::philly_trace)) {
    const auto philly = arena::test::read_philly();
    const auto mean_jct = [&](const std::string& nodes) {
        const auto cluster = parse_cluster("nodes: [" + nodes + "]", "c");
        ck_assert(cluster.ok());
        const auto w = bind_workload(*cluster, philly.jobs, philly.table, {});
        ck_assert(w.ok());
        SimulationOptions options;
        options.max_time_s = 600000;
        options.policy.order = QueueOrder::value;
        const auto m = simulate(*w, "arena", decide_arena, options);
        ck_assert(m.ok() && m->jobs == 985);
        return m->jct_s.mean;
    };
    const double large = mean_jct(
        "{gpu_type: a100, count: 80, gpus_per_node: 4}, {gpu_type: v100, count: 20, gpus_per_node: "
        "16},"
        "{gpu_type: a40, count: 160, gpus_per_node: 2}, {gpu_type: a10, count: 160, gpus_per_node: "
        "2}");
    const double small = mean_jct(
        "{gpu_type: a100, count: 10, gpus_per_node: 4}, {gpu_type: v100, count: 5, gpus_per_node: "
        "8},"
        "{gpu_type: a40, count: 20, gpus_per_node: 2}, {gpu_type: a10, count: 20, gpus_per_node: "
        "2}");
    ck_assert_msg(large <= 69000 && small <= 134500, "%.0f and %.0f", large, small);
}

TEST(our_own_trace_keeps_its_numbers) {
    const Workload w = arena::test::own_workload();
    SimulationOptions options;
    options.policy.order = QueueOrder::value;
    const auto mean_jct = [&](const char* name, PolicyFunction policy) {
        const auto m = simulate(w, name, policy, options);
        ck_assert_msg(m.ok(), "%s: %s", name, m.ok() ? "" : m.error().message().c_str());
        ck_assert_int_eq(m->finished, 150);
        return m->jct_s.mean;
    };
    const double arena = mean_jct("arena", decide_arena), fifo = mean_jct("fifo", decide_fifo);
    ck_assert_msg(arena <= 8300 && arena < 0.5 * fifo, "%.0f, fifo %.0f", arena, fifo);
}

// Whole simulations, maybe on a busy machine.
SUITE({.timeout_s = 300});
