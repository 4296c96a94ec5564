// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of nodes: values and JSON, what is slow beside what, the rows of the store, and a
// scheduler on a scripted host that starts carriers of checks and takes in what they measured.
#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>

#include "base/json.h"
#include "checks/judge.h"
#include "plugin/sched/nodes/slow_fact.h"
#include "scripted_host.h"
#include "store/store.h"
#include "suite.h"

using namespace arena;

namespace {

const OpShape product{.kind = OpKind::gemm, .precision = Precision::fp32, .dims = {64, 64, 64, 1}};
using State = DeviceVerdict::State;

/// Of GPUs that take so many milliseconds.
NodeCheck check_of(const std::string& node, const std::vector<double>& ms,
                   const std::string& nonce = "0123456789abcdef") {
    NodeCheck check;
    check.nonce = nonce;
    check.gpu_type = "a40";
    check.hardware = "emulated-cpu";
    check.node = node;
    check.started_s = 1000;
    for (std::size_t i = 0; i < ms.size(); ++i) {
        const auto index = static_cast<std::int64_t>(i);
        CheckedDevice device{.index = index, .device = {}, .state = {}};
        device.device.kind = "cuda";
        device.device.name = "A40";
        device.device.driver = "1";
        device.device.node = node;
        check.devices.push_back(device);
        check.products.push_back({index, product, ms[i] / 1000, 0.01});
    }
    return check;
}

void give_uuids(NodeCheck& check) {
    for (CheckedDevice& device : check.devices)
        device.device.uuid = "GPU-" + check.node + std::to_string(device.index);
}

TEST(a_check_survives_its_text_and_what_cannot_be_is_refused) {
    NodeCheck check = check_of("n1", {1, 2});
    check.link_kind = "copies in host memory";
    check.link_bytes = 1024;
    check.links = {{0, 1, 0.1}, {1, 0, 0.2}};
    const std::string text = to_json(check);
    const auto again = parse_node_check(text);
    ck_assert_msg(again && *again == check, "%s", again ? "" : again.error().message().c_str());
    const auto refused = [&](const std::string& from, const std::string& to) {
        std::string other = text;
        const auto at = other.find(from);
        ck_assert(at != std::string::npos);
        other.replace(at, from.size(), to);
        ck_assert_msg(!parse_node_check(other), "%s taken", to.c_str());
    };
    refused("\"kind\":\"check\"", "\"kind\":\"profile\"");
    refused("\"seconds\":0.001", "\"seconds\":0");
    refused("\"seconds\":0.001", "\"seconds\":1e300");
    refused("gemm/", "norm/");
    refused("\"device\":1", "\"device\":0");
    refused("\"device\":1", "\"device\":7");
    refused("\"from\":1,\"seconds\":0.2,\"to\":0", "\"from\":0,\"seconds\":0.2,\"to\":1");
    refused("\"nonce\":\"0123456789abcdef\"", "\"nonce\":\"../../etc\"");
}

TEST(a_request_says_what_it_is_for) {
    const CheckRequest request{.nonce = "0123456789abcdef",
                               .gpu_type = "a40",
                               .hardware = "A40",
                               .devices = 2,
                               .node_devices = 4,
                               .products = {product}};
    const auto again = parse_check_request(to_json(request));
    ck_assert(again && *again == request);
    ck_assert(request_kind(to_json(request)) == RequestKind::check);
    ProfileRequest profile;
    profile.nonce = request.nonce;
    ck_assert_msg(request_kind(to_json(profile)) == RequestKind::profile,
                  "an old one is a profile's");
    ck_assert(request_kind("no json") == RequestKind::profile);
    ck_assert(!parse_profile_request(to_json(request)));
    ck_assert(!parse_check_request(R"({"schema_version":1,"kind":"check"})"));
}

TEST(a_gpu_is_slow_beside_itself) {
    const References known = references_of(check_of("n1", {1, 1.3}));
    ck_assert(judge(check_of("n1", {1.05, 1.35}), known).is_healthy());
    const CheckVerdict slow = judge(check_of("n1", {1, 2.6}), known);
    ck_assert(slow.is_slow() && slow.devices[0].state == State::healthy);
    ck_assert(slow.devices[1].state == State::slow && slow.devices[1].factor > 1.99);
    ck_assert(words_of(slow).starts_with("GPU 1 computes 2.0 times slower than its own"));
    const CheckVerdict both = judge(check_of("n1", {2, 2.6}), known);
    ck_assert_msg(both.devices[0].state == State::slow && both.devices[1].state == State::slow,
                  "a node all of whose GPUs are slow is no healthy one");
}

TEST(without_a_reference_nothing_is_said) {
    const CheckVerdict verdict = judge(check_of("n1", {1, 9}), {});
    ck_assert(!verdict.is_slow() && !verdict.is_healthy());
    ck_assert(words_of(verdict).find("nothing to compare it with") != std::string::npos);
    NodeCheck one_cpu = check_of("n1", {1, 9});
    References known;
    add_beside(one_cpu, known);
    ck_assert_msg(known.products.empty(), "devices that are one CPU say nothing of one another");
    give_uuids(one_cpu);
    add_beside(one_cpu, known);
    const CheckVerdict beside = judge(one_cpu, known);
    ck_assert(beside.devices[0].state == State::healthy && beside.devices[1].state == State::slow);
}

TEST(a_link_is_slow_beside_itself_and_not_because_of_a_slow_gpu) {
    NodeCheck before = check_of("n1", {1, 1, 1}), now = before;
    before.links = {{0, 1, 0.1}, {1, 2, 0.1}, {2, 0, 0.1}};
    now.links = {{0, 1, 0.1}, {1, 2, 0.1}, {2, 0, 0.2}};
    const CheckVerdict link = judge(now, references_of(before));
    ck_assert_uint_eq(link.slow_links.size(), 1);
    ck_assert(link.slow_links[0].from == 2 && link.slow_links[0].to == 0);
    now.products[0].seconds *= 3;
    ck_assert(judge(now, references_of(before)).slow_links.empty());
}

TEST(the_store_knows_what_a_device_and_its_like_took) {
    Scene scene;
    auto store = ProfileStore::open(scene.config.profile_store);
    ck_assert(static_cast<bool>(store));
    CheckStore& checks = (*store)->checks();
    const auto keep = [&](const std::string& node, std::vector<double> ms, bool slow, int n) {
        const NodeCheck check = check_of(node, ms, fmt::format("nonce{:012}{}", n, node));
        CheckVerdict verdict;
        for (std::size_t i = 0; i < ms.size(); ++i)
            verdict.devices.push_back({.device = static_cast<std::int64_t>(i),
                                       .state = slow ? State::slow : State::healthy});
        ck_assert(static_cast<bool>(checks.keep(check, verdict)));
        ck_assert(checks.knows(check.nonce).value());
    };
    ck_assert(checks.references(check_of("n1", {1}))->products.empty());
    keep("n2", {2}, false, 1);
    const auto others = checks.references(check_of("n1", {1}));
    ck_assert(others->products.at({0, product}).from == Reference::From::others);
    for (int n = 2; n < 30; ++n) keep("n1", {n % 3 == 0 ? 1.5 : 1.0}, false, n);
    keep("n1", {100}, true, 40);
    const auto own = checks.references(check_of("n1", {1}));
    ck_assert(own->products.at({0, product}).from == Reference::From::own);
    ck_assert_double_eq_tol(own->products.at({0, product}).seconds, 0.001, 1e-9);
    ck_assert_msg(!checks.knows("nonce000000000002n1").value(), "old ones are forgotten");
    NodeCheck replaced = check_of("n1", {1});
    replaced.devices[0].device.uuid = "another card";
    ck_assert_msg(
        checks.references(replaced)->products.at({0, product}).from == Reference::From::others,
        "another card has no past");
}

// ---- the scheduler

const std::string slow_n1 = "arena:v1 slow=1:compute:2.10 seen=2 since=99999000 until=";
constexpr double now_s = 1e8;

struct ChecksScene : Scene {
    std::unique_ptr<Scheduler> plan;
    ChecksScene() {
        config.profile_enabled = true;
        config.profile_user = "root";
        config.slowdown_recheck_s = 100;
        host.view.snapshot.time_s = now_s;
        for (const char* name : {"n1", "n2", "n3"}) node(name, "a40", 2, 2);
    }
    void round(double later_s = 0) {
        if (!plan) plan = scheduler();
        host.view.snapshot.time_s += later_s;
        plan->round();
    }
    void fact(const std::string& until) { host.view.node_records[0].extra = slow_n1 + until; }
    /// What the host was told to write stands there.
    void written() {
        const auto& nodes = host.view.snapshot.nodes;
        for (const auto& change : host.extras)
            for (NodeIndex i = 0; i < nodes.size(); ++i)
                if (nodes[i].name == change.node) host.view.node_records[i].extra = change.after;
    }
    [[nodiscard]] std::size_t checks() const {
        return static_cast<std::size_t>(
            std::count_if(host.specs.begin(), host.specs.end(),
                          [](const CarrierSpec& spec) { return !spec.check.empty(); }));
    }
    std::string ask(const std::string& node) {
        if (!plan) plan = scheduler();
        return plan->slowdown(SlowdownVerb::check, node, {});
    }
    /// The latest carrier of a check, as Slurm's job list has it.
    CarrierView& carrier() {
        const CarrierSpec& spec = host.specs.back();
        CarrierView view;
        view.id = host.next_id;
        view.user_id = spec.user_id;
        view.request = spec.check;
        view.node = spec.node;
        view.start_s = host.view.snapshot.time_s;
        host.view.carriers.push_back(view);
        return host.view.carriers.back();
    }
    /// It ended, and left this in the spool.
    void result(CarrierView& carrier, const std::vector<double>& ms, bool uuids = true) {
        NodeCheck check = check_of(carrier.node, ms, parse_check_request(carrier.request)->nonce);
        if (uuids) give_uuids(check);
        ::chmod(directory.c_str(), 0755);
        std::ofstream(directory / (check.nonce + ".json")) << to_json(check);
        carrier.finished = true;
        carrier.end_s = host.view.snapshot.time_s;
    }
};

TEST(without_a_fact_nothing_is_asked_of_slurm) {
    ChecksScene scene;
    for (int i = 0; i < 3; ++i) scene.round(5);
    ck_assert(scene.host.calls.empty() && scene.host.extras.empty());
    ck_assert(!scene.plan->has_work());
}

TEST(a_fact_is_checked_when_its_time_is_over_and_dropped_where_the_check_is_healthy) {
    ChecksScene scene;
    scene.fact("100000010");
    scene.round();
    ck_assert_uint_eq(scene.checks(), 0);
    scene.round(11);
    ck_assert_uint_eq(scene.checks(), 1);
    const CarrierSpec spec = scene.host.specs.back();
    ck_assert(spec.node == "n1" && spec.gpus == 2 && spec.partition == "main");
    ck_assert_msg(scene.host.extras.empty(), "the fact stands meanwhile");
    CarrierView& carrier = scene.carrier();
    scene.round(5);
    ck_assert_uint_eq(scene.checks(), 1);
    scene.result(carrier, {1, 1});
    scene.round(5);
    ck_assert_uint_eq(scene.host.extras.size(), 1);
    ck_assert_str_eq(scene.host.extras.back().after.c_str(), "");
}

TEST(a_slow_one_is_held_for_longer) {
    ChecksScene scene;
    scene.fact("100000010");
    scene.round(11);
    CarrierView& carrier = scene.carrier();
    scene.result(carrier, {1, 3});
    scene.round(5);
    const std::string after = scene.host.extras.back().after;
    ck_assert_msg(after.find("slow=1:compute:3.00 seen=2") != std::string::npos &&
                      after.find("until=100000116") != std::string::npos,
                  "%s", after.c_str());
    scene.written();
    scene.round(5);
    ck_assert_uint_eq(scene.checks(), 1);
    scene.round(120);
    ck_assert_msg(scene.checks() == 2, "and checked again when that is over");
}

TEST(what_one_users_jobs_say_is_checked_at_once_and_then_believed_or_forgotten) {
    const auto told = [](ChecksScene& scene, const char* by) {
        scene.host.view.node_records[0].extra =
            std::string("arena:v1 slow=1:compute:2.10 seen=1 by=") + by + " until=100000100";
        scene.round();
    };
    ChecksScene one_job;
    told(one_job, "7:1000");
    ck_assert_uint_eq(one_job.checks(), 0);
    for (const bool is_slow : {true, false}) {
        ChecksScene scene;
        told(scene, "7:1000,8:1000");
        ck_assert_uint_eq(scene.checks(), 1);
        const auto confirmed = [&] {
            return scene.plan->slowdown(SlowdownVerb::list, "", {true, 0, true})
                       .find("\"confirmed\":true") != std::string::npos;
        };
        ck_assert(!confirmed());
        scene.result(scene.carrier(), {1, is_slow ? 3.0 : 1.0});
        scene.round(5);
        ck_assert_uint_eq(scene.host.extras.size(), 1);
        ck_assert((scene.host.extras.back().after.find("checked=") != std::string::npos) ==
                  is_slow);
        ck_assert(confirmed() == is_slow);
        scene.written();
        scene.round(5);
        ck_assert_msg(scene.checks() == 1, "once");
    }
}

TEST(what_a_check_cannot_compare_runs_out_as_before) {
    ChecksScene scene;
    scene.fact("100000010");
    scene.round(11);
    scene.result(scene.carrier(), {1, 1}, false);
    scene.round(5);
    ck_assert_str_eq(scene.host.extras.back().after.c_str(), "");
    ck_assert(std::any_of(scene.host.log.begin(), scene.host.log.end(), [](const auto& line) {
        return line.find("there is nothing to compare it with") != std::string::npos;
    }));
}

TEST(a_node_in_use_is_waited_for_and_nobody_is_preempted) {
    ChecksScene scene;
    scene.host.view.snapshot.nodes[0].free_gpus = 0;
    scene.fact("100000010");
    scene.round(11);
    ck_assert(scene.checks() == 0 && scene.host.extras.empty());
    scene.host.view.snapshot.nodes[0].free_gpus = 1;
    scene.round(5);
    ck_assert_msg(scene.checks() == 1 && scene.host.specs.back().gpus == 1, "what is free of it");
    CarrierView& carrier = scene.carrier();
    scene.result(carrier, {1});
    scene.round(5);
    ck_assert_msg(scene.checks() == 1 && scene.host.extras.empty(), "it was not GPU 1");
    scene.host.view.snapshot.nodes[0].free_gpus = 0;
    scene.round(200);
    ck_assert_msg(scene.host.extras.back().after.empty(), "in the end the fact runs out as before");
}

TEST(carriers_that_leave_nothing_are_tried_twice) {
    ChecksScene scene;
    scene.fact("100000010");
    scene.round(11);
    for (std::size_t n = 1; n <= 2; ++n) {
        ck_assert_uint_eq(scene.checks(), n);
        CarrierView& carrier = scene.carrier();
        scene.round(1);
        carrier.finished = true;
        scene.round(1);
        scene.round(5);
        ck_assert_uint_eq(scene.host.errors.size(), n);
        scene.host.view.carriers.clear();
        scene.round(11);
    }
    ck_assert_uint_eq(scene.checks(), 2);
    ck_assert_str_eq(scene.host.extras.back().after.c_str(), "");
}

TEST(asked_checks_of_many_nodes_are_few_at_once) {
    ChecksScene scene;
    for (int i = 4; i <= 100; ++i) scene.node("n" + std::to_string(i), "a40", 2, 2);
    for (int i = 1; i <= 100; ++i)
        ck_assert(scene.ask("n" + std::to_string(i)).find("asked") != std::string::npos);
    ck_assert(scene.plan->has_work());
    scene.round();
    ck_assert_uint_eq(scene.checks(), CheckBook::max_running);
    ck_assert(scene.plan->slowdown(SlowdownVerb::list, "", {}).find("4 other nodes are checked") !=
              std::string::npos);
    ck_assert(scene.ask("nowhere").find("no node with GPUs") != std::string::npos);
}

TEST(a_node_that_is_not_there_is_refused_where_no_round_was_needed_yet) {
    ChecksScene scene;
    ck_assert(scene.ask("nowhere").find("no node with GPUs") != std::string::npos);
    ck_assert(!scene.plan->has_work());
}

TEST(what_was_asked_for_outlives_its_configuration) {
    ChecksScene scene;
    (void)scene.ask("n2");
    auto before = std::exchange(scene.plan, scene.scheduler());
    scene.plan->take_over(before->keep());
    before.reset();
    ck_assert(scene.plan->has_work());
    scene.round();
    ck_assert_uint_eq(scene.checks(), 1);
    ck_assert_str_eq(scene.host.specs.back().node.c_str(), "n2");
}

TEST(a_refused_carrier_is_told_once_and_tried_less_and_less_often) {
    ChecksScene scene;
    scene.host.carriers_refused = true;
    (void)scene.ask("n1");
    for (int i = 0; i < 30; ++i) scene.round(1);
    ck_assert_uint_eq(scene.host.errors.size(), 1);
    ck_assert_uint_le(scene.host.asked_nodes.size(), 4);
    ck_assert(scene.plan->has_work());
}

TEST(a_carrier_of_somebody_else_is_none) {
    ChecksScene scene;
    scene.fact("100000100");
    (void)scene.ask("n1");
    scene.round();
    CarrierView& forged = scene.carrier();
    forged.user_id = 4711;
    scene.result(forged, {1, 1});
    scene.round(5);
    ck_assert(scene.host.extras.empty());
}

TEST(nothing_between_nodes_is_cleared_by_a_check_of_one) {
    const CheckVerdict healthy{
        .devices = {{.device = 0, .state = State::healthy}, {.device = 1, .state = State::healthy}},
        .slow_links = {}};
    SlowFact fact;
    fact.device = 1;
    ck_assert(is_cleared(fact, healthy, false));
    fact.cause = SlowCause::communication;
    ck_assert(!is_cleared(fact, healthy, true));
    fact.cause = SlowCause::compute;
    fact.device = any_gpu;
    ck_assert(is_cleared(fact, healthy, true) && !is_cleared(fact, healthy, false));
}

// ---- links, of which no check tells

struct LinkScene : ChecksScene {
    /// Between two rounds: of a job that is not in Slurm's list a round forgets what it said.
    void tells(JobId job, std::int64_t relief = 0, const char* peer = "n2",
               std::int64_t gpu = any_gpu) {
        LeftSlowReport left{.job = job, .user = 0, .gpus = 2, .report = {}};
        left.report.onset = 99999000;
        left.report.at = {"n1", gpu};
        left.report.peer = {peer, gpu};
        left.report.cause = SlowCause::communication;
        left.report.factor = 3;
        left.report.relief = relief;
        plan->on_slow_report(left, host.view.snapshot.time_s);
    }
    void says(JobId job, std::int64_t relief = 0, const char* peer = "n2") {
        tells(job, relief, peer);
        round(5);
        written();
    }
    [[nodiscard]] std::string extra() const { return host.view.node_records.at(0).extra; }
    [[nodiscard]] bool is_avoided() const {
        const std::string facts = list();
        return facts.find("\"confirmed\":true") != std::string::npos;
    }
    [[nodiscard]] std::string list() const {
        return plan->slowdown(SlowdownVerb::list, "", {true, 0, true});
    }
};

TEST(all_links_between_two_nodes_are_taken_back_with_the_last) {
    LinkScene scene;
    scene.round();
    for (const JobId job : {1, 2})
        for (const std::int64_t gpu : {0, 1}) scene.tells(job, 0, "n2", gpu);
    scene.round(5);
    scene.written();
    ck_assert_msg(!scene.is_avoided() && !scene.extra().empty(), "either end may be slow");
    for (const JobId job : {1, 2})
        for (const std::int64_t gpu : {0, 1}) scene.tells(job, 99999500, "n2", gpu);
    scene.round(5);
    scene.written();
    ck_assert_str_eq(scene.extra().c_str(), "");
    ck_assert(!scene.is_avoided());
}

TEST(what_jobs_say_of_a_link_they_take_back) {
    LinkScene scene;
    scene.round();
    scene.says(1);
    scene.says(2);
    ck_assert_msg(
        scene.extra().starts_with("arena:v1 slow=*:communication:3.00 peer=n2 seen=2 by=1:0,2:0 "),
        "%s", scene.extra().c_str());
    ck_assert_msg(!scene.is_avoided(), "either end may be slow");
    scene.tells(2, 0, "n3");
    scene.says(2, 99999500);
    ck_assert_msg(scene.is_avoided(), "n3 tells, and another of its links is slow yet");
    scene.says(2, 99999500, "n3");
    ck_assert_msg(
        scene.extra().starts_with("arena:v1 slow=*:communication:3.00 peer=n2 seen=1 by=1:0 "),
        "%s", scene.extra().c_str());
    ck_assert(!scene.is_avoided());
    scene.says(3, 99999500);
    ck_assert_msg(scene.extra().find("seen=1 by=1:0 ") != std::string::npos, "it never said so");
    scene.says(1, 99999500);
    ck_assert_str_eq(scene.extra().c_str(), "");
    ck_assert_uint_eq(scene.checks(), 0);
}

TEST(what_is_said_of_a_link_ends_with_its_time_and_is_told) {
    LinkScene scene;
    scene.round();
    scene.says(1);
    const Json facts = Json::parse(scene.list())["nodes"][0]["facts"];
    ck_assert(facts.size() == 1 && facts[0]["cause"] == "communication" && facts[0]["jobs"] == 1);
    ck_assert(facts[0]["until"] == 100000105 && facts[0]["confirmed"] == false);
    scene.round(101);
    scene.written();
    ck_assert_str_eq(scene.extra().c_str(), "");
    ck_assert_uint_eq(scene.checks(), 0);
}

TEST(a_fact_without_an_end_stays_until_it_is_taken_back) {
    ChecksScene scene;
    scene.host.view.node_records[0].extra = "arena:v1 slow=1:compute:2.10 seen=2";
    scene.round();
    const std::string list = scene.plan->slowdown(SlowdownVerb::list, "", {true, 0, true});
    ck_assert(Json::parse(list)["nodes"][0]["facts"][0]["until"].is_null());
    scene.round(1e6);
    ck_assert_msg(scene.checks() == 0 && scene.host.extras.empty(), "nobody asked for a check");
    scene.ask("n1");
    scene.round(5);
    scene.result(scene.carrier(), {1, 3});
    scene.round(5);
    ck_assert_str_eq(scene.host.extras.back().after.c_str(),
                     "arena:v1 slow=1:compute:3.00 seen=2 checked=101000010 driver=1");
    scene.written();
    scene.ask("n1");
    scene.round(5);
    scene.result(scene.carrier(), {1, 1});
    scene.round(5);
    ck_assert_str_eq(scene.host.extras.back().after.c_str(), "");
}

}  // namespace
