// SPDX-License-Identifier: GPL-2.0-or-later
// The stages of a round one by one, and the books that they keep, on values: no round of the whole
// scheduler.
#include "plugin/sched/host/move_end.h"
#include "plugin/sched/round/running.h"
#include "plugin/sched/round/stages.h"
#include "policy/arena/slurm_policies.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

const Stopping never = [] { return false; };

/// One node of four free GPUs of type a40.
struct StagesScene : Scene {
    std::unique_ptr<Books> books;

    StagesScene() { node("n1", "a40", 4, 4); }
    Round take_in() {
        if (!books)
            books = std::make_unique<Books>(host, config, load_hardware("").value(),
                                            builtin_calibration(), PlanLimits{});
        return intake(host.collect([](auto...) { return false; }), *books, never);
    }
};

ClusterView view_at(double steady_s, std::int64_t free_gpus = 0, bool up = true) {
    ClusterView view;
    view.steady_s = steady_s;
    view.snapshot.nodes = {{"n1", "a40", 4, free_gpus, 0, 0, up}};
    view.node_cpus = view.node_memory_mb = {0};
    return view;
}

const Chosen grid(Grid{"a40", 1, 2});
Offer offer_of(const Grid& of) {
    Offer offer;
    offer.grid = of;
    return offer;
}
const OfferList one_offer = std::make_shared<const std::vector<Offer>>(1, offer_of(grid));

TEST(a_blocked_offer_is_tried_again_when_its_reason_is_gone) {
    BlockedOffers blocked;
    blocked.new_round(view_at(100));
    ck_assert_uint_eq(blocked.open(1, one_offer).size(), 1);
    blocked.block(1, grid, "AssocGrpCpuLimit", true);
    ck_assert(blocked.open(1, one_offer).empty());
    ck_assert_str_eq(blocked.why(1).c_str(), "AssocGrpCpuLimit");
    ck_assert_uint_eq(blocked.open(2, one_offer).size(), 1);
    blocked.new_round(view_at(101, 1));  // a job has ended
    ck_assert_uint_eq(blocked.open(1, one_offer).size(), 1);
    blocked.block(1, grid, "no node has it");
    blocked.new_round(view_at(102, 2));
    ck_assert_msg(blocked.open(1, one_offer).empty(), "this was no limit");
    blocked.new_round(view_at(131, 2));
    ck_assert_uint_eq(blocked.open(1, one_offer).size(), 1);
    ck_assert(blocked.refuse(1, grid, "never", true));
    ck_assert(blocked.rests(1));
    blocked.new_round(view_at(1000, 2, false));
    ck_assert(!blocked.rests(1) && blocked.open(1, one_offer).empty());
    blocked.new_round(view_at(1001, 2));  // its node came back
    ck_assert_uint_eq(blocked.open(1, one_offer).size(), 1);
}

/// The same nodes and GPUs, in a rack and with a plan that needs none.
TEST(what_slurm_refuses_one_plan_of_a_grid_rests_no_other) {
    Offer of_rack = offer_of({"a40", 2, 4}), twin = of_rack;
    of_rack.segment = 2;
    const auto both = std::make_shared<const std::vector<Offer>>(std::vector{of_rack, twin});
    for (const Offer& refused : *both) {
        const Offer& other = refused.segment > 1 ? twin : of_rack;
        const auto left = [&](const SharedOffers& open) {
            return open.size() == 1 && open.front() == other;
        };
        BlockedOffers blocked;
        blocked.new_round(view_at(100));
        ck_assert(
            blocked.refuse(1, refused, "Requested node configuration is not available", true));
        ck_assert(left(blocked.open(1, both)));
        ck_assert(!blocked.why_not(1, refused).empty() && blocked.why_not(1, other).empty());
        blocked.block(2, refused, "QOSMaxGRESPerJob", true);
        ck_assert(left(blocked.open(2, both)));
        ck_assert(left(blocked.to_move_to(2, both, Chosen(Grid{"a40", 1, 4}))));
        blocked.block(2, other, "QOSMaxGRESPerJob", true);
        ck_assert_msg(left(blocked.to_move_to(2, both, other)), "it has its own");
        ck_assert(!blocked.busy_too_long(3, refused, "busy"));
        blocked.new_round(view_at(111));
        ck_assert_msg(!blocked.busy_too_long(3, other, "busy"), "it has its own 10 s");
    }
}

TEST(what_fails_once_is_no_plan_that_slurm_does_not_share) {
    BlockedOffers blocked;
    blocked.new_round(view_at(100));
    for (int round = 0; round < 2; ++round) ck_assert(!blocked.stale_too_often(1, grid, "gone"));
    blocked.not_stale(1);
    for (int round = 0; round < 2; ++round) ck_assert(!blocked.stale_too_often(1, grid, "gone"));
    ck_assert(blocked.stale_too_often(1, grid, "gone") && blocked.open(1, one_offer).empty());
    ck_assert(!blocked.busy_too_long(2, grid, "busy"));
    blocked.new_round(view_at(109));
    ck_assert(!blocked.busy_too_long(2, grid, "busy"));
    ck_assert_msg(!blocked.busy_too_long(2, Chosen(Grid{"a40", 1, 4}), "busy"),
                  "another shape has its own 10 s");
    blocked.new_round(view_at(119));
    ck_assert(blocked.busy_too_long(2, Chosen(Grid{"a40", 1, 4}), "busy"));
    blocked.forget([](const auto& entry) { return entry.first == 1; });
    ck_assert_uint_eq(blocked.open(1, one_offer).size(), 1);
}

TEST(setting_the_clock_ends_no_wait) {
    JobClocks clocks;
    ClusterView view = view_at(50);
    view.snapshot.time_s = 1000;
    JobView job;
    job.id = 1;
    job.facts.restart = 1;
    view.jobs = {job};
    clocks.new_round(view);
    ck_assert_double_eq(clocks.age_s(1, 990), 10);
    ck_assert(!clocks.may_launch(job));
    view.steady_s += 1;
    view.snapshot.time_s += 7200;
    clocks.new_round(view);
    ck_assert_double_eq(clocks.age_s(1, 990), 11);
    ck_assert(!clocks.may_launch(job));
    view.steady_s += 1;
    clocks.new_round(view);
    ck_assert(clocks.may_launch(job));
    ck_assert_double_eq(clocks.profile_wait_since_s(1), 52);
    view.jobs[0].facts.state = HostJobState::running;
    clocks.new_round(view);
    ck_assert(!clocks.may_launch(job));
}

TEST(a_job_that_ran_between_two_rounds_is_not_launched_at_once) {
    JobClocks clocks;
    ClusterView view = view_at(50);
    JobView& job = view.jobs.emplace_back();
    job.id = 1;
    job.facts.restart = 1;
    clocks.new_round(view);
    view.steady_s += 60;
    clocks.new_round(view);
    ck_assert(clocks.may_launch(job));
    ++job.facts.restart;
    view.steady_s += 0.2;
    clocks.new_round(view);
    ck_assert(!clocks.may_launch(job));
    view.steady_s += 2;
    clocks.new_round(view);
    ck_assert(clocks.may_launch(job));
}

TEST(a_job_settles_for_the_cooldown_and_until_its_moves_of_the_hour_are_fewer) {
    Config config;
    config.cooldown_s = 600;
    config.moves_per_hour = 2;
    constexpr double now_s = 10000;
    using Moves = std::vector<std::int64_t>;
    ck_assert(settles_s(Moves{}, 0, now_s, config) == 600);
    ck_assert(settles_s(Moves{9000}, 0, now_s, config) == 600);
    ck_assert(settles_s(Moves{9000}, 0, now_s, config, 500) == 100);
    ck_assert(settles_s(Moves{1000, 8000, 9000}, 0, now_s, config) == 8000 + 3600 - now_s);
    ck_assert(settles_s(Moves{1000, 2000, 9000}, 0, now_s, config) == 600);
    ck_assert(settles_s(Moves{}, max_unsaved_moves, now_s, config) > 1e6);
    config.moves_per_hour = 0;
    ck_assert(settles_s(Moves{}, 0, now_s, config) > 1e6);
}

TEST(what_may_be_moved_and_how_far_it_is) {
    JobView job;
    job.nodes_open = true;
    job.start_s = 1000;
    job.facts.mark = JobMark{.phase = Phase::started, .done = 7};
    Request request = Scene::request();
    request.elastic = true;
    Config config;
    const double now_s = 100000, run_s = config.cooldown_s;
    const auto may = [&] { return movable(job, request, run_s, now_s, config); };
    ck_assert(may() && !movable(job, request, run_s - 1, now_s, config));
    job.facts.mark->moves.assign(static_cast<std::size_t>(config.moves_per_hour), 99000);
    ck_assert(!may());
    job.facts.mark->moves.assign(1, 0), job.configuring = true;
    ck_assert(!may());
    job.configuring = false, job.facts.mark->hold = OtherHold::user;
    ck_assert(!may());
    const RestartCost restart{.checkpoint_s = 30, .per_gpu_s = 10, .launch_cap_s = 40};
    Offer plan = offer_of(grid);
    ck_assert_double_eq(done_iterations(job, plan, now_s, restart), 7);  // no estimate
    plan.estimate.iteration_s = 2;
    ck_assert_double_eq(done_iterations(job, plan, 1000 + 50 + 9, restart), 7 + 4);
    ck_assert_double_eq(done_iterations(job, plan, 1000, restart), 7);
    job.facts.mark->phase = Phase::checkpointing;
    ck_assert_double_eq(done_iterations(job, plan, now_s, restart), 7);
    request.max_gpus = 1;
    ck_assert(!inside_request(request, plan));
    request.max_gpus = 2, request.gpu_types = {"a40"};
    ck_assert(inside_request(request, plan));
    request.gpu_types = {"a100"};
    ck_assert(!inside_request(request, plan));
}

TEST(intake_changes_no_job_and_says_what_each_needs) {
    StagesScene scene;
    JobView& job = scene.job(1);
    job.facts.held = false;
    job.facts.mark = JobMark{Phase::released, 0, OtherHold::none, 0};
    job.comment = "arena:faster";
    scene.job(2).comment = "arena:off";
    scene.job(3);
    scene.job(4).changing = true;
    const Round round = scene.take_in();
    ck_assert(scene.host.calls.empty());
    ck_assert_uint_eq(round.orders.size(), 2);
    ck_assert(round.orders[0].kind == Order::Kind::hold && round.orders[0].job->id == 1);
    ck_assert(round.orders[1].kind == Order::Kind::leave_to_slurm);
    ck_assert_uint_eq(round.notes.size(), 1);
    ck_assert(round.notes[0].state == "waiting" &&
              round.notes[0].reason->find("faster") != std::string::npos);
    ck_assert(round.planned.size() == 1 && round.planned.contains(3));
    ck_assert_uint_eq(round.pending, 3);
    const Journal journal = apply(round, {}, *scene.books, scene.host);
    ck_assert_uint_eq(scene.host.calls.size(), 2);
    ck_assert(called(scene.host, "hold 1"));
    ck_assert_uint_eq(journal.changes.opt_outs, 1);
    ck_assert_uint_eq(journal.changes.reholds, 0);  // it is no change of mind
}

TEST(nothing_is_changed_once_the_controller_stops) {
    StagesScene scene;
    scene.job(1).comment = "arena:off";
    scene.job(2);
    const Round round = scene.take_in();
    const Decision decision = decide(round, *scene.books->policy);
    ck_assert_uint_eq(decision.actions.size(), 1);
    scene.host.stops_after = 0;
    ck_assert(apply(round, decision, *scene.books, scene.host).notes.empty());
    ck_assert(scene.host.calls.empty());
    ck_assert_msg(
        intake(scene.host.collect([](auto...) { return false; }), *scene.books, [] { return true; })
            .planned.empty(),
        "the intake ends, too");
}

TEST(a_start_on_gpus_that_are_still_held_waits_with_its_shape) {
    StagesScene scene;
    scene.job(1);
    Round round = scene.take_in();
    const Decision decision = decide(round, *scene.books->policy);
    ck_assert(decision.actions.at(0).kind == ActionKind::start);
    round.view.snapshot.nodes[0].free_gpus = 0;  // a job that saves its state has them
    const Journal journal = apply(round, decision, *scene.books, scene.host);
    ck_assert(called(scene.host, "release 1"));
    ck_assert(journal.changes.releases == 1 && journal.changes.starts == 0);
    ck_assert_str_eq(journal.notes.at(0).state.c_str(), "waiting with a reservation");
    ck_assert(journal.notes[0].chosen && journal.notes[0].chosen->is_of(decision.actions[0].offer));
}

TEST(slurm_starts_no_job_by_itself_on_nodes_that_are_kept_for_others) {
    StagesScene scene;
    scene.job(1);
    Round round = scene.take_in();
    Decision decision = decide(round, *scene.books->policy);
    Action& action = decision.actions.at(0);
    const auto kept = static_cast<NodeIndex>(round.snapshot.nodes.size() - 1);
    action.kind = ActionKind::reshape_and_wait;
    action.kept = {kept};
    (void)apply(round, decision, *scene.books, scene.host);
    ck_assert(called(scene.host, "release 1"));
    ck_assert(scene.host.last_shape.exclude ==
              std::vector<std::string>{round.snapshot.nodes[kept].name});
}

TEST(looks_ahead_are_few_and_keep_what_ready_jobs_would_take) {
    StagesScene scene;
    scene.job(1);
    Round round = scene.take_in();
    ck_assert_uint_eq(round.ahead.ready, 1);
    int looks = 0;
    static int* count;
    count = &looks;
    const Policy counting{.name = "counting", .summary = "", .decide = [](const auto&... seen) {
                              ++*count;
                              return find_slurm_policy("fifo")->decide(seen...);
                          }};
    for (int look = 0; look < 8; ++look) {
        look_ahead(round, counting);
        look_ahead(round, counting);  // nobody has come since
        ++round.ahead.ready;
    }
    ck_assert_int_eq(looks, 4);
    ck_assert_int_eq(round.ahead.taken.at(0).gpus, 2);
    ck_assert_int_eq(round.ahead.taken[0].cpus, 8);
    round.returns.push_back({.node = 0, .gpus = 3, .cpus = 2, .memory_mb = 1});
    ck_assert_int_eq(free_nodes(round).at(0).free_gpus, 7);
}

TEST(each_job_is_told_in_the_words_of_whom_it_waits_for) {
    StagesScene scene;
    scene.job(1);
    scene.job(2);
    Round round = scene.take_in();
    const JobView &one = round.view.jobs[0], &two = round.view.jobs[1];
    round.notes = {waits_for(one, "PartitionNodeLimit", Note::Shown::slurms)};
    Journal journal;
    journal.notes = {waits_for(one, "a limit")};
    Decision decision;
    decision.waiting[2] = "others come first";
    const auto text = [&](std::size_t i) {
        return explain(round, decision, journal, *scene.books).at(i).text;
    };
    ck_assert(text(0) == "PartitionNodeLimit");
    ck_assert(text(1) == "Arena: a limit");
    ck_assert(text(2) == "Arena: others come first");
    ck_assert_str_eq(scene.books->statuses.at(1).reason.c_str(), "a limit");
    scene.books->refused_updates[1] = "no such plan";
    ck_assert(text(0) == "Arena: update refused: no such plan; PartitionNodeLimit");
    round.view.snapshot.nodes[0].up = false;
    ck_assert_msg(text(2).starts_with("Nodes required for job are DOWN"), "%s", text(2).c_str());
    scene.books->statuses.at(2).chosen = Chosen(grid);
    journal.notes = {{.job = &two, .state = "checkpointing", .keeps_chosen = true}};
    decision.waiting.clear();
    ck_assert_uint_eq(explain(round, decision, journal, *scene.books).size(), 1);
    ck_assert(scene.books->statuses.at(2).chosen == Chosen(grid));
    ck_assert_str_eq(scene.books->statuses.at(2).state.c_str(), "checkpointing");
}

}  // namespace
