// SPDX-License-Identifier: GPL-2.0-or-later
// Nodes close together: the number of leaves is held against all sets of leaves tried one by one,
// and what a packing or a policy takes against the network that it was given.
#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <tuple>

#include "baselines/registry.h"
#include "policy/order/promises.h"
#include "policy/packing.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

using Random = std::mt19937_64;
std::int64_t among(Random& random, std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

Offer offer_of(std::int64_t nodes, std::int64_t per_node, double iteration_s = 1) {
    Offer o;
    o.grid = {"a40", nodes, per_node, 1};
    o.plan.stage_layers = {1};
    o.plan.stage_dp = {nodes * per_node};
    o.plan.stage_tp = {1};
    o.estimate.iteration_s = iteration_s;
    return o;
}

/// Paths of leaves: of two levels `tops` trees of leaves, of three `tops` spines with pods.
struct Network {
    NetworkKind topology = NetworkKind::tree;
    std::vector<std::vector<std::string>> leaves;
};

Network random_network(Random& random, std::int64_t most_leaves) {
    Network network;
    const std::int64_t leaves = among(random, 1, most_leaves);
    if (among(random, 0, 3) == 0) {
        network.topology = NetworkKind::block;
        for (std::int64_t l = 0; l < leaves; ++l)
            network.leaves.push_back({"b" + std::to_string(l)});
        return network;
    }
    const std::int64_t tops = among(random, 0, 3) == 0 ? 2 : 1, pods = among(random, 1, 4);
    const bool three = among(random, 0, 1) == 0;
    for (std::int64_t l = 0; l < leaves; ++l) {
        std::vector<std::string> path{"core" + std::to_string(among(random, 1, tops))};
        if (three) path.push_back("pod" + std::to_string(among(random, 1, pods)));
        path.push_back("leaf" + std::to_string(l));
        network.leaves.push_back(std::move(path));
    }
    return network;
}

/// Nodes of each leaf, by chance: racks have up to eighteen, below a switch there are a few.
std::vector<std::int64_t> random_sizes(Random& random, const Network& network) {
    const bool blocks = network.topology == NetworkKind::block;
    std::vector<std::int64_t> nodes(network.leaves.size());
    for (std::int64_t& n : nodes) n = blocks ? among(random, 2, 18) : among(random, 1, 6);
    return nodes;
}

/// So many of all of them that some are refused.
std::int64_t random_count(Random& random, const Network& network, std::int64_t most) {
    return among(random, 1, network.topology == NetworkKind::block ? 3 * most : most);
}

/// nodes[l] nodes of eight GPUs below leaf l.
Snapshot cluster_of(const Network& network, std::span<const std::int64_t> nodes) {
    Snapshot s;
    s.time_s = 1000;
    s.topology = network.topology;
    SwitchTable table;
    for (std::size_t l = 0; l < network.leaves.size(); ++l)
        for (std::int64_t n = 0; n < nodes[l]; ++n) {
            NodeState node{"n" + std::to_string(s.nodes.size()), "a40", 8, 8, 64, 640000};
            node.leaf = table.add(network.leaves[l]);
            s.nodes.push_back(std::move(node));
        }
    s.switches = table.take();
    s.node_sets.emplace_back(s.nodes.size());
    std::iota(s.node_sets[0].begin(), s.node_sets[0].end(), NodeIndex{0});
    return s;
}

/// What a set of leaves costs: levels above the leaves of the lowest switch that has all of them,
/// how many of the switches under it they are below, how many they are.
using Cost = std::tuple<std::size_t, std::size_t, std::size_t>;
constexpr Cost impossible{SIZE_MAX, 0, 0};

Cost cost_of(const Network& network, std::uint32_t set) {
    const auto count = static_cast<std::size_t>(std::popcount(set));
    if (count == 1) return {0, 0, 1};
    if (network.topology == NetworkKind::block) {
        std::size_t height = 1;
        for (std::size_t size = 2; size < network.leaves.size(); size *= 2, ++height) {
            const auto low = static_cast<std::size_t>(std::countr_zero(set));
            const auto high = static_cast<std::size_t>(std::bit_width(set)) - 1;
            if (low / size == high / size) break;
        }
        return {height, count, count};
    }
    const std::size_t depth = network.leaves.front().size();
    for (std::size_t above = 1; above < depth; ++above) {
        std::set<std::vector<std::string>> switches, parts;
        for (std::size_t l = 0; l < network.leaves.size(); ++l) {
            if ((set >> l & 1) == 0) continue;
            const auto& path = network.leaves[l];
            switches.emplace(path.begin(), path.end() - static_cast<std::ptrdiff_t>(above));
            parts.emplace(path.begin(), path.end() - static_cast<std::ptrdiff_t>(above) + 1);
        }
        if (switches.size() == 1) return {above, parts.size(), count};
    }
    return impossible;
}

/// The least cost of all sets of leaves that have room; `impossible`: none may be taken.
Cost least_cost(const Network& network, std::span<const std::int64_t> room, std::int64_t wanted,
                std::int64_t block_nodes) {
    Cost least = impossible;
    for (std::uint32_t set = 1; set < (1u << network.leaves.size()); ++set) {
        std::int64_t sum = 0;
        for (std::size_t l = 0; l < network.leaves.size(); ++l)
            if ((set >> l & 1) != 0) sum += room[l];
        const auto blocks = static_cast<std::int64_t>(std::popcount(set));
        if (sum < wanted || (network.topology == NetworkKind::block &&
                             blocks > (wanted + block_nodes - 1) / block_nodes))
            continue;
        least = std::min(least, cost_of(network, set));
    }
    return least;
}

TEST(as_few_leaves_as_can_be_are_taken) {
    Random random(7);
    int refused = 0, several = 0;
    for (int round = 0; round < 2000; ++round) {
        const Network network = random_network(random, 12);
        const std::vector<std::int64_t> nodes = random_sizes(random, network);
        std::vector<std::int64_t> room;
        for (const std::int64_t n : nodes) room.push_back(among(random, 0, n));
        const Fabric fabric(cluster_of(network, nodes));
        ck_assert_uint_eq(fabric.leaves(), network.leaves.size());
        const std::int64_t wanted = random_count(random, network, 14);
        const Cost least = least_cost(network, room, wanted, *std::ranges::min_element(nodes));
        std::vector<Fabric::Share> shares;
        const bool found = fabric.choose(room, wanted, shares);
        ck_assert_msg(found == (least != impossible), "round %d", round);
        refused += !found;
        if (!found) continue;
        std::uint32_t set = 0;
        std::int64_t sum = 0;
        for (const Fabric::Share& share : shares) {
            ck_assert_msg((set >> share.leaf & 1) == 0, "round %d: a leaf twice", round);
            ck_assert_msg(share.nodes > 0 && share.nodes <= room[share.leaf], "round %d", round);
            set |= 1u << share.leaf;
            sum += share.nodes;
        }
        ck_assert_int_eq(sum, wanted);
        ck_assert_msg(cost_of(network, set) == least, "round %d", round);
        several += shares.size() > 1;
    }
    ck_assert_int_gt(refused, 200);
    ck_assert_int_gt(several, 200);
}

TEST(one_leaf_is_the_one_with_the_least_room) {
    const Network network{NetworkKind::tree, {{"s", "l0"}, {"s", "l1"}, {"s", "l2"}}};
    const std::int64_t nodes[] = {4, 4, 4}, room[] = {4, 2, 3};
    const Fabric fabric(cluster_of(network, nodes));
    std::vector<Fabric::Share> shares;
    ck_assert(fabric.choose(room, 2, shares) && shares.size() == 1 && shares[0].leaf == 1);
    ck_assert(fabric.choose(room, 3, shares) && shares.size() == 1 && shares[0].leaf == 2);
    // four of the widest, and the rest from the leaf that just holds it
    ck_assert(fabric.choose(room, 6, shares) && shares.size() == 2);
    ck_assert(shares[0].leaf == 0 && shares[1].leaf == 1 && shares[1].nodes == 2);
}

/// Slurm's rule under one switch: the leaf with the least room that holds the rest, else all of the
/// one with the most.
std::vector<std::int64_t> by_slurms_rule(std::span<const std::int64_t> room, std::int64_t wanted) {
    std::vector<std::int64_t> taken(room.size(), 0);
    while (wanted > 0) {
        std::size_t next = room.size();
        for (std::size_t l = 0; l < room.size(); ++l) {
            if (taken[l] > 0 || room[l] == 0) continue;
            const auto key = [&](std::size_t i) {
                return room[i] >= wanted ? std::pair(std::int64_t{0}, room[i])
                                         : std::pair(std::int64_t{1}, -room[i]);
            };
            if (next == room.size() || key(l) < key(next)) next = l;
        }
        taken[next] = std::min(room[next], wanted);
        wanted -= taken[next];
    }
    return taken;
}

/// Of sets as small the one that leaves the least room over is worse in the long run: 2 % more
/// leaves a job in streams of jobs.
TEST(among_as_few_leaves_those_are_taken_that_slurm_takes) {
    Random random(19);
    for (int round = 0; round < 2000; ++round) {
        const auto leaves = static_cast<std::size_t>(among(random, 2, round % 4 == 0 ? 200 : 24));
        Network network{NetworkKind::tree, {}};
        const std::int64_t size = among(random, 2, 18);
        std::vector<std::int64_t> nodes(leaves, size), room, taken(leaves, 0);
        std::int64_t all = 0;
        for (std::size_t l = 0; l < leaves; ++l) {
            network.leaves.push_back({"spine", "l" + std::to_string(l)});
            room.push_back(among(random, 0, size));
            all += room.back();
        }
        if (all == 0) continue;
        const std::int64_t wanted = among(random, 1, all);
        const Fabric fabric(cluster_of(network, nodes));
        std::vector<Fabric::Share> shares;
        ck_assert(fabric.choose(room, wanted, shares));
        for (const Fabric::Share& share : shares) taken[share.leaf] = share.nodes;
        ck_assert_msg(taken == by_slurms_rule(room, wanted), "round %d", round);
    }
}

/// A cluster with jobs on some of its nodes, weights, nodes that sleep and nodes that a set lacks.
Snapshot used_cluster(Random& random, const Network& network) {
    Snapshot s = cluster_of(network, random_sizes(random, network));
    const bool weights = among(random, 0, 2) == 0;
    for (NodeState& node : s.nodes) {
        node.free_gpus = among(random, 0, 2) == 0 ? 8 : among(random, 0, 8);
        node.free_cpus = 8 * node.free_gpus;
        if (weights) {
            node.weight = among(random, 1, 2);
            node.boot_s = among(random, 0, 3) == 0 ? 60 : 0;
        }
    }
    s.node_sets.emplace_back();
    for (NodeIndex n = 0; n < s.nodes.size(); ++n)
        if (among(random, 0, 4) > 0) s.node_sets[1].push_back(n);
    return s;
}

JobState job_of(JobId id, std::uint32_t node_set) {
    JobState job;
    job.id = id;
    job.max_gpus = INT64_MAX;
    job.remaining_iterations = 1000;
    job.node_set = node_set;
    return job;
}

/// Nodes of the set with so many GPUs free, of the first classes in Slurm's order, by leaf.
std::vector<std::int64_t> room_in(const Snapshot& s, const Fabric& fabric, std::uint32_t node_set,
                                  std::int64_t per_node, std::uint32_t classes) {
    std::vector<std::int64_t> room(fabric.leaves(), 0);
    for (const NodeIndex n : s.node_sets[node_set])
        if (s.nodes[n].free_gpus >= per_node && fabric.class_of(n) < classes)
            ++room[fabric.leaf_of(n)];
    return room;
}

TEST(a_packing_takes_what_the_network_says) {
    Random random(11);
    int placed = 0, not_placed = 0;
    for (int round = 0; round < 2000; ++round) {
        const Network network = random_network(random, 8);
        Snapshot s = used_cluster(random, network);
        const std::int64_t wanted = random_count(random, network, 6);
        const std::int64_t per_node = among(random, 1, 8);
        const auto set = static_cast<std::uint32_t>(among(random, 0, 1));
        s.jobs.push_back(job_of(1, set));
        Offers offers;
        offers[1] = std::vector{offer_of(wanted, per_node)};
        const PolicyOptions options;
        const Problem problem(s, offers, options);
        if (problem.tasks().empty() || problem.choices(problem.tasks()[0]).empty()) continue;
        const Task& task = problem.tasks()[0];
        Packing packing(problem);
        const Fabric& fabric = packing.fabric();
        const bool has_room = packing.has_room(task, problem.choices(task)[0]);
        // the least cost, of as few classes as there need be
        Cost least = impossible;
        std::uint32_t classes = 0;
        std::vector<std::int64_t> per_leaf(fabric.leaves(), 0);
        for (const NodeState& node : s.nodes)
            ++per_leaf[fabric.leaf_of(static_cast<NodeIndex>(&node - s.nodes.data()))];
        while (least == impossible && classes < fabric.classes())
            least = least_cost(network, room_in(s, fabric, set, per_node, ++classes), wanted,
                               *std::ranges::min_element(per_leaf));
        Placement at;
        const bool found = packing.place(task, problem.choices(task)[0], at);
        ck_assert_msg(found == (least != impossible), "round %d", round);
        ck_assert_msg(found == has_room, "round %d: has_room() says something else", round);
        (found ? placed : not_placed)++;
        if (!found) continue;
        ck_assert_int_eq(std::ssize(at.nodes), wanted);
        ck_assert(std::ranges::adjacent_find(at.nodes, std::ranges::greater_equal()) ==
                  at.nodes.end());
        std::uint32_t leaves = 0;
        for (const NodeIndex n : at.nodes) {
            ck_assert(std::ranges::binary_search(s.node_sets[set], n));
            ck_assert_int_ge(s.nodes[n].free_gpus, per_node);
            ck_assert_msg(fabric.class_of(n) < classes, "round %d: Slurm would take others", round);
            leaves |= 1u << fabric.leaf_of(n);
        }
        ck_assert_msg(cost_of(network, leaves) == least, "round %d", round);
        packing.remove(task, at);
        ck_assert(packing.place(task, problem.choices(task)[0], at));
    }
    ck_assert_int_gt(placed, 500);
    ck_assert_int_gt(not_placed, 200);
}

TEST(one_node_is_the_fullest_and_leaves_whole_leaves_alone) {
    const Network network{NetworkKind::tree, {{"s", "l0"}, {"s", "l1"}}};
    const std::int64_t nodes[] = {3, 3};
    Snapshot s = cluster_of(network, nodes);
    const auto take = [&] {
        s.jobs = {job_of(1, 0)};
        Offers offers;
        offers[1] = std::vector{offer_of(1, 2)};
        const PolicyOptions options;
        const Problem problem(s, offers, options);
        Packing packing(problem);
        Placement at;
        ck_assert(packing.place(problem.tasks()[0], problem.choices(problem.tasks()[0])[0], at));
        return at.nodes.at(0);
    };
    s.nodes[5].free_gpus = 3;
    ck_assert_uint_eq(take(), 5);  // the fullest
    s.nodes[5].free_gpus = 0;
    ck_assert_uint_ge(take(), 3);  // whole ones only: of the leaf that is in use
    s.nodes[3].weight = s.nodes[4].weight = 9;
    ck_assert_uint_lt(take(), 3);  // but Slurm's weight goes first
    for (NodeIndex n = 0; n < 3; ++n) s.nodes[n].weight = 9;
    s.nodes[3].boot_s = 300;
    ck_assert_uint_eq(take(), 4);  // and none is woken up where one is up
}

std::optional<std::vector<NodeIndex>> place_alone(Snapshot& s, std::int64_t nodes) {
    s.jobs = {job_of(1, 0)};
    Offers offers;
    offers[1] = std::vector{offer_of(nodes, 8)};
    const PolicyOptions options;
    const Problem problem(s, offers, options);
    if (problem.tasks().empty() || problem.choices(problem.tasks()[0]).empty()) return {};
    Packing packing(problem);
    Placement at;
    const Task& task = problem.tasks()[0];
    if (!packing.place(task, problem.choices(task)[0], at)) return {};
    return at.nodes;
}

TEST(nodes_outside_the_network_are_used_as_slurm_does) {
    const std::int64_t two[] = {2};
    Snapshot tree = cluster_of({NetworkKind::tree, {{"s", "l0"}}}, two);
    tree.nodes.push_back({"n2", "a40", 8, 8, 64, 640000});
    tree.node_sets[0].push_back(2);
    ck_assert(place_alone(tree, 2) == (std::vector<NodeIndex>{0, 1}));
    ck_assert(!place_alone(tree, 3));
    tree.nodes[0].free_gpus = tree.nodes[1].free_gpus = 0;
    ck_assert(!place_alone(tree, 1));  // Slurm starts nothing below no switch
    Snapshot block = cluster_of({NetworkKind::block, {{"b0"}}}, two);
    for (const char* name : {"n2", "n3"}) {
        block.node_sets[0].push_back(static_cast<NodeIndex>(block.nodes.size()));
        block.nodes.push_back({name, "a40", 8, 8, 64, 640000});
    }
    block.nodes[0].free_gpus = 0;
    ck_assert(place_alone(block, 2) == (std::vector<NodeIndex>{2, 3}));
    ck_assert(!place_alone(block, 3));  // none beside those of a block
}

/// A partition of Slurm 25.05 with a topology of its own has nodes that the default's tops or
/// blocks do not join: its jobs are placed by that one.
TEST(a_job_that_another_network_places_is_held_to_no_limit_of_this_one) {
    const std::int64_t two[] = {2, 2}, one[] = {2};
    Snapshot tree = cluster_of({NetworkKind::tree, {{"s", "l0"}, {"another topology"}}}, two);
    Snapshot block = cluster_of({NetworkKind::block, {{"b0"}}}, one);
    for (const char* name : {"n2", "n3"}) {
        block.node_sets[0].push_back(static_cast<NodeIndex>(block.nodes.size()));
        block.nodes.push_back({name, "a40", 8, 8, 64, 640000});
    }
    for (Snapshot s : {tree, block})
        for (const bool other : {true, false}) {
            s.jobs = {job_of(1, 0)};
            s.jobs[0].places = {{.node_set = 0, .other_network = other}};
            s.jobs[0].requested_type = "a40";
            s.jobs[0].requested_gpus = 24;
            s.jobs[0].time_limit_s = 3600;
            const Offers offers{{1, std::vector{offer_of(3, 8)}}};
            ck_assert(must(parse_snapshot(to_json(s))) == s);
            int policies_tried = 0;
            for (const Policy& policy : policies()) {
                if (policy.name == "arena" || policy.name == "fifo" || policy.name == "aryl") {
                    const Decision d = policy.decide(s, offers, {});
                    ck_assert_msg(d.actions.size() == (other ? 1 : 0), "%s",
                                  std::string(policy.name).c_str());
                    ++policies_tried;
                }
            }
            ck_assert_int_eq(policies_tried, 3);
            const PolicyOptions options;
            const Problem problem(s, offers, options);
            const Packing packing(problem);
            ck_assert_int_eq(
                packing.has_room(problem.tasks()[0], problem.choices(problem.tasks()[0])[0]),
                other);
            PolicyOptions in_order;
            in_order.order = QueueOrder::priority;
            PromiseBook promises(PromiseRules{});
            promises.give(s, offers, in_order);
            ck_assert_int_eq(promises.find(1) != nullptr, other);
        }
}

/// Equal pieces are an equal layout: one that is refused would be tried again under this name.
TEST(pieces_that_come_out_equal_are_no_uneven_layout) {
    const std::int64_t nodes[] = {2};
    Snapshot s = cluster_of({NetworkKind::tree, {{"s", "l0"}}}, nodes);
    const auto places = [&](std::int64_t first, std::int64_t second) {
        s.nodes[0].free_gpus = first;
        s.nodes[1].free_gpus = second;
        s.jobs = {job_of(1, 0)};
        Offer pieces = offer_of(2, 3);
        set_split(pieces.grid, {3, 1});
        Offers offers;
        offers[1] = std::vector{std::move(pieces)};
        const PolicyOptions options;
        const Problem problem(s, offers, options);
        const Task& task = problem.tasks().at(0);
        Packing packing(problem);
        Placement at;
        const Choice& choice = problem.choices(task)[0];
        const bool has_room = packing.has_room(task, choice);
        ck_assert_int_eq(has_room, packing.place(task, choice, at));
        return has_room;
    };
    ck_assert(places(3, 1) && places(1, 3) && places(3, 3));
    ck_assert(!places(4, 0) && !places(8, 8) && !places(2, 2));
}

/// What no switch joins is not waited for: two trees of four nodes, and a job that could have all.
TEST(a_job_does_not_wait_for_what_the_network_never_gives) {
    Network network;
    network.leaves = {{"one", "l0"}, {"two", "l1"}};
    const std::int64_t nodes[] = {4, 4};
    Snapshot s = cluster_of(network, nodes);
    for (NodeIndex n = 5; n < 8; ++n) s.nodes[n].free_gpus = 0;
    JobState runs = job_of(9, 0);
    runs.phase = JobPhase::running;
    runs.current = offer_of(3, 8);
    runs.nodes = {5, 6, 7};
    runs.remaining_iterations = 100;
    runs.time_limit_s = 100;
    s.jobs = {job_of(1, 0), runs};
    Offers offers;
    std::vector<Offer> list;
    for (std::int64_t n = 1; n <= 8; n *= 2)
        list.push_back(offer_of(n, 8, 8.0 / static_cast<double>(n)));
    offers[1] = std::move(list);
    s.jobs[0].requested_type = "a40";
    s.jobs[0].requested_gpus = 64;
    s.jobs[0].time_limit_s = 36000;
    const Policy& arena = *std::ranges::find(policies(), std::string_view("arena"), &Policy::name);
    const Decision d = arena.decide(s, offers, {});
    ck_assert_uint_eq(d.actions.size(), 1);
    ck_assert(d.actions[0].kind == ActionKind::start);
    ck_assert_int_eq(d.actions[0].offer.grid.nodes, 4);
}

/// One leaf is as no leaf.
TEST(under_one_leaf_all_is_as_without) {
    Random random(13);
    for (int round = 0; round < 300; ++round) {
        Network network;
        network.leaves = {{"s"}};
        Snapshot s = used_cluster(random, network);
        Offers offers;
        for (JobId id = 1; id <= 6; ++id) {
            s.jobs.push_back(job_of(id, static_cast<std::uint32_t>(among(random, 0, 1))));
            offers[id] = std::vector{offer_of(among(random, 1, 3), among(random, 1, 8))};
        }
        for (NodeState& node : s.nodes) {
            node.weight = 1;
            node.boot_s = 0;
        }
        Snapshot flat = s;
        flat.topology = NetworkKind::flat;
        for (const Policy& policy : policies())
            ck_assert_msg(policy.decide(s, offers, {}) == policy.decide(flat, offers, {}),
                          "round %d: %s", round, std::string(policy.name).c_str());
    }
}

/// Whatever a policy starts, Slurm would let start: below one top, in as few blocks as need be.
TEST(no_policy_starts_a_job_where_slurm_would_not) {
    Random random(17);
    int starts = 0, uneven = 0;
    for (int round = 0; round < 400; ++round) {
        const Network network = random_network(random, 5);
        Snapshot s = used_cluster(random, network);
        const Fabric fabric(s);
        Offers offers;
        for (JobId id = 1; id <= 5; ++id) {
            s.jobs.push_back(job_of(id, static_cast<std::uint32_t>(among(random, 0, 1))));
            JobState& job = s.jobs.back();
            job.time_limit_s = 3600;
            std::vector<Offer> list;
            for (std::int64_t nodes = 1; nodes <= 4; nodes *= 2)
                list.push_back(
                    offer_of(nodes, among(random, 1, 8), 4.0 / static_cast<double>(nodes)));
            job.requested_gpus = list.back().grid.gpus();
            Offer pieces = offer_of(2, 3);
            set_split(pieces.grid, {3, 1});
            list.push_back(std::move(pieces));
            job.requested_type = "a40";
            offers[id] = std::move(list);
        }
        PolicyOptions options;
        options.order = among(random, 0, 1) == 0 ? QueueOrder::priority : QueueOrder::value;
        for (const Policy& policy : policies())
            for (const Action& action : policy.decide(s, offers, options).actions) {
                if (action.kind != ActionKind::start) continue;
                ++starts;
                uneven += action.offer.grid.is_uneven();
                ck_assert_msg(fabric.allows(action.nodes), "round %d: %s", round,
                              std::string(policy.name).c_str());
            }
    }
    ck_assert_int_gt(starts, 2000);
    ck_assert_int_gt(uneven, 20);
}

TEST(a_snapshot_keeps_its_network) {
    Random random(19);
    for (int round = 0; round < 100; ++round) {
        const Snapshot s = used_cluster(random, random_network(random, 6));
        const auto again = parse_snapshot(to_json(s));
        ck_assert_msg(again && *again == s, "round %d", round);
    }
    const auto bad = parse_snapshot(
        R"({"schema_version":1,"time_s":0,"generation":0,"topology":"ring","nodes":[],"node_sets":[],"jobs":[]})");
    ck_assert(!bad && bad.error().message().find("flat, tree, block") != std::string::npos);
}

}  // namespace
