// SPDX-License-Identifier: GPL-2.0-or-later
// A profile run by itself: its states and what it remembers between tries, and where it goes. No
// scheduler and no host: each test tells what happened.
#include "plugin/sched/profiles/run_machine.h"
#include "plugin/sched/profiles/run_place.h"
#include "suite.h"

using namespace arena;

namespace {

template <class State>
bool is(const RunMachine& run) {
    return std::holds_alternative<State>(run.state());
}

TEST(a_run_that_uses_up_its_tries_rests_until_the_back_off_is_over) {
    RunMachine run(2);
    run.runs({7, 100, {}});
    run.loses_carrier();
    run.fails("n1", "no driver", 110);
    ck_assert(is<RunMachine::Idle>(run) && !run.has_given_up(111, 600));
    run.runs({8, 120, {}});
    run.fails("n2", "no memory", 130);
    ck_assert_msg(is<RunMachine::Running>(run), "an earlier carrier's failure ends no other");
    run.loses_carrier();
    ck_assert(is<RunMachine::Failed>(run) && run.has_given_up(729, 600));
    ck_assert_str_eq(run.failures().reason.c_str(), "no memory");
    ck_assert(run.failures().nodes == (std::set<std::string>{"n1", "n2"}));
    ck_assert(!run.has_given_up(730, 600) && is<RunMachine::Idle>(run));
    ck_assert(run.failures().count == 0 && run.forget_old(730));
}

TEST(what_a_late_failure_says_makes_no_newer_one_older) {
    RunMachine run(3);
    run.fails("n1", "late", 200);
    run.fails("", "seen after a restart", 50);
    ck_assert_double_eq(run.failures().last_s, 200);
    ck_assert_uint_eq(run.failures().nodes.size(), 1);
    ck_assert(!run.forget_old(200));
}

TEST(a_result_ends_what_failed_before_it) {
    RunMachine run(1);
    run.fails("n1", "no driver", 10);
    ck_assert(is<RunMachine::Failed>(run));
    run.forgets_failures();
    ck_assert(is<RunMachine::Idle>(run) && !run.has_given_up(11, 600));
}

TEST(a_run_that_awaits_its_result_still_has_its_carrier) {
    RunMachine run(1);
    ck_assert(!run.has_carrier());
    run.runs({7, 100, " 1/2"});
    ck_assert(run.has_carrier());
    run.awaits_result({7, 100});
    ck_assert(run.has_carrier() && is<RunMachine::AwaitingResult>(run));
    run.loses_carrier();
    ck_assert(!run.has_carrier() && is<RunMachine::Idle>(run));
}

TEST(waits_for_jobs_and_for_a_node_are_measured_from_their_first_round) {
    RunMachine run(1);
    run.yields(0);
    run.yields(5);
    ck_assert(!run.has_yielded(9) && run.has_yielded(10));
    ck_assert(run.may_wait_for_node(8) && run.may_wait_for_node(17));
    run.stops_waiting(&RunMachine::Waiting::yields_since_s);
    ck_assert(!run.has_yielded(10) && is<RunMachine::Waiting>(run));
    ck_assert_msg(!run.may_wait_for_node(18), "ten seconds after the first");
    ck_assert_msg(run.may_wait_for_node(19), "and then it begins anew");
    run.stops_waiting(&RunMachine::Waiting::busy_since_s);
    ck_assert_msg(run.may_wait_for_node(40), "so it does when it waited for another thing");
}

TEST(a_wait_that_nobody_goes_on_with_is_forgotten) {
    RunMachine run(1);
    run.yields(0);
    ck_assert(run.may_wait_for_node(5));
    ck_assert(!run.forget_old(20) && run.has_yielded(20));
    ck_assert(!run.forget_old(21) && !run.has_yielded(21));
    ck_assert(!run.forget_old(25) && is<RunMachine::Waiting>(run));
    ck_assert(run.forget_old(26) && is<RunMachine::Idle>(run));
}

TEST(a_start_ends_all_waits) {
    RunMachine run(1);
    run.yields(0);
    run.runs({7, 3, {}});
    run.loses_carrier();
    ck_assert(!run.has_yielded(100));
}

using Outcome = RunPlacement::Outcome;

/// Nodes n0, n1, ... of four GPUs of type a40, all in partition main.
struct Nodes {
    ClusterView view;
    RunRefusals refusals{600};
    Request request;
    std::vector<NodeIndex> usable;
    std::vector<RunPlace> places;
    std::set<std::string> failed_on;
    std::vector<Taken> taken;
    std::optional<std::vector<bool>> kept = std::vector<bool>{};

    explicit Nodes(NodeIndex count) {
        view.steady_s = 1000;
        view.memory_tracked = true;
        for (NodeIndex i = 0; i < count; ++i) {
            view.snapshot.nodes.push_back({"n" + std::to_string(i), "a40", 4, 4, 16, 64000});
            view.node_cpus.push_back(16);
            view.node_memory_mb.push_back(64000);
            view.partitions["main"].push_back(i);
            usable.push_back(i);
        }
        places = places_in("main");
    }
    [[nodiscard]] ProfileNeed job(const std::string& partitions) const {
        ProfileNeed need;
        need.request = &request;
        need.gpu_type = "a40";
        need.partition = partitions;
        need.nodes = &usable;
        return need;
    }
    [[nodiscard]] std::vector<RunPlace> places_in(const std::string& partitions,
                                                  const std::string& own = {}) const {
        return run_places(job(partitions), view, own);
    }
    [[nodiscard]] PlaceNeed need() const { return {places, failed_on, kept, &taken}; }
    [[nodiscard]] RunPlacement place() const { return place_run(need(), view, refusals); }
    [[nodiscard]] const char* node() const {
        const RunPlacement found = place();
        return found.place ? view.snapshot.nodes[found.place->node].name.c_str() : "";
    }
    void refuse(const std::string& node) { ck_assert(refusals.nodes.note(node, "busy", 1000)); }
    void run_on(const std::string& node) { view.carriers.push_back({9, 0, "", node}); }
};

TEST(a_run_goes_to_the_first_node_that_has_room_beside_what_jobs_take) {
    Nodes nodes(3);
    ck_assert_str_eq(nodes.node(), "n0");
    nodes.taken = {{4, 0, 0}};
    ck_assert_str_eq(nodes.node(), "n1");
    nodes.taken = {{0, 16, 0}, {0, 0, 48001}};
    ck_assert_str_eq(nodes.node(), "n2");
    nodes.taken.push_back({4, 0, 0});
    ck_assert(nodes.place().outcome == Outcome::behind_jobs);
}

TEST(a_node_that_failed_or_refused_once_is_the_last_choice) {
    Nodes nodes(3);
    nodes.failed_on = {"n0"};
    nodes.refuse("n1");
    ck_assert_str_eq(nodes.node(), "n2");
    nodes.view.snapshot.nodes[2].free_gpus = 0;
    ck_assert_str_eq(nodes.node(), "n0");
    nodes.view.snapshot.nodes[0].free_gpus = 0;
    const RunPlacement none = nodes.place();
    ck_assert(none.outcome == Outcome::resting && none.node == "n1");
    nodes.view.steady_s += 2;
    ck_assert_str_eq(nodes.node(), "n1");
}

TEST(while_three_nodes_rest_no_other_is_asked) {
    Nodes nodes(4);
    for (const char* name : {"n2", "n1"}) nodes.refuse(name);
    ck_assert_str_eq(nodes.node(), "n0");
    nodes.refuse("n3");
    const RunPlacement none = nodes.place();
    ck_assert(!none.place && none.outcome == Outcome::resting && none.node == "n1");
}

TEST(a_node_measures_for_one_run_at_a_time_and_those_that_end_are_waited_for) {
    Nodes nodes(2);
    nodes.run_on("n0");
    ck_assert_str_eq(nodes.node(), "n1");
    nodes.run_on("n1");
    nodes.run_on("elsewhere");
    const RunPlacement none = nodes.place();
    ck_assert(none.outcome == Outcome::behind_runs);
    ck_assert_uint_eq(none.runs, 2);
    nodes.view.carriers[0].finished = true;
    ck_assert_str_eq(nodes.node(), "n0");
}

TEST(nodes_kept_for_users_before_it_are_left_to_them) {
    Nodes nodes(2);
    nodes.kept = {{true}};
    ck_assert_str_eq(nodes.node(), "n1");
    nodes.kept = {{true, true}};
    ck_assert(nodes.place().outcome == Outcome::behind_users);
    nodes.kept = std::nullopt;  // they take all turns
    ck_assert(nodes.place().outcome == Outcome::behind_users);
}

TEST(a_partition_that_refuses_closes_its_nodes_and_no_others) {
    Nodes nodes(1);
    nodes.view.partitions["long"] = {0};
    nodes.places = nodes.places_in("main,long");
    ck_assert(nodes.refusals.partitions.note("a40 in partition main", "limit", 1000));
    ck_assert_str_eq(nodes.place().place->partition.c_str(), "long");
    ck_assert(nodes.refusals.partitions.note("a40 in partition long", "limit", 1000));
    ck_assert(nodes.place().outcome == Outcome::closed);
    nodes.places.clear();
    ck_assert(nodes.place().outcome == Outcome::closed);
}

TEST(places_are_nodes_of_the_type_in_a_partition_of_profile_runs) {
    Nodes nodes(3);
    nodes.view.snapshot.nodes[1].gpu_type = "a100";
    nodes.view.partitions["measure"] = {1, 2};
    ck_assert_uint_eq(nodes.places_in("main").size(), 2);
    const std::vector<RunPlace> own = nodes.places_in("main", "measure");
    ck_assert_uint_eq(own.size(), 1);
    ck_assert(own[0].node == 2 && own[0].asked == "a40 in partition measure");
    ck_assert(nodes.places_in("main", "gone").empty() && nodes.places_in("gone").empty());
    ck_assert(no_place_text(nodes.job("gone"), nodes.view, "") ==
              "partition gone takes no new jobs");
}

TEST(a_busy_cluster_without_runs_and_refusals_is_just_busy) {
    Nodes nodes(1);
    nodes.view.snapshot.nodes[0].free_gpus = 0;
    ck_assert(nodes.place().outcome == Outcome::none_free);
}

TEST(a_run_takes_the_share_of_the_poorest_node_and_leaves_what_is_taken) {
    Nodes nodes(2);
    nodes.view.node_memory_mb[1] = 32000;
    RunShare share = run_share(nodes.places[0], nodes.view, nullptr);
    ck_assert(share.cpus == 4 && share.memory_mb == 8000);
    nodes.taken = {{2, 12, 0}};
    share = run_share(nodes.places[0], nodes.view, &nodes.taken);
    ck_assert_int_eq(share.cpus, 2);
    nodes.taken = {{4, 16, 0}};
    ck_assert_int_eq(run_share(nodes.places[0], nodes.view, &nodes.taken).cpus, 1);
}

}  // namespace
