// SPDX-License-Identifier: GPL-2.0-or-later
// Rounds of the scheduler with siblings whose model no device holds alone: the lead's pipeline,
// what becomes of it where Slurm refuses it, on which nodes it may be, and when it leaves them.
#include <cstdlib>

#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

/// As in contrib/demo-array: four devices of 10 MB, and a model of 40.
struct SiblingScene : Scene {
    SiblingScene() {
        config.array_enabled = true;
        config.gpu_types = {{"a40", "small-cpu"}};
        config.array_solve_s = 0.05;
        host.view.snapshot.time_s = 1000;
        host.view.jobs.reserve(64);
        node("n1", "a40", 4, 4);
    }
    static Request sibling() {
        Request r = Scene::request();
        r.model = parse_model(
                      "family: gpt\nlayers: 8\nhidden: 96\nheads: 4\nvocab: 128\n"
                      "seq_length: 32\nprecision: fp32\ntied_embedding: false\n",
                      "sibling")
                      .value();
        r.pin = {.pp = 4, .dp = 1, .tp = 1};
        r.global_batch = 2;
        r.max_gpus = 0;
        r.array = true;
        r.launcher = "arena-train";
        return r;
    }
    JobView& task(JobId id, std::uint32_t number, const Request& r = sibling()) {
        JobView& view = job(id, r);
        view.array = {.id = 1, .task = number};
        view.time_limit_s = 600;
        view.eligible_s = 1000;
        return view;
    }
    std::unique_ptr<Scheduler> scheduler() {
        const char* source = std::getenv("ARENA_SRCDIR");
        const std::string file =
            std::string(source != nullptr ? source : ".") + "/contrib/demo-array.d/hardware.yaml";
        return std::make_unique<Scheduler>(host, config, load_hardware(file).value(),
                                           builtin_calibration());
    }
    void pass(double seconds) { host.view.snapshot.time_s += seconds; }
    [[nodiscard]] std::size_t made() const { return host.array_specs.size(); }
    [[nodiscard]] std::string reason_of(JobId id) const {
        for (const auto& reason : host.reasons)
            if (reason.job == id) return reason.text;
        return {};
    }
};

void says(const std::string& text, const char* words) {
    ck_assert_msg(text.find(words) != std::string::npos, "'%s' lacks '%s'", text.c_str(), words);
}

}  // namespace

TEST(a_lead_gets_a_pipeline_on_free_gpus) {
    SiblingScene scene;
    for (JobId id = 1; id <= 3; ++id) scene.task(id, id);
    const auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert_msg(scene.made() == 1, "%s", scheduler->explain(1).c_str());
    const ArrayCarrierSpec& spec = scene.host.array_specs[0];
    ck_assert_uint_eq(spec.lead, 1);
    ck_assert_int_eq(spec.gpus_per_node, 4);
    ck_assert_uint_eq(spec.time_limit_minutes, 10);
    says(scene.reason_of(1), "waits for its array's JobId=101 to begin");
    says(scene.reason_of(2), "as JobId=1 does");
}

TEST(a_pipeline_that_slurm_refuses_is_tried_less_and_less_often) {
    SiblingScene scene;
    for (JobId id = 1; id <= 3; ++id) scene.task(id, id);
    scene.host.next_array.why = "Requested nodes are busy";
    const auto scheduler = scene.scheduler();
    for (int i = 0; i < 120; ++i) {
        scheduler->round();
        says(scene.reason_of(1), "Requested nodes are busy");
        scene.pass(0.5);
    }
    ck_assert_msg(scene.made() >= 1 && scene.made() <= 3, "%zu", scene.made());
    ck_assert_uint_eq(scene.host.errors.size(), 1);
    scene.host.next_array.why = {};
    scene.pass(60);
    scheduler->round();
    says(scene.reason_of(1), "to begin");
}

TEST(one_whose_lead_has_changed_is_tried_in_the_next_round) {
    SiblingScene scene;
    for (JobId id = 1; id <= 2; ++id) scene.task(id, id);
    scene.host.next_array = {.id = 0, .limited = false, .stale = true, .why = "the job changed"};
    const auto scheduler = scene.scheduler();
    for (int i = 0; i < 2; ++i) {
        scheduler->round();
        scene.pass(0.5);
    }
    ck_assert_uint_eq(scene.made(), 2);
    ck_assert(scene.host.errors.empty());
}

TEST(one_that_a_limit_refuses_leaves_its_siblings_to_themselves) {
    SiblingScene scene;
    for (JobId id = 1; id <= 2; ++id) scene.task(id, id);
    scene.host.next_array = {.id = 0, .limited = true, .why = "AssocGrpGRES"};
    const auto scheduler = scene.scheduler();
    scheduler->round();
    scene.pass(0.5);
    scheduler->round();
    ck_assert_uint_eq(scene.made(), 1);
    ck_assert(called(scene.host, "start 1 n1"));
}

TEST(none_is_made_whose_states_the_node_has_no_memory_for) {
    SiblingScene scene;
    for (JobId id = 1; id <= 3; ++id) scene.task(id, id);
    scene.host.view.memory_tracked = true;
    scene.host.view.node_memory_mb[0] = 16;
    const auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert_uint_eq(scene.made(), 0);
    says(scheduler->explain(1), "the nodes' memory holds the states of fewer than two members");
    scene.host.view.node_memory_mb[0] = 16'000;
    scheduler->round();
    ck_assert_uint_eq(scene.made(), 1);
    ck_assert_int_eq(scene.host.array_specs[0].memory_mb_per_node, 16'000 - 3 * 512);
}

TEST(no_pipeline_is_on_lent_nodes) {
    SiblingScene scene;
    scene.config.loan_enabled = true;
    scene.node("n2", "a40", 4, 4);
    scene.host.view.snapshot.nodes[0].free_gpus = 0;
    scene.host.view.snapshot.node_sets.push_back({0});
    scene.host.view.snapshot.node_sets.push_back({1});
    for (JobId id = 1; id <= 2; ++id)
        scene.task(id, id).slots = {{.partition = "main", .place = {.node_set = 1}},
                                    {.partition = "loan", .place = {.node_set = 2}}};
    scene.scheduler()->round();
    ck_assert_uint_eq(scene.made(), 0);
    scene.host.view.snapshot.nodes[0].free_gpus = 4;
    scene.scheduler()->round();
    ck_assert_uint_eq(scene.made(), 1);
    ck_assert_str_eq(scene.host.array_specs[0].partition.c_str(), "main");
    ck_assert_str_eq(scene.host.array_specs[0].nodes.at(0).c_str(), "n1");
    // Who may have no others has no pipeline.
    for (JobView& job : scene.host.view.jobs) job.slots.erase(job.slots.begin());
    scene.host.calls.clear();
    scene.scheduler()->round();
    ck_assert_uint_eq(scene.made(), 1);
    ck_assert(called(scene.host, "start 1 n2"));
}

// ---- a pipeline leaves its nodes ---------------------------------------------------------------

namespace {

/// Tasks 1 and 2 run as members of job 500 on n1, task 3 waits; n2 is free.
struct LeavingScene : SiblingScene {
    std::unique_ptr<Scheduler> plan;

    explicit LeavingScene(bool elastic = false) {
        node("n2", "a40", 4, 4);
        host.view.snapshot.nodes[0].free_gpus = 0;
        Request wanted = sibling();
        wanted.elastic = elastic;
        for (JobId id = 1; id <= 3; ++id) task(id, id, wanted);
        for (JobId id = 1; id <= 2; ++id) runs(id);
        const Request read = *parse_record(format_record(wanted).value());
        CarrierFacts facts;
        facts.group = group_tag(view(3), read, fingerprint(read.model));
        facts.members = 4;
        facts.socket = "/tmp/s";
        facts.partition = "main";
        ArrayCarrierView carrier;
        carrier.id = 500;
        carrier.facts = format_carrier(facts);
        carrier.running = true;
        carrier.nodes = {"n1"};
        carrier.gpus = 4;
        carrier.start_s = 100;
        carrier.end_s = 1e7;
        host.view.arrays.push_back(carrier);
    }
    JobView& view(JobId id) { return host.view.jobs.at(id - 1); }
    ArrayCarrierView& carrier() { return host.view.arrays.at(0); }
    void runs(JobId id) {
        JobView& job = view(id);
        job.facts.state = HostJobState::running;
        job.facts.held = false;
        job.facts.mark->phase = Phase::started;
        job.facts.mark->array = 500;
        job.start_s = 200;
        job.nodes = {0};
    }
    /// Its members' scripts have ended.
    void comes_back(JobId id) {
        JobView& job = view(id);
        job.facts.state = HostJobState::pending;
        job.facts.held = true;
        ++job.facts.restart;
        job.facts.mark = JobMark{Phase::held, job.facts.restart, OtherHold::none, 0};
        job.nodes.clear();
    }
    void drain() {
        carrier().drained = {"n1"};
        host.view.snapshot.nodes[0].up = false;
    }
    void round() {
        if (!plan) plan = scheduler();
        host.calls.clear();
        plan->round();
    }
    /// Another slurmctld: what is remembered is gone.
    void restart() { plan.reset(); }
    [[nodiscard]] bool moves() const { return called(host, "move array 500"); }
    [[nodiscard]] bool gives_up() const { return called(host, "give up array 500"); }
};

}  // namespace

TEST(a_drained_node_is_left_and_the_members_are_bound_anew) {
    LeavingScene scene;
    scene.round();
    ck_assert(!scene.moves() && called(scene.host, "start 3 n1"));
    scene.drain();
    scene.round();
    ck_assert(scene.moves());
    ck_assert_str_eq(scene.host.last_move.why.c_str(), "leaves n1: drained");
    ck_assert(!scene.host.last_move.counts);
    ck_assert((scene.host.moved_members == std::vector<JobId>{1, 2}));
    ck_assert(!called(scene.host, "start 3 n1"));
    says(scene.reason_of(3), "waits for 2 of its siblings");
    says(scene.plan->explain(1), "JobId=500 trains it with its siblings, and leaves n1: drained");
    says(scene.plan->stats_json(), "\"checkpoints\":1");
    scene.pass(1);
    scene.round();
    ck_assert_msg(scene.host.calls.empty(), "it is told once, and nobody starts meanwhile");
    scene.comes_back(1);
    scene.pass(1);
    scene.round();
    says(scene.reason_of(1), "waits for 1 of its siblings");
    scene.comes_back(2);
    scene.carrier().running = false;
    scene.carrier().finished = true;
    scene.pass(5);
    scene.round();
    ck_assert_msg(scene.made() == 1, "%s", scene.plan->explain(1).c_str());
    ck_assert_str_eq(scene.host.array_specs[0].nodes.at(0).c_str(), "n2");
}

TEST(one_that_no_other_node_can_hold_trains_on_and_takes_nobody) {
    LeavingScene scene;
    scene.drain();
    scene.host.view.snapshot.nodes[1].total_gpus = 2;
    scene.round();
    ck_assert(scene.host.calls.empty());
    says(scene.plan->explain(1), "leaves n1: drained, but stays: no other node can hold it");
    says(scene.reason_of(3), "waits: its array's JobId=500 leaves n1: drained, but stays");
    // Another kind of GPU, a node that is down, and one of inference's do not, either.
    NodeState& other = scene.host.view.snapshot.nodes[1];
    other = {"n2", "a100", 4, 4, 16, 64000};
    scene.round();
    ck_assert(!scene.moves());
    other.gpu_type = "a40";
    other.up = false;
    scene.round();
    ck_assert(!scene.moves());
    other.up = true;
    other.lent = "L1";
    scene.round();
    ck_assert(!scene.moves());
    // Once nobody is there it need not stay.
    for (const JobId id : {1, 2}) scene.comes_back(id);
    scene.round();
    ck_assert(scene.moves());
}

TEST(one_that_has_only_just_begun_takes_nobody_and_goes_when_its_script_listens) {
    LeavingScene scene;
    scene.carrier().start_s = 998;
    scene.drain();
    scene.round();
    ck_assert(scene.host.calls.empty());
    scene.pass(3);
    scene.round();
    ck_assert(scene.moves());
}

TEST(one_without_members_is_cancelled_and_its_siblings_are_bound_elsewhere) {
    LeavingScene scene;
    for (const JobId id : {1, 2}) scene.comes_back(id);
    scene.carrier().start_s = 999;
    scene.carrier().configuring = true;
    scene.drain();
    scene.round();
    ck_assert(scene.gives_up());
    scene.carrier().running = false;
    scene.carrier().finished = true;
    scene.host.view.snapshot.nodes[1].free_gpus = 0;
    scene.pass(5);
    scene.round();
    scene.host.view.snapshot.nodes[1].free_gpus = 4;
    scene.pass(1);
    scene.round();
    ck_assert_msg(scene.made() == 1, "%s", scene.plan->explain(1).c_str());
}

TEST(one_that_is_deaf_is_cancelled_when_its_time_to_save_is_over) {
    LeavingScene scene;
    scene.config.checkpoint_grace_s = 60;
    scene.drain();
    scene.host.array_runs = false;
    scene.round();
    ck_assert_msg(scene.moves(), "but it was not told");
    scene.host.array_runs = true;
    scene.pass(1);
    scene.round();
    ck_assert(scene.moves());
    scene.carrier().leaves_since_s = scene.host.view.snapshot.time_s;
    scene.pass(30);
    scene.round();
    ck_assert(scene.host.calls.empty());
    // Its mark says since when, though the node is well again and slurmctld another one.
    scene.restart();
    scene.carrier().drained.clear();
    scene.host.view.snapshot.nodes[0].up = true;
    scene.round();
    ck_assert_msg(scene.host.calls.empty(), "%s", scene.host.calls[0].c_str());
    says(scene.plan->explain(1), "and leaves its nodes");
    scene.pass(31);
    scene.round();
    ck_assert(scene.gives_up());
}

namespace {

const char* const slow_n1 = "arena:v1 slow=1:compute:2.10 seen=2 since=900 until=100003000";

/// Whether a pipeline of members that are elastic leaves a slow node, changed so.
bool leaves_slow(void (*change)(LeavingScene&), bool elastic = true) {
    LeavingScene scene(elastic);
    scene.host.view.node_records[0].extra = slow_n1;
    change(scene);
    scene.round();
    return scene.moves();
}

}  // namespace

TEST(a_slow_node_is_left_where_each_member_could_leave_it) {
    LeavingScene scene(true);
    scene.host.view.node_records[0].extra = slow_n1;
    scene.round();
    ck_assert_msg(scene.moves(), "%s", scene.plan->explain(1).c_str());
    ck_assert_str_eq(scene.host.last_move.why.c_str(),
                     "leaves n1: GPU 1 computes 2.1 times slower");
    ck_assert(scene.host.last_move.counts);
    says(scene.plan->stats_json(), "\"moves\":1");
    ck_assert(!leaves_slow([](LeavingScene&) {}, false));
    ck_assert_msg(!leaves_slow([](LeavingScene& s) { s.carrier().start_s = 900; }), "cool-down");
    ck_assert_msg(!leaves_slow([](LeavingScene& s) { s.carrier().end_s = 1010; }), "no gain");
    ck_assert_msg(
        !leaves_slow([](LeavingScene& s) { s.host.view.snapshot.nodes[1].free_gpus = 3; }),
        "no room");
    ck_assert_msg(!leaves_slow([](LeavingScene& s) {
        s.view(2).facts.mark->moves = {970, 980, 990};
    }),
                  "often enough");
    ck_assert_msg(
        !leaves_slow([](LeavingScene& s) { s.view(2).facts.mark->hold = OtherHold::user; }),
        "one would not come back");
    ck_assert_msg(!leaves_slow([](LeavingScene& s) { s.view(2).changing = true; }),
                  "one is not known in this round");
    ck_assert_msg(!leaves_slow([](LeavingScene& s) { s.config.slowdown_quarantine = "report"; }),
                  "nothing is avoided");
}

namespace {

/// The node, which is slow, too, is asked back by second 1100.
struct ReturningScene : LeavingScene {
    ReturningScene() : LeavingScene(true) {
        config.loan_enabled = true;
        config.loan_inference_partitions = {"infer"};
        config.loan_source = "commands";
        host.loans.has_partition = true;
        host.loans.inference = {{"infer", {"n1"}}};
        host.loans.configured = 1;
        host.loans.guards["n1"] = {LoanGuard::returning, "L1"};
        host.view.node_records[0].extra =
            std::string(slow_n1) + " loan=L1 state=returning since=900 until=1100";
        for (const JobId id : {1, 2, 500}) {
            LoanFacts::Job job{.id = id, .account = "a"};
            job.nodes.emplace_back("n1", id == 500 ? 4 : 0);
            host.loans.jobs.push_back(job);
        }
    }
};

}  // namespace

TEST(a_node_that_goes_back_is_left_in_time) {
    ReturningScene scene;
    scene.host.view.snapshot.nodes[1].up = false;  // wherever its members may be then
    scene.round();
    ck_assert_msg(scene.moves(), "%s", scene.plan->explain(1).c_str());
    says(scene.host.last_move.why, "gives n1 back to infer by ");
    ck_assert(!scene.host.last_move.counts);
    scene.pass(60);
    scene.round();
    ck_assert(!scene.gives_up());
    scene.pass(30);
    scene.round();
    ck_assert_msg(scene.gives_up(), "10 s are left to end it");
    ck_assert(called(scene.host, "requeue 1") && called(scene.host, "requeue 2"));
}

TEST(a_node_goes_back_in_time_where_arena_is_off) {
    ReturningScene scene;
    scene.plan = scene.scheduler();
    scene.plan->keep_deadlines();
    ck_assert(!scene.gives_up());
    scene.pass(90);
    scene.plan->keep_deadlines();
    ck_assert(scene.gives_up() && called(scene.host, "requeue 1"));
}
