// SPDX-License-Identifier: GPL-2.0-or-later
// Which node has which place: costs by hand, the search against every pair of swaps and every
// permutation, slow nodes consolidated in stages, and the reference data.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "base/json.h"
#include "reference_data.h"
#include "slowdown/roles.h"
#include "suite.h"

using namespace arena;
using namespace arena::slowdown;
using namespace arena::test;

namespace {

Placement identity(std::size_t n) {
    Placement at(n);
    std::iota(at.begin(), at.end(), 0U);
    return at;
}

RoleGrid grid_of(std::size_t replicas, std::size_t stages) {
    RoleGrid grid;
    grid.replicas = replicas;
    grid.stages = stages;
    grid.gradient = 40;
    grid.activation = 0.2;
    grid.micro_batches = 8;
    return grid;
}

TEST(costs_are_those_of_the_formula) {
    const RoleGrid grid = grid_of(2, 2);  // 0 1 / 2 3
    LinkTable links(4);
    ck_assert_double_eq_tol(communication_cost(grid, links, identity(4)), 43.2, 1e-9);
    links.set(2, 0, {0.25});  // in the ring of stage 0
    ck_assert_double_eq_tol(communication_cost(grid, links, identity(4)), 163.2, 1e-9);
    ck_assert_double_eq_tol(communication_cost(grid, links, {0, 2, 1, 3}), 40 + 12.8, 1e-9);
    ck_assert_double_eq_tol(communication_cost(grid, links, {0, 1, 3, 2}), 43.2, 1e-9);
    // Two messages of the ring, sixteen of the chain.
    links.set(2, 0, {1, 1});
    ck_assert_double_eq_tol(communication_cost(grid, links, identity(4)), 45.2, 1e-9);
    ck_assert_double_eq_tol(communication_cost(grid, links, {0, 2, 1, 3}), 40 + 19.2, 1e-9);
    // One replica has no ring, one stage no chain.
    ck_assert_double_eq_tol(communication_cost(grid_of(1, 4), LinkTable(4), identity(4)), 9.6,
                            1e-9);
    ck_assert_double_eq_tol(communication_cost(grid_of(4, 1), LinkTable(4), identity(4)), 60, 1e-9);
    ck_assert_double_eq(communication_cost(grid_of(1, 1), LinkTable(1), identity(1)), 0);
}

TEST(a_slow_link_goes_where_nothing_flows) {
    LinkTable links(4);
    links.set(0, 2, {0.25});
    const auto plan = place_roles(grid_of(2, 2), links, identity(4)).value();
    ck_assert_double_eq_tol(plan.cost, 43.2, 1e-9);
    ck_assert_double_eq(plan.moved, 2);
    const auto healthy = place_roles(grid_of(2, 2), LinkTable(4), identity(4)).value();
    ck_assert(healthy.at == identity(4));
    ck_assert_double_eq(healthy.moved, 0);
}

TEST(of_equal_moves_the_one_that_copies_least_is_taken) {
    LinkTable links(6);
    links.set(0, 3, {0.1});  // the ring of stage 0
    RoleGrid grid = grid_of(2, 3);
    grid.state = {1, 50, 3};
    auto plan = place_roles(grid, links, identity(6)).value();
    ck_assert_double_eq_tol(plan.cost, 46.4, 1e-9);
    ck_assert_double_eq(plan.moved, 4);  // stages 0 and 2
    grid.state = {1, 5, 30};
    plan = place_roles(grid, links, identity(6)).value();
    ck_assert_double_eq(plan.moved, 6);  // stages 0 and 1
    // Within a stage of four, another order of the ring copies nothing: all hold the same.
    LinkTable ring(4);
    ring.set(0, 1, {0.1});
    grid = grid_of(4, 1);
    grid.same_state_in_stage = true;
    plan = place_roles(grid, ring, identity(4)).value();
    ck_assert_double_eq_tol(plan.cost, 60, 1e-9);
    ck_assert_double_eq(plan.moved, 0);
    ck_assert(plan.at != identity(4));
}

// ---- against enumeration ----------------------------------------------------------------------

struct Case {
    RoleGrid grid;
    LinkTable links{1};
    Placement now;
};

Case random_case(std::mt19937& random, std::size_t most_nodes) {
    const auto pick = [&](std::size_t low, std::size_t high) {
        return std::uniform_int_distribution<std::size_t>(low, high)(random);
    };
    Case c;
    do c.grid = grid_of(pick(1, 5), pick(1, 5));
    while (c.grid.nodes() > most_nodes || c.grid.nodes() < 2);
    c.grid.activation = static_cast<double>(pick(0, 20)) / 10;
    const std::size_t n = c.grid.nodes();
    c.links = LinkTable(n);
    const bool all_differ = pick(0, 3) == 0;
    for (std::size_t a = 0; all_differ && a < n; ++a)
        for (std::size_t b = a + 1; b < n; ++b)
            c.links.set(a, b, {0.5 + static_cast<double>(pick(0, 50)) / 100});
    for (std::size_t left = pick(0, 5); left > 0; --left) {
        const std::size_t a = pick(0, n - 1), b = pick(0, n - 1);
        const double latency = static_cast<double>(pick(0, 5) * pick(0, 1));
        if (a != b) c.links.set(a, b, {static_cast<double>(pick(1, 5)) / 10, latency});
    }
    c.now = identity(n);
    std::shuffle(c.now.begin(), c.now.end(), random);
    return c;
}

/// The least cost within so many swaps.
double best_by_swaps(const Case& c, const Placement& from, int swaps) {
    double best = communication_cost(c.grid, c.links, from);
    for (std::size_t a = 0; swaps > 0 && a < from.size(); ++a)
        for (std::size_t b = a + 1; b < from.size(); ++b) {
            Placement at = from;
            std::swap(at[a], at[b]);
            best = std::min(best, best_by_swaps(c, at, swaps - 1));
        }
    return best;
}

double best_of_all(const Case& c) {
    Placement at = identity(c.grid.nodes());
    double best = INFINITY;
    do best = std::min(best, communication_cost(c.grid, c.links, at));
    while (std::next_permutation(at.begin(), at.end()));
    return best;
}

void check_plan(const Case& c, const PlacedRoles& plan) {
    ck_assert(std::is_permutation(plan.at.begin(), plan.at.end(), c.now.begin(), c.now.end()));
    ck_assert_double_eq_tol(plan.cost, communication_cost(c.grid, c.links, plan.at), 1e-9);
    ck_assert_double_eq(plan.moved, moved_state(c.grid, c.now, plan.at));
}

TEST(plans_are_never_worse_than_any_two_swaps) {
    std::mt19937 random(17);
    int two_needed = 0, better = 0;
    for (int round = 0; round < 2000; ++round) {
        const Case c = random_case(random, 12);
        const auto plan = place_roles(c.grid, c.links, c.now).value();
        check_plan(c, plan);
        const double one = best_by_swaps(c, c.now, 1), two = best_by_swaps(c, c.now, 2);
        ck_assert_msg(plan.cost <= two + 1e-6, "round %d: %g, two swaps reach %g", round, plan.cost,
                      two);
        two_needed += two < one - 1e-6;
        better += plan.cost < two - 1e-6;
        if (plan.cost >= communication_cost(c.grid, c.links, c.now) - 1e-9)
            ck_assert(plan.at == c.now);
    }
    std::printf("# of 2,000: one swap was not enough in %d, two not in %d\n", two_needed, better);
    std::fflush(stdout);
    ck_assert_int_gt(two_needed, 100);
}

TEST(plans_are_near_the_best_of_all_permutations) {
    std::mt19937 random(19);
    int reached = 0, rounds = 0;
    for (; rounds < 400; ++rounds) {
        const Case c = random_case(random, 7);
        const double best = best_of_all(c), cost = place_roles(c.grid, c.links, c.now)->cost;
        ck_assert_double_ge(cost, best - 1e-6);
        reached += cost <= best + 1e-6;
    }
    std::printf("# the optimum in %d of %d\n", reached, rounds);
    std::fflush(stdout);
    ck_assert_int_ge(reached, rounds * 95 / 100);
}

TEST(two_swaps_are_found_where_one_is_not_enough) {
    // Both ends of the rings of two stages are slow: each swap alone leaves the other.
    LinkTable links(8);
    const RoleGrid grid = grid_of(2, 4);
    for (const auto& [a, b] :
         {std::pair{0U, 4U}, {1U, 5U}, {2U, 6U}, {3U, 7U}, {0U, 5U}, {1U, 4U}, {2U, 7U}, {3U, 6U}})
        links.set(a, b, {0.3});
    const Case c{grid, links, identity(8)};
    const double one = best_by_swaps(c, c.now, 1);
    const auto plan = place_roles(grid, links, c.now).value();
    ck_assert_double_lt(plan.cost, one / 1.5);
    check_plan(c, plan);
}

TEST(a_large_grid_is_searched_in_bounded_time) {
    std::mt19937 random(23);
    const RoleGrid grid = grid_of(64, 8);
    LinkTable links(grid.nodes());
    for (int left = 6; left > 0; --left) {
        const std::size_t d = random() % 64, p = random() % 8;
        links.set(d * 8 + p, ((d + 1) % 64) * 8 + p, {0.2});
    }
    const auto before = std::chrono::steady_clock::now();
    const auto plan = place_roles(grid, links, identity(grid.nodes())).value();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
    std::printf("# 512 nodes, 6 slow links: %.2f s\n", took.count());
    std::fflush(stdout);
    ck_assert_double_eq_tol(
        plan.cost, communication_cost(grid, LinkTable(grid.nodes()), identity(grid.nodes())), 1e-6);
    ck_assert_double_lt(took.count(), 60);
}

TEST(what_is_no_grid_is_refused) {
    const RoleGrid grid = grid_of(2, 2);
    assert_refused(place_roles(grid_of(0, 2), LinkTable(0), {}), "1 to 4096");
    assert_refused(place_roles(grid_of(SIZE_MAX, 2), LinkTable(0), {}), "1 to 4096");
    assert_refused(place_roles(grid, LinkTable(5), identity(4)), "one size");
    assert_refused(place_roles(grid, LinkTable(4), identity(3)), "one size");
    assert_refused(place_roles(grid, LinkTable(4), {0, 1, 1, 2}), "permutation");
    assert_refused(place_roles(grid, LinkTable(4), {0, 1, 2, 4}), "permutation");
    for (const double bad : {std::nan(""), -1.0, HUGE_VAL}) {
        RoleGrid wrong = grid;
        wrong.gradient = bad;
        assert_refused(place_roles(wrong, LinkTable(4), identity(4)), "amount");
        assert_refused(place_roles(grid, LinkTable(4, bad), identity(4)), "bandwidth");
    }
    assert_refused(place_roles(grid, LinkTable(4, 0), identity(4)), "bandwidth");
    const std::vector<std::size_t> unknown{4}, twice{1, 1};
    assert_refused(consolidate_slow_nodes(grid, LinkTable(4), identity(4), unknown), "slow node");
    assert_refused(consolidate_slow_nodes(grid, LinkTable(4), identity(4), twice), "slow node");
}

// ---- slow GPUs --------------------------------------------------------------------------------

std::set<std::size_t> slow_stages(const RoleGrid& grid, const Placement& at,
                                  const std::vector<std::size_t>& slow) {
    std::set<std::size_t> stages;
    for (std::size_t i = 0; i < at.size(); ++i)
        if (std::find(slow.begin(), slow.end(), at[i]) != slow.end())
            stages.insert(i % grid.stages);
    return stages;
}

TEST(slow_nodes_are_consolidated_in_inner_stages) {
    const RoleGrid grid = grid_of(2, 4);  // 0 1 2 3 / 4 5 6 7
    const std::vector<std::size_t> slow{0, 6};
    const auto plan = consolidate_slow_nodes(grid, LinkTable(8), identity(8), slow).value();
    ck_assert(slow_stages(grid, plan.at, slow) == std::set<std::size_t>{2});
    ck_assert(plan.at == (Placement{2, 1, 0, 3, 4, 5, 6, 7}));  // within its own replica
    ck_assert_double_eq(plan.moved, 2);
    // Where a slow link would come into a ring, another partner is taken.
    LinkTable links(8);
    links.set(4, 2, {0.1});
    const auto other = consolidate_slow_nodes(grid, links, identity(8), slow).value();
    ck_assert(slow_stages(grid, other.at, slow).size() == 1);
    ck_assert_double_le(other.cost, communication_cost(grid, links, plan.at));
}

TEST(slow_nodes_that_are_together_stay) {
    const RoleGrid grid = grid_of(2, 4);
    for (const std::vector<std::size_t>& slow :
         {std::vector<std::size_t>{}, {0}, {0, 4}, {3, 7, 1}}) {
        const auto plan = consolidate_slow_nodes(grid, LinkTable(8), identity(8), slow).value();
        ck_assert(plan.at == identity(8));
    }
}

TEST(slow_nodes_fill_as_few_stages_as_hold_them) {
    std::mt19937 random(29);
    for (int round = 0; round < 3000; ++round) {
        Case c = random_case(random, 25);
        Placement nodes = identity(c.grid.nodes());
        std::shuffle(nodes.begin(), nodes.end(), random);
        const std::vector<std::size_t> slow(
            nodes.begin(), nodes.begin() + static_cast<long>(random() % nodes.size()));
        const auto plan = consolidate_slow_nodes(c.grid, c.links, c.now, slow).value();
        check_plan(c, plan);
        const std::size_t enough = (slow.size() + c.grid.replicas - 1) / c.grid.replicas;
        ck_assert_uint_eq(slow_stages(c.grid, plan.at, slow).size(), enough);
        const auto before = slow_stages(c.grid, c.now, slow);
        if (before.size() == enough) {
            ck_assert(plan.at == c.now);
            continue;
        }
        for (const std::size_t p : slow_stages(c.grid, plan.at, slow))
            ck_assert(enough > c.grid.stages - 2 || (p > 0 && p + 1 < c.grid.stages));
    }
}

TEST_NEEDING(roles_of_the_reference_data, lacks_reference("greyhound/s3_topology_vectors.json")) {
    const auto data = parse_json(read_reference("greyhound/s3_topology_vectors.json")).value();
    int cases = 0;
    for (const Json& one : data.at("instances")) {
        RoleGrid grid = grid_of(one.at("dp"), one.at("pp"));
        grid.gradient = one.at("gradient_GB");
        grid.activation = one.at("activation_GB_per_microbatch");
        grid.micro_batches = one.at("microbatches");
        LinkTable links(grid.nodes());
        for (const Json& slow : one.at("slow_links"))
            links.set(slow.at(0), slow.at(1), {slow.at(2).get<double>()});
        const auto now = identity(grid.nodes());
        ck_assert_double_eq_tol(communication_cost(grid, LinkTable(grid.nodes()), now),
                                one.at("healthy_cost"), 1e-6);
        ck_assert_double_eq_tol(communication_cost(grid, links, now), one.at("cost_before"), 1e-6);
        const auto plan = place_roles(grid, links, now).value();
        ck_assert_double_le(plan.cost, one.at("best_single_swap_cost").get<double>() + 1e-6);
        ck_assert_double_eq_tol(plan.cost, one.at("best_cost"), 1e-6);
        ck_assert_double_eq(plan.moved, one.at("best_min_moved_nodes"));
        ++cases;
    }
    ck_assert_int_ge(cases, 10);
}

}  // namespace
