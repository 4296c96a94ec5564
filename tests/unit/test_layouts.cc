// SPDX-License-Identifier: GPL-2.0-or-later
// Counts of GPUs on nodes as they are: a node with several GPU types, and GPUs that are free in
// pieces.
#include <algorithm>
#include <set>

#include "policy/arena/arena_policy.h"
#include "policy/aryl/aryl_policy.h"
#include "policy/fifo.h"
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

int main() { return arena::test::run_suite(); }
