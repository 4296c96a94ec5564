// SPDX-License-Identifier: GPL-2.0-or-later
// Counts of GPUs on nodes as they are: a node with several GPU types, and GPUs that are free in
// pieces.
#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <set>

#include "policy/arena/arena_policy.h"
#include "policy/aryl/aryl_policy.h"
#include "policy/fifo.h"
#include "policy/order/promises.h"
#include "policy/policy.h"
#include "suite.h"

using namespace arena;

namespace {

Offer offer_of(const std::string& type, std::int64_t nodes, std::int64_t per_node,
               double iteration_s) {
    Offer offer;
    offer.grid = {type, nodes, per_node, 1};
    offer.estimate.iteration_s = iteration_s;
    return offer;
}

JobState waiting(JobId id, std::int64_t gpus, double iterations = 1000) {
    JobState job;
    job.id = id;
    job.min_gpus = job.max_gpus = gpus;
    job.remaining_iterations = iterations;
    return job;
}

JobState running(JobId id, const Offer& offer, std::vector<NodeIndex> nodes, double left_s) {
    JobState job = waiting(id, offer.grid.gpus(), left_s / offer.estimate.iteration_s);
    job.phase = JobPhase::running;
    job.current = offer;
    job.nodes = std::move(nodes);
    job.start_s = 1;
    job.restarts = 1;
    return job;
}

/// n1 and n2 with 2 of 4 GPUs free each; who holds the others ends in `left_s`, on n1 at once.
Snapshot two_of_four_free(double left_s) {
    Snapshot s;
    s.time_s = 100;
    s.nodes = {{"n1", "a40", 4, 2, 8, 8000}, {"n2", "a40", 4, 2, 8, 8000}};
    s.node_sets = {{0, 1}};
    const Offer half = offer_of("a40", 1, 2, 1);
    s.jobs = {running(1, half, {0}, left_s), running(2, half, {1}, 2 * left_s), waiting(3, 4)};
    return s;
}

/// Of 1,000 iterations: 1,000 s on one node, `slower` times that on two.
Offers on_one_or_two(double slower) {
    return {{3, {offer_of("a40", 1, 4, 1), offer_of("a40", 2, 2, slower)}}};
}

PolicyOptions explaining() {
    PolicyOptions options;
    options.reserve_depth = 0;
    return options;
}

const Action* start_of(const Decision& d, JobId id) {
    for (const Action& action : d.actions)
        if (action.kind == ActionKind::start && action.job == id) return &action;
    return nullptr;
}

std::string why(const Decision& d, JobId id) {
    const auto at = d.waiting.find(id);
    return at == d.waiting.end() ? "" : at->second;
}

void same(const std::string& got, const std::string& wanted) {
    ck_assert_msg(got == wanted, "got:    %s\nwanted: %s", got.c_str(), wanted.c_str());
}

/// One node with two types, whose GPUs have its 8 CPUs together.
Snapshot mixed_node() {
    Snapshot s;
    s.nodes = {{"n1", "a100", 2, 2, 8, 8000}, {"n1", "h100", 2, 2, 8, 8000}};
    s.nodes[1].same_node = true;
    s.node_sets = {{0, 1}};
    return s;
}

}  // namespace

// ---- pieces ------------------------------------------------------------------------------------

TEST(a_job_starts_on_two_halves_where_that_ends_before_a_whole_node_would) {
    for (const auto decide :
         {&decide_fifo,
          static_cast<Decision (*)(const Snapshot&, const Offers&, const PolicyOptions&)>(
              &decide_arena)}) {
        const Decision d = decide(two_of_four_free(3600), on_one_or_two(1.5), explaining());
        const Action* start = start_of(d, 3);
        ck_assert_ptr_nonnull(start);
        ck_assert_int_eq(start->offer.grid.nodes, 2);
        ck_assert_int_eq(start->offer.grid.gpus_per_node, 2);
    }
}

TEST(it_waits_for_a_whole_node_that_ends_sooner_and_says_so) {
    const Decision d = decide_arena(two_of_four_free(200), on_one_or_two(1.5), explaining());
    ck_assert_ptr_null(start_of(d, 3));
    same(why(d, 3),
         "waits for 4xa40: expected to be free within 5 min, and ends sooner then than "
         "on 2x2xa40 now");
    PolicyOptions reserves = explaining();
    reserves.reserve_depth = 1;
    const Decision reserved = decide_arena(two_of_four_free(200), on_one_or_two(1.5), reserves);
    ck_assert_uint_eq(reserved.actions.size(), 1);
    same(reserved.actions[0].reason, why(d, 3));
}

/// The next GPUs that come free are on another node than those that would make it whole.
TEST(the_wait_is_until_a_node_is_whole_not_until_the_next_gpus_are_free) {
    Snapshot s = two_of_four_free(200);
    s.nodes.push_back({"n3", "a40", 4, 0, 0, 0});
    s.node_sets = {{0, 1, 2}};
    s.jobs[0].remaining_iterations = s.jobs[1].remaining_iterations = 900;
    s.jobs.push_back(running(4, offer_of("a40", 1, 2, 1), {2}, 10));
    ck_assert_ptr_nonnull(start_of(decide_arena(s, on_one_or_two(1.5), explaining()), 3));
}

TEST(nobody_waits_for_a_node_of_whose_end_nothing_is_known) {
    Snapshot s = two_of_four_free(200);
    for (JobState& job : s.jobs) {
        if (job.phase != JobPhase::running) continue;
        job.remaining_iterations = 0;
        job.time_limit_s = 0;
    }
    ck_assert_ptr_nonnull(start_of(decide_arena(s, on_one_or_two(5), explaining()), 3));
}

TEST(a_job_is_not_told_of_others_where_there_are_none) {
    Snapshot s = two_of_four_free(200);
    s.nodes[0].free_gpus = 1;
    s.nodes[1].free_gpus = 3;
    s.jobs.erase(s.jobs.begin(), s.jobs.begin() + 2);
    const std::string pieces =
        "waits for 4xa40: as many are free, but in pieces: a job has the same number on each of "
        "its nodes";
    for (const auto decide :
         {&decide_fifo,
          static_cast<Decision (*)(const Snapshot&, const Offers&, const PolicyOptions&)>(
              &decide_aryl)})
        same(why(decide(s, on_one_or_two(1.01), explaining()), 3), pieces);
    same(why(decide_arena(s, on_one_or_two(1.5), explaining()), 3), pieces);
    s.nodes[1].free_gpus = 0;
    same(why(decide_arena(s, on_one_or_two(1.5), explaining()), 3),
         "waits for 4xa40: not enough free now");
    s.nodes[1].free_gpus = s.nodes[0].free_gpus = 4;
    for (NodeState& node : s.nodes) node.free_cpus = 1;
    same(why(decide_arena(s, on_one_or_two(1.5), explaining()), 3),
         "waits for 4xa40: the CPUs or the memory beside the free GPUs are in use");
}

TEST(a_job_is_told_of_others_where_they_get_the_gpus) {
    Snapshot s = two_of_four_free(200);
    s.jobs.push_back(waiting(4, 4, 10));
    Offers offers = on_one_or_two(1.5);
    offers[4] = {offer_of("a40", 2, 2, 1)};
    const Decision d = decide_arena(s, offers, explaining());
    ck_assert_ptr_nonnull(start_of(d, 4));
    ck_assert_msg(why(d, 3).find("others make more of the GPUs now") != std::string::npos ||
                      why(d, 3).find("expected to be free") != std::string::npos,
                  "%s", why(d, 3).c_str());
}

/// An elastic job takes the halves, too; who runs on them is not taken for one on a whole node.
TEST(an_elastic_job_starts_on_halves_and_keeps_them) {
    Snapshot s = two_of_four_free(3600);
    s.jobs[2].elastic = true;
    const Offers offers = on_one_or_two(1.5);
    const Decision d = decide_arena(s, offers, explaining());
    const Action* start = start_of(d, 3);
    ck_assert_ptr_nonnull(start);
    s.jobs[2] = running(3, start->offer, start->nodes, 1500);
    s.jobs[2].elastic = true;
    for (NodeState& node : s.nodes) node.free_gpus = 0;
    ck_assert_uint_eq(decide_arena(s, offers, explaining()).actions.size(), 0);
}

// ---- pieces that differ -------------------------------------------------------------------------

/// On one node, or on several with a different number on each.
Offers on_one_or_in_pieces(double slower, std::int64_t gpus = 4) {
    Offer pieces = offer_of("a40", 2, gpus - 1, slower);
    set_split(pieces.grid, {gpus - 1, 1});
    return {{3, {offer_of("a40", 1, gpus, 1), std::move(pieces)}}};
}

/// n1 has 3 of 4 GPUs free and n2 one.
Snapshot three_and_one_free(double left_s) {
    Snapshot s = two_of_four_free(left_s);
    s.nodes[0].free_gpus = 3;
    s.nodes[1].free_gpus = 1;
    s.jobs[0].current = offer_of("a40", 1, 1, 1);
    s.jobs[1].current = offer_of("a40", 1, 3, 1);
    return s;
}

constexpr PolicyFunction policies[] = {&decide_fifo, &decide_aryl, &decide_arena};

void is_split(const Action* start, const std::vector<NodeIndex>& nodes,
              const std::vector<std::int64_t>& split) {
    ck_assert_ptr_nonnull(start);
    ck_assert(start->nodes == nodes);
    ck_assert(start->offer.grid.split == split);
    ck_assert_int_eq(start->offer.grid.nodes, std::ssize(split));
    ck_assert_int_eq(start->offer.grid.gpus_per_node,
                     *std::max_element(split.begin(), split.end()));
}

TEST(a_job_starts_on_pieces_that_differ_where_that_ends_first) {
    for (const PolicyFunction decide : policies)
        is_split(
            start_of(decide(three_and_one_free(3600), on_one_or_in_pieces(1.04), explaining()), 3),
            {0, 1}, {3, 1});
    is_split(
        start_of(decide_arena(three_and_one_free(3600), on_one_or_in_pieces(1.5), explaining()), 3),
        {0, 1}, {3, 1});
}

TEST(it_waits_for_a_whole_node_that_ends_sooner_than_pieces_and_says_so) {
    const Decision d =
        decide_arena(three_and_one_free(200), on_one_or_in_pieces(1.5), explaining());
    ck_assert_ptr_null(start_of(d, 3));
    same(why(d, 3),
         "waits for 4xa40: expected to be free within 5 min, and ends sooner then than with the "
         "pieces that are free now");
}

TEST(pieces_are_not_taken_where_a_layout_with_the_same_number_on_each_fits) {
    for (const PolicyFunction decide : policies) {
        Snapshot s = three_and_one_free(3600);
        s.nodes[1].free_gpus = 2;
        Offers offers = on_one_or_in_pieces(1.04);
        offers[3].push_back(offer_of("a40", 2, 2, 1.04));
        const Action* start = start_of(decide(s, offers, explaining()), 3);
        ck_assert_ptr_nonnull(start);
        ck_assert(!start->offer.grid.is_uneven() && start->offer.grid.nodes == 2);
    }
}

TEST(nodes_are_filled_in_their_order_as_slurm_does_it) {
    Snapshot s = three_and_one_free(3600);
    s.nodes = {{"n1", "a40", 4, 3, 99, 99000},
               {"n2", "a40", 4, 2, 99, 99000},
               {"n3", "a40", 8, 4, 99, 99000},
               {"n4", "a40", 4, 1, 99, 99000}};
    s.node_sets = {{0, 1, 2, 3}};
    s.jobs = {waiting(3, 8)};
    is_split(start_of(decide_arena(s, on_one_or_in_pieces(1.5, 8), explaining()), 3), {0, 1, 2},
             {3, 2, 3});
    s.jobs = {waiting(3, 5)};
    is_split(start_of(decide_arena(s, on_one_or_in_pieces(1.5, 5), explaining()), 3), {0, 2},
             {3, 2});
}

TEST(pieces_have_the_cpus_and_the_memory_of_their_gpus) {
    Snapshot s = three_and_one_free(3600);
    s.nodes.push_back({"n3", "a40", 4, 1, 2, 2000});
    s.node_sets = {{0, 1, 2}};
    s.jobs[2].cpus_per_gpu = 2;
    s.jobs[2].memory_mb_per_gpu = 2000;
    s.nodes[0].free_cpus = 5;  // for two of its three GPUs
    is_split(start_of(decide_arena(s, on_one_or_in_pieces(1.5), explaining()), 3), {0, 1, 2},
             {2, 1, 1});
    s.nodes[2].free_memory_mb = 1999;
    const Decision none = decide_arena(s, on_one_or_in_pieces(1.5), explaining());
    ck_assert_ptr_null(start_of(none, 3));
    same(why(decide_fifo(s, on_one_or_in_pieces(1.5), explaining()), 3),
         "waits for 4xa40: the CPUs or the memory beside the free GPUs are in use");
}

TEST(a_place_limits_pieces_too) {
    Snapshot s = three_and_one_free(3600);
    s.jobs[2].places = {{.node_set = 0, .max_nodes = 1}};
    const Decision one = decide_arena(s, on_one_or_in_pieces(1.5), explaining());
    ck_assert_ptr_null(start_of(one, 3));
    s.jobs[2].places = {{.node_set = 0, .max_cpus_per_node = 2}};
    ck_assert_ptr_null(start_of(decide_arena(s, on_one_or_in_pieces(1.5), explaining()), 3));
    s.jobs[2].places.push_back({.node_set = 0});
    const Decision d = decide_arena(s, on_one_or_in_pieces(1.5), explaining());
    is_split(start_of(d, 3), {0, 1}, {3, 1});
    ck_assert_uint_eq(start_of(d, 3)->place, 1);
}

/// A cluster of equal nodes on which rigid jobs run, a job whose count they cannot give equally,
/// and one behind it that would run for a day.
struct Unequal {
    Snapshot s;
    Offers offers;
    std::int64_t gpus = 0;  ///< of the job
    /// Seconds until so many are free, by the limits of who runs; the jobs at the back leave last.
    [[nodiscard]] double free_in_s() const {
        std::vector<std::pair<double, std::int64_t>> ends;
        std::int64_t free = 0;
        for (const NodeState& node : s.nodes) free += node.free_gpus;
        for (const JobState& job : s.jobs)
            if (job.phase == JobPhase::running)
                ends.emplace_back(job.time_limit_s, job.current->grid.gpus());
        std::sort(ends.begin(), ends.end());
        double in_s = 0;
        for (const auto& [end_s, given] : ends) {
            if (free >= gpus) break;
            in_s = end_s;
            free += given;
        }
        return in_s;
    }
};

bool is_equal_somewhere(std::int64_t gpus, std::int64_t nodes, std::int64_t each) {
    for (std::int64_t g = 1; g <= each; ++g)
        if (gpus % g == 0 && gpus / g <= nodes) return true;
    return false;
}

std::optional<Unequal> unequal(std::mt19937& random) {
    const auto pick = [&](std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    Unequal out;
    const std::int64_t nodes = pick(2, 6), each = pick(2, 4);
    out.gpus = pick(3, nodes * each - 1);
    if (is_equal_somewhere(out.gpus, nodes, each)) return std::nullopt;
    out.s.time_s = 1e6;
    out.s.node_sets = {{}};
    for (std::int64_t n = 0; n < nodes; ++n) {
        const std::int64_t taken = pick(0, each);
        const auto index = static_cast<NodeIndex>(n);
        out.s.node_sets[0].push_back(index);
        out.s.nodes.push_back({"n" + std::to_string(n), "a40", each, each - taken, 99, 99000});
        if (taken == 0) continue;
        JobState job =
            running(100 + static_cast<JobId>(n), offer_of("a40", 1, taken, 1), {index}, 9e5);
        job.time_limit_s = static_cast<double>(60 * pick(1, 600));
        job.remaining_iterations = job.time_limit_s;
        out.s.jobs.push_back(job);
    }
    Offer pieces = offer_of("a40", 2, out.gpus - 1, 1);
    set_split(pieces.grid, {out.gpus - 1, 1});
    for (const JobId id : {3, 4}) {
        JobState job = waiting(id, id == 3 ? out.gpus : 1, id == 3 ? 3600 : 86400);
        job.time_limit_s = job.remaining_iterations;
        job.submit_s = id;
        job.priority = id == 3 ? 100 : 1;
        out.s.jobs.push_back(job);
    }
    out.offers = {{3, {pieces}}, {4, {offer_of("a40", 1, 1, 1)}}};
    return out;
}

TEST(a_count_that_no_nodes_give_equally_is_promised_when_as_many_are_free) {
    std::mt19937 random(36);
    PolicyOptions options;
    options.order = QueueOrder::priority;
    int at_once = 0, later = 0, passed = 0;
    for (int round = 0; round < 3000; ++round) {
        std::optional<Unequal> made = unequal(random);
        if (!made) continue;
        const double in_s = made->free_in_s();
        PromiseBook book({.depth = 10, .slack = 0.1});
        book.give(made->s, made->offers, options);
        const Promise* promise = book.find(3);
        ck_assert_ptr_nonnull(promise);
        ck_assert_msg(std::abs(promise->start_s - made->s.time_s - in_s) < 1,
                      "round %d: %g, not %g", round, promise->start_s - made->s.time_s, in_s);
        const Decision d = decide_arena(made->s, made->offers, options);
        const Action* start = start_of(d, 3);
        ck_assert_msg((start != nullptr) == (in_s <= 0), "round %d", round);
        if (start != nullptr) {
            ++at_once;
            ck_assert_int_eq(start->offer.grid.gpus(), made->gpus);
            continue;
        }
        ++later;
        const Action* behind = start_of(d, 4);
        if (behind == nullptr) continue;
        ++passed;  // for a day: the GPUs of the first are there at its latest start all the same
        JobState& job = made->s.jobs.back();
        job.phase = JobPhase::running;
        job.current = behind->offer;
        made->s.nodes[behind->nodes[0]].free_gpus -= 1;
        ck_assert_msg(made->s.time_s + made->free_in_s() <= promise->latest_start_s() + 1,
                      "round %d", round);
    }
    ck_assert_msg(at_once > 100 && later > 400 && passed > 100, "%d, %d, %d", at_once, later,
                  passed);
}

/// 5 GPUs of nodes with 4; and a job of one GPU that stands behind.
Snapshot five_of_two_nodes() {
    Snapshot s = two_of_four_free(3600);
    for (NodeState& node : s.nodes) node.free_gpus = 4;
    s.jobs = {waiting(3, 5), waiting(4, 1)};
    return s;
}

/// Where no pieces can ever be had: below two blocks that no job may have together; of more nodes
/// than the job may have; of nodes that are lent to others.
TEST(a_count_that_no_pieces_give_stands_in_nobodys_way) {
    Snapshot apart = five_of_two_nodes();
    apart.topology = NetworkKind::tree;
    apart.switches = {{"b1"}, {"b2"}};
    for (int n : {0, 1}) apart.nodes[static_cast<std::size_t>(n)].leaf = n;
    Snapshot few = five_of_two_nodes();
    few.jobs[0].places = {{.node_set = 0, .max_nodes = 1}};
    Snapshot narrow = five_of_two_nodes();
    narrow.jobs[0].places = {{.node_set = 0, .max_cpus_per_node = 2}};
    narrow.jobs[0].cpus_per_gpu = 1;
    Snapshot lent = five_of_two_nodes();
    lent.nodes[0].lent = "lender";
    for (const Snapshot& s : {apart, few, narrow, lent})
        for (const PolicyFunction decide : policies) {
            Offers offers = on_one_or_in_pieces(1.5, 5);
            offers[4] = {offer_of("a40", 1, 1, 1)};
            const Decision d = decide(s, offers, explaining());
            ck_assert_ptr_null(start_of(d, 3));
            ck_assert_ptr_nonnull(start_of(d, 4));
        }
    const Decision d = decide_arena(five_of_two_nodes(), on_one_or_in_pieces(1.5, 5), explaining());
    is_split(start_of(d, 3), {0, 1}, {4, 1});
}

/// Whatever is free in whatever pieces of two types, of nodes of which the job may have some, and
/// nobody knows when more will be: what stock's --gpus=N starts with starts.
TEST(a_job_starts_where_as_many_are_free_as_it_asks_for) {
    std::mt19937 random(35);
    const auto pick = [&](int low, int high) {
        return std::uniform_int_distribution<int>(low, high)(random);
    };
    int started = 0, waited = 0;
    for (int round = 0; round < 400; ++round) {
        Snapshot s;
        s.time_s = 100;
        s.node_sets = {{}};
        std::int64_t free = 0;
        const int nodes = pick(1, 6);
        for (int n = 0; n < nodes; ++n) {
            NodeState node{"n" + std::to_string(n), pick(0, 2) == 0 ? "a100" : "a40", 4,
                           pick(0, 4)};
            node.free_cpus = node.free_gpus + pick(0, 3);
            node.free_memory_mb = 1000;
            const bool allowed = pick(0, 4) != 0;
            if (allowed) s.node_sets[0].push_back(static_cast<NodeIndex>(n));
            if (allowed && node.gpu_type == "a40") free += node.free_gpus;
            s.nodes.push_back(std::move(node));
        }
        const std::int64_t gpus = pick(3, 9);
        s.jobs = {waiting(3, gpus)};
        Offers offers = on_one_or_in_pieces(3, gpus);
        for (std::int64_t g = 1; g < gpus; ++g)
            if (gpus % g == 0) offers[3].push_back(offer_of("a40", gpus / g, g, 2));
        for (const PolicyFunction decide : {policies[0], policies[2]}) {
            const Decision d = decide(s, offers, explaining());
            const Action* start = start_of(d, 3);
            ck_assert_msg((start != nullptr) == (free >= gpus), "round %d: %s", round,
                          to_json(s).c_str());
            ++(start != nullptr ? started : waited);
            if (start == nullptr) continue;
            std::int64_t sum = 0;
            for (std::size_t n = 0; n < start->nodes.size(); ++n) {
                const NodeState& node = s.nodes[start->nodes[n]];
                sum += start->offer.grid.gpus_on(n);
                ck_assert_int_le(start->offer.grid.gpus_on(n), node.free_gpus);
                ck_assert_int_le(start->offer.grid.gpus_on(n), node.free_cpus);
                ck_assert(node.gpu_type == "a40");
            }
            ck_assert_int_eq(sum, gpus);
        }
    }
    ck_assert_int_gt(started, 100);
    ck_assert_int_gt(waited, 100);
}

/// Neither taken for one on a whole node, nor for one that has as much on each.
TEST(an_elastic_job_keeps_its_pieces_and_leaves_them_for_a_better_layout) {
    Snapshot s = three_and_one_free(3600);
    s.jobs[2].elastic = true;
    const Offers offers = on_one_or_in_pieces(1.5);
    const Decision d = decide_arena(s, offers, explaining());
    is_split(start_of(d, 3), {0, 1}, {3, 1});
    s.jobs[2] = running(3, start_of(d, 3)->offer, {0, 1}, 90000);
    s.jobs[2].elastic = true;
    for (NodeState& node : s.nodes) node.free_gpus = 0;
    ck_assert_uint_eq(decide_arena(s, offers, explaining()).actions.size(), 0);
    const auto again = parse_snapshot(to_json(s));
    ck_assert(again && *again == s);
    s.jobs.erase(s.jobs.begin());
    s.nodes[0].free_gpus = 1;
    s.time_s += 100000;
    const Decision moved = decide_arena(s, offers, explaining());
    ck_assert_uint_eq(moved.actions.size(), 1);
    ck_assert(moved.actions[0].kind == ActionKind::resize);
    ck_assert(moved.actions[0].offer.grid == offers.at(3).front().grid);
}

TEST(a_split_is_read_as_it_is_written_and_wrong_ones_are_refused) {
    const Grid grid = on_one_or_in_pieces(1).at(3)[1].grid;
    same(short_form(grid), "3+1xa40");
    ck_assert_int_eq(grid.gpus(), 4);
    const std::string text = to_json(grid);
    const auto again = parse_grid_json(text);
    ck_assert(again && *again == grid);
    for (const char* bad : {"[2,2]", "[3,1,1]", "[4,1]", "[3]", "[]", "[3,0]", "\"3,1\""}) {
        std::string other = text;
        other.replace(other.find("[3,1]"), 5, bad);
        ck_assert_msg(!parse_grid_json(other), "%s", other.c_str());
    }
    ck_assert(to_json(offer_of("a40", 2, 2, 1).grid).find("split") == std::string::npos);
}

// ---- a node with two types ----------------------------------------------------------------------

TEST(each_type_of_a_node_is_given_out_and_its_cpus_only_once) {
    Snapshot s = mixed_node();
    s.jobs = {waiting(1, 2), waiting(2, 2)};
    for (JobState& job : s.jobs) job.cpus_per_gpu = 2;
    const Offers offers{{1, {offer_of("a100", 1, 2, 1)}}, {2, {offer_of("h100", 1, 2, 1)}}};
    for (const auto decide :
         {&decide_fifo,
          static_cast<Decision (*)(const Snapshot&, const Offers&, const PolicyOptions&)>(
              &decide_aryl),
          static_cast<Decision (*)(const Snapshot&, const Offers&, const PolicyOptions&)>(
              &decide_arena)}) {
        const Decision both = decide(s, offers, explaining());
        ck_assert_ptr_nonnull(start_of(both, 1));
        ck_assert_ptr_nonnull(start_of(both, 2));
        ck_assert_uint_eq(start_of(both, 1)->nodes.front(), 0);
        ck_assert_uint_eq(start_of(both, 2)->nodes.front(), 1);
        Snapshot short_of_cpus = s;
        for (NodeState& entry : short_of_cpus.nodes) entry.free_cpus = 7;
        const Decision one = decide(short_of_cpus, offers, explaining());
        ck_assert_uint_eq((start_of(one, 1) != nullptr) + (start_of(one, 2) != nullptr), 1);
    }
}

TEST(a_snapshot_says_which_entries_are_one_node_and_reads_those_that_do_not) {
    Snapshot s = mixed_node();
    const std::string text = to_json(s);
    const auto again = parse_snapshot(text);
    ck_assert(again && *again == s);
    s.nodes[1].same_node = false;  // as every snapshot before
    s.nodes[1].name = "n2";
    const auto old = parse_snapshot(to_json(s));
    ck_assert(to_json(s).find("same_node") == std::string::npos && old && *old == s);
    for (const auto spoil : {+[](Snapshot& bad) { bad.nodes[0].same_node = true; },
                             +[](Snapshot& bad) { bad.nodes[1].name = "n3"; },
                             +[](Snapshot& bad) { bad.nodes[1].free_cpus = 7; },
                             +[](Snapshot& bad) { bad.nodes[1].free_memory_mb = 1; }}) {
        Snapshot bad = mixed_node();
        spoil(bad);
        const auto refused = parse_snapshot(to_json(bad));
        ck_assert(!refused);
        ck_assert(refused.error().message().find("same_node") != std::string::npos);
    }
}

TEST(what_is_taken_of_a_node_goes_from_all_its_entries) {
    Snapshot s = mixed_node();
    s.nodes.push_back({"n2", "a100", 1, 1, 4, 4000});
    give_to_node(s.nodes, 1, -1, -3, -1000);
    ck_assert_int_eq(s.nodes[0].free_gpus, 2);
    ck_assert_int_eq(s.nodes[1].free_gpus, 1);
    for (const NodeIndex n : {0U, 1U}) {
        ck_assert_int_eq(s.nodes[n].free_cpus, 5);
        ck_assert_int_eq(s.nodes[n].free_memory_mb, 7000);
    }
    ck_assert_int_eq(s.nodes[2].free_cpus, 4);
    ck_assert_int_eq(gpus_of_node(s.nodes, 0), 4);
    ck_assert_int_eq(gpus_of_node(s.nodes, 2), 1);
}
