// SPDX-License-Identifier: GPL-2.0-or-later
// What the scheduler believes of a job's work: the limit that Slurm enforces, steps within it, and
// what the user's last jobs used of what they said.
#include "base/json.h"
#include "directory.h"
#include "plugin/common/steps_limit.h"
#include "plugin/sched/history/history_file.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

/// 2 s an iteration on the fast GPUs, 4 s on the slow ones.
std::vector<Offer> two_types() {
    std::vector<Offer> offers(2);
    offers[0].grid = {"fast", 1, 1, 1};
    offers[0].estimate.iteration_s = 2;
    offers[1].grid = {"slow", 1, 1, 1};
    offers[1].estimate.iteration_s = 4;
    return offers;
}

Belief of(std::int64_t steps, double limit_s, const PastUse& past = {}, double judged_s = 0) {
    Request request;
    request.steps = steps;
    request.iteration_s = judged_s;
    return believe(request, limit_s, two_types(), past, {});
}

void says(const Belief& belief, const std::string& words) {
    const std::string text = words_of(belief, 7, "physics");
    ck_assert_msg(text == words, "said:   %s\nwanted: %s", text.c_str(), words.c_str());
}

constexpr double honest_s = 60 * 135;  // 1000 steps of 4 s, twice, and 70 s to start: 134.5 min

TEST(steps_count_where_the_limit_is_what_they_need) {
    using From = Belief::From;
    ck_assert(of(1000, honest_s).from == From::steps);
    ck_assert(of(1000, 60).from == From::steps);  // Slurm ends it before
    ck_assert(of(1000, honest_s + 60).from == From::limit);
    ck_assert(of(1, 3600).from == From::limit);  // a lie
    ck_assert(of(0, 3600).from == From::limit);
    ck_assert(of(1000, 0).from == From::nothing);
    ck_assert(of(0, 0).from == From::nothing);
    ck_assert_double_eq(of(1000, 3600).needs_s, honest_s);
}

/// The limit was written by an estimate that measurements have corrected since.
TEST(a_job_is_judged_as_at_its_submission_within_the_error_of_an_estimate) {
    ck_assert(of(1000, 60 * 200).from == Belief::From::limit);
    ck_assert(of(1000, 60 * 200, {}, 6).from == Belief::From::steps);
    ck_assert_double_eq(of(1000, 3600, {}, 6).needs_s, 60.0 * 202);
    // Forged: no more than twice the estimate.
    ck_assert_double_eq(of(1000, 3600, {}, 1e6).needs_s,
                        60.0 * double(minutes_for_steps(1000, 8, 70)));
    ck_assert_double_eq(of(1000, 3600, {}, 1e-6).needs_s, honest_s);
}

TEST(believed_work_is_steps_or_the_limit_less_what_the_past_leaves_of_them) {
    const auto left = [](const Belief& belief, double done, double run_s) {
        JobState job;
        job.done_iterations = done;
        set_believed_work(job, belief, run_s, 2);
        ck_assert(!job.overrun || job.remaining_iterations == 1);
        return job.overrun ? -1 : job.remaining_iterations;
    };
    const PastUse half{.used = 0.5, .jobs = 20};
    ck_assert_double_eq(left(of(1000, honest_s), 0, 0), 1000);
    ck_assert_double_eq(left(of(1000, honest_s), 300, 700), 700);
    ck_assert_double_eq(left(of(1000, honest_s), 1000, 2000), -1);
    ck_assert_double_eq(left(of(1000, honest_s, half), 300, 700), 200);
    ck_assert_double_eq(left(of(1000, honest_s, half), 500, 1000), 500);  // outlived its past
    // 0: the time limit, or what is left of it, stands for the work.
    ck_assert_double_eq(left(of(1, 3600), 0, 0), 0);
    ck_assert_double_eq(left(of(1, 3600), 1, 100), 0);
    ck_assert_double_eq(left(of(0, 3600), 0, 0), 0);
    ck_assert_double_eq(left(of(0, 3600, half), 0, 0), 900);
    ck_assert_double_eq(left(of(0, 3600, half), 50, 100), 850);
    ck_assert_double_eq(left(of(0, 3600, half), 1000, 2000), 0);
    ck_assert_double_eq(left(of(1000, 0, half), 0, 0), 0);
}

TEST(it_is_said_what_is_believed_and_why) {
    const PastUse few{.used = 0.4, .jobs = 20}, shared{.used = 0.75, .jobs = 6, .of_account = true};
    says(of(12000, 7200), "12,000 steps, as its limit of 2.0 h enforces");
    says(of(12000, 7200, few),
         "12,000 steps, as its limit of 2.0 h enforces; x 0.4: what the last 20 jobs of uid 7 used "
         "of theirs");
    says(of(1, 86400),
         "limit of 24.0 h; its steps are not believed: the limit is longer than they need (2.0 "
         "min)");
    says(of(0, 86400, shared),
         "limit of 24.0 h; x 0.75: what the last 6 jobs of account physics used of theirs");
    says(of(5, 0, few), "no time limit; its steps are not believed: nothing ends the job");
    says(of(0, 0), "no time limit");
}

TEST(what_a_job_used_is_a_share_of_what_was_believed) {
    ck_assert_double_eq(used_of(of(1000, honest_s), 0, 1000, 2), 0.5);
    ck_assert_double_eq(used_of(of(1000, honest_s), 250, 1000, 2), 0.75);
    ck_assert_double_eq(used_of(of(1000, honest_s), 0, 9000, 2), 1);
    ck_assert_double_eq(used_of(of(0, 3600), 0, 900, 2), 0.25);
    ck_assert_double_eq(used_of(of(1, 3600), 450, 900, 2), 0.5);
}

// ---- the past ----------------------------------------------------------------------------------

TEST(the_median_of_the_last_jobs_counts) {
    PastUses uses;
    for (int i = 0; i < 4; ++i) uses.note(7, "physics", 0.1);
    ck_assert(uses.of(7, "chemistry") == PastUse{});  // too few
    uses.note(8, "physics", 0.1);
    ck_assert(uses.of(7, "physics") == (PastUse{0.1, 5, true}));
    ck_assert(uses.of(9, "physics") == (PastUse{0.1, 5, true}));
    uses.note(7, "physics", 0.9);
    ck_assert(uses.of(7, "physics") == (PastUse{0.1, 5, false}));
    for (int i = 0; i < 10; ++i) uses.note(7, "", 5);
    ck_assert(uses.of(7, "physics") == (PastUse{1, 15, false}));
    for (int i = 0; i < 20; ++i) uses.note(7, "", 0);
    ck_assert(uses.of(7, "physics") == (PastUse{PastUses::least, 20, false}));
    ck_assert(uses.of(9, "") == PastUse{});
}

TEST(users_and_accounts_are_bounded) {
    PastUses uses;
    for (int i = 0; i < 5; ++i) uses.note(1, "a", 0.5);
    for (int i = 0; i < 5; ++i) uses.note(2, "b", 0.5);
    for (std::uint32_t uid = 10; uid < 10 + PastUses::most - 1; ++uid)
        uses.note(uid, std::to_string(uid), 0.5);
    ck_assert(uses.of(1, "") == PastUse{} && uses.of(0, "a") == PastUse{});
    ck_assert_uint_eq(uses.of(2, "").jobs, 5);
    ck_assert_uint_eq(uses.of(0, "b").jobs, 5);
}

TEST(the_past_outlives_a_restart_in_the_file) {
    const test::Directory directory;
    HistoryFile file(directory / "history.jsonl");
    JobHistory history;
    std::map<JobId, LastRun> ends;
    for (JobId job = 1; job <= 6; ++job) {
        history.note({.at_s = 1, .job = job, .uid = 7, .state = "running", .text = ""});
        if (job > 1)
            ends[job] = {1, 2, JobUse{.used = 0.25, .account = "physics", .text = "used 0.25"}};
    }
    history.end([](JobId) { return true; }, 2, ends);
    ck_assert(history.past_use(7, "") == (PastUse{0.25, 5, false}));  // the first one failed
    ck_assert(file.append(history.take_new()).ok());
    JobHistory later;
    for (HistoryLine& line : file.read().lines) later.recall(std::move(line));
    ck_assert(later.past_use(7, "") == (PastUse{0.25, 5, false}));
    ck_assert(later.past_use(9, "physics") == (PastUse{0.25, 5, true}));
    ck_assert(!parse_history_line(R"({"t":1,"job":1,"uid":1,"state":"over","text":"","used":2,)"
                                  R"("account":""})"));
}

// ---- the scheduler -----------------------------------------------------------------------------

struct BeliefScene : Scene {
    std::unique_ptr<Scheduler> plan;
    BeliefScene() { node("n1", "a40", 4, 0); }
    JobView& says_steps(JobId id, std::int64_t steps, double limit_s) {
        Request wanted = request();
        wanted.steps = steps;
        JobView& view = job(id, wanted);
        view.time_limit_s = limit_s;
        view.user_id = 10;
        view.account = "physics";
        return view;
    }
    void round() {
        if (!plan) plan = scheduler();
        plan->round();
    }
    /// What the policy sees.
    const JobState& state(JobId id) {
        const auto& jobs = plan->last_round().snapshot.jobs;
        return *std::find_if(jobs.begin(), jobs.end(), [&](const auto& j) { return j.id == id; });
    }
    Json work(JobId id) { return Json::parse(plan->explain(id, {true, 0, true}))["work"]; }
    /// It ran with the plan that it would have, from second 0 on.
    void ends(JobId id, double run_s, bool by_limit = false) {
        const auto at = std::find_if(host.view.jobs.begin(), host.view.jobs.end(),
                                     [&](const JobView& j) { return j.id == id; });
        at->offer_json = to_json(plan->last_round().offers.at(id).front());
        host.view.ended.push_back({.job = *at, .end_s = run_s, .by_limit = by_limit});
        host.view.jobs.erase(at);
    }
};

TEST(policies_see_what_is_believed) {
    BeliefScene scene;
    scene.says_steps(1, 1, 3600 * 24 * 10);  // a liar
    scene.says_steps(2, 1000, 600);
    scene.says_steps(3, 0, 600);
    scene.says_steps(4, 1000, 0);
    scene.round();
    ck_assert_double_eq(scene.state(1).remaining_iterations, 0);
    ck_assert_double_eq(scene.state(1).time_limit_s, 864000);
    ck_assert_double_eq(scene.state(2).remaining_iterations, 1000);
    ck_assert_double_eq(scene.state(3).remaining_iterations, 0);
    ck_assert_double_eq(scene.state(4).remaining_iterations, 0);
    ck_assert_str_eq(scene.work(1)["from"].get<std::string>().c_str(), "limit");
    ck_assert(scene.work(1)["words"].get<std::string>().find("not believed") != std::string::npos);
    ck_assert(scene.work(2)["from"] == "steps" && scene.work(4)["from"] == "nothing");
}

TEST(order_value_takes_everybody_at_his_word) {
    BeliefScene scene;
    scene.config.order = "value";
    scene.says_steps(1, 1, 3600 * 24 * 10);
    scene.round();
    ck_assert_double_eq(scene.state(1).remaining_iterations, 1);
    ck_assert(scene.work(1).is_null());
}

TEST(what_a_user_s_last_jobs_used_scales_what_the_next_one_says) {
    BeliefScene scene;
    for (JobId id = 1; id <= 5; ++id) scene.says_steps(id, 0, 1000);
    scene.says_steps(6, 0, 1000);
    scene.says_steps(7, 1000, 600).user_id = 11;
    scene.round();
    for (JobId id = 1; id <= 4; ++id) scene.ends(id, 250);
    scene.ends(5, 1000, true);
    scene.round();  // they are over
    scene.host.view.ended.clear();
    const auto believed = [&] {
        scene.round();
        const double iteration_s =
            scene.plan->last_round().offers.at(6).front().estimate.iteration_s;
        ck_assert_double_eq_tol(scene.state(6).remaining_iterations * iteration_s, 250, 1e-6);
        ck_assert_double_eq(scene.state(7).remaining_iterations, 250);
        ck_assert(scene.work(6)["past"] == Json({{"used", 0.25}, {"jobs", 5}, {"of", "user"}}));
        ck_assert(scene.work(7)["past"]["of"] == "account");
    };
    believed();
    const Json past = Json::parse(scene.plan->history_json(1, {true, 0, true}));
    ck_assert(past["events"].back()["text"] == "used 0.25 of its time limit");
    scene.plan.reset();  // another slurmctld
    scene.plan = scene.scheduler();
    scene.plan->take_over({});
    believed();
}

}  // namespace
