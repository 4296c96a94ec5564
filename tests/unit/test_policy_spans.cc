// SPDX-License-Identifier: GPL-2.0-or-later
// What policies make of the price of a span: which nodes a job gets, and when it waits for others.
#include <map>
#include <set>

#include "policy/order/promises.h"
#include "policy/packing.h"
#include "policy/why_chosen.h"
#include "span_cases.h"

using namespace arena;
using namespace arena::test;

namespace {

/// Two leaves of four nodes, of each two free; on the first the others come free in so long.
Snapshot split_cluster(double free_in_s) {
    Snapshot s = cluster_of(1, 2, 4);
    s.jobs = {job_of(1)};
    occupy(s, {0, 1}, free_in_s);
    occupy(s, {4, 5}, 1e6);
    return s;
}

}  // namespace

TEST(nodes_lie_as_far_apart_as_the_lowest_switch_above_all_of_them) {
    const Snapshot s = cluster_of(2, 2, 2);
    const Fabric fabric(s);
    const auto span = [&](std::vector<NodeIndex> nodes) { return fabric.span_of(nodes); };
    ck_assert(span({0}) == Span::leaf && span({0, 1}) == Span::leaf);
    ck_assert(span({1, 2}) == Span::pod && span({0, 1, 2, 3}) == Span::pod);
    ck_assert(span({3, 4}) == Span::pods && fabric.widest() == Span::pods);
    ck_assert(Fabric(cluster_of(1, 3, 2)).widest() == Span::pod);
    ck_assert(Fabric(cluster_of(1, 1, 2)).widest() == Span::leaf);
    ck_assert(Fabric(cluster_of(1, 4, 2, NetworkKind::block)).widest() == Span::pod);
    // the first so many of a list that have as many near enough together
    const std::vector<NodeIndex> order{0, 2, 4, 5, 6, 1};
    std::vector<Fabric::Share> shares;
    ck_assert_uint_eq(fabric.first_within(order, 2, Span::pods, 1, shares), 2);
    ck_assert_uint_eq(fabric.first_within(order, 2, Span::leaf, 1, shares), 4);
    ck_assert_uint_eq(fabric.first_within(order, 3, Span::pod, 1, shares), 5);
    ck_assert_uint_eq(fabric.first_within(order, 4, Span::pod, 1, shares), 0);
}

TEST(a_span_that_costs_more_is_a_choice_of_its_own) {
    Snapshot s = cluster_of(2, 2, 4);
    s.jobs = {job_of(1)};
    Offers offers;
    offers[1] = std::vector{offer_of(4, 1, {1.02, 1.5}), offer_of(1, 4), offer_of(8, 0.6, {1, 2})};
    const PolicyOptions options;
    const Problem problem(s, offers, options, Scope::layouts);
    const Task& task = problem.tasks()[0];
    // one node; four nodes in a pod, and over pods; eight in a pod (a leaf has four), and over pods
    const auto choices = problem.choices(task);
    ck_assert_uint_eq(choices.size(), 5);
    const auto is = [&](std::size_t c, std::int32_t gpus, double iteration_s, Span widest) {
        ck_assert_int_eq(choices[c].gpus, gpus);
        ck_assert_double_eq_tol(choices[c].iteration_s, iteration_s, 1e-12);
        ck_assert(problem.widest(choices[c], *problem.offers(choices[c])[0]) == widest);
    };
    is(0, 8, 4, widest_span);
    is(1, 32, 1, Span::pod);
    is(2, 32, 1.5, widest_span);
    is(3, 64, 0.6, Span::pod);
    is(4, 64, 1.2, widest_span);
    // where nothing is chosen by the time at a span, the nearest stands for all
    const Problem whole(s, offers, options);
    ck_assert(!whole.has_spans() && whole.choices(whole.tasks()[0]).size() == 3);
    s.topology = NetworkKind::flat;
    const Problem flat(s, offers, options, Scope::layouts);
    ck_assert(!flat.has_spans() && flat.choices(flat.tasks()[0]).size() == 3);
}

TEST(a_job_waits_for_one_leaf_where_that_ends_sooner) {
    Offers offers;
    offers[1] = std::vector{offer_of(4, 1, {4, 4})};
    const Decision waits = decide(split_cluster(300), offers);
    ck_assert(start_of(waits, 1) == nullptr);
    // not released: Slurm would start it where it is not to be
    ck_assert(waits.actions.empty());
    const std::string& why = waits.waiting.at(1);
    ck_assert_msg(why ==
                      "waits for 4x8xa40 in one leaf: expected to be free within 5 min, and ends "
                      "sooner then than on nodes that are farther apart now",
                  "%s", why.c_str());
    // three hours for 1,000 s of work: now, at what it takes so
    const Decision starts = decide(split_cluster(10800), offers);
    const Action* start = start_of(starts, 1);
    ck_assert(start != nullptr);
    ck_assert_double_eq(start->offer.estimate.iteration_s, 4);
    // and where the network costs little nobody waits for it
    offers[1] = std::vector{offer_of(4, 1, {1.04, 1.04})};
    ck_assert(start_of(decide(split_cluster(300), offers), 1) != nullptr);
}

/// Two nodes of a40 that are free, and two of h100 that come free in so long.
static Snapshot two_types(double free_in_s) {
    Snapshot s = cluster_of(1, 1, 4);
    s.topology = NetworkKind::flat;
    for (const NodeIndex n : {2U, 3U}) s.nodes[n].gpu_type = "h100";
    occupy(s, {2, 3}, free_in_s);
    s.jobs[0].current->grid.gpu_type = "h100";
    s.jobs.insert(s.jobs.begin(), job_of(1));
    return s;
}

TEST(a_job_that_waits_for_a_type_says_what_of_another_is_free_now) {
    Offer fast = offer_of(2, 1);
    fast.grid.gpu_type = "h100";
    const Decision waits = decide(two_types(300), {{1, std::vector{fast, offer_of(2, 4)}}});
    ck_assert_uint_eq(waits.actions.size(), 1);
    ck_assert(waits.actions[0].kind == ActionKind::reshape_and_wait);
    says(waits.actions[0].reason,
         "waits for 2x8xh100: expected to be free within 5 min, and ends sooner then than on "
         "2x8xa40 now");
}

/// Promised by Slurm's order, which takes nodes that lie apart: the end is one that these keep.
TEST(a_promise_is_of_nodes_that_there_are) {
    Snapshot s = split_cluster(1e6);
    s.jobs[0].requested_gpus = 32;
    s.jobs[0].time_limit_s = 20000;
    Offers offers;
    offers[1] = std::vector{offer_of(4, 1, {4, 4})};
    PolicyOptions options;
    options.order = QueueOrder::priority;
    PromiseBook promises(PromiseRules{});
    promises.give(s, offers, options);
    const Promise* promise = promises.find(1);
    ck_assert(promise != nullptr);
    ck_assert_double_eq_tol(promise->end_s, s.time_s + 4000 + options.restart.seconds(32), 1);
    ck_assert_double_gt(s.jobs[0].due_s, 0);
    ck_assert(start_of(decide(s, offers, "arena", options), 1) != nullptr);
}

TEST(a_job_takes_fewer_gpus_where_more_lie_too_far_apart) {
    Offers offers;
    offers[1] = std::vector{offer_of(4, 1, {8, 8}), offer_of(2, 1.8, {8, 8})};
    const Decision d = decide(split_cluster(1e6), offers);
    const Action* start = start_of(d, 1);
    ck_assert(start != nullptr);
    ck_assert_int_eq(start->offer.grid.nodes, 2);
    ck_assert_double_eq(start->offer.estimate.iteration_s, 1.8);
}

TEST(an_elastic_job_moves_into_one_leaf_where_that_pays) {
    for (const double iterations : {20.0, 100000.0}) {
        Snapshot s = cluster_of(1, 2, 4);
        JobState runs = job_of(1, iterations);
        runs.phase = JobPhase::running;
        runs.elastic = true;
        runs.current = offer_of(4, 4);
        runs.nodes = {0, 1, 4, 5};
        runs.start_s = s.time_s - 20000;
        runs.age_s = 20000;
        runs.restarts = 1;
        runs.max_gpus = 32;
        for (const NodeIndex n : runs.nodes) s.nodes[n].free_gpus = s.nodes[n].free_cpus = 0;
        s.jobs = {runs};
        Offers offers;
        offers[1] = std::vector{offer_of(4, 1, {4, 4})};
        const Decision d = decide(s, offers);
        ck_assert_uint_eq(d.actions.size(), iterations > 1000 ? 1 : 0);
        if (d.actions.empty()) continue;
        ck_assert(d.actions[0].kind == ActionKind::resize);
        ck_assert(Fabric(s).span_of(d.actions[0].nodes) == Span::leaf);
        ck_assert_double_eq(d.actions[0].offer.estimate.iteration_s, 1);
    }
}

/// Whatever is decided: the offer of a start has the time of the nodes that it gets, no segment is
/// broken, and what has room is placed. 2,500 rounds of four policies.
TEST(a_start_is_priced_for_its_nodes_and_keeps_its_segments) {
    Random random(23);
    int wide = 0, segments = 0;
    for (int round = 0; round < 2500; ++round) {
        const bool blocks = round % 2 == 0;
        Snapshot s = cluster_of(among(random, 1, 2), among(random, 1, 4), among(random, 2, 6),
                                blocks ? NetworkKind::block : NetworkKind::tree);
        for (NodeState& node : s.nodes)
            if (among(random, 0, 2) == 0) node.free_gpus = among(random, 0, 7);
        const Fabric fabric(s);
        Offers offers;
        for (JobId id = 1; id <= 4; ++id) {
            s.jobs.push_back(job_of(id, static_cast<double>(among(random, 10, 100000))));
            s.jobs.back().time_limit_s = 1e6;
            s.jobs.back().elastic = among(random, 0, 1) == 0;
            std::vector<Offer> list;
            for (std::int64_t nodes = 1; nodes <= 8; nodes *= 2) {
                const double pod = static_cast<double>(among(random, 10, 40)) / 10;
                list.push_back(offer_of(nodes, 4 / static_cast<double>(nodes)));
                if (nodes == 1) continue;
                list.back().slower = {pod, pod * static_cast<double>(among(random, 1, 3))};
                if (blocks && among(random, 0, 1) == 0)
                    list.back().segment = std::min<std::int64_t>(nodes, 2);
            }
            s.jobs.back().requested_gpus = list.back().grid.gpus();
            offers[id] = std::move(list);
        }
        PolicyOptions options;
        options.order = among(random, 0, 1) == 0 ? QueueOrder::priority : QueueOrder::value;
        for (const char* policy : {"arena", "fifo", "aryl", "arena-paper"})
            for (const Action& action : decide(s, offers, policy, options).actions) {
                if (action.kind != ActionKind::start) continue;
                const auto& list = offers.at(action.job);
                const auto same = std::find_if(list.begin(), list.end(), [&](const Offer& o) {
                    return o.grid == action.offer.grid;
                });
                ck_assert_msg(same != list.end(), "round %d: %s", round, policy);
                const Span span = fabric.span_of(action.nodes);
                ck_assert_msg(action.offer == at_span(*same, span), "round %d: %s", round, policy);
                ck_assert_msg(fabric.keeps_segments(action.nodes, same->segment), "round %d: %s",
                              round, policy);
                wide += span != Span::leaf;
                segments += same->segment > 1;
            }
    }
    ck_assert_int_gt(wide, 500);
    ck_assert_int_gt(segments, 500);
}

/// Divisors of `nodes` but 1; one of them by chance.
std::int64_t segment_of(Random& random, std::int64_t nodes) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 2; d <= nodes; ++d)
        if (nodes % d == 0) divisors.push_back(d);
    return divisors[static_cast<std::size_t>(among(random, 0, std::ssize(divisors) - 1))];
}

/// Nodes in each block, counted without Fabric, and no node twice.
void keeps_racks_whole(const Snapshot& s, const Action& action, std::int64_t segment, int round) {
    std::map<std::int32_t, std::int64_t> in_rack;
    std::set<NodeIndex> taken;
    for (const NodeIndex n : action.nodes) {
        ++in_rack[s.nodes[n].leaf];
        ck_assert_msg(taken.insert(n).second, "round %d: a node twice", round);
    }
    for (const auto& [rack, nodes] : in_rack)
        ck_assert_msg(nodes % segment == 0, "round %d: %d nodes of a rack, segments of %d", round,
                      static_cast<int>(nodes), static_cast<int>(segment));
}

/// Racks of 2 to 18 trays, whatever is used of them and by whom; jobs that start, wait and move.
/// 10,000 rounds.
TEST(a_plan_that_needs_a_rack_never_starts_outside_one) {
    Random random(31);
    int starts = 0, moves = 0, waits = 0, unbound = 0;
    for (int round = 0; round < 10000; ++round) {
        const std::int64_t racks = among(random, 1, 4), trays = among(random, 2, 18);
        Snapshot s = cluster_of(1, racks, trays, NetworkKind::block);
        for (NodeState& node : s.nodes)
            if (among(random, 0, 2) == 0) node.free_gpus = among(random, 0, 7);
        Offers offers;
        const std::int64_t most = std::min<std::int64_t>(racks * trays, 24);
        for (JobId id = 1; id <= 3; ++id) {
            JobState job = job_of(id, static_cast<double>(among(random, 10, 100000)));
            job.time_limit_s = 1e6;
            job.elastic = among(random, 0, 1) == 0;
            std::vector<Offer> list;
            for (int kind = 0; kind < 2; ++kind) {
                const std::int64_t nodes = among(random, 2, most);
                if (!list.empty() && list[0].grid.nodes == nodes) continue;
                list.push_back(offer_of(nodes, 4 / static_cast<double>(nodes)));
                list.back().segment = segment_of(random, nodes);
                if (among(random, 0, 2) > 0) continue;  // it has a plan that needs no rack, too
                list.push_back(list.back());
                list.back().segment = 1;
                scale(list.back().estimate, static_cast<double>(among(random, 101, 300)) / 100);
            }
            job.requested_gpus = list[0].grid.gpus();
            offers[id] = list;
            s.jobs.push_back(std::move(job));
        }
        if (s.jobs[0].elastic) {  // it runs already, on part of a rack
            JobState& runs = s.jobs[0];
            runs.phase = JobPhase::running;
            runs.start_s = s.time_s - 90000;
            runs.nodes = {0};
            runs.current = offer_of(1, 4);
            offers[1].own().push_back(*runs.current);
            s.nodes[0].free_gpus = 0;
        }
        PolicyOptions options;
        options.order = among(random, 0, 1) == 0 ? QueueOrder::priority : QueueOrder::value;
        const Decision decision = decide(s, offers, "arena", options);
        waits += static_cast<int>(decision.waiting.size());
        for (const Action& action : decision.actions) {
            if (action.kind != ActionKind::start && action.kind != ActionKind::resize) continue;
            (action.kind == ActionKind::start ? starts : moves)++;
            const auto& list = offers.at(action.job).get();
            const auto taken = std::ranges::find_if(list, [&](const Offer& offer) {
                return offer.grid == action.offer.grid && offer.estimate == action.offer.estimate;
            });
            ck_assert_msg(taken != list.end() && taken->segment == action.offer.segment,
                          "round %d: another one's price", round);
            keeps_racks_whole(s, action, taken->segment, round);
            unbound += list.size() > 1 && taken->segment == 1 && taken->grid.nodes > 1;
        }
    }
    ck_assert_int_gt(starts, 5000);
    ck_assert_int_gt(moves, 500);
    ck_assert_int_gt(waits, 3000);
    ck_assert_int_gt(unbound, 500);
}

TEST(what_has_room_within_a_span_is_placed_within_it) {
    Random random(29);
    int placed = 0, refused = 0;
    for (int round = 0; round < 3000; ++round) {
        const bool blocks = round % 3 == 0;
        Snapshot s = cluster_of(among(random, 1, 3), among(random, 1, 3), among(random, 2, 5),
                                blocks ? NetworkKind::block : NetworkKind::tree);
        for (NodeState& node : s.nodes)
            if (among(random, 0, 1) == 0) node.free_gpus = 0;
        s.jobs = {job_of(1)};
        Offers offers;
        offers[1] = std::vector{offer_of(among(random, 2, 6), 1, {2, 4})};
        if (blocks) offers[1].own()[0].segment = among(random, 1, 2);
        const PolicyOptions options;
        const Problem problem(s, offers, options, Scope::layouts);
        if (problem.tasks().empty()) continue;
        const Task& task = problem.tasks()[0];
        for (const Choice& choice : problem.choices(task)) {
            Packing packing(problem);
            const bool has_room = packing.has_room(task, choice);
            Placement at;
            const bool found = packing.place(task, choice, at);
            ck_assert_msg(found == has_room, "round %d", round);
            (found ? placed : refused)++;
            if (!found) continue;
            ck_assert(at.span == packing.fabric().span_of(at.nodes));
            ck_assert(at.span <= problem.widest(choice, *at.offer));
            // no nearer choice had room
            for (const Choice& nearer : problem.choices(task)) {
                if (&nearer == &choice) break;
                Packing again(problem);
                Placement there;
                if (again.place(task, nearer, there)) ck_assert(at.span == there.span);
            }
        }
    }
    ck_assert_int_gt(placed, 1000);
    ck_assert_int_gt(refused, 1000);
}

// ---- why it is this shape -----------------------------------------------------------------------

/// What a job hears that gets `own` where it could also have had `other`.
static std::string words_of(const Snapshot& s, const Offer& own, const Offer& other) {
    const Offers offers{{1, std::vector{own, other}}};
    const PolicyOptions options;
    const Problem problem(s, offers, options, Scope::layouts);
    const auto task =
        std::ranges::find(problem.tasks(), JobId{1}, [](const Task& t) { return t.job->id; });
    Packing packing(problem);
    Placement placement;
    if (task->runs()) packing.release_current(*task);
    const Choice& choice = problem.choice(problem.find_choice(*task, own));
    ck_assert(packing.place(*task, choice, placement));
    const std::vector<Action> actions{action_for(*task, placement, "")};
    return why_chosen(problem, *task, actions[0], Leftover(problem, packing, actions));
}

TEST(a_start_says_why_it_is_not_with_a_faster_shape) {
    Snapshot s = cluster_of(1, 1, 4);
    s.jobs = {job_of(1)};
    says(words_of(s, offer_of(1, 1), offer_of(1, 1)), "its only shape");
    says(words_of(s, offer_of(2, 0.6), offer_of(1, 1)), "its fastest shape");
    says(words_of(s, offer_of(2, 1), offer_of(4, 0.98)), "its fastest shape");
    says(words_of(s, offer_of(2, 1), offer_of(4, 0.8)),
         "4x8xa40 would be 1.2 times as fast: not worth 16 GPUs more");
    for (const NodeIndex n : {2U, 3U}) s.nodes[n].boot_s = 60;
    says(words_of(s, offer_of(2, 1), offer_of(4, 0.8)),
         "4x8xa40 would be 1.2 times as fast: its nodes would have to boot");
    occupy(s, {3}, 1e6);
    says(words_of(s, offer_of(2, 1), offer_of(4, 0.8)),
         "4x8xa40 would be 1.2 times as fast: not enough free now");
}

TEST(a_start_over_leaves_says_that_a_leaf_would_be_faster) {
    const Snapshot s = split_cluster(1e6);
    const Offers offers{{1, std::vector{offer_of(4, 1, {1.5, 1.5})}}};
    const PolicyOptions options;
    const Problem problem(s, offers, options, Scope::layouts);
    Packing packing(problem);
    Placement placement;
    ck_assert(packing.place(problem.tasks()[0], problem.choice(1), placement));
    const std::vector<Action> actions{action_for(problem.tasks()[0], placement, "")};
    says(why_chosen(problem, problem.tasks()[0], actions[0], Leftover(problem, packing, actions)),
         "4x8xa40 in one leaf would be 1.5 times as fast: so many are not free together");
}

TEST(a_move_says_what_it_gains) {
    Snapshot s = cluster_of(1, 1, 4);
    s.jobs = {job_of(1)};
    JobState& job = s.jobs[0];
    job.phase = JobPhase::running;
    job.elastic = true;
    job.current = offer_of(1, 1);
    job.nodes = {0};
    s.nodes[0].free_gpus = 0;
    says(words_of(s, offer_of(2, 0.5), offer_of(1, 1)),
         "2.0 times as fast as on 8xa40: pays for the restart");
    job.current = offer_of(2, 0.5);
    job.nodes = {0, 1};
    s.nodes[1].free_gpus = 0;
    says(words_of(s, offer_of(1, 1), offer_of(2, 0.5)), "others make more of 2x8xa40");
}

// ---- boots --------------------------------------------------------------------------------------

/// A node of eight a40, awake and idle, and one of another type or the same that boots for so long.
static Snapshot with_sleeper(std::string type, double boot_s, double iterations) {
    Snapshot s = cluster_of(1, 1, 2);
    s.nodes[1].gpu_type = std::move(type);
    s.nodes[1].boot_s = boot_s;
    s.jobs = {job_of(1, iterations)};
    return s;
}

TEST(a_job_waits_for_a_boot_only_where_it_ends_sooner_so) {
    Offer faster = offer_of(1, 0.9);
    faster.grid.gpu_type = "a100";
    const Offers offers{{1, std::vector{faster, offer_of(1, 1)}}};
    for (const bool elastic : {false, true}) {
        const auto node_of = [&](double boot_s, double iterations) {
            Snapshot s = with_sleeper("a100", boot_s, iterations);
            s.jobs[0].elastic = elastic;
            const Decision d = decide(s, offers);
            const Action* start = start_of(d, 1);
            return start == nullptr ? -1 : static_cast<int>(start->nodes[0]);
        };
        ck_assert_int_eq(node_of(0, 1000), 1);      // it is the faster one
        ck_assert_int_eq(node_of(300, 1000), 0);    // by 100 s, for a boot of 300
        ck_assert_int_eq(node_of(300, 10000), 1);   // by 1,000
        ck_assert_int_eq(node_of(1500, 10000), 0);  // for one of 1,500
    }
}

TEST(growth_onto_a_sleeping_node_pays_for_its_boot) {
    const Offers offers{{1, std::vector{offer_of(2, 0.5), offer_of(1, 1)}}};
    const auto grows = [&](double boot_s, double iterations) {
        Snapshot s = with_sleeper("a40", boot_s, iterations);
        JobState& job = s.jobs[0];
        job.phase = JobPhase::running;
        job.elastic = true;
        job.current = offer_of(1, 1);
        job.nodes = {0};
        job.start_s = 900;
        job.restarts = 1;
        s.nodes[0].free_gpus = s.nodes[0].free_cpus = 0;
        return !decide(s, offers).actions.empty();
    };
    ck_assert(grows(0, 20000) && grows(0, 100000));
    ck_assert(!grows(300, 20000) && grows(300, 100000));
    ck_assert(!grows(3000, 100000));
}

/// By count there are GPUs that are up; they are in pieces, and so a node would boot.
TEST(nodes_that_boot_although_enough_gpus_are_up_are_weighed_too) {
    const auto nodes_of = [&](double iterations) {
        Snapshot s = cluster_of(1, 1, 4);
        s.nodes[2].boot_s = 300;
        for (const NodeIndex n : {0U, 1U}) s.nodes[n].free_gpus = 4;
        s.nodes[3].free_gpus = 0;
        s.jobs = {job_of(1, iterations)};
        s.jobs[0].elastic = true;
        Offer half = offer_of(1, 1);
        half.grid.gpus_per_node = 4;
        const Decision d = decide(s, {{1, std::vector{offer_of(1, 0.9), half}}});
        const Action* start = start_of(d, 1);
        return start == nullptr ? std::vector<NodeIndex>() : start->nodes;
    };
    const auto slept = [](const std::vector<NodeIndex>& nodes) {
        return nodes == std::vector<NodeIndex>{2};
    };
    ck_assert(!nodes_of(1000).empty() && !slept(nodes_of(1000)));
    ck_assert(slept(nodes_of(1000000)));
}
