// SPDX-License-Identifier: GPL-2.0-or-later
// Where profile runs go and when: nodes that the snapshot shows free and that Slurm does not give,
// and ready jobs that stand before. A scheduler on a scripted host; each test plays a few rounds
// and looks at which nodes were asked.
#include <algorithm>

#include "plugin/sched/host/refusals.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

/// A job of gpt2 that may have GPUs of type a40 only.
Request on_a40() {
    Request r = Scene::request();
    r.gpu_types = {"a40"};
    return r;
}

Request other_model_on_a40() {
    Request r = on_a40();
    r.model.layers = 6;
    r.model.name = "gpt2-half";
    return r;
}

bool said(const ScriptedHost& host, JobId job, const std::string& text) {
    return std::any_of(host.reasons.begin(), host.reasons.end(), [&](const Host::Reason& r) {
        return r.job == job && r.text.find(text) != std::string::npos;
    });
}

/// Lines of the log that say of the node that it refuses.
std::ptrdiff_t told_of(const ScriptedHost& host, const std::string& node) {
    return std::count_if(host.log.begin(), host.log.end(), [&](const std::string& line) {
        return line.starts_with(node + " is shown free but takes no profile run");
    });
}

/// Its only node refuses, and job 1 wants it.
struct RefusedScene : ProfilingScene {
    RefusedScene() {
        host.taken_nodes = {"n1"};
        job(1);
    }
};

using Names = std::vector<std::string>;

TEST(what_refuses_rests_twice_as_long_after_each_refusal_up_to_a_bound) {
    Refusals refusals({2, 8, 20});
    double now_s = 0;
    for (const double rest_s : {2, 4, 8, 8}) {
        ck_assert(!refusals.rests("n1", now_s));
        ck_assert(refusals.note("n1", "busy", now_s) == (now_s == 0));
        ck_assert(refusals.rests("n1", now_s + rest_s - 0.5) && !refusals.rests("n2", now_s));
        now_s += rest_s;
    }
    ck_assert_msg(refusals.note("n1", "down", now_s), "another reason is told");
    ck_assert_str_eq(refusals.why("n1").c_str(), "down");
    refusals.forget("n1");
    ck_assert_msg(refusals.note("n1", "busy", now_s),
                  "it gave a GPU meanwhile: this is another streak");
    ck_assert(!refusals.rests("n1", now_s + 2));
}

TEST(another_free_node_is_asked_in_the_same_round) {
    ProfilingScene scene;
    scene.node("n2", "a40", 4, 4);
    scene.host.taken_nodes = {"n1"};
    scene.job(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scene.host.asked_nodes == (Names{"n1", "n2"}));
    ck_assert(called(scene.host, "carrier a40 n2") && said(scene.host, 1, "profiling gpt2 on a40"));
    ck_assert(scheduler->stats_json().find("\"failed\":0") != std::string::npos);
    ck_assert_int_eq(told_of(scene.host, "n1"), 1);
}

TEST(a_refusing_node_is_asked_three_times_before_the_run_counts_as_failed) {
    RefusedScene scene;
    auto scheduler = scene.scheduler();
    std::vector<int> asked_at;
    for (int second = 0; second < 10; ++second) {
        const std::size_t before = scene.host.asked_nodes.size();
        scheduler->round();
        if (scene.host.asked_nodes.size() > before) asked_at.push_back(second);
        ck_assert(said(scene.host, 1, "waiting to profile gpt2 on a40: n1 was taken a moment ago"));
        scene.host.view.snapshot.time_s += 1;
    }
    ck_assert(asked_at == (std::vector<int>{0, 2, 6}));
    ck_assert_int_eq(told_of(scene.host, "n1"), 1);
    scheduler->round();
    ck_assert(called(scene.host, "start 1 n1"));  // on the analytic estimate
    ck_assert(scheduler->stats_json().find("\"failed\":1") != std::string::npos);
}

TEST(a_node_that_was_taken_meanwhile_is_no_failed_run) {
    RefusedScene scene;
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scene.host.specs.empty() && !called(scene.host, "start 1 n1"));
    ck_assert(said(scene.host, 1, "n1 was taken a moment ago"));
    scene.host.taken_nodes.clear();
    scene.host.view.snapshot.time_s += 2;
    scheduler->round();
    ck_assert(called(scene.host, "carrier a40 n1"));
    ck_assert(scheduler->stats_json().find("\"failed\":0") != std::string::npos);
}

TEST(a_job_that_could_not_start_is_counted_once_though_slurm_still_knows_it) {
    RefusedScene scene;
    auto scheduler = scene.scheduler();
    scheduler->round();
    scene.host.view.snapshot.time_s += 11;
    scheduler->round();
    ck_assert(called(scene.host, "release 1"));  // on the analytic estimate; n1 has just refused
    ck_assert(scheduler->stats_json().find("\"failed\":1") != std::string::npos);
    ProfileRequest request;
    request.nonce = "0123456789abcdef0123456789abcdef";
    request.gpu_type = "a40", request.hardware = "emulated-cpu",
    request.model = Scene::request().model;
    request.global_batch = 32, request.max_gpus = 2, request.gpus_per_node = 4,
    request.budget_s = 10;
    scene.host.view.carriers.push_back({101, 0, to_json(request), "", true, 1011});
    scene.host.view.snapshot.time_s += 4;
    scheduler->round();
    scene.host.view.snapshot.time_s += 4;
    scheduler->round();
    ck_assert(scheduler->stats_json().find("\"failed\":1") != std::string::npos);
}

TEST(a_failed_run_of_an_earlier_life_is_not_counted_nor_told_again) {
    ProfilingScene scene;
    scene.config.profile_retries = 1;
    scene.job(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert_uint_eq(scene.host.specs.size(), 1);
    double& now_s = scene.host.view.snapshot.time_s;
    const auto carrier = [&](bool finished) {
        return CarrierView{101,   0, to_json(scene.host.specs[0].request), "n1", finished, 1000,
                           now_s, 0};
    };
    scene.host.view.carriers = {carrier(false)};
    scheduler->round();
    scene.host.view.carriers = {carrier(true)};  // and no result
    const auto two_rounds = [&] {
        scheduler->round();
        now_s += 4;
        scheduler->round();
    };
    two_rounds();
    ck_assert(scheduler->stats_json().find("\"failed\":1") != std::string::npos);
    const std::size_t told = scene.host.errors.size();
    scheduler.reset();
    scheduler = scene.scheduler();  // slurmctld still knows the job
    two_rounds();
    ck_assert(scheduler->stats_json().find("\"failed\":0") != std::string::npos);
    ck_assert_uint_eq(scene.host.errors.size(), told);
    scene.job(2);
    scheduler->round();
    ck_assert_msg(scene.host.specs.size() == 1, "it is not tried again before the back-off");
    scheduler.reset();
    now_s = 1000 + scene.config.profile_backoff_s + 10;
    scheduler = scene.scheduler();
    two_rounds();
    ck_assert_msg(scene.host.specs.size() == 2, "what failed long ago keeps nobody from trying");
}

TEST(a_model_of_any_name_is_one_word_of_what_is_said) {
    ProfilingScene scene;
    Request r = on_a40();
    r.model.name = "gpt2 on a40 (JobId=9)\narena: JobId=7 started\x1b[31m" + std::string(200, 'x');
    scene.job(1, r);
    scene.scheduler()->round();
    ck_assert_uint_eq(scene.host.specs.size(), 1);
    ck_assert_str_eq(scene.host.specs[0].comment.c_str(),
                     "arena: profile gpt2_on_a40__JobId_9__x0aarena:_JobId_7_ on a40");
    ck_assert(said(scene.host, 1,
                   "profiling gpt2_on_a40__JobId_9__x0aarena:_JobId_7_ on a40 (JobId=101)"));
}

TEST(three_nodes_of_a_type_are_asked_at_a_time_and_those_first_that_did_not_refuse) {
    Scene scene;
    scene.config.profile_enabled = true;
    for (const std::string name : {"n1", "n2", "n3", "n4", "n5", "n6"}) {
        scene.node(name, "a40", 4, 4);
        scene.host.taken_nodes.insert(name);
    }
    scene.node("n7", "a40", 4, 4);
    scene.job(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    scheduler->round();  // in the same second
    ck_assert(scene.host.asked_nodes == (Names{"n1", "n2", "n3"}));
    ck_assert(said(scene.host, 1, "n1 was taken a moment ago"));
    scene.host.view.snapshot.time_s += 2;
    scheduler->round();
    ck_assert(scene.host.asked_nodes == (Names{"n1", "n2", "n3", "n4", "n5", "n6"}));
    scene.host.view.snapshot.time_s += 2;
    scheduler->round();
    ck_assert(called(scene.host, "carrier a40 n7"));
    ck_assert_uint_eq(scene.host.asked_nodes.size(), 7);
}

TEST(refusals_of_one_type_say_nothing_of_another) {
    Scene scene;
    scene.config.profile_enabled = true;
    for (const char* name : {"n1", "n2", "n3"}) scene.node(name, "a40", 4, 4);
    scene.host.taken_nodes = {"n1", "n2", "n3"};
    scene.node("n4", "a100", 4, 4);
    scene.job(1);
    scene.scheduler()->round();
    ck_assert(called(scene.host, "carrier a100 n4"));
}

TEST(a_node_that_refused_one_model_is_not_asked_for_another) {
    ProfilingScene scene;
    scene.host.taken_nodes = {"n1"};
    scene.job(1, on_a40());
    scene.job(2, other_model_on_a40());
    scene.scheduler()->round();
    ck_assert(scene.host.asked_nodes == Names{"n1"});
    ck_assert(said(scene.host, 1, "n1 was taken a moment ago") &&
              said(scene.host, 2, "n1 was taken a moment ago"));
}

TEST(a_refusal_that_the_next_snapshot_explains_is_forgotten) {
    RefusedScene scene;
    auto scheduler = scene.scheduler();
    scheduler->round();
    scene.host.view.snapshot.nodes[0].free_gpus = 0;
    scheduler->round();
    ck_assert(called(scene.host, "release 1"));  // a user has it: no profile run is waited for
    ck_assert(scheduler->explain(1).find("no free a40 to profile on") != std::string::npos);
    scene.host.view.snapshot.nodes[0].free_gpus = 4;
    scene.host.taken_nodes.clear();
    scheduler->round();  // in the same second
    ck_assert(called(scene.host, "carrier a40 n1"));
}

TEST(a_job_that_slurm_refuses_for_any_node_is_tried_on_no_other) {
    ProfilingScene scene;
    scene.node("n2", "a40", 4, 4);
    scene.host.carriers_refused = true;
    scene.job(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert_uint_eq(scene.host.asked_nodes.size(), 1);
    ck_assert(scheduler->stats_json().find("\"failed\":1") != std::string::npos);
}

TEST(a_run_asks_for_no_more_than_it_would_of_any_node_of_the_partition) {
    ProfilingScene scene;
    scene.node("n2", "a40", 4, 4);
    scene.node("n3", "a40", 4, 0);
    scene.node("n4", "a100", 16, 16);  // of another type: says nothing of these
    scene.host.view.memory_tracked = true;
    scene.host.view.node_memory_mb[2] = 32000;
    NodeState& used = scene.host.view.snapshot.nodes[0];
    used.free_gpus = 1, used.free_cpus = 13;  // a job has its other GPUs and few CPUs
    scene.host.too_large = [](const CarrierSpec& spec) {
        return spec.cpus > 4 || spec.memory_mb > 8000;
    };
    scene.job(1, on_a40());
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert_uint_eq(scene.host.specs.size(), 1);
    ck_assert_int_eq(scene.host.specs[0].cpus, 4);
    ck_assert_int_eq(scene.host.specs[0].memory_mb, 8000);
    ck_assert(scene.host.errors.empty() &&
              scheduler->stats_json().find("\"failed\":0") != std::string::npos);
}

TEST(a_run_takes_of_a_node_no_more_cpus_than_are_free) {
    ProfilingScene scene;
    scene.host.view.snapshot.nodes[0].free_cpus = 3;
    scene.host.view.snapshot.nodes[0].free_gpus = 1;
    scene.job(1);
    scene.scheduler()->round();
    ck_assert_uint_eq(scene.host.specs.size(), 1);
    ck_assert_int_eq(scene.host.specs[0].cpus, 3);
}

/// Lines of the log that say of this part of the cluster that no profile run starts there.
std::ptrdiff_t told_closed(const ScriptedHost& host, const std::string& where) {
    return std::count_if(host.errors.begin(), host.errors.end(), [&](const std::string& line) {
        return line.starts_with("no profile run starts on " + where +
                                ": refused by the partition; ");
    });
}

TEST(runs_that_slurm_refuses_as_such_are_tried_less_and_less_often_and_told_once) {
    const std::map<double, std::vector<int>> tries = {
        {600, {0, 10, 30, 70}}, {20, {0, 10, 30, 50, 70}}, {0, {0, 10, 20, 30, 40, 50, 60, 70}}};
    for (const auto& [backoff_s, seconds] : tries) {
        ProfilingScene scene;
        scene.config.profile_backoff_s = backoff_s;
        scene.node("n2", "a40", 4, 4);
        scene.host.carriers_refused = true;
        scene.job(1, on_a40());
        scene.job(2, other_model_on_a40());  // of which Slurm would say the same
        auto scheduler = scene.scheduler();
        std::vector<int> asked_at;
        for (int second = 0; second < 80; ++second) {
            const std::size_t before = scene.host.asked_nodes.size();
            scheduler->round();
            asked_at.insert(asked_at.end(), scene.host.asked_nodes.size() - before, second);
            ck_assert(scheduler->explain(2).find("a40: refused by the partition") !=
                      std::string::npos);
            scene.host.view.snapshot.time_s += 1;
        }
        ck_assert(asked_at == seconds);
        ck_assert_int_eq(told_closed(scene.host, "a40 in partition main"), 1);
        scene.host.carriers_refused = false;
        scene.host.view.snapshot.time_s += 70;
        scheduler->round();
        ck_assert(called(scene.host, "carrier a40 n1"));
    }
}

TEST(a_wait_for_a_node_starts_anew_when_a_partition_that_refused_takes_runs_again) {
    RefusedScene scene;
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(said(scene.host, 1, "n1 was taken a moment ago"));
    scene.host.view.snapshot.time_s += 2;
    scene.host.carriers_refused = true;
    scheduler->round();
    ck_assert_int_eq(told_closed(scene.host, "a40 in partition main"), 1);
    ck_assert(!said(scene.host, 1, "n1 was taken a moment ago"));
    scene.host.view.snapshot.time_s += 10;
    scene.host.carriers_refused = false;
    scheduler->round();  // twelve seconds after n1 was taken first
    ck_assert_uint_eq(scene.host.asked_nodes.size(), 3);
    ck_assert(said(scene.host, 1, "n1 was taken a moment ago"));
    ck_assert(scheduler->stats_json().find("\"failed\":1") !=
              std::string::npos);  // by the partition
}

TEST(what_one_partition_refuses_another_one_may_take) {
    ProfilingScene scene;
    scene.node("n2", "a100", 4, 4);
    scene.host.view.partitions = {{"long", {0, 1}}, {"short", {0, 1}}};
    scene.host.closed_partitions = {"short"};
    scene.job(1, on_a40()).partition = "short,long";
    scene.job(2, other_model_on_a40()).partition = "short";
    scene.scheduler()->round();
    ck_assert(scene.host.asked_nodes == (Names{"n1", "n1"}));
    ck_assert_str_eq(scene.host.specs.at(0).partition.c_str(), "long");
    ck_assert(said(scene.host, 1, "profiling gpt2 on a40"));
    ck_assert(!said(scene.host, 2, "waiting to profile"));  // nothing is going to measure its model
    ck_assert_int_eq(told_closed(scene.host, "a40 in partition short"), 1);
}

TEST(a_node_that_refuses_is_given_to_no_job_in_that_round) {
    RefusedScene scene;
    JobView& released = scene.job(2);  // waits with a shape: nothing is measured for it any more
    released.facts.held = false;
    released.facts.mark->phase = Phase::released;
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(!called(scene.host, "start 2 n1"));
    scheduler->round();  // the node rests: whether it takes the job, Slurm says
    ck_assert(called(scene.host, "start 2 n1"));
}

/// One node of so many GPUs; job 1 may start (it waits released), job 2 has a model to be measured
/// first.
struct QueueScene : Scene {
    explicit QueueScene(std::int64_t gpus) {
        config.profile_enabled = true;
        node("n1", "a40", gpus, gpus);
        Request ready = on_a40();
        ready.max_gpus = std::min<std::int64_t>(gpus, 2);
        JobView& released = job(1, ready);
        released.facts.held = false;
        released.facts.mark->phase = Phase::released;
        job(2, other_model_on_a40());
    }
    JobView& ready() { return host.view.jobs[0]; }
    [[nodiscard]] bool measures() const { return called(host, "carrier a40 n1"); }
    [[nodiscard]] bool starts() const { return called(host, "start 1 n1"); }
};

TEST(a_ready_job_has_its_node_before_the_profile_run_of_a_later_one) {
    QueueScene scene(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scene.starts() && !scene.measures());
    ck_assert(
        said(scene.host, 2, "waiting to profile gpt2-half on a40: jobs before it start first"));
    scene.host.view.snapshot.nodes[0].free_gpus = 0;
    scene.ready().facts.state = HostJobState::running;
    scheduler->round();  // it runs: nobody waits for a GPU that a job has
    ck_assert(!scene.measures());
    ck_assert(scheduler->explain(2).find("no free a40 to profile on") != std::string::npos);
}

TEST(a_profile_run_goes_before_ready_jobs_that_stand_behind_its_job) {
    QueueScene scene(1);
    scene.ready().priority = 1;
    scene.scheduler()->round();
    ck_assert(scene.measures() && !scene.starts());
}

TEST(what_stands_before_is_decided_by_priority_then_by_submission) {
    for (const double later_s : {0, 1}) {
        QueueScene scene(1);
        for (JobView& job : scene.host.view.jobs) job.priority = 5;
        scene.ready().submit_s = 100 + later_s;
        scene.host.view.jobs[1].submit_s = 100.5;
        scene.scheduler()->round();
        ck_assert(scene.starts() == (later_s == 0) && scene.measures() == (later_s == 1));
    }
    QueueScene scene(1);
    scene.ready().submit_s = 200;
    scene.ready().priority = 2e6;
    std::swap(scene.host.view.jobs[0], scene.host.view.jobs[1]);  // whatever Slurm's list has first
    scene.scheduler()->round();
    ck_assert(scene.starts() && !scene.measures());
}

TEST(a_profile_run_takes_what_ready_jobs_leave_in_the_same_round) {
    QueueScene scene(3);
    scene.host.view.memory_tracked = true;
    scene.scheduler()->round();
    ck_assert(scene.starts() && scene.measures());
    ck_assert_int_eq(scene.host.last_shape.offer.grid.gpus(), 2);
    ck_assert_int_eq(scene.host.specs[0].cpus, 4);
}

TEST(a_ready_job_that_may_not_start_yet_keeps_no_profile_run_waiting) {
    QueueScene scene(1);
    scene.ready().ordinary_start_s = scene.host.view.snapshot.time_s + 1000;
    scene.scheduler()->round();
    ck_assert(scene.measures() && !scene.starts());
}

TEST(a_ready_job_that_does_not_start_keeps_a_profile_run_waiting_for_ten_seconds) {
    QueueScene scene(1);
    scene.host.next_start = {ApplyOutcome::waiting_for_preemption, "Slurm is preempting for it"};
    auto scheduler = scene.scheduler();
    for (int second = 0; second < 10; ++second) {
        scheduler->round();
        ck_assert(scene.starts() && !scene.measures());
        scene.host.view.snapshot.time_s += 1;
    }
    scheduler->round();
    ck_assert(scene.measures());
}

TEST(runs_that_could_not_start_anyway_use_up_no_look_at_ready_jobs) {
    Scene scene;
    scene.config.profile_enabled = true;
    scene.node("n1", "a40", 1, 1);
    scene.node("n2", "a100", 1, 1);
    const auto pair =
        [&](JobId id, const std::string& gpu_type) {  // one can start, the other is to be measured
            Request ready = Scene::request(), unknown = other_model_on_a40();
            ready.gpu_types = unknown.gpu_types = {gpu_type};
            ready.max_gpus = 1;
            JobView& released = scene.job(id, ready);
            released.facts.held = false;
            released.facts.mark->phase = Phase::released;
            scene.job(id + 1, unknown);
        };
    for (const JobId id : {1, 3, 5, 7})
        pair(id, "a40");  // job 1 has n1: no run of the others can start
    pair(9, "a100");
    scene.scheduler()->round();
    ck_assert(called(scene.host, "start 1 n1") && called(scene.host, "start 9 n2"));
    ck_assert(scene.host.specs.empty());
}

/// Lines of the log that say of a GPU type that nothing is profiled on it.
std::ptrdiff_t told_nowhere(const ScriptedHost& host, const std::string& gpu_type) {
    return std::count_if(host.errors.begin(), host.errors.end(), [&](const std::string& line) {
        return line.starts_with("nothing is profiled on " + gpu_type + ": ");
    });
}

TEST(nodes_outside_the_partition_of_profile_runs_are_not_asked) {
    Scene scene;
    scene.config.profile_enabled = true;
    scene.config.profile_partition = "measure";
    for (int i = 1; i <= 40; ++i) scene.node("n" + std::to_string(i), "a40", 4, 4);
    scene.host.view.partitions["measure"] = {39};
    scene.job(1);
    scene.scheduler()->round();
    ck_assert(scene.host.asked_nodes == Names{"n40"});
    ck_assert_str_eq(scene.host.specs[0].partition.c_str(), "measure");
}

TEST(a_type_that_the_partition_of_profile_runs_has_not_is_estimated_and_said_so_once) {
    Scene scene;
    scene.config.profile_enabled = true;
    scene.config.profile_partition = "measure";
    scene.node("n1", "a40", 4, 4);
    scene.node("n2", "a100", 4, 4);
    std::vector<NodeIndex>& measure = scene.host.view.partitions["measure"] = {1};
    scene.job(1, on_a40());
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scene.host.asked_nodes.empty() && called(scene.host, "start 1 n1"));
    const std::string why =
        "a40: no node that the job may use is in profile.partition measure: add one to it";
    ck_assert(scheduler->explain(1).find(why) != std::string::npos);
    ck_assert(scene.host.last_shape.system_comment.find(why) != std::string::npos);
    scene.job(2, other_model_on_a40());
    scheduler->round();
    ck_assert_int_eq(told_nowhere(scene.host, "a40"), 1);
    measure = {0, 1};
    scheduler->round();
    ck_assert(called(scene.host, "carrier a40 n1"));
    measure.clear();
    scheduler->round();
    ck_assert_int_eq(told_nowhere(scene.host, "a40"), 2);
}

TEST(a_job_that_may_use_none_of_the_nodes_of_profile_runs_is_told_so_alone) {
    ProfilingScene scene;
    scene.node("n2", "a40", 4, 4);
    scene.config.profile_partition = "measure";
    scene.host.view.partitions["measure"] = {1};
    scene.host.view.snapshot.node_sets.push_back({0});
    scene.job(1, on_a40()).node_set = 1;  // --nodelist=n1
    scene.job(2, other_model_on_a40());
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scene.host.asked_nodes == Names{"n2"});
    ck_assert(scheduler->explain(1).find(
                  "a40: no node that the job may use is in profile.partition measure") !=
              std::string::npos);
    ck_assert_int_eq(told_nowhere(scene.host, "a40"), 0);
}

TEST(a_partition_of_profile_runs_that_takes_no_jobs_is_named) {
    ProfilingScene scene;
    scene.config.profile_partition = "measure";
    scene.job(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scene.host.asked_nodes.empty() && called(scene.host, "start 1 n1"));
    ck_assert(
        scheduler->explain(1).find("profile.partition measure is no partition that takes jobs") !=
        std::string::npos);
    ck_assert_int_eq(told_nowhere(scene.host, "a40"), 1);
}

TEST(a_run_goes_to_the_one_of_its_jobs_partitions_that_has_the_node) {
    ProfilingScene scene;
    scene.host.view.partitions = {{"long", {0}}, {"short", {}}};
    scene.job(1).partition = "short,long";
    scene.scheduler()->round();
    ck_assert_uint_eq(scene.host.specs.size(), 1);
    ck_assert_str_eq(scene.host.specs[0].partition.c_str(), "long");
}

}  // namespace
