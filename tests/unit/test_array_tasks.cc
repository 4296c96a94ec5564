// SPDX-License-Identifier: GPL-2.0-or-later
// Tasks of job arrays: how many leave the array's record at a time, and that the record itself is
// never planned.
#include <string>

#include "plugin/sched/arrays/array_tasks.h"
#include "plugin/sched/host/carrier_time.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

struct ArrayScene : Scene {
    ArrayScene() {
        config.array_enabled = true;
        config.array_max_members = 4;
        node("n1", "a40", 4, 4);
    }
    JobView& record(JobId id, std::int64_t left, std::int64_t limit = 0) {
        Request r = request();
        r.array = true;
        JobView& view = job(id, r);
        view.array = {.id = id, .left = left, .limit = limit};
        return view;
    }
    JobView& task(JobId id, JobId array, std::uint32_t number) {
        JobView& view = job(id);
        view.array = {.id = array, .task = number};
        return view;
    }
    std::vector<std::string> calls_of_a_round() {
        const auto made = scheduler();
        host.calls.clear();
        made->round();
        return host.calls;
    }
    [[nodiscard]] std::string reason_of(JobId id) const {
        for (const auto& reason : host.reasons)
            if (reason.job == id) return reason.text;
        return {};
    }
};

void same_tasks(std::int64_t got, std::int64_t wanted) { ck_assert_int_eq(got, wanted); }

}  // namespace

TEST(a_record_is_split_and_never_started) {
    ArrayScene scene;
    scene.record(1, 100'000);
    const auto calls = scene.calls_of_a_round();
    ck_assert_uint_eq(calls.size(), 1);
    ck_assert_str_eq(calls[0].c_str(), "split 4 of 1");
    ck_assert_msg(scene.reason_of(1).find("at most 4 wait or run") != std::string::npos, "%s",
                  scene.reason_of(1).c_str());
}

TEST(a_record_says_what_the_tasks_before_it_wait_for) {
    ArrayScene scene;
    scene.record(1, 4, 2);
    scene.task(2, 1, 0);
    scene.task(3, 1, 1);
    scene.host.view.jobs[1].no_nodes = scene.host.view.jobs[2].no_nodes = "BadConstraints: none";
    const auto scheduler = scene.scheduler();
    const auto says = [&](const std::string& words) {
        scheduler->round();
        scheduler->round();
        ck_assert_msg(scene.reason_of(1).find(words) != std::string::npos, "%s",
                      scene.reason_of(1).c_str());
    };
    says("as the tasks before it: BadConstraints: none; at most 2 wait or run at a time");
    scene.host.view.jobs[1].facts.state = HostJobState::running;
    says("waits for earlier tasks of its array: at most 2");
}

TEST(a_carrier_outlasts_its_members_where_that_is_allowed) {
    const auto limit = [](CarrierTime time, std::int64_t minutes) {
        return limit_for_member(time, minutes).value_or(-1);
    };
    // It has begun 100 s ago.
    CarrierTime time{.start_s = 1000, .now_s = 1100, .minutes = 62};
    same_tasks(limit(time, 30), 62);
    same_tasks(limit(time, 60), 63);
    same_tasks(limit(time, no_limit), no_limit);
    time.most = 60;
    time.minutes = 60;
    same_tasks(limit(time, 60), 60);  // cut by the partition, and told before its end
    same_tasks(limit(time, no_limit), -1);
    time.now_s = 1000 + 29 * 60;
    same_tasks(limit(time, 60), 60);
    time.now_s = 1000 + 31 * 60;  // too late for the whole of it
    same_tasks(limit(time, 60), -1);
    same_tasks(limit(time, 20), 60);
    time.minutes = time.most = no_limit;
    same_tasks(limit(time, no_limit), no_limit);
}

TEST(tasks_take_turns) {
    ArrayScene scene;
    const JobView record = scene.record(1, 9);
    same_tasks(tasks_to_split(record, scene.host.view.jobs, scene.config), 4);
    scene.task(2, 1, 0).facts.state = HostJobState::running;
    scene.task(3, 1, 1);
    same_tasks(tasks_to_split(record, scene.host.view.jobs, scene.config), 2);
    scene.task(4, 7, 1);  // of another array
    same_tasks(tasks_to_split(record, scene.host.view.jobs, scene.config), 2);
    scene.task(5, 1, 2).facts.state = HostJobState::finished;
    same_tasks(tasks_to_split(record, scene.host.view.jobs, scene.config), 2);
    scene.task(6, 1, 3).facts.mark->hold = OtherHold::user;
    same_tasks(tasks_to_split(record, scene.host.view.jobs, scene.config), 2);
    scene.task(8, 1, 4).facts.state = HostJobState::completing;
    scene.task(9, 1, 5);
    scene.task(10, 1, 6);
    same_tasks(tasks_to_split(record, scene.host.view.jobs, scene.config), 0);
}

TEST(the_limit_of_the_array_is_obeyed) {
    ArrayScene scene;
    const JobView record = scene.record(1, 9, 2);
    same_tasks(tasks_to_split(record, scene.host.view.jobs, scene.config), 2);
    scene.task(2, 1, 0);
    same_tasks(tasks_to_split(record, scene.host.view.jobs, scene.config), 1);
    same_tasks(tasks_to_split(scene.record(3, 1, 50), scene.host.view.jobs, scene.config), 1);
}

TEST(a_record_that_may_not_start_is_not_split) {
    for (const int why : {0, 1, 2}) {
        ArrayScene scene;
        JobView& record = scene.record(1, 9);
        if (why == 0) record.eligible = false;
        if (why == 1) record.facts.mark->hold = OtherHold::user;
        if (why == 2) scene.config.array_enabled = false;
        ck_assert_msg(scene.calls_of_a_round().empty(), "%d", why);
        if (why == 2)
            ck_assert_msg(scene.reason_of(1).find("array.enabled") != std::string::npos, "%s",
                          scene.reason_of(1).c_str());
    }
}

TEST(tasks_are_planned_in_the_order_of_their_numbers) {
    ArrayScene scene;
    // The last task keeps the array's id.
    JobView& last = scene.task(1, 1, 2);
    last.priority = 5;
    scene.task(7, 1, 0).priority = 5;
    scene.task(8, 1, 1).priority = 5;
    const auto calls = scene.calls_of_a_round();
    ck_assert(!calls.empty());
    ck_assert_str_eq(calls[0].c_str(), "start 7 n1");
}

TEST(without_arrays_a_round_calls_what_it_called) {
    std::vector<std::string> calls[2];
    for (const bool enabled : {false, true}) {
        ArrayScene scene;
        scene.config.array_enabled = enabled;
        scene.job(1);
        scene.job(2);
        calls[enabled] = scene.calls_of_a_round();
    }
    ck_assert(!calls[0].empty() && calls[0] == calls[1]);
}
