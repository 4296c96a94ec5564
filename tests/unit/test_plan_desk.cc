// SPDX-License-Identifier: GPL-2.0-or-later
// Whose plan is made next, and what a round does meanwhile: users in turn by the time they took, a
// round that goes on without a model that is dear to plan, and a stop that waits for none.
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "base/json.h"
#include "hostile_models.h"
#include "plugin/sched/plans/memory_room.h"
#include "plugin/sched/plans/plan_desk.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;

namespace {

constexpr std::uint32_t hostile = 1000, ordinary = 1001;

/// Plans that the desk's thread has made; waits for one more.
class Made {
  public:
    void add() {
        const std::lock_guard lock(mutex_);
        ++made_;
        changed_.notify_all();
    }
    void wait_for(int count) {  // the suite's limit ends the test where it never comes
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return made_ >= count; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int made_ = 0;
};

Request dear_request(int kinds) {
    Request request = Scene::request();
    request.model = parse_model(kinds_by_runs_text(kinds, 200), "hostile.yaml").value();
    request.global_batch = 720720;
    request.max_gpus = 8;
    request.gpu_types = {"a40"};
    return request;
}

struct PlanScene : Scene {
    Made made;
    std::atomic<bool> stop{false};
    PlanScene() {
        config.gpu_types = {{"a40", "A100-SXM-80GB"}, {"a100", "A100-SXM-80GB"}};
        node("n1", "a40", 8, 8);
        node("n2", "a100", 2, 2);
    }
    /// Takes minutes to plan.
    void endless_job(JobId id) {
        for (int i = 3; i < 64; ++i) node("n" + std::to_string(i), "a40", 8, 8);
        Request request = dear_request(50);
        request.max_gpus = 512;
        job(id, request).user_id = hostile;
    }
    JobView& ordinary_job(JobId id) {
        Request request = Scene::request();
        request.gpu_types = {"a100"};
        JobView& view = job(id, request);
        view.user_id = ordinary;
        return view;
    }
    std::unique_ptr<Scheduler> with(double round_wait_s, PlanBudget::Limits own) {
        return std::make_unique<Scheduler>(
            host, config, load_hardware("").value(), builtin_calibration(),
            PlanLimits{own, round_wait_s, true, &stop, [this] { made.add(); }});
    }
    std::string reason_of(JobId id) const {
        for (const Host::Reason& reason : host.reasons)
            if (reason.job == id) return reason.text;
        return {};
    }
};

/// Of "planning".
std::int64_t stat(const Scheduler& scheduler, const char* name) {
    return Json::parse(scheduler.stats_json())["planning"][name].get<std::int64_t>();
}

}  // namespace

TEST(a_user_with_many_dear_plans_delays_another_by_one_of_them) {
    PlanTurns turns;
    turns.begin_round();
    for (int i = 0; i < 12; ++i) turns.ask(hostile, "dear " + std::to_string(i));
    ck_assert(turns.next() == (PlanTurns::Turn{hostile, "dear 0"}));
    turns.ask(ordinary, "mine");
    turns.charge(hostile, 1);
    ck_assert(turns.next() == (PlanTurns::Turn{ordinary, "mine"}));
    turns.charge(ordinary, 0.05);
    ck_assert(turns.next() == (PlanTurns::Turn{hostile, "dear 1"}));
}

TEST(users_share_the_time_and_not_the_number_of_plans) {
    PlanTurns turns;
    turns.begin_round();
    turns.ask(hostile, "a0"), turns.ask(hostile, "a1");
    for (int i = 0; i < 10; ++i) turns.ask(ordinary, std::to_string(i));
    std::string order;
    while (const auto turn = turns.next()) {
        order += turn->user == hostile ? 'A' : 'b';
        turns.charge(turn->user, turn->user == hostile ? 1 : 0.05);
    }
    assert_text(order, "AbbbbbbbbbbA");
}

TEST(time_when_a_user_asked_for_nothing_is_not_owed) {
    PlanTurns turns;
    turns.begin_round();
    for (int i = 0; i < 10; ++i) turns.ask(1, "a" + std::to_string(i));
    for (int i = 0; i < 5; ++i) turns.charge(turns.next()->user, 1);
    for (int i = 0; i < 10; ++i) turns.ask(2, "b" + std::to_string(i));
    std::string order;
    for (int i = 0; i < 6; ++i) {
        const auto turn = turns.next();
        order += std::to_string(turn->user);
        turns.charge(turn->user, 1);
    }
    ck_assert_msg(order == "121212" || order == "212121", "%s", order.c_str());
}

TEST(queues_are_bounded_shared_plans_made_once_and_forgotten_ones_never) {
    PlanTurns turns;
    turns.begin_round();
    for (std::size_t i = 0; i < PlanTurns::max_of_user; ++i)
        ck_assert(turns.ask(1, std::to_string(i)));
    ck_assert(!turns.ask(1, "one more"));
    ck_assert(turns.ask(1, "0"));  // is there
    ck_assert(turns.ask(2, "0"));  // both want it
    ck_assert_uint_eq(turns.size(), PlanTurns::max_of_user);
    ck_assert_str_eq(turns.next()->key.c_str(), "0");
    ck_assert_uint_eq(turns.size(), PlanTurns::max_of_user - 1);
    std::size_t forgotten = 0;
    for (std::uint64_t i = 0; i <= PlanTurns::rounds_kept; ++i) {
        forgotten += turns.begin_round().size();
        turns.ask(1, "5");
    }
    ck_assert_uint_eq(forgotten, PlanTurns::max_of_user - 2);
    ck_assert_str_eq(turns.next()->key.c_str(), "5");
    ck_assert(!turns.next());
}

TEST(a_round_goes_on_without_a_plan_and_the_next_one_has_it) {
    PlanScene scene;
    scene.ordinary_job(1);
    const auto scheduler = scene.with(0, {});
    scheduler->round();
    assert_text(scene.reason_of(1), "Arena: waits to be planned");
    ck_assert(!called(scene.host, "start 1 n2"));
    scene.made.wait_for(1);
    scheduler->round();
    ck_assert(called(scene.host, "start 1 n2"));
}

TEST(an_ordinary_job_is_planned_and_started_among_twelve_dear_ones_of_another) {
    PlanScene scene;
    for (JobId id = 1; id <= 12; ++id)
        scene.job(id, dear_request(20 + static_cast<int>(id))).user_id = hostile;
    scene.ordinary_job(13);
    const auto scheduler = scene.with(0, {.polls = 300'000, .bytes = std::size_t{64} << 20});
    int rounds = 0;
    for (; !called(scene.host, "start 13 n2"); ++rounds) {
        ck_assert_int_lt(rounds, 4);
        scene.made.wait_for(rounds);
        scheduler->round();
    }
    ck_assert_int_ge(rounds, 2);
}

TEST(what_a_budget_found_is_remembered_and_said) {
    PlanScene scene;
    scene.job(1, dear_request(50)).user_id = hostile;
    const auto scheduler = scene.with(0, {.polls = 1'000'000, .bytes = std::size_t{64} << 20});
    scheduler->round();
    scene.made.wait_for(1);
    for (int i = 0; i < 5; ++i) scheduler->round();
    ck_assert_int_eq(stat(*scheduler, "made"), 1);
    ck_assert_int_eq(stat(*scheduler, "in_part"), 1);
    const std::string said = scheduler->explain(1);
    ck_assert_msg(said.find("were not looked at to the end") != std::string::npos, "%s",
                  said.c_str());
}

TEST(a_model_without_a_plan_in_its_budget_says_so) {
    PlanScene scene;
    scene.job(1, dear_request(50)).user_id = hostile;
    const auto scheduler = scene.with(0, {.polls = 1});
    scheduler->round();
    scene.made.wait_for(1);
    scheduler->round();
    const std::string reason = scene.reason_of(1);
    ck_assert_msg(reason.find("no plan found in the") != std::string::npos, "%s", reason.c_str());
}

TEST(explain_does_not_wait_for_a_dear_plan) {
    PlanScene scene;
    scene.endless_job(1);
    const auto scheduler = scene.with(0, {});
    scheduler->round();
    const std::string said = scheduler->explain(1);
    ck_assert_msg(said.find("ask again in a few seconds") != std::string::npos, "%s", said.c_str());
    ck_assert_int_ge(stat(*scheduler, "waiting"), 1);
}

TEST(a_stop_ends_the_rounds_wait_and_the_plan) {
    PlanScene scene;
    scene.endless_job(1);
    auto scheduler = scene.with(1e9, {});
    std::thread stopper([&] { scene.stop = true; });
    scheduler->round();  // waits for the plan, but for the stop
    stopper.join();
    scheduler.reset();
}

TEST(a_plan_gets_a_part_of_the_memory_that_is_left_and_none_where_that_is_too_little) {
    const std::size_t own = std::size_t{64} << 20, least = left_for_slurm + least_for_a_plan;
    ck_assert(table_bytes(own, std::nullopt) == own);
    ck_assert(table_bytes(own, std::size_t{1} << 40) == own);
    ck_assert(table_bytes(own, least) == least_for_a_plan / kinds_of_tables);
    ck_assert(table_bytes(own, least - 1) == std::nullopt);
    ck_assert(table_bytes(own, 0) == std::nullopt);
}

TEST(the_address_space_that_is_left_is_what_can_be_mapped) {
    rlimit before{};
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    if (before.rlim_cur == RLIM_INFINITY) ck_assert(!address_space_left());
    const rlimit tight{std::size_t{8} << 30, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &tight), 0);
    const std::size_t left = address_space_left().value();
    const auto maps = [](std::size_t bytes) {
        void* at =
            mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at != MAP_FAILED) munmap(at, bytes);
        return at != MAP_FAILED;
    };
    ck_assert(left < tight.rlim_cur && maps(left - (1 << 20)) && !maps(left + (1 << 20)));
    setrlimit(RLIMIT_AS, &before);
}

TEST(where_slurmctld_has_no_memory_left_nothing_is_planned_until_it_has) {
    PlanScene scene;
    std::size_t left = left_for_slurm;
    PlanLimits limits;
    limits.memory_left = [&] { return std::optional(left); };
    scene.job(1);
    auto scheduler = std::make_unique<Scheduler>(
        scene.host, scene.config, load_hardware("").value(), builtin_calibration(), limits);
    scheduler->round();
    ck_assert(scene.host.calls.end() ==
              std::find_if(scene.host.calls.begin(), scene.host.calls.end(),
                           [](const std::string& call) { return call.starts_with("start 1"); }));
    const std::string told = scheduler->explain(1);
    ck_assert_msg(told.find("no plan is made: slurmctld may take 128.0 MiB more (ulimit -v") !=
                      std::string::npos,
                  "%s", told.c_str());
    left = std::size_t{1} << 30;
    scene.host.view.snapshot.time_s += 1;
    scheduler->round();
    ck_assert(std::any_of(scene.host.calls.begin(), scene.host.calls.end(),
                          [](const std::string& call) { return call.starts_with("start 1"); }));
}
