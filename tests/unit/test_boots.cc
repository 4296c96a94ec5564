// SPDX-License-Identifier: GPL-2.0-or-later
// Nodes that sleep, and what is measured there: profile runs go where a node is awake, a boot
// counts in a job's wait, a node that did not boot is left alone, and a run ends with the last job
// that wants it. A scheduler on a scripted host; nodes boot and runs end when the test says so.
#include <algorithm>

#include "plugin/sched/nodes/boot_book.h"
#include "plugin/sched/nodes/boot_file.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

/// Times are near a sum of seconds.
bool is_near(double a, double b) { return std::abs(a - b) < 1e-6; }

/// Jobs of gpt2 on one GPU of type a40; a node sleeps where the test says so.
struct SleepyScene : Scene {
    std::unique_ptr<Scheduler> played;
    double full_boot_s = 30;  ///< ResumeTimeout

    SleepyScene() {
        config.profile_enabled = true;
        config.profile_max_wait_s = 60;
    }
    NodeIndex sleeping(const std::string& name) {
        node(name, "a40", 4, 4);
        return set_power(name, NodePower::asleep);
    }
    void awake(const std::string& name) { node(name, "a40", 4, 4); }
    NodeIndex index_of(const std::string& name) {
        const auto& nodes = host.view.snapshot.nodes;
        return static_cast<NodeIndex>(
            std::find_if(nodes.begin(), nodes.end(),
                         [&](const NodeState& node) { return node.name == name; }) -
            nodes.begin());
    }
    NodeIndex set_power(const std::string& name, std::optional<NodePower> power) {
        const NodeIndex index = index_of(name);
        NodeState& node = host.view.snapshot.nodes[index];
        host.view.power.erase(index);
        if (power) host.view.power[index] = *power;
        node.boot_s = power ? full_boot_s : 0;
        node.up = power != NodePower::unbooted;
        return index;
    }
    JobView& wants(JobId id, const std::string& model = "gpt2") {
        Request r = request();
        r.gpu_types = {"a40"};
        r.max_gpus = 1;
        if (model != "gpt2") r.model.name = model, r.model.layers = 6;
        return job(id, r);
    }
    /// Nothing is measured; of two nodes that sleep n1 has just not booted.
    void fail_a_boot() {
        config.profile_enabled = false;
        sleeping("n1");
        sleeping("n2");
        set_power("n1", NodePower::unbooted);
        round();
        set_power("n1", NodePower::asleep);
    }
    void gone(JobId id) {
        std::erase_if(host.view.jobs, [&](const JobView& job) { return job.id == id; });
    }
    /// What Slurm did since the last round: runs that were started hold their nodes.
    void round() {
        if (!played) played = scheduler();
        const std::size_t before = host.specs.size();
        played->round();
        for (std::size_t i = before; i < host.specs.size(); ++i) {
            const CarrierSpec& spec = host.specs[i];
            host.view.carriers.push_back({.id = static_cast<JobId>(101 + i),
                                          .request = to_json(spec.request),
                                          .node = spec.node,
                                          .start_s = host.view.snapshot.time_s,
                                          .for_user = spec.for_user});
            --host.view.snapshot.nodes[index_of(spec.node)].free_gpus;
        }
    }
    void later(double seconds) {
        host.view.snapshot.time_s += seconds;
        round();
    }
    void over(JobId carrier, bool cancelled = false) {
        for (CarrierView& c : host.view.carriers)
            if (c.id == carrier) {
                c.cancelled = cancelled;
                c.finished = true;
                c.end_s = host.view.snapshot.time_s;
                ++host.view.snapshot.nodes[index_of(c.node)].free_gpus;
            }
    }
    [[nodiscard]] bool started(JobId id) const { return host.started.contains(id); }
    [[nodiscard]] std::string comment(JobId id) const { return host.started.at(id).system_comment; }
    [[nodiscard]] bool said(const std::string& text) const {
        return std::any_of(host.reasons.begin(), host.reasons.end(), [&](const Host::Reason& r) {
            return r.text.find(text) != std::string::npos;
        });
    }
};

TEST(a_profile_run_goes_to_a_node_that_is_awake) {
    SleepyScene scene;
    scene.sleeping("n1");
    scene.awake("n2");
    scene.wants(1);
    scene.round();
    ck_assert(called(scene.host, "carrier a40 n2"));
}

TEST(a_node_is_woken_up_where_none_is_awake_and_the_wait_says_so) {
    SleepyScene scene;
    scene.sleeping("n1");
    scene.wants(1);
    scene.round();
    ck_assert(called(scene.host, "carrier a40 n1"));
    ck_assert(scene.said("profiling gpt2 on a40 (JobId=101): n1 boots, about 30 s"));
    scene.set_power("n1", NodePower::waking);
    scene.later(10);
    scene.later(10);
    ck_assert_msg(scene.said("n1 boots, about 20 s"), "%s", scene.host.reasons[0].text.c_str());
    ck_assert(scene.played->explain(1).find("n1 boots, about 20 s") != std::string::npos);
}

TEST(a_boot_that_lasts_longer_than_a_job_waits_is_not_begun_for_its_profile) {
    SleepyScene scene;
    scene.full_boot_s = 61;
    scene.sleeping("n1");
    scene.wants(1);
    scene.round();
    ck_assert(scene.host.specs.empty() && scene.started(1));
    ck_assert(scene.host.started.at(1).offer.estimate.source == Source::analytic);
    ck_assert_msg(scene.comment(1).find("n1 needs about 61 s to boot: 60 s are left of "
                                        "profile.max_wait_s") != std::string::npos,
                  "%s", scene.comment(1).c_str());
}

TEST(a_node_that_boots_too_late_before_an_ordinary_job_is_left_asleep_and_the_job_says_for_whom) {
    SleepyScene scene;
    scene.full_boot_s = 45;
    scene.sleeping("n1");
    JobView& job = scene.wants(1);
    job.ordinary_start_s = scene.host.view.snapshot.time_s + scene.config.profile_time_limit_s + 20;
    scene.round();
    ck_assert(scene.host.specs.empty());
    const std::string told = scene.played->explain(1);
    ck_assert_msg(told.find("n1 needs about 45 s to boot: only a run that begins within 20 s is "
                            "over when the ordinary job before it starts") != std::string::npos,
                  "%s", told.c_str());
    ck_assert(told.find("profile.max_wait_s") == std::string::npos);
}

TEST(a_node_that_is_awake_and_taken_is_no_reason_to_wake_one_up_too_late) {
    SleepyScene scene;
    scene.awake("n1");
    scene.sleeping("n2");
    scene.wants(1);
    scene.wants(2, "half");
    scene.round();  // n1 measures for the first, n2 is woken up for the second
    ck_assert(called(scene.host, "carrier a40 n1") && called(scene.host, "carrier a40 n2"));
    scene.wants(3, "third").record = format_record([] {
                                         Request r = Scene::request();
                                         r.gpu_types = {"a40"};
                                         r.model.name = "third", r.model.layers = 4;
                                         return r;
                                     }())
                                         .value();
    scene.host.view.snapshot.nodes[0].free_gpus = 0;
    scene.later(31);  // nothing is free, and too little is left when n2 comes back to sleep
    ck_assert_uint_eq(scene.host.specs.size(), 2);
}

TEST(a_boot_that_lasts_longer_than_it_should_keeps_a_job_no_longer_than_the_site_allows) {
    SleepyScene scene;
    scene.sleeping("n1");
    scene.wants(1);
    scene.round();
    scene.set_power("n1", NodePower::waking);
    scene.later(59);
    ck_assert(!scene.started(1));
    scene.later(2);
    ck_assert(scene.started(1));
    ck_assert_msg(scene.comment(1).find("not waited for any longer: profiling gpt2 on a40") !=
                      std::string::npos,
                  "%s", scene.comment(1).c_str());
}

TEST(a_run_whose_node_woke_up_in_time_is_waited_for_to_its_end) {
    SleepyScene scene;
    scene.sleeping("n1");
    scene.wants(1);
    scene.round();
    scene.set_power("n1", NodePower::waking);
    scene.later(25);
    scene.set_power("n1", std::nullopt);
    scene.later(1);
    ck_assert(!scene.said("boots"));
    scene.later(100);
    ck_assert(!scene.started(1));
}

TEST(a_run_whose_node_woke_up_too_late_is_not_waited_for_again) {
    SleepyScene scene;
    scene.host.next_start = {ApplyOutcome::stale, "busy"};  // the job stays in the queue
    scene.sleeping("n1");
    scene.wants(1);
    scene.round();
    scene.set_power("n1", NodePower::waking);
    scene.later(61);
    const std::size_t tried = scene.host.calls.size();
    scene.set_power("n1", std::nullopt);
    scene.later(1);
    ck_assert(!scene.said("profiling gpt2"));
    ck_assert(scene.host.calls.size() > tried);  // it is tried on what is there
}

TEST(a_run_ends_with_the_last_job_that_wants_it) {
    SleepyScene scene;
    scene.sleeping("n1");
    scene.wants(1);
    scene.wants(2);
    scene.round();
    ck_assert_uint_eq(scene.host.specs.size(), 1);
    scene.gone(1);
    scene.later(1);
    ck_assert_msg(!called(scene.host, "end carrier 101"), "job 2 waits for it, too");
    scene.host.view.jobs[0].changing = true;
    scene.later(1);
    ck_assert_msg(!called(scene.host, "end carrier 101"), "job 2 changed while it was read");
    scene.gone(2);
    scene.later(1);
    ck_assert(called(scene.host, "end carrier 101"));
    scene.later(1);
    ck_assert_int_eq(
        std::count(scene.host.calls.begin(), scene.host.calls.end(), "end carrier 101"), 1);
}

TEST(a_run_goes_on_for_a_job_that_waits_with_a_shape_or_is_held_by_its_user) {
    for (const bool released : {true, false}) {
        SleepyScene scene;
        scene.awake("n1");
        scene.wants(1);
        scene.round();
        JobFacts& facts = scene.host.view.jobs[0].facts;
        facts.mark = JobMark{released ? Phase::released : Phase::held, 0,
                             released ? OtherHold::none : OtherHold::user, 0};
        facts.held = !released;
        scene.later(1);
        ck_assert(!called(scene.host, "end carrier 101"));
    }
}

TEST(a_boot_for_a_run_ends_when_the_job_that_wanted_it_has_started_without_it) {
    SleepyScene scene;
    scene.sleeping("n1");
    scene.awake("n2");
    scene.host.view.snapshot.nodes[1].free_gpus = 0;
    JobView& job = scene.wants(1);
    scene.round();
    ck_assert(called(scene.host, "carrier a40 n1"));
    job.facts.state = HostJobState::running;
    scene.later(1);
    ck_assert(called(scene.host, "end carrier 101"));
}

/// Else a model whose jobs each start by formulas would never be measured.
TEST(a_run_that_has_begun_goes_on_while_a_job_of_its_model_has_its_nodes) {
    for (const auto state :
         {HostJobState::running, HostJobState::suspended, HostJobState::completing}) {
        SleepyScene scene;
        scene.sleeping("n1");
        scene.wants(1);
        scene.wants(2, "half");
        scene.round();
        scene.set_power("n1", NodePower::waking);
        scene.later(61);  // both start without it
        scene.set_power("n1", std::nullopt);
        scene.later(1);  // and the run begins
        for (JobView& job : scene.host.view.jobs) job.facts.state = state;
        scene.later(1);
        scene.gone(2);
        scene.later(1);
        ck_assert_msg(!called(scene.host, "end carrier 101"), "a job of its model has its nodes");
        scene.host.view.jobs[0].facts.state = HostJobState::finished;
        scene.later(1);
        ck_assert(called(scene.host, "end carrier 101"));
    }
}

TEST(a_run_that_was_ended_is_no_failure_and_the_next_job_has_one) {
    SleepyScene scene;
    scene.awake("n1");
    scene.wants(1);
    scene.round();
    scene.gone(1);
    scene.later(1);
    ck_assert(called(scene.host, "end carrier 101"));
    scene.over(101, true);
    scene.later(10);
    scene.later(10);
    ck_assert(scene.host.errors.empty());
    ck_assert(scene.played->stats_json().find("\"failed\":0") != std::string::npos);
    scene.wants(2);
    scene.later(1);
    ck_assert_uint_eq(scene.host.specs.size(), 2);
    scene.gone(2);
    scene.later(1);
    scene.over(102, true);
    scene.played = scene.scheduler();  // an earlier life ended it
    scene.wants(3);
    scene.later(10);
    ck_assert_uint_eq(scene.host.specs.size(), 3);
}

TEST(a_node_that_did_not_boot_is_tried_by_no_profile_run_again) {
    SleepyScene scene;
    scene.sleeping("n1");
    scene.sleeping("n2");
    scene.wants(1);
    scene.round();
    ck_assert(called(scene.host, "carrier a40 n1"));
    scene.set_power("n1", NodePower::waking);
    scene.later(1);
    scene.set_power("n1", NodePower::unbooted);
    scene.over(101);
    scene.later(4);
    scene.later(4);
    ck_assert_msg(std::any_of(scene.host.errors.begin(), scene.host.errors.end(),
                              [](const std::string& line) {
                                  return line.find("n1 did not boot within ResumeTimeout") !=
                                         std::string::npos;
                              }),
                  "the log says why");
    ck_assert(called(scene.host, "carrier a40 n2"));
    scene.set_power("n1", NodePower::asleep);  // idle_on_node_suspend: it looks as good as before
    scene.wants(2, "half");
    scene.later(1);
    ck_assert_uint_eq(scene.host.specs.size(), 2);
    ck_assert(!scene.started(2) || scene.comment(2).find("did not boot") != std::string::npos);
}

TEST(a_node_that_did_not_boot_is_the_last_that_a_job_takes) {
    SleepyScene scene;
    scene.fail_a_boot();
    scene.wants(1);
    scene.later(1);
    ck_assert(called(scene.host, "start 1 n2"));
    ck_assert(scene.played->explain(1).find("n1: it did not boot") != std::string::npos);
    scene.gone(1);
    scene.host.view.snapshot.nodes.pop_back();
    scene.host.view.snapshot.node_sets[0].pop_back();
    scene.host.view.partitions["main"].pop_back();
    scene.host.view.node_cpus.pop_back();
    scene.host.view.node_memory_mb.pop_back();
    scene.host.view.power.erase(1);
    scene.wants(2);
    scene.later(1);
    ck_assert_msg(called(scene.host, "start 2 n1"), "there is no other");
}

TEST(the_next_slurmctld_and_the_next_configuration_leave_a_node_alone_that_did_not_boot) {
    for (const bool is_killed : {true, false}) {
        SleepyScene scene;
        scene.fail_a_boot();
        scene.later(1);
        Scheduler::Kept kept = is_killed ? Scheduler::Kept{} : scene.played->keep();
        scene.played = scene.scheduler();
        scene.played->take_over(std::move(kept));
        scene.wants(1);
        scene.later(1);
        ck_assert(called(scene.host, "start 1 n2"));
        ck_assert(scene.host.errors.empty());
    }
}

TEST(boots_of_which_nothing_can_be_read_or_written_are_told_once) {
    SleepyScene scene;
    scene.sleeping("n1");
    const std::string file = scene.directory / "boots.json";
    ck_assert(write_file_atomic(file, "[]", 0600).ok());
    scene.played = scene.scheduler();
    scene.played->take_over({});
    ck_assert_uint_eq(scene.host.errors.size(), 1);
    ck_assert_msg(scene.host.errors[0].ends_with(": how nodes booted is forgotten"), "%s",
                  scene.host.errors[0].c_str());
    std::filesystem::remove(file);
    std::filesystem::create_directories(file + "/in_the_way");
    for (const auto power : {NodePower::waking, NodePower::asleep, NodePower::waking}) {
        scene.set_power("n1", power);
        scene.later(1);
    }
    ck_assert_uint_eq(scene.host.errors.size(), 2);
    ck_assert_msg(
        scene.host.errors[1].ends_with(": how nodes boot is forgotten when slurmctld ends"), "%s",
        scene.host.errors[1].c_str());
    std::filesystem::remove_all(file);
}

/// One node of ResumeTimeout 600 s, and what the book makes of it.
struct BootScene {
    BootBook book{100};
    ClusterView view;

    explicit BootScene(std::vector<std::string> names = {"n1"}) {
        for (const std::string& name : names)
            view.snapshot.nodes.push_back({name, "a40", 4, 4, 16, 64000});
    }
    /// Seconds that the first node needs to boot, as the view says then.
    double at(double now_s, std::vector<std::optional<NodePower>> power) {
        view.snapshot.time_s += now_s - view.steady_s;
        view.steady_s = now_s;
        view.power.clear();
        for (NodeIndex n = 0; n < power.size(); ++n) {
            if (power[n]) view.power[n] = *power[n];
            view.snapshot.nodes[n].boot_s = power[n] ? 600 : 0;
        }
        book.new_round(view);
        return view.snapshot.nodes[0].boot_s;
    }
    /// The next life, whose monotonic clock begins anew `away_s` later.
    void restart(double away_s) {
        const auto kept = parse_boots(format_boots(book.keep()));
        ck_assert(kept.ok() && *kept == book.keep());
        view.snapshot.time_s += view.steady_s + away_s;
        book = BootBook(100);
        book.take_over(*kept);
    }
};

TEST(a_boot_takes_what_it_took_before_or_what_its_type_took_and_at_most_the_timeout) {
    BootScene scene({"n1", "n2"});
    const auto asleep = NodePower::asleep, waking = NodePower::waking;
    ck_assert(is_near(scene.at(0, {asleep, asleep}), 600));
    ck_assert(is_near(scene.at(1, {asleep, waking}), 600));
    ck_assert(is_near(scene.at(41, {asleep, std::nullopt}), 40));  // as n2 did
    ck_assert(is_near(scene.at(50, {waking, std::nullopt}), 40));
    ck_assert(is_near(scene.at(60, {waking, std::nullopt}), 30));
    ck_assert(is_near(scene.at(99, {waking, std::nullopt}), 1));
    ck_assert(is_near(scene.at(120, {std::nullopt, std::nullopt}), 0));
    ck_assert(is_near(scene.at(130, {asleep, std::nullopt}), 70));  // as it did itself
}

TEST(a_boot_that_was_seen_from_its_middle_on_teaches_nothing) {
    const auto asleep = NodePower::asleep, waking = NodePower::waking;
    BootScene first;  // the first round of a life
    (void)first.at(0, {waking});
    (void)first.at(5, {std::nullopt});
    ck_assert(is_near(first.at(10, {asleep}), 600));
    (void)first.at(11, {waking});
    (void)first.at(51, {std::nullopt});
    ck_assert(is_near(first.at(60, {asleep}), 40));
    BootScene gap;  // there was no work, and so no round, for an hour
    (void)gap.at(0, {asleep});
    (void)gap.at(3600, {waking});
    (void)gap.at(3605, {std::nullopt});
    ck_assert(is_near(gap.at(3610, {asleep}), 600));
    (void)gap.at(3611, {waking});
    (void)gap.at(7200, {std::nullopt});
    ck_assert_msg(is_near(gap.at(7210, {asleep}), 600), "at most ResumeTimeout");
}

TEST(a_node_that_did_not_boot_rests_until_it_boots_or_for_so_long) {
    BootScene scene;
    const auto unbooted = NodePower::unbooted, asleep = NodePower::asleep;
    (void)scene.at(0, {unbooted});
    (void)scene.at(99, {asleep});
    ck_assert(scene.view.is(unbooted, 0));
    (void)scene.at(100, {asleep});
    ck_assert(!scene.view.is(unbooted, 0));
    (void)scene.at(200, {unbooted});
    (void)scene.at(210, {std::nullopt});
    ck_assert_msg(scene.view.power.empty(), "it is up");
    (void)scene.at(220, {asleep});
    ck_assert(!scene.view.is(unbooted, 0));
}

TEST(a_node_that_sleeps_again_without_having_been_up_did_not_boot) {
    BootScene scene;
    const auto unbooted = NodePower::unbooted, asleep = NodePower::asleep,
               waking = NodePower::waking;
    (void)scene.at(0, {asleep});
    (void)scene.at(1, {waking});
    (void)scene.at(10, {waking});
    (void)scene.at(12, {asleep});
    ck_assert(scene.view.is(unbooted, 0));
    (void)scene.at(20, {waking});  // somebody tries again
    (void)scene.at(30, {std::nullopt});
    (void)scene.at(40, {asleep});
    ck_assert(!scene.view.is(unbooted, 0));
    (void)scene.at(50, {waking});
    (void)scene.at(500, {asleep});  // nobody has looked meanwhile
    ck_assert(!scene.view.is(unbooted, 0));
    (void)scene.at(510, {waking});
    (void)scene.at(515, {NodePower::falling_asleep});  // PowerDownOnIdle, after its job's end
    (void)scene.at(520, {asleep});
    ck_assert(!scene.view.is(unbooted, 0));
}

TEST(the_next_life_knows_how_long_a_node_booted_and_how_long_it_has_been_booting) {
    BootScene scene({"n1", "n2"});
    const auto asleep = NodePower::asleep, waking = NodePower::waking;
    (void)scene.at(1000, {asleep, asleep});
    (void)scene.at(1001, {waking, asleep});
    (void)scene.at(1041, {std::nullopt, asleep});
    scene.restart(60);
    ck_assert(is_near(scene.at(5, {asleep, asleep}), 40));
    ck_assert_msg(is_near(scene.view.snapshot.nodes[1].boot_s, 40), "as its type does");
    (void)scene.at(6, {waking, asleep});
    scene.restart(10);
    ck_assert(is_near(scene.at(5, {waking, asleep}), 25));
    (void)scene.at(65, {std::nullopt, asleep});
    scene.restart(0);
    ck_assert_msg(is_near(scene.at(70, {asleep, asleep}), 75), "it was seen from its beginning");
}

TEST(a_node_that_did_not_boot_rests_in_the_next_life_for_what_is_left) {
    const auto unbooted = NodePower::unbooted, asleep = NodePower::asleep;
    for (const double away_s : {50.0, 100.0, -1000.0}) {
        BootScene scene;
        (void)scene.at(1000, {unbooted});
        scene.restart(away_s);
        (void)scene.at(1, {asleep});
        ck_assert(scene.view.is(unbooted, 0) == (away_s < 100));
        (void)scene.at(102, {asleep});
        ck_assert_msg(!scene.view.is(unbooted, 0), "also where the clock was set back");
    }
}

TEST(boots_are_worth_a_new_file_where_something_was_learned) {
    BootScene scene;
    const auto unbooted = NodePower::unbooted, asleep = NodePower::asleep,
               waking = NodePower::waking;
    const auto changes = [&](double now_s, std::optional<NodePower> power) {
        (void)scene.at(now_s, {power});
        return scene.book.take_changed();
    };
    ck_assert(!changes(0, asleep) && !changes(5, asleep));
    ck_assert(changes(10, waking) && !changes(15, waking));
    ck_assert(changes(20, unbooted) && !changes(30, unbooted));
    ck_assert_msg(changes(40, asleep), "since when it rests");
    ck_assert(!changes(50, asleep));
    ck_assert(changes(60, waking) && changes(70, std::nullopt) && !changes(80, std::nullopt));
}

TEST(nodes_that_are_gone_are_forgotten) {
    BootScene scene({"n1", "n2"});
    (void)scene.at(0, {NodePower::unbooted, NodePower::unbooted});
    scene.view.snapshot.nodes.pop_back();
    scene.restart(1);
    ck_assert_uint_eq(scene.book.keep().size(), 2);
    (void)scene.at(1, {NodePower::asleep});
    ck_assert_uint_eq(scene.book.keep().size(), 1);
}

TEST(a_file_of_boots_that_is_none_is_refused) {
    for (const char* text :
         {"", "[]", "{}", R"({"schema_version":2,"nodes":[]})",
          R"({"schema_version":1,"nodes":[1]})", R"({"schema_version":1,"nodes":[{"took_s":1}]})",
          R"({"schema_version":1,"nodes":[{"node":"n1","took_s":-1}]})"})
        ck_assert_msg(!parse_boots(text).ok(), "%s", text);
}

}  // namespace
