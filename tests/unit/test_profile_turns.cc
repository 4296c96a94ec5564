// SPDX-License-Identifier: GPL-2.0-or-later
// Profile runs of several users: nobody keeps another's jobs waiting beside idle GPUs by asking for
// many. A scheduler on a scripted host; runs end when the test says so.
#include <algorithm>

#include "plugin/sched/profiles/profile_turns.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

/// A model of two layers that nobody else has.
Request tiny(std::int64_t hidden) {
    Request r = Scene::request();
    r.model = find_zoo_model("gpt2").value();
    r.model.name = "tiny" + std::to_string(hidden);
    r.model.layers = 2, r.model.hidden = hidden, r.model.heads = r.model.kv_heads = 4;
    r.model.ffn_hidden = 4 * hidden, r.model.vocab = 1024, r.model.seq_length = 64;
    r.gpu_types = {"a40"};
    r.max_gpus = 1;
    return r;
}

Profile result_of(const ProfileRequest& request, bool all) {
    Profile profile;
    profile.nonce = request.nonce;
    profile.gpu_type = request.gpu_type;
    profile.hardware = request.hardware;
    profile.model_fingerprint = fingerprint(request.model);
    profile.device = {"cpu", "cpu", "", "6.1", "blas", 1 << 30, 2, "n1"};
    profile.device_seconds = 10;
    profile.started_s = 1000;
    profile.entries = {
        {{OpKind::gemm, Pass::forward, Precision::fp32, {8, 8, 8, 1}}, 1e-3, 3, 0.01}};
    if (!all) return profile;
    profile.entries.clear();
    const auto type = find_hardware(load_hardware("").value(), request.hardware).value();
    for (const OpShape& shape : operator_list(profile_query(request, type)))
        profile.entries.push_back({shape, 1e-3, 3, 0.01});
    return profile;
}

constexpr std::uint32_t greedy = 1001, other = 1002;

/// Three nodes of two GPUs; profile runs last ten seconds, a round is a second, jobs end as soon as
/// they started.
struct SharedScene : Scene {
    std::unique_ptr<Scheduler> played;
    std::map<JobId, std::size_t> spec_of;  ///< carriers by the order of their start
    std::vector<std::uint32_t> served;     ///< whose runs began, in order
    bool measures_all = false;             ///< runs have results of all operators, not of one

    SharedScene() {
        config.profile_enabled = true;
        for (const std::string name : {"n1", "n2", "n3"}) node(name, "a40", 2, 2);
    }
    JobView& job_of(std::uint32_t user, JobId id, const Request& r) {
        JobView& view = job(id, r);
        view.user_id = user;
        return view;
    }
    void second() {
        if (!played) played = scheduler();
        auto& carriers = host.view.carriers;
        for (CarrierView& carrier : carriers)
            if (!carrier.finished && host.view.snapshot.time_s >= carrier.start_s + 10)
                finish(carrier);
        const std::size_t before = host.specs.size();
        played->round();
        for (std::size_t i = before; i < host.specs.size(); ++i) begin(i);
        std::erase_if(host.view.jobs, [&](const JobView& job) { return started(job.id); });
        host.view.snapshot.time_s += 1;
    }
    [[nodiscard]] bool started(JobId id) const {
        return std::any_of(host.calls.begin(), host.calls.end(), [&](const std::string& call) {
            return call.starts_with("start " + std::to_string(id) + " ");
        });
    }
    [[nodiscard]] std::ptrdiff_t runs_of(std::uint32_t user) const {
        return std::count(served.begin(), served.end(), user);
    }
    /// How many seconds pass until the job starts; `most` where it does not.
    int seconds_until_start(JobId id, int most) {
        int seconds = 0;
        for (; seconds < most && !started(id); ++seconds) second();
        return seconds;
    }

  private:
    NodeState& node_of(const std::string& name) {
        return *std::find_if(host.view.snapshot.nodes.begin(), host.view.snapshot.nodes.end(),
                             [&](const NodeState& node) { return node.name == name; });
    }
    void begin(std::size_t spec) {
        const CarrierSpec& s = host.specs[spec];
        const auto id = static_cast<JobId>(101 + spec);
        host.view.carriers.push_back(
            {id, 0, to_json(s.request), s.node, false, host.view.snapshot.time_s, 0, s.for_user});
        --node_of(s.node).free_gpus;
        spec_of[id] = spec;
        served.push_back(s.for_user);
    }
    void finish(CarrierView& carrier) {
        const CarrierSpec& s = host.specs[spec_of.at(carrier.id)];
        carrier.finished = true;
        carrier.end_s = host.view.snapshot.time_s;
        ++node_of(carrier.node).free_gpus;
        ck_assert(write_file_atomic(directory / (s.request.nonce + ".json"),
                                    to_json(result_of(s.request, measures_all)), 0644)
                      .ok());
    }
};

TEST(forty_tiny_models_with_a_pin_that_can_never_run_take_no_profile_run) {
    SharedScene scene;
    for (JobId id = 1; id <= 40; ++id) {
        Request r = tiny(128 + 4 * id);
        r.pin.dp = 64;  // of one GPU
        scene.job_of(greedy, id, r);
    }
    scene.job_of(other, 50, tiny(64));
    const int seconds = scene.seconds_until_start(50, 200);
    ck_assert_msg(seconds <= 12,
                  "the other user's job started after %d s, %td runs of the first user went before",
                  seconds, scene.runs_of(greedy));
    ck_assert_int_eq(scene.runs_of(greedy), 0);
}

TEST(forty_models_that_can_run_keep_the_job_of_another_user_waiting_for_one_run) {
    SharedScene scene;
    for (JobId id = 1; id <= 40; ++id) scene.job_of(greedy, id, tiny(128 + 4 * id));
    scene.second();
    scene.second();
    ck_assert_int_eq(scene.runs_of(greedy), 3);
    scene.job_of(other, 50, tiny(64));  // stands behind all of them
    const int seconds = scene.seconds_until_start(50, 200);
    ck_assert_msg(seconds <= 22, "it started after %d s and %td runs of the first user", seconds,
                  scene.runs_of(greedy));
}

TEST(two_users_with_many_models_have_runs_in_turn) {
    SharedScene scene;
    for (JobId id = 1; id <= 20; ++id) scene.job_of(greedy, id, tiny(128 + 4 * id));
    for (JobId id = 21; id <= 40; ++id) scene.job_of(other, id, tiny(128 + 4 * id));
    while (scene.served.size() < 18) scene.second();
    const std::ptrdiff_t first = scene.runs_of(greedy), second = scene.runs_of(other);
    ck_assert_msg(std::abs(first - second) <= 3, "%td and %td", first, second);
}

/// One node, so that each run waits for the one before.
struct OneNodeScene : SharedScene {
    OneNodeScene() {
        auto& snapshot = host.view.snapshot;
        snapshot.nodes.resize(1);
        snapshot.node_sets = {{0}};
        host.view.partitions["main"] = {0};
        host.view.node_cpus.resize(1);
        host.view.node_memory_mb.resize(1);
    }
    [[nodiscard]] std::string unmeasured(JobId id) { return played->explain(id); }
};

TEST(a_job_waits_for_its_turn_no_longer_than_the_site_allows) {
    OneNodeScene scene;
    scene.config.profile_max_wait_s = 25;
    for (JobId id = 1; id <= 6; ++id) scene.job_of(greedy, id, tiny(128 + 4 * id));
    const int seconds = scene.seconds_until_start(6, 100);
    ck_assert_msg(seconds >= 25 && seconds <= 30, "%d s", seconds);
    ck_assert(scene.host.started.at(6).offer.estimate.source == Source::analytic);
    ck_assert(scene.host.started.at(6).system_comment.find(
                  "not measured: a40: not waited for any longer: waiting to "
                  "profile tiny152 on a40") != std::string::npos);
    ck_assert_msg(scene.started(1) && scene.started(2),
                  "those whose runs were over were not kept waiting");
}

TEST(a_run_that_began_in_time_is_waited_for) {
    OneNodeScene scene;
    scene.config.profile_max_wait_s = 0;
    scene.job_of(greedy, 1, tiny(132));
    const int seconds = scene.seconds_until_start(1, 100);
    ck_assert_msg(seconds >= 10 && seconds <= 12, "%d s", seconds);
}

TEST(a_wall_clock_that_is_set_ends_no_wait_and_makes_none) {
    OneNodeScene scene;
    scene.config.profile_max_wait_s = 25;
    for (JobId id = 1; id <= 6; ++id) scene.job_of(greedy, id, tiny(128 + 4 * id));
    for (int i = 0; i < 5; ++i) scene.second();
    scene.host.clock_set_s = -3600;  // an hour back
    scene.host.view.snapshot.time_s -= 3600;
    for (CarrierView& carrier : scene.host.view.carriers)
        carrier.start_s -= 3600;  // ends when it would have
    for (int i = 0; i < 15; ++i) scene.second();
    ck_assert(!scene.started(6));
    ck_assert(scene.seconds_until_start(6, 20) <= 10);
}

TEST(a_user_has_so_many_runs_an_hour_and_others_have_theirs) {
    SharedScene scene;
    scene.config.profile_runs_per_hour = 4;
    for (JobId id = 1; id <= 8; ++id) scene.job_of(greedy, id, tiny(128 + 4 * id));
    for (int i = 0; i < 60; ++i) scene.second();
    ck_assert_int_eq(scene.runs_of(greedy), 4);
    ck_assert(scene.started(8));
    ck_assert(scene.host.started.at(8).system_comment.find(
                  "its user has had 4 profile runs within an hour, as many as "
                  "profile.runs_per_hour allows") != std::string::npos);
    scene.job_of(other, 50, tiny(64));
    scene.second();
    ck_assert_int_eq(scene.runs_of(other), 1);
    auto restarted = scene.scheduler();  // knows of them from Slurm's job list
    scene.played = std::move(restarted);
    scene.job_of(greedy, 60, tiny(72));
    for (int i = 0; i < 3; ++i) scene.second();
    ck_assert_int_eq(scene.runs_of(greedy), 4);
    scene.host.view.carriers.clear();
    scene.host.view.snapshot.time_s += 3600;
    scene.job_of(greedy, 61, tiny(76));
    scene.second();
    ck_assert_int_eq(scene.runs_of(greedy), 5);
}

TEST(limits_of_one_user_are_no_reason_to_measure_nothing_for_others) {
    SharedScene scene;
    scene.host.users_at_limit = {greedy};
    scene.job_of(greedy, 1, tiny(132));
    scene.job_of(other, 2, tiny(136));
    scene.second();
    ck_assert(scene.started(1));  // on the analytic estimate
    ck_assert(scene.host.started.at(1).system_comment.find("AssocMaxJobsLimit") !=
              std::string::npos);
    ck_assert_int_eq(scene.runs_of(other), 1);
    ck_assert_uint_eq(scene.host.specs.front().for_job, 2);
}

TEST(a_model_whose_operators_are_all_known_is_not_run_again) {
    OneNodeScene scene;
    scene.measures_all = true;
    scene.job_of(greedy, 1, tiny(128));
    ck_assert_int_le(scene.seconds_until_start(1, 30), 12);
    Request deeper =
        tiny(128);  // the same layers, more of them: another model of the same operators
    deeper.model.layers = 6;
    deeper.model.name = "deeper";
    scene.job_of(other, 2, deeper);
    ck_assert_int_le(scene.seconds_until_start(2, 30), 1);
    ck_assert(scene.host.started.at(2).offer.estimate.source == Source::profiled);
    ck_assert_uint_eq(scene.served.size(), 1);
}

TEST(what_runs_cost_is_told_by_user) {
    SharedScene scene;
    scene.job_of(greedy, 1, tiny(132));
    scene.job_of(other, 2, tiny(136));
    for (int i = 0; i < 15; ++i) scene.second();
    const std::string all = scene.played->stats_json({true, 0}),
                      own = scene.played->stats_json({false, other});
    ck_assert_msg(all.find(R"({"gpu_s":10.0,"runs_last_hour":1,"uid":1001})") != std::string::npos,
                  "%s", all.c_str());
    ck_assert(own.find(R"("uid":1002)") != std::string::npos &&
              own.find(R"("uid":1001)") == std::string::npos);
}

}  // namespace
