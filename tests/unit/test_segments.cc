// SPDX-License-Identifier: GPL-2.0-or-later
// Plans of which so many nodes lie in one NVLink domain each: who makes room for them, when a job
// waits for a rack, and what it has where no rack is whole.
#include <map>
#include <optional>

#include "policy/arena/displacement.h"
#include "policy/order/promises.h"
#include "span_cases.h"

using namespace arena;
using namespace arena::test;

namespace {

Offer of_segments(std::int64_t nodes, double iteration_s, std::int64_t segment) {
    Offer o = offer_of(nodes, iteration_s);
    o.segment = segment;
    return o;
}

/// Runs on the nodes, and may be moved.
void run_elastic(Snapshot& s, JobId id, std::vector<NodeIndex> nodes, double iteration_s = 4) {
    JobState runs = job_of(id, 1000);
    runs.phase = JobPhase::running;
    runs.elastic = true;
    runs.current = offer_of(std::ssize(nodes), iteration_s);
    runs.start_s = s.time_s - 20000;
    runs.age_s = 20000;
    runs.restarts = 1;
    for (const NodeIndex n : nodes) s.nodes[n].free_gpus = s.nodes[n].free_cpus = 0;
    runs.nodes = std::move(nodes);
    s.jobs.push_back(std::move(runs));
}

/// Of each leaf the nodes of these.
std::vector<std::int64_t> by_leaf(const Snapshot& s, std::span<const NodeIndex> nodes) {
    const Fabric fabric(s);
    std::vector<std::int64_t> counts(fabric.leaves(), 0);
    for (const NodeIndex n : nodes) ++counts[fabric.leaf_of(n)];
    return counts;
}

struct Displaced {
    std::vector<NodeIndex> nodes;                  ///< of the newcomer
    std::map<JobId, std::vector<NodeIndex>> left;  ///< who left, and where for
};

/// Room for the first choice of job 1, worth ten times what those that run have together; nothing
/// where nobody is moved.
std::optional<Displaced> make_room(const Snapshot& s, const Offers& offers) {
    const PolicyOptions options;
    const Problem problem(s, offers, options, Scope::layouts);
    std::size_t choices = 0;
    for (const Task& task : problem.tasks()) choices += task.choice_count;
    std::vector<double> values(choices, 1), moved(problem.tasks().size(), 0.9);
    std::vector<bool> may_leave;
    for (const Task& task : problem.tasks()) may_leave.push_back(task.runs());
    const auto newcomer =
        std::ranges::find(problem.tasks(), JobId{1}, [](const Task& task) { return task.job->id; });
    values[newcomer->first_choice] = 10;
    Packing packing(problem);
    Displacement displacement(problem, values, moved);
    Placement placement;
    std::vector<Displacement::Leaver> leavers;
    const bool found =
        displacement.displace({.task = static_cast<std::size_t>(newcomer - problem.tasks().begin()),
                               .choice = problem.choices(*newcomer)[0],
                               .alternative = 0,
                               .keeps = may_leave,
                               .elsewhere = true},
                              packing, placement, leavers);
    ck_assert(found || leavers.empty());
    if (!found) return std::nullopt;
    Displaced displaced{placement.nodes, {}};
    for (const Displacement::Leaver& leaver : leavers)
        displaced.left[problem.tasks()[leaver.task].job->id] = leaver.placement.nodes;
    return displaced;
}

/// Two racks of four, of each three nodes free; on the fourth of the first runs an elastic job.
Snapshot three_and_three() {
    Snapshot s = cluster_of(1, 2, 4, NetworkKind::block);
    s.jobs = {job_of(1)};
    run_elastic(s, 2, {3});
    occupy(s, {7}, 1e6);
    return s;
}

}  // namespace

TEST(of_a_list_the_first_are_found_that_have_whole_segments) {
    const Fabric racks(cluster_of(1, 3, 4, NetworkKind::block));
    const std::vector<NodeIndex> order{0, 4, 1, 8, 2, 5, 6, 3};
    std::vector<Fabric::Share> shares;
    const auto first = [&](const Fabric& fabric, std::int64_t wanted, std::int64_t segment) {
        return fabric.first_within(order, wanted, widest_span, segment, shares);
    };
    ck_assert_uint_eq(first(racks, 4, 1), 8);  // four nodes lie in one rack
    ck_assert_uint_eq(first(racks, 6, 1), 7);  // six in two: three and three
    ck_assert_uint_eq(first(racks, 6, 3), 7);
    ck_assert_uint_eq(first(racks, 6, 2), 8);  // four and two
    ck_assert(shares.size() == 2 && shares[0].nodes == 4 && shares[1].nodes == 2);
    ck_assert_uint_eq(first(racks, 8, 4), 0);
    ck_assert_uint_eq(first(racks, 6, 4), 0);                        // no whole segments
    ck_assert_uint_eq(first(Fabric(cluster_of(1, 3, 4)), 4, 2), 0);  // a switch is no domain
    ck_assert(shares.empty());
}

TEST(an_elastic_job_leaves_a_rack_where_that_makes_whole_segments) {
    const Snapshot s = three_and_three();
    Offers offers;
    offers[1] = std::vector{of_segments(6, 1, 2)};
    offers[2] = std::vector{offer_of(1, 4)};
    const auto displaced = make_room(s, offers);
    ck_assert(displaced && displaced->left.size() == 1);
    ck_assert(by_leaf(s, displaced->nodes) == (std::vector<std::int64_t>{4, 2}));
    ck_assert(by_leaf(s, displaced->left.at(2)) == (std::vector<std::int64_t>{0, 1}));
    // on three and three a plan without segments finds its nodes, and nobody needs to leave
    offers[1] = std::vector{offer_of(6, 1)};
    ck_assert(!make_room(s, offers));
}

TEST(nobody_leaves_a_rack_that_becomes_no_more_whole_by_that) {
    Snapshot s = three_and_three();
    occupy(s, {2}, 1e6);
    Offers offers;
    offers[1] = std::vector{of_segments(6, 1, 2)};
    offers[2] = std::vector{offer_of(1, 4)};
    ck_assert(!make_room(s, offers));
    offers[1] = std::vector{of_segments(4, 1, 2)};  // those two and two lie in no one rack
    ck_assert(!make_room(s, offers));
}

/// The search of all placements is for few nodes: here it is moves alone that find the room.
TEST(a_policy_moves_a_job_out_of_a_rack_for_one_that_needs_it) {
    for (const bool whole : {true, false}) {
        Snapshot s = cluster_of(1, 8, 4, NetworkKind::block);
        s.jobs = {job_of(1, 1000)};
        s.jobs[0].elastic = true;
        run_elastic(s, 2, {3});
        s.jobs[1].remaining_iterations = 100000;
        occupy(s, {7}, 1e7);
        for (NodeIndex n = 8; n < 32; n += 4) occupy(s, {n, n + 1, n + 2, n + 3}, 1e7);
        if (!whole) occupy(s, {2}, 1e7);
        Offers offers;
        offers[1] = std::vector{of_segments(6, 1, 2)};
        offers[2] = std::vector{offer_of(1, 4)};
        const Decision d = decide(s, offers);
        const auto moved = std::ranges::count(d.actions, ActionKind::resize, &Action::kind);
        const Action* start = start_of(d, 1);
        ck_assert_int_eq(moved, whole);
        ck_assert_int_eq(start != nullptr, whole);
        if (!whole) continue;
        const auto counts = by_leaf(s, start->nodes);
        ck_assert(counts[0] == 4 && counts[1] == 2);
    }
}

/// Two half-used leaves, or pods of leaves of two nodes.
TEST(an_elastic_job_leaves_a_leaf_or_a_pod_where_another_is_worth_more_in_it) {
    for (const bool pods : {false, true}) {
        Snapshot s = pods ? cluster_of(2, 2, 2) : cluster_of(1, 2, 4);
        s.jobs = {job_of(1)};
        run_elastic(s, 2, {2, 3});
        occupy(s, {6, 7}, 1e6);
        Offers offers;
        offers[1] = std::vector{offer_of(4, 1, {pods ? 1.0 : 4.0, 4})};
        offers[2] = std::vector{offer_of(2, 4)};
        const auto displaced = make_room(s, offers);
        ck_assert_msg(displaced.has_value(), "pods %d", pods);
        ck_assert(displaced->nodes == (std::vector<NodeIndex>{0, 1, 2, 3}));
        ck_assert(displaced->left.at(2) == (std::vector<NodeIndex>{4, 5}));
        // where both lie so that nobody could leave, nobody does
        occupy(s, {0}, 1e6);
        ck_assert(!make_room(s, offers));
    }
}

/// Of two racks three nodes are free each; a fourth of one is in so long, and before that one of a
/// third rack, which makes nothing whole.
Snapshot racks_that_fill(double whole_in_s) {
    Snapshot s = cluster_of(1, 3, 4, NetworkKind::block);
    s.jobs = {job_of(1)};
    occupy(s, {3}, whole_in_s);
    occupy(s, {7}, 1e6);
    occupy(s, {8}, 30);
    occupy(s, {9, 10, 11}, 1e6);
    return s;
}

TEST(a_job_waits_for_the_racks_that_will_be_whole) {
    Offers offers;
    offers[1] = std::vector{of_segments(6, 1, 2), offer_of(2, 4)};
    const Decision waits = decide(racks_that_fill(250), offers);
    ck_assert(start_of(waits, 1) == nullptr);
    ck_assert_msg(waits.waiting.contains(1) || !waits.actions.empty(), "it says why");
    const std::string& why =
        waits.actions.empty() ? waits.waiting.at(1) : waits.actions.at(0).reason;
    ck_assert_msg(why.find("within 5 min") != std::string::npos, "%s", why.c_str());
    // not for hours: the node of the third rack is of no use
    const Decision starts = decide(racks_that_fill(20000), offers);
    const Action* start = start_of(starts, 1);
    ck_assert(start != nullptr && start->offer.grid.nodes == 2);
    PolicyOptions any;
    any.any_layout = true;
    start = start_of(decide(racks_that_fill(20000), offers, "arena", any), 1);
    ck_assert(start != nullptr && start->offer.grid.nodes == 2);
}

/// Of 16 GPUs in a rack of whole nodes, of four half ones there is no plan.
TEST(a_plan_of_segments_is_for_no_other_split_of_its_gpus) {
    PolicyOptions any;
    any.any_layout = true;
    for (const char* policy : {"arena", "aryl"})
        for (const bool twin : {false, true}) {
            Snapshot s = cluster_of(1, 2, 4, NetworkKind::block);
            for (NodeState& node : s.nodes) node.free_gpus = 4;
            s.jobs = {job_of(1)};
            s.jobs[0].requested_gpus = 16;
            Offers offers;
            offers[1] = std::vector{of_segments(2, 1, 2)};
            if (twin) offers[1].push_back(offer_of(2, 1.02));
            const Decision d = decide(s, offers, policy, any);
            const Action* start = start_of(d, 1);
            ck_assert_msg((start != nullptr) == twin, "%s", policy);
            ck_assert(!twin || (start->offer.segment == 1 && start->nodes.size() == 4));
        }
}

// ---- a plan of segments, and one without
// ---------------------------------------------------------

TEST(where_racks_are_never_whole_a_job_has_the_plan_that_needs_none) {
    for (const double slower : {1.02, 1.5, 3.0})
        for (const char* policy : {"arena", "fifo", "aryl", "arena-paper"}) {
            Snapshot s = racks_that_fill(1e6);
            s.jobs[0].time_limit_s = 1e6;
            s.jobs[0].requested_gpus = 48;
            Offers offers;
            offers[1] = std::vector{of_segments(6, 1, 2), offer_of(6, slower)};
            const Decision d = decide(s, offers, policy);
            const Action* start = start_of(d, 1);
            ck_assert_msg(start != nullptr, "%s", policy);
            ck_assert_int_eq(start->offer.segment, 1);
            ck_assert_double_eq(start->offer.estimate.iteration_s, slower);
            ck_assert(by_leaf(s, start->nodes)[0] == 3);
            offers[1].own().pop_back();
            ck_assert(start_of(decide(s, offers, policy), 1) == nullptr);
        }
}

TEST(a_job_takes_whole_racks_where_they_are_free_or_soon_will_be) {
    Offers offers;
    offers[1] = std::vector{of_segments(6, 1, 2), offer_of(6, 1.5)};
    ck_assert(start_of(decide(racks_that_fill(250), offers), 1) == nullptr);
    Snapshot s = racks_that_fill(250);
    s.nodes[3].free_gpus = 8, s.nodes[3].free_cpus = 64;
    std::erase_if(s.jobs,
                  [](const JobState& job) { return job.nodes == std::vector<NodeIndex>{3}; });
    const Decision d = decide(s, offers);
    const Action* start = start_of(d, 1);
    ck_assert(start != nullptr && start->offer.segment == 2);
    ck_assert(by_leaf(s, start->nodes) == (std::vector<std::int64_t>{4, 2, 0}) ||
              by_leaf(s, start->nodes) == (std::vector<std::int64_t>{2, 2, 2}));
}

TEST(a_running_job_is_priced_as_the_plan_that_it_runs_with) {
    Snapshot s = cluster_of(1, 2, 4, NetworkKind::block);
    run_elastic(s, 1, {0, 1, 2, 4, 5, 6}, 1.5);
    s.jobs[0].remaining_iterations = 1e6;
    s.jobs[0].max_gpus = 48;
    occupy(s, {7}, 1e7);
    Offers offers;
    offers[1] = std::vector{of_segments(6, 1, 2), offer_of(6, 1.5)};
    const PolicyOptions options;
    const Problem problem(s, offers, options, Scope::layouts);
    ck_assert_double_eq(problem.choice(problem.tasks().at(0).current).iteration_s, 1.5);
    // a fourth node of the first rack is free: it moves to whole segments
    const Decision d = decide(s, offers);
    ck_assert_uint_eq(d.actions.size(), 1);
    ck_assert(d.actions[0].kind == ActionKind::resize && d.actions[0].offer.segment == 2);
    s.jobs[0].current = of_segments(6, 1, 2);
    s.jobs[0].nodes = {0, 1, 2, 3, 4, 5};
    s.nodes[3].free_gpus = s.nodes[3].free_cpus = 0;
    s.nodes[6].free_gpus = 8, s.nodes[6].free_cpus = 64;
    const Problem whole(s, offers, options, Scope::layouts);
    ck_assert_double_eq(whole.choice(whole.tasks().at(0).current).iteration_s, 1);
    ck_assert(decide(s, offers).actions.empty());
}

TEST(a_promise_counts_on_the_plan_that_needs_no_rack) {
    Snapshot s = racks_that_fill(1e7);
    s.jobs[0].requested_gpus = 48;
    s.jobs[0].time_limit_s = 20000;
    Offers offers;
    offers[1] = std::vector{of_segments(6, 1, 2), offer_of(6, 1.5)};
    PolicyOptions options;
    options.order = QueueOrder::priority;
    PromiseBook promises(PromiseRules{});
    promises.give(s, offers, options);
    const Promise* promise = promises.find(1);
    ck_assert(promise != nullptr);
    ck_assert_double_eq_tol(promise->end_s, s.time_s + 1500 + options.restart.seconds(48), 1);
    ck_assert(promise->grid.is_of(offers[1][1]) && !promise->grid.is_of(offers[1][0]));
}
