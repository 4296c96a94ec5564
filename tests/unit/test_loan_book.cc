// SPDX-License-Identifier: GPL-2.0-or-later
// Loans in the scheduler, on a scripted host: each step of a node from inference to training and
// back, by commands and by demand; that a slurmctld that ends between any two steps goes on where
// it was; that an administrator's hand wins; and that nothing is asked of Slurm when it is off.
#include <fmt/format.h>

#include "base/hostlist.h"
#include "base/json.h"
#include "plugin/sched/loans/loan_steps.h"
#include "plugin/sched/loans/loan_words.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;
using arena::test::assert_refused;
using arena::test::assert_text;
using arena::test::must;

namespace {

constexpr double now_s = 1e8;

Json parsed(const std::string& text) { return Json::parse(text, nullptr, false); }

/// t1, t2 are training's, i1 to i3 inference's; two GPUs each.
struct LoanScene : Scene {
    std::unique_ptr<Scheduler> plan;
    std::size_t calls_seen = 0;

    LoanScene() {
        config.policy = "arena";
        config.loan_enabled = true;
        config.loan_inference_partitions = {"infer"};
        config.loan_source = "commands";
        config.loan_deadline_s = 300;
        host.view.snapshot.time_s = now_s;
        for (const char* name : {"t1", "t2", "i1", "i2", "i3"}) node(name, "a40", 2, 2);
        host.loans.has_partition = true;
        host.loans.inference = {{"infer", {"i1", "i2", "i3"}}};
        host.loans.configured = 1;
    }
    void round() {
        if (!plan) plan = scheduler();
        plan->round();
        take_changes();
    }
    /// In place of a round where Arena is off.
    void round_while_off() {
        plan->keep_deadlines();
        take_changes();
    }
    /// Another slurmctld: what is remembered is gone, what Slurm keeps is there.
    void restart() {
        plan.reset();
        host.stops_after = SIZE_MAX;
    }
    void pass(double seconds) { host.view.snapshot.time_s += seconds; }
    NodeIndex index(const std::string& name) const {
        for (NodeIndex i = 0; i < host.view.snapshot.nodes.size(); ++i)
            if (host.view.snapshot.nodes[i].name == name) return i;
        return 0;
    }
    std::string& extra(const std::string& name) {
        return host.view.node_records[index(name)].extra;
    }
    /// Slurm's records are as the host was told.
    void take_changes() {
        for (const auto& change : host.extras)
            if (extra(change.node) == change.before) extra(change.node) = change.after;
        host.extras.clear();
    }
    Json say(LoanVerb verb, const std::string& words) {
        if (!plan) round();
        Json answer = parsed(plan->loan(verb, words));
        take_changes();
        return answer;
    }
    std::string refusal(LoanVerb verb, const std::string& words) {
        const auto calls = host.calls.size();
        const Json answer = say(verb, words);
        ck_assert_msg(answer.contains("error"), "%s: %s", words.c_str(), answer.dump().c_str());
        ck_assert_int_eq(answer["error"]["code"].get<int>(), 2);
        ck_assert_uint_eq(host.calls.size(), calls);
        return answer["error"]["text"];
    }
    [[nodiscard]] std::string state(const std::string& node) {
        const Json list = say(LoanVerb::list, "");
        for (const Json& lease : list["leases"])
            if (lease["node"] == node) return lease["state"];
        return "home";
    }
    /// Until it is training's.
    void lend(const std::string& node) {
        (void)say(LoanVerb::offer, node);
        for (int i = 0; i < 4; ++i) {
            round();
            pass(7);
        }
        assert_text(state(node), "lent");
        round();
        host.calls.clear();
    }
    void runs(JobId id, const std::vector<std::string>& nodes, bool inference = false) {
        LoanFacts::Job job{.id = id, .inference = inference, .account = "a"};
        for (const std::string& name : nodes) job.nodes.emplace_back(name, 2);
        host.loans.jobs.push_back(job);
    }
    void ends(JobId id) {
        std::erase_if(host.loans.jobs, [&](const auto& job) { return job.id == id; });
    }
    /// An elastic job of Arena's that runs on these nodes, two GPUs on each, and by its user's word
    /// has so many iterations of 424 s left; 0: years.
    void trains(JobId id, const std::vector<std::string>& nodes, std::int64_t left = 0) {
        Request wanted = request();
        wanted.min_gpus = 2;
        wanted.max_gpus = static_cast<std::int64_t>(2 * nodes.size());
        wanted.elastic = wanted.loan = true;
        wanted.steps = 1000000;
        job(id, wanted);
        round();
        ck_assert(host.started.contains(id));
        JobView& view = host.view.jobs.back();
        view.facts.state = HostJobState::running;
        view.facts.held = false;
        view.facts.mark->phase = Phase::started;
        Offer offer = host.started.at(id).offer;
        view.offer_json = to_json(offer);
        constexpr double trained_s = 5000;
        view.start_s = host.view.snapshot.time_s - trained_s;
        if (left > 0) {
            wanted.steps = static_cast<std::int64_t>(trained_s / offer.estimate.iteration_s) + left;
            view.record = must(format_record(wanted));
            view.time_limit_s = 2 * trained_s;
        }
        view.nodes_open = true;
        for (const std::string& name : nodes) {
            view.nodes.push_back(index(name));
            host.view.snapshot.nodes[index(name)].free_gpus = 0;
        }
        runs(id, nodes);
        round();
        host.calls.clear();
    }
    [[nodiscard]] std::string call(std::size_t i) const {
        return i < host.calls.size() ? host.calls[i] : "";
    }
    [[nodiscard]] std::string all_calls() const { return join(host.calls, "; "); }
    /// Where of all calls so far this one is; those that begin so.
    [[nodiscard]] std::size_t at(const std::string& start) const {
        for (std::size_t i = 0; i < host.calls.size(); ++i)
            if (host.calls[i].starts_with(start)) return i;
        return SIZE_MAX;
    }
};

TEST(a_host_list_is_written_out_within_bounds) {
    const auto all = [](const char* list) { return join(must(parse_hostlist(list, 10)), " "); };
    assert_text(all("n1"), "n1");
    assert_text(all("n[1-3,7],m2"), "n1 n2 n3 n7 m2");
    assert_text(all("r[1-2]n[08-09]"), "r1n08 r1n09 r2n08 r2n09");
    for (const char* bad : {"", ",", "n[", "n[1", "n[]", "n[3-1]", "n[a]", "n1,,n2", "n/1", "n1,n1",
                            "n[1-11]", "n[1-999999999]", "n[[1]]", "a[1]b[1]c[1]d[1]e[1]"})
        ck_assert_msg(!parse_hostlist(bad, 10), "%s taken", bad);
}

TEST(words_of_loans_are_read_or_refused_with_a_sentence) {
    const auto offer = must(parse_loan_offer("n[1-2] until=1790000000"));
    ck_assert_uint_eq(offer.nodes.size(), 2);
    ck_assert_int_eq(offer.until, 1790000000);
    assert_refused(parse_loan_offer("n1 until=soon"), "until=soon is no time");
    assert_refused(parse_loan_offer("n1 deadline=3"), "is not until=SECONDS");
    assert_refused(parse_loan_offer("n1 until=1790000000 until=1790000000"), "is not until=");
    const auto count = must(parse_loan_reclaim("3 deadline=60"));
    ck_assert_int_eq(count.count, 3);
    ck_assert_int_eq(count.deadline_s, 60);
    ck_assert(must(parse_loan_reclaim("n3")).nodes == std::vector<std::string>{"n3"});
    assert_refused(parse_loan_reclaim("n3 deadline=0"), "give 1 to 86400 seconds");
    assert_refused(parse_loan_reclaim("0"), "0 nodes cannot be asked for");
    assert_refused(parse_loan_reclaim(""), "no list of nodes");
}

TEST(a_lease_stands_in_extra_and_is_read_again) {
    const Lease lease{.loan = 7, .state = LeaseState::returning, .since_s = 5, .until_s = 9};
    ck_assert(must(lease_of(fact_of(lease))) == lease);
    const NodeExtra extra = parse_node_extra("arena:v1 " + format_lease(lease));
    ck_assert_uint_eq(extra.facts.size(), 1);
    ck_assert(must(lease_of(extra.facts[0])) == lease);
}

// ---- the steps ---------------------------------------------------------------------------------

LoanNode in_state(LeaseState state, LoanGuard guard) {
    LoanNode node{.guard = guard, .settled = true};
    node.lease = Lease{.loan = 7, .state = state, .since_s = 1, .until_s = 0};
    if (state == LeaseState::returning) node.lease->until_s = 100;
    return node;
}

TEST(a_node_is_training_s_only_when_it_is_guarded_and_nobody_is_there) {
    LoanNode node = in_state(LeaseState::offered, LoanGuard::lent);
    ck_assert(next_step(node).lease->state == LeaseState::lent && !next_step(node).listed);
    for (const auto& spoil : std::vector<void (*)(LoanNode&)>{
             [](LoanNode& n) { n.guard = LoanGuard::none; }, [](LoanNode& n) { n.settled = false; },
             [](LoanNode& n) { n.used = true; }, [](LoanNode& n) { n.inference = true; },
             [](LoanNode& n) { n.up = false; }}) {
        LoanNode other = node;
        spoil(other);
        ck_assert(next_step(other).lease->state == LeaseState::offered);
        ck_assert(next_step(other).guard == LoanGuard::lent);
    }
    LoanNode begun = node;
    begun.used = begun.lents = true;
    ck_assert_msg(next_step(begun).lease->state == LeaseState::lent,
                  "it was lent when slurmctld was killed");
    node = in_state(LeaseState::lent, LoanGuard::lent);
    ck_assert(next_step(node).listed);
    node.guard = LoanGuard::none;
    ck_assert_msg(!next_step(node).listed, "its guard is made first");
    node.guard = LoanGuard::lent;
    node.settled = false;
    ck_assert_msg(!next_step(node).listed, "and is on disk");
    node.settled = node.inference = true;
    ck_assert_msg(!next_step(node).listed, "nothing more starts beside inference");
}

TEST(a_node_that_is_open_to_preemption_gets_no_more_of_training) {
    LoanNode node = in_state(LeaseState::lent, LoanGuard::lent);
    node.used = node.open = true;
    ck_assert(next_step(node).guard == LoanGuard::none && !next_step(node).listed);
    ck_assert(next_step(node).lease == node.lease);
}

TEST(a_node_goes_home_only_when_training_is_gone) {
    LoanNode node = in_state(LeaseState::returning, LoanGuard::returning);
    node.used = true;
    ck_assert(next_step(node).guard == LoanGuard::returning && next_step(node).lease);
    node.used = false;
    ck_assert(next_step(node) == LoanStep{});
    node.inference = true;
    ck_assert_msg(next_step(node) == LoanStep{}, "it had gone home when slurmctld was killed");
    LoanNode orphan{.guard = LoanGuard::lent};
    orphan.used = true;
    ck_assert(next_step(orphan).guard == LoanGuard::lent);
    orphan.used = false;
    ck_assert(next_step(orphan).guard == LoanGuard::none);
}

TEST(no_state_opens_a_node_to_both_and_a_step_twice_is_a_step_once) {
    int looked_at = 0;
    for (const auto state :
         {LeaseState::offered, LeaseState::lent, LeaseState::returning, LeaseState::broken})
        for (const auto guard : {LoanGuard::none, LoanGuard::lent, LoanGuard::returning})
            for (int bits = 0; bits < 64; ++bits) {
                LoanNode node = in_state(state, guard);
                node.settled = bits & 1;
                node.used = bits & 2;
                node.inference = bits & 4;
                node.up = bits & 8;
                node.gone = (bits & 16) && !node.up && !node.used && !node.inference;
                node.open = bits & 32;
                const bool yields = state == LeaseState::lent && node.open;
                const LoanStep step = next_step(node);
                ++looked_at;
                ck_assert_msg(!node.used || step.guard != LoanGuard::none ||
                                  node.guard == LoanGuard::none || yields,
                              "training is there, and the guard goes");
                ck_assert_msg(!step.listed || step.guard != LoanGuard::none,
                              "listed without a guard");
                ck_assert_msg(!step.lease || step.lease->state != LeaseState::lent ||
                                  step.guard == LoanGuard::lent || yields || node.inference,
                              "lent without a guard");
                ck_assert_msg(
                    !step.listed || !node.inference || step.lease->state == LeaseState::returning,
                    "open to training beside inference");
                LoanNode next = node;
                next.lease = step.lease;
                if (step.lease && step.lease->state == state) ck_assert(next_step(next) == step);
            }
    ck_assert_int_eq(looked_at, 4 * 3 * 64);
}

TEST(a_lease_ends_by_its_time_and_where_inference_has_the_node) {
    LoanNode node = in_state(LeaseState::lent, LoanGuard::lent);
    ck_assert(!ends_by_itself(node, 50));
    node.lease->until_s = 50;
    ck_assert(ends_by_itself(node, 50) && !ends_by_itself(node, 49));
    node.lease->until_s = 0;
    node.inference = true;
    ck_assert(ends_by_itself(node, 1));
    node.lease->state = LeaseState::offered;
    ck_assert_msg(!ends_by_itself(node, 1), "it waits for inference's job to end");
}

// ---- off ---------------------------------------------------------------------------------------

TEST(off_it_asks_nothing_of_slurm) {
    LoanScene scene;
    scene.config.loan_enabled = false;
    scene.round();
    scene.round();
    ck_assert_int_eq(scene.host.loan_reads, 0);
    ck_assert_msg(scene.host.calls.empty(), "%s", scene.all_calls().c_str());
    ck_assert(!scene.plan->has_work() && !scene.plan->hurries());
    ck_assert(scene.refusal(LoanVerb::offer, "i1").find("loan.enabled is false") !=
              std::string::npos);
    ck_assert(!scene.say(LoanVerb::list, "")["enabled"].get<bool>());
}

TEST(switched_off_what_is_lent_goes_back) {
    LoanScene scene;
    scene.lend("i3");
    scene.runs(9, {"i3"});
    scene.config.loan_enabled = false;
    scene.restart();
    scene.round();
    assert_text(scene.state("i3"), "returning");
    scene.ends(9);
    scene.round();
    ck_assert(scene.host.loans.guards.empty() && scene.extra("i3").empty());
    scene.round();
    const int reads = scene.host.loan_reads;
    scene.round();
    ck_assert_int_eq(scene.host.loan_reads, reads);
}

// ---- by commands -------------------------------------------------------------------------------

TEST(a_node_is_offered_guarded_lent_and_listed_in_this_order) {
    LoanScene scene;
    const Json offered = scene.say(LoanVerb::offer, "i3 until=100009000");
    assert_text(offered["leases"][0]["id"].get<std::string>(), "L1");
    assert_text(offered["leases"][0]["node"].get<std::string>(), "i3");
    assert_text(scene.extra("i3"),
                "arena:v1 loan=L1 state=offered since=100000000 until=100009000");
    scene.host.calls.clear();
    scene.round();
    assert_text(scene.all_calls(), "guard i3 L1");
    ck_assert(scene.plan->hurries());
    scene.round();
    assert_text(scene.call(1),
                "extra i3 arena:v1 loan=L1 state=lent since=100000000 until=100009000");
    scene.round();
    assert_text(scene.call(2), "list loan=i3");
    scene.round();
    ck_assert_uint_eq(scene.host.calls.size(), 3);
    const Json list = scene.say(LoanVerb::list, "");
    const Json& lease = list["leases"][0];
    ck_assert(lease["state"] == "lent" && lease["partition"] == "infer" &&
              lease["until"] == 100009000 && !lease.contains("deadline"));
    assert_text(list["problem"].get<std::string>(), "");
}

TEST(the_partition_has_the_own_nodes_of_jobs_that_may_have_lent_ones_too) {
    LoanScene scene;
    scene.host.loans.training = {"i2", "t1", "t2"};
    scene.round();
    assert_text(scene.all_calls(), "list loan=t1,t2");
    scene.lend("i3");
    assert_text(join(scene.host.loans.listed, ","), "i3,t1,t2");
    scene.host.loans.training.clear();
    scene.round();
    assert_text(scene.all_calls(), "list loan=i3");
}

TEST(a_node_on_which_inference_runs_is_waited_for) {
    LoanScene scene;
    scene.runs(5, {"i3"}, true);
    (void)scene.say(LoanVerb::offer, "i3");
    for (int i = 0; i < 4; ++i) {
        scene.round();
        scene.pass(10);
    }
    assert_text(scene.state("i3"), "offered");
    scene.ends(5);
    scene.round();
    assert_text(scene.state("i3"), "lent");
}

TEST(policies_see_what_is_lent_and_what_returns) {
    LoanScene scene;
    const auto node = [&]() {
        const Json all = parsed(scene.plan->snapshot_json())["snapshot"]["nodes"];
        return all[scene.index("i3")];
    };
    (void)scene.say(LoanVerb::offer, "i3");
    scene.round();
    ck_assert_msg(!node().contains("lent"), "offered is nobody's");
    scene.lend("i1");
    scene.round();
    ck_assert(node()["lent"] == "L1" && !node().contains("returning"));
    (void)scene.say(LoanVerb::reclaim, "i3");
    scene.runs(9, {"i3"});
    scene.round();
    ck_assert(node().contains("returning"));
}

TEST(an_empty_node_goes_home_at_once_and_in_order) {
    LoanScene scene;
    scene.lend("i3");
    const Json returned = scene.say(LoanVerb::reclaim, "1 deadline=60");
    ck_assert(returned["returning"][0]["node"] == "i3" && returned["preempted"].empty() &&
              returned["short"] == 0);
    scene.host.calls.clear();
    scene.round();
    assert_text(scene.all_calls(), "list loan=; extra i3 ; open i3");
    assert_text(scene.state("i3"), "home");
    const Json stats = parsed(scene.plan->stats_json())["loan"];
    ck_assert(stats["leases"] == 1 && stats["returns"] == 1 && stats["late_returns"] == 0);
}

TEST(jobs_on_a_returning_node_are_told_to_leave_and_the_deaf_are_ended_in_time) {
    LoanScene scene;
    scene.config.checkpoint_grace_s = 86400;
    scene.lend("i3");
    scene.trains(1, {"i3"});
    const Json returned = scene.say(LoanVerb::reclaim, "i3 deadline=300");
    ck_assert_msg(returned["preempted"] == Json::array({1}), "%s", returned.dump().c_str());
    scene.host.calls.clear();
    scene.round();
    assert_text(scene.call(0), "close i3 L1");
    ck_assert(called(scene.host, "leave 1"));
    ck_assert(scene.host.last_move.why.starts_with("gives i3 back to infer by "));
    ck_assert(scene.host.last_move.avoid.empty() && !scene.host.last_move.counts);
    JobView& job = scene.host.view.jobs.back();
    job.facts.mark->phase = Phase::checkpointing;
    job.facts.mark->since = static_cast<std::int64_t>(scene.host.view.snapshot.time_s);
    scene.pass(250);
    scene.host.calls.clear();
    scene.round();
    ck_assert_msg(!called(scene.host, "requeue 1"), "50 s are enough for KillWait and a round");
    scene.pass(15);
    scene.round();
    ck_assert(called(scene.host, "requeue 1"));
    ck_assert_msg(scene.host.loans.guards.contains("i3"), "it is there still");
    scene.ends(1);
    scene.host.view.jobs.clear();
    scene.round();
    assert_text(scene.state("i3"), "home");
    const Json stats = parsed(scene.plan->stats_json())["loan"];
    ck_assert(stats["preemptions"] == 1 && stats["late_returns"] == 0);
    ck_assert_msg(stats["gpu_hours"]["a"].get<double>() > 0.14, "%s", stats.dump().c_str());
}

TEST(a_clock_that_is_set_moves_no_deadline) {
    for (const double step : {-3600.0, 3600.0}) {
        LoanScene scene;
        scene.config.checkpoint_grace_s = 86400;
        scene.lend("i3");
        scene.trains(1, {"i3"});
        (void)scene.say(LoanVerb::reclaim, "i3 deadline=300");
        scene.round();
        scene.host.view.jobs.back().facts.mark->phase = Phase::checkpointing;
        scene.host.view.jobs.back().facts.mark->since =
            static_cast<std::int64_t>(scene.host.view.snapshot.time_s);
        scene.pass(step);
        scene.host.clock_set_s = step;
        scene.pass(250);
        scene.host.calls.clear();
        scene.round();
        ck_assert_msg(!called(scene.host, "requeue 1"), "step %g", step);
        scene.pass(15);
        scene.round();
        ck_assert_msg(called(scene.host, "requeue 1"), "step %g", step);
    }
}

TEST(a_job_that_fits_on_what_stays_is_scaled_in) {
    LoanScene scene;
    scene.lend("i3");
    scene.trains(1, {"t1", "i3"});
    JobView& job = scene.host.view.jobs.back();
    const auto offer = parse_offer_json(job.offer_json);
    ck_assert(offer && offer->grid.nodes == 2);
    const Json returned = scene.say(LoanVerb::reclaim, "i3");
    ck_assert(returned["scaled_in"] == Json::array({1}) && returned["preempted"].empty());
}

TEST(a_job_that_started_in_the_last_round_is_announced) {
    LoanScene scene;
    scene.lend("i3");
    Request wanted = scene.request();
    wanted.min_gpus = wanted.max_gpus = 2;
    wanted.elastic = wanted.loan = true;
    scene.job(1, wanted);
    for (const char* name : {"t1", "t2", "i1", "i2"})
        scene.host.view.snapshot.nodes[scene.index(name)].free_gpus = 0;
    scene.round();
    ck_assert(scene.host.started.contains(1));
    scene.runs(1, {"i3"});
    const Json returned = scene.say(LoanVerb::reclaim, "1");
    ck_assert_msg(returned["preempted"] == Json::array({1}), "%s", returned.dump().c_str());
    ck_assert_msg(parsed(scene.plan->snapshot_json())["snapshot"]["jobs"][0]["phase"] == "pending",
                  "what was decided can be replayed");
}

TEST(a_job_that_has_ended_since_the_last_round_is_not_announced) {
    LoanScene scene;
    scene.lend("i3");
    scene.trains(1, {"i3"});
    scene.ends(1);
    const Json returned = scene.say(LoanVerb::reclaim, "1");
    ck_assert_msg(returned["preempted"].empty(), "%s", returned.dump().c_str());
}

TEST(a_job_that_ends_in_time_is_let_run) {
    LoanScene scene;
    scene.lend("i3");
    scene.trains(1, {"i3"}, 1);
    const Json returned = scene.say(LoanVerb::reclaim, "1 deadline=900");
    ck_assert_msg(returned["ending"] == Json::array({1}) && returned["preempted"].empty(), "%s",
                  returned.dump().c_str());
    ck_assert_msg(scene.extra("i3").find(" ends=1") != std::string::npos, "%s",
                  scene.extra("i3").c_str());
    for (int i = 0; i < 3; ++i) {
        scene.pass(30);
        if (i == 1) scene.restart();
        scene.round();
    }
    ck_assert_msg(scene.all_calls().find("leave 1") == std::string::npos, "%s",
                  scene.all_calls().c_str());
    scene.ends(1);
    scene.host.view.jobs.clear();
    for (int i = 0; i < 3; ++i) scene.round();
    assert_text(scene.state("i3"), "home");
}

TEST(one_that_does_not_end_in_time_is_told_to_leave_while_it_can_save) {
    LoanScene scene;
    scene.lend("i3");
    scene.trains(1, {"i3"}, 1);
    (void)scene.say(LoanVerb::reclaim, "1 deadline=900");
    scene.pass(800);
    scene.round();
    ck_assert(scene.all_calls().find("leave 1") == std::string::npos);
    // 900 less 30 for saving, KillWait, a round and the margin.
    scene.pass(40);
    scene.round();
    ck_assert_msg(scene.all_calls().find("leave 1") != std::string::npos, "%s",
                  scene.all_calls().c_str());
    const Json counts = parsed(scene.plan->stats_json())["loan"];
    ck_assert(counts["let_end"] == 1 && counts["overstayed"] == 1 && counts["preemptions"] == 0);
}

TEST(one_that_ends_later_is_preempted_as_ever) {
    LoanScene scene;
    scene.lend("i3");
    scene.trains(1, {"i3"}, 2);
    const Json returned = scene.say(LoanVerb::reclaim, "1 deadline=900");
    ck_assert_msg(returned["ending"].empty() && returned["preempted"] == Json::array({1}), "%s",
                  returned.dump().c_str());
}

TEST(an_answer_is_on_disk) {
    LoanScene scene;
    (void)scene.say(LoanVerb::offer, "i3");
    ck_assert_int_eq(scene.host.node_saves, 1);
    (void)scene.refusal(LoanVerb::offer, "i3");
    ck_assert_int_eq(scene.host.node_saves, 1);
    (void)scene.say(LoanVerb::reclaim, "i3");
    ck_assert_int_eq(scene.host.node_saves, 2);
}

TEST(a_node_asked_back_before_a_round_has_seen_its_offer_goes_back) {
    LoanScene scene;
    (void)scene.say(LoanVerb::offer, "i3");
    const Json answer = scene.say(LoanVerb::reclaim, "i3 deadline=200");
    ck_assert(!answer.contains("error"));
    ck_assert_msg(scene.extra("i3").find("state=returning") != std::string::npos, "%s",
                  scene.extra("i3").c_str());
    scene.round();
    ck_assert(scene.state("i3") != "offered");
}

TEST(the_fewest_jobs_are_preempted) {
    LoanScene scene;
    scene.lend("i2");
    scene.lend("i3");
    scene.trains(1, {"i3"});
    const Json returned = scene.say(LoanVerb::reclaim, "1");
    ck_assert(returned["returning"][0]["node"] == "i2" && returned["preempted"].empty());
}

TEST(what_cannot_be_is_refused_and_changes_nothing) {
    LoanScene scene;
    scene.round();
    const auto says = [&](LoanVerb verb, const std::string& words, const char* why) {
        const std::string text = scene.refusal(verb, words);
        ck_assert_msg(text.find(why) != std::string::npos, "%s", text.c_str());
    };
    says(LoanVerb::offer, "i9", "no node is called i9");
    says(LoanVerb::offer, "t1", "node t1 is in none of loan.inference_partitions: infer");
    says(LoanVerb::offer, "i1,t1", "node t1 is in none");
    says(LoanVerb::offer, "i1 until=99999999", "is over already");
    says(LoanVerb::reclaim, "1", "asked back: 1 node; lent: 0");
    says(LoanVerb::reclaim, "i1", "node i1 is not lent");
    says(LoanVerb::reclaim, "i1 deadline=0", "deadline=0 is not accepted");
    scene.lend("i1");
    says(LoanVerb::offer, "i1", "node i1 has a lease already: L1, lent");
    says(LoanVerb::reclaim, "2", "asked back: 2 nodes; lent: 1");
    scene.runs(9, {"i1"});
    (void)scene.say(LoanVerb::reclaim, "i1");
    says(LoanVerb::reclaim, "i1", "lease L1 is returning already");
    scene.host.loans.has_partition = false;
    scene.round();
    says(LoanVerb::offer, "i2", "slurm.conf has no partition loan");
}

// ---- faults ------------------------------------------------------------------------------------

/// Every call that the host was told, with Slurm's records as they were told; slurmctld is killed
/// after so many, comes back, and the node gets where it was to go, never open to both.
TEST(a_controller_that_dies_between_any_two_steps_goes_on) {
    for (std::size_t kill_at = 1; kill_at <= 12; ++kill_at) {
        LoanScene scene;
        scene.round();
        (void)scene.say(LoanVerb::offer, "i3");
        const auto check = [&] {
            const auto& listed = scene.host.loans.listed;
            const bool open_to_training =
                std::find(listed.begin(), listed.end(), "i3") != listed.end();
            ck_assert_msg(!open_to_training || scene.host.loans.guards.contains("i3"),
                          "killed after %zu calls: %s", kill_at, scene.all_calls().c_str());
        };
        scene.host.stops_after = scene.host.calls.size() + kill_at;
        for (int i = 0; i < 6; ++i) {
            scene.round();
            check();
            scene.pass(7);
            if (scene.host.stopping()) scene.restart();
        }
        assert_text(scene.state("i3"), "lent");
        (void)scene.say(LoanVerb::reclaim, "i3");
        scene.host.stops_after = scene.host.calls.size() + kill_at;
        for (int i = 0; i < 6; ++i) {
            scene.round();
            check();
            if (scene.host.stopping()) scene.restart();
        }
        assert_text(scene.state("i3"), "home");
        ck_assert(scene.host.loans.guards.empty() && scene.host.loans.listed.empty());
    }
}

TEST(a_guard_that_was_lost_is_made_before_the_node_is_listed_again) {
    LoanScene scene;
    scene.lend("i3");
    scene.host.loans.guards.clear();
    scene.host.loans.listed.clear();
    scene.host.loans.configured = 2;
    scene.restart();
    scene.round();
    assert_text(scene.all_calls(), "guard i3 L1");
    scene.round();
    assert_text(scene.call(1), "list loan=i3");
}

TEST(reconfigure_puts_the_list_back_and_the_next_round_derives_it) {
    LoanScene scene;
    scene.lend("i3");
    scene.host.loans.listed.clear();
    scene.host.loans.configured = 2;
    scene.round();
    assert_text(scene.all_calls(), "list loan=i3");
    assert_text(scene.state("i3"), "lent");
}

TEST(an_administrator_who_edits_the_partition_wins) {
    LoanScene scene;
    scene.host.loans.training = {"t1", "t2"};
    scene.lend("i3");
    scene.runs(9, {"i3"});
    scene.host.loans.listed = {"t1", "t2"};
    scene.round();
    assert_text(scene.state("i3"), "broken");
    assert_text(scene.extra("i3"), "arena:v1 loan=L1 state=broken since=100000000");
    const auto told = scene.host.errors.size();
    scene.round();
    ck_assert_uint_eq(scene.host.errors.size(), told);
    ck_assert_msg(scene.host.loans.guards.contains("i3"), "its job is there");
    ck_assert(!called(scene.host, "leave 9"));
    scene.ends(9);
    scene.round();
    ck_assert(!scene.host.loans.guards.contains("i3"));
    scene.extra("i3").clear();
    scene.round();
    scene.lend("i3");  // offered by name: the later word
    const auto& listed = scene.host.loans.listed;
    ck_assert(std::find(listed.begin(), listed.end(), "i3") != listed.end());
}

TEST(an_administrator_who_edits_extra_wins) {
    LoanScene scene;
    scene.lend("i3");
    scene.runs(9, {"i3"});
    scene.extra("i3") = "mine";
    scene.round();
    assert_text(scene.state("i3"), "broken");
    assert_text(scene.extra("i3"), "mine");
    ck_assert(scene.host.loans.guards.contains("i3"));
    ck_assert(std::find(scene.host.loans.listed.begin(), scene.host.loans.listed.end(), "i3") ==
              scene.host.loans.listed.end());
    scene.ends(9);
    scene.round();
    ck_assert(!scene.host.loans.guards.contains("i3"));
    scene.round();
    assert_text(scene.state("i3"), "home");
    assert_text(scene.extra("i3"), "mine");
    scene.lend("i2");
    scene.extra("i2") = "arena:v1 loan=L2 state=maybe";
    scene.round();
    assert_text(scene.state("i2"), "broken");
}

TEST(a_lease_that_an_administrator_gives_back_by_hand_goes_back) {
    LoanScene scene;
    scene.lend("i3");
    scene.runs(9, {"i3"});
    scene.extra("i3") = "arena:v1 loan=L1 state=returning until=100001000";
    scene.round();
    assert_text(scene.state("i3"), "returning");
    ck_assert(called(scene.host, "close i3 L1"));
}

TEST(a_lent_node_that_dies_is_inference_s_loss_and_told) {
    LoanScene scene;
    scene.lend("i3");
    scene.host.view.snapshot.nodes[scene.index("i3")].up = false;
    scene.round();
    assert_text(scene.state("i3"), "lent");
    scene.pass(31);
    scene.round();
    assert_text(scene.state("i3"), "home");
    ck_assert(scene.host.loans.guards.empty());
    const auto& errors = scene.host.errors;
    ck_assert(std::any_of(errors.begin(), errors.end(), [](const std::string& line) {
        return line == "node i3 is down or drained: its lease L1 ends";
    }));
    ck_assert(parsed(scene.plan->stats_json())["loan"]["lost"] == 1);
}

TEST(a_lease_that_is_over_by_its_time_goes_back) {
    LoanScene scene;
    (void)scene.say(LoanVerb::offer, "i3 until=100000050");
    for (int i = 0; i < 4; ++i) {
        scene.round();
        scene.pass(7);
    }
    scene.runs(9, {"i3"});
    scene.round();
    assert_text(scene.state("i3"), "lent");
    scene.pass(60);
    scene.round();
    assert_text(scene.state("i3"), "returning");
}

TEST(where_slurm_refuses_nothing_goes_on) {
    LoanScene scene;
    (void)scene.say(LoanVerb::offer, "i3");
    scene.host.next_guard = "Requested nodes are reserved";
    for (int i = 0; i < 4; ++i) {
        scene.round();
        scene.pass(7);
    }
    assert_text(scene.state("i3"), "offered");
    ck_assert_uint_eq(scene.host.errors.size(), 1);
    scene.host.next_guard.clear();
    scene.lend("i2");
    scene.host.next_list = "Access denied";
    (void)scene.say(LoanVerb::reclaim, "i2");
    scene.round();
    ck_assert_msg(scene.host.loans.guards.contains("i2"), "it is listed still");
    assert_text(scene.state("i2"), "returning");
    scene.host.next_list.clear();
    scene.round();
    assert_text(scene.state("i2"), "home");
}

TEST(arena_off_keeps_deadlines_and_asks_back_what_is_lent) {
    LoanScene scene;
    scene.config.checkpoint_grace_s = 86400;
    scene.lend("i3");
    scene.trains(1, {"i3"});
    (void)scene.say(LoanVerb::offer, "i2");
    (void)scene.say(LoanVerb::reclaim, "i3 deadline=300");
    scene.round_while_off();
    scene.pass(270);
    scene.round_while_off();
    ck_assert(called(scene.host, "requeue 1") && !called(scene.host, "leave 1"));
    scene.ends(1);
    scene.round_while_off();
    assert_text(scene.state("i3"), "home");
    scene.pass(10);
    scene.round_while_off();
    assert_text(scene.state("i2"), "home");
}

TEST(switched_off_with_arena_what_comes_back_is_looked_after) {
    LoanScene scene;
    scene.lend("i3");
    scene.runs(8, {"i3"});
    (void)scene.say(LoanVerb::reclaim, "i3");
    scene.config.loan_enabled = false;
    auto before = std::move(scene.plan);
    auto kept = before->keep();
    scene.plan = scene.scheduler();
    scene.plan->take_over(std::move(kept));
    ck_assert_msg(scene.plan->has_work(), "by what it remembers");
    before.reset();
    scene.restart();
    scene.plan = scene.scheduler();
    ck_assert_msg(scene.plan->has_work(), "and in another life, until it has looked");
    scene.round_while_off();
    ck_assert(scene.plan->has_work());
    scene.ends(8);
    for (int i = 0; i < 3; ++i) scene.round_while_off();
    ck_assert(scene.host.loans.guards.empty());
    ck_assert_msg(!scene.plan->has_work(), "then there is nothing to do");
}

TEST(after_a_restart_a_deaf_job_is_ended_in_time_all_the_same) {
    LoanScene scene;
    scene.config.checkpoint_grace_s = 86400;
    scene.lend("i3");
    scene.trains(1, {"i3"});
    (void)scene.say(LoanVerb::reclaim, "i3 deadline=300");
    scene.round();
    scene.pass(262);
    scene.restart();
    scene.round();
    ck_assert_msg(called(scene.host, "requeue 1"), "KillWait and a round are left");
}

TEST(a_deadline_in_which_a_deaf_job_may_stay_too_long_is_told) {
    LoanScene scene;
    scene.lend("i3");
    scene.trains(1, {"i3"});
    const double ending_s =
        scene.host.loans.kill_wait_s + scene.config.interval_s + LoanBook::margin_s;
    const auto words = fmt::format("i3 deadline={}", static_cast<int>(2 * ending_s) - 1);
    const Json told = scene.say(LoanVerb::reclaim, words);
    ck_assert_int_eq(told["short"].get<int>(), 1);
    ck_assert(told["why"].get<std::string>().find("twice") != std::string::npos);
}

TEST(a_node_asked_back_a_moment_ago_is_none_to_stay_on) {
    LoanScene scene;
    scene.lend("i2");
    scene.lend("i3");
    scene.trains(1, {"i2", "i3"});
    const Json first = scene.say(LoanVerb::reclaim, "i2");
    ck_assert(first["scaled_in"] == Json({1}) && first["preempted"].empty());
    const Json second = scene.say(LoanVerb::reclaim, "i3");
    ck_assert_msg(second["preempted"] == Json({1}) && second["scaled_in"].empty(), "%s",
                  second.dump().c_str());
}

TEST(a_job_that_no_round_plans_is_announced_and_a_foreign_one_told_of) {
    LoanScene scene;
    scene.lend("i2");
    scene.lend("i3");
    scene.runs(8, {"i3"});  // suspended, say
    scene.round();
    Json told = scene.say(LoanVerb::reclaim, "1");
    assert_text(told["returning"][0]["node"].get<std::string>(), "i2");
    told = scene.say(LoanVerb::reclaim, "i3");
    ck_assert_msg(told["preempted"] == Json({8}) && told["short"] == 0, "%s", told.dump().c_str());
    LoanScene other;
    other.lend("i3");
    other.runs(8, {"i3"});
    other.host.loans.jobs.back().is_foreign = true;
    other.round();
    told = other.say(LoanVerb::reclaim, "i3");
    ck_assert(told["preempted"].empty() && told["short"] == 1);
    assert_text(told["why"].get<std::string>(), "Arena cannot end JobId=8: scancel it");
}

// ---- the net below -----------------------------------------------------------------------------

/// i2 and i3 are lent; Slurm preempts by partitions; inference waits for `nodes`.
struct NetScene : LoanScene {
    NetScene() {
        lend("i2");
        lend("i3");
        host.loans.preempts = true;
    }
    void fills(JobId id, const std::string& node) {
        runs(id, {node});
        host.loans.jobs.back().preemptable = true;
    }
    void waits(JobId id, std::int64_t nodes, std::int64_t gpus) {
        LoanFacts::Job job{.id = id, .inference = true, .pending = true};
        job.gpus = gpus;
        job.nodes_asked = nodes;
        host.loans.jobs.push_back(job);
    }
    /// Until inference has waited for long enough.
    void wait() {
        round();
        pass(LoanNet::patience_s + 1);
        host.calls.clear();
        round();
    }
    [[nodiscard]] bool is_guarded(const std::string& node) const {
        return host.loans.guards.contains(node);
    }
    [[nodiscard]] bool is_listed(const std::string& node) const {
        const auto& listed = host.loans.listed;
        return std::find(listed.begin(), listed.end(), node) != listed.end();
    }
};

TEST(a_spike_opens_lent_nodes_to_slurm_s_preemption_and_to_nobody_else) {
    NetScene scene;
    scene.fills(8, "i2");
    scene.fills(9, "i3");
    scene.waits(50, 2, 4);
    scene.round();
    ck_assert_msg(scene.is_guarded("i3"), "whoever asks for nodes may still ask");
    scene.wait();
    ck_assert(!scene.is_guarded("i2") && !scene.is_guarded("i3"));
    ck_assert(scene.at("list loan=") < scene.at("open i2"));
    ck_assert(parsed(scene.plan->stats_json())["loan"]["preemptions"] == 2);
    assert_text(scene.state("i3"), "lent");
    // Slurm ends one of them: until inference has it, nobody else gets it.
    scene.host.loans.jobs[0].preemptable = false;
    scene.round();
    ck_assert(!scene.is_guarded("i2") && !scene.is_listed("i2"));
    scene.ends(8);
    scene.ends(50);
    scene.runs(51, {"i2"}, true);
    scene.round();
    assert_text(scene.state("i2"), "returning");
    scene.round();
    assert_text(scene.state("i2"), "home");
    scene.round();
    ck_assert_msg(scene.is_guarded("i3") && scene.is_listed("i3"), "the other one is lent as ever");
    assert_text(scene.state("i3"), "lent");
}

/// Slurm preempts for one job that waits, and for the next one only when that runs.
TEST(in_a_spike_each_deaf_job_has_gracetime_and_no_longer) {
    NetScene scene;
    scene.host.loans.grace_s = 60;
    scene.config.checkpoint_grace_s = 86400;
    scene.trains(8, {"i2"});
    scene.trains(9, {"i3"});
    for (LoanFacts::Job& job : scene.host.loans.jobs) job.preemptable = true;
    scene.waits(50, 2, 4);
    scene.wait();
    ck_assert_msg(called(scene.host, "leave 8") && called(scene.host, "leave 9"), "%s",
                  scene.all_calls().c_str());
    scene.pass(60);
    scene.round();
    ck_assert_msg(scene.at("requeue") == SIZE_MAX, "no earlier than Slurm");
    scene.pass(LoanBook::margin_s);
    scene.host.loans.jobs[0].preemptable = false;  // Slurm is at it
    scene.round();
    ck_assert(!called(scene.host, "requeue 8") && called(scene.host, "requeue 9"));
    scene.ends(50);
    scene.round();
    scene.waits(51, 2, 4);
    scene.wait();
    ck_assert_msg(scene.at("requeue") == SIZE_MAX, "each spike lets it save its state");
}

TEST(no_more_nodes_are_opened_than_are_lacking) {
    NetScene scene;
    scene.fills(8, "i2");
    scene.fills(9, "i3");
    scene.waits(50, 1, 2);
    scene.wait();
    ck_assert(scene.is_guarded("i2") != scene.is_guarded("i3"));
    scene.round();
    ck_assert_msg(parsed(scene.plan->stats_json())["loan"]["preemptions"] == 1, "and it stays so");
    NetScene array;
    array.fills(8, "i2");
    array.fills(9, "i3");
    array.waits(50, 2, 2);
    array.host.loans.jobs.back().tasks = 2;
    array.wait();
    ck_assert_msg(array.is_guarded("i2") != array.is_guarded("i3"), "two tasks share a node");
    NetScene job;
    job.runs(9, {"i2", "i3"});
    job.host.loans.jobs.back().preemptable = true;
    job.waits(50, 1, 2);
    job.wait();
    ck_assert(job.is_guarded("i2") != job.is_guarded("i3"));
}

TEST(nodes_that_inference_does_not_wait_for_stay_lent) {
    for (const bool by_type : {true, false}) {
        NetScene scene;
        scene.fills(8, "i2");
        scene.waits(50, 1, 2);
        if (by_type) {
            scene.host.view.snapshot.nodes[scene.index("i3")].gpu_type = "t4";
            scene.host.loans.jobs.back().gpu_type = "a40";
        } else {
            scene.host.loans.inference = {{"infer", {"i1", "i2"}}, {"other", {"i3"}}};
            scene.host.loans.jobs.back().partitions = {"infer"};
        }
        scene.wait();
        assert_text(scene.state("i3"), "lent");
        ck_assert_msg(scene.is_guarded("i3") && !scene.is_guarded("i2"), "by type: %d", by_type);
    }
}

TEST(what_comes_back_is_waited_for) {
    NetScene scene;
    scene.fills(8, "i2");
    scene.fills(9, "i3");
    (void)scene.say(LoanVerb::reclaim, "i2");
    scene.waits(50, 1, 2);
    scene.wait();
    ck_assert(scene.is_guarded("i2") && scene.is_guarded("i3"));
}

TEST(in_a_spike_idle_nodes_go_home_before_anybody_is_preempted) {
    NetScene scene;
    scene.fills(9, "i3");
    scene.waits(50, 1, 2);
    scene.wait();
    assert_text(scene.state("i2"), "returning");
    ck_assert(scene.is_guarded("i3"));
    scene.round();
    assert_text(scene.state("i2"), "home");
    scene.round();
    ck_assert_msg(scene.is_guarded("i3"), "Slurm has not started anybody at home yet");
}

TEST(beside_jobs_that_stay_inference_is_not_let_in) {
    for (const auto& spoil : std::vector<void (*)(NetScene&)>{
             [](NetScene& s) { s.host.loans.preempts = false; },
             [](NetScene& s) { s.host.loans.jobs[0].preemptable = false; },
             [](NetScene& s) { s.host.loans.jobs[0].nodes[0].second = 1; },
             [](NetScene& s) { s.waits(51, 1, 0); },
             [](NetScene& s) {
                 s.fills(10, "i3");
                 s.host.loans.jobs[0].nodes[0].second = 1;
                 s.host.loans.jobs.back().nodes[0].second = 1;
             }}) {
        NetScene scene;
        scene.fills(9, "i3");
        scene.fills(8, "i2");
        scene.host.loans.jobs.back().preemptable = false;
        scene.waits(50, 1, 2);
        spoil(scene);
        scene.wait();
        ck_assert(scene.is_guarded("i3") && scene.is_guarded("i2"));
    }
}

// ---- by demand ---------------------------------------------------------------------------------

struct DemandScene : LoanScene {
    DemandScene() {
        config.loan_source = "demand";
        config.loan_tick_s = 10;
        config.loan_horizon_s = 0;
        config.loan_headroom_percent = 0;
        config.loan_headroom_nodes = 1;
        plan = scheduler();
    }
    std::size_t leases() { return say(LoanVerb::list, "")["leases"].size(); }
    void ticks(int n) {
        for (int i = 0; i < n; ++i) {
            round();
            pass(11);
        }
    }
};

TEST(what_inference_does_not_need_is_lent_after_two_ticks) {
    DemandScene scene;
    scene.ticks(1);
    ck_assert_uint_eq(scene.leases(), 0);
    scene.ticks(1);
    ck_assert_uint_eq(scene.leases(), 2);
    ck_assert_msg(scene.state("i1") == "home", "the last ones go first");
    scene.ticks(3);
    assert_text(scene.state("i3"), "lent");
    ck_assert_uint_eq(scene.leases(), 2);
}

TEST(by_demand_an_offer_is_refused_and_says_what_to_set) {
    DemandScene scene;
    scene.round();
    const auto calls = scene.host.calls.size();
    const Json answer = scene.say(LoanVerb::offer, "i3");
    ck_assert_msg(answer.contains("error"), "%s", answer.dump().c_str());
    ck_assert_int_eq(answer["error"]["code"].get<int>(), 1);
    const std::string why = answer["error"]["text"];
    ck_assert_msg(why.find("set source: commands under loan:") != std::string::npos, "%s",
                  why.c_str());
    ck_assert_uint_eq(scene.host.calls.size(), calls);
    ck_assert_uint_eq(scene.leases(), 0);
}

TEST(what_inference_needs_is_taken_back_at_once) {
    DemandScene scene;
    scene.ticks(5);
    ck_assert_uint_eq(scene.leases(), 2);
    LoanFacts::Job waits{.id = 50, .inference = true, .pending = true};
    waits.gpus = 4;
    waits.nodes_asked = 2;
    scene.host.loans.jobs.push_back(waits);
    scene.runs(9, {"i2", "i3"});
    scene.round();
    assert_text(scene.state("i2"), "returning");
    assert_text(scene.state("i3"), "returning");
}

TEST(a_node_with_a_job_of_inference_is_not_lent) {
    DemandScene scene;
    scene.runs(50, {"i3"}, true);
    scene.ticks(4);
    assert_text(scene.state("i3"), "home");
    ck_assert_uint_eq(scene.leases(), 1);
}

}  // namespace
