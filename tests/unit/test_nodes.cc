// SPDX-License-Identifier: GPL-2.0-or-later
// Facts of nodes: their text form in Extra, when a slow one counts and ends, what is kept from jobs
// because of it, and which nodes a job is left with. No round of the scheduler.
#include "plugin/sched/host/excludes.h"
#include "plugin/sched/host/segments.h"
#include "plugin/sched/nodes/avoidance.h"
#include "plugin/sched/nodes/node_book.h"
#include "suite.h"

using namespace arena;

namespace {

void expect_same(const std::string& got, const std::string& wanted) {
    ck_assert_str_eq(got.c_str(), wanted.c_str());
}

constexpr const char* slow_text = "arena:v1 slow=1:compute:2.10 seen=2 until=5000";

// ---- text
// ----------------------------------------------------------------------------------------

TEST(text_of_the_admins_stays_around_arenas) {
    for (const std::string text :
         {"", "rack=7", slow_text, "rack=7 arena:v1 slow=1:compute:2.10 seen=2 until=5000",
          "arena:v1 slow=1:compute:2.10 seen=2 by=7,9 until=5000 state=CA  two blanks",
          "a  b arena:v1 loan=L7 state=returning until=9 slow=*:communication:5.00 seen=1 c=d",
          "arena:v1x", "arena:v1 slow=1:compute:2.10 until=1 since=2 until-when?"}) {
        const NodeExtra extra = parse_node_extra(text);
        if (extra.broken.empty()) expect_same(format_node_extra(extra), text);
    }
    const NodeExtra extra = parse_node_extra(
        "rack=7 arena:v1 loan=L7 state=returning until=9 slow=1:compute:2.10 seen=2 state=CA end");
    expect_same(extra.before, "rack=7");
    ck_assert_msg(extra.after == "state=CA end", "a slow fact has no state: %s",
                  extra.after.c_str());
    ck_assert_uint_eq(extra.facts.size(), 2);
    expect_same(extra.facts[0].value, "L7");
    expect_same(*extra.facts[0].find("until"), "9");
    ck_assert_ptr_null(extra.facts[1].find("until"));
}

TEST(without_a_fact_nothing_of_arenas_is_left) {
    NodeExtra extra = parse_node_extra("rack=7 " + std::string(slow_text) + " spare");
    extra.facts.clear();
    expect_same(format_node_extra(extra), "rack=7 spare");
}

TEST(what_arena_would_not_write_is_broken) {
    for (const std::string& text :
         {std::string("arena:v2 slow=1:compute:2.10"), std::string("arena:v1 slow="),
          std::string("arena:v1 slow=1:compute:2.10 seen=2 seen=3"),
          std::string("arena:v1 slow=1:comp'ute:2.1"), std::string("arena:v1 slow=a\nb"),
          "arena:v1 slow=" + std::string(300, 'a'),
          std::string(5000, 'x') + " arena:v1 slow=1:compute:2.1"}) {
        const NodeExtra extra = parse_node_extra(text);
        ck_assert_msg(!extra.broken.empty() && extra.facts.empty(), "%s", text.c_str());
    }
    std::string many = "arena:v1";
    for (int i = 0; i < 17; ++i) many += " slow=" + std::to_string(i) + ":compute:2.00";
    ck_assert(!parse_node_extra(many).broken.empty());
}

TEST(slow_facts_survive_their_text_form) {
    SlowFact slow;
    slow.device = 3;
    slow.cause = SlowCause::communication;
    slow.factor = 7.85;
    slow.seen = 9;
    slow.by = {{4, 1000}, {5, 0}, {4294967295}};
    slow.checked = 1700001000;
    slow.since = 1700000000;
    slow.until = 1700003600;
    slow.driver = "550.54.15";
    std::string why;
    for (const std::int64_t device : {std::int64_t{3}, any_gpu, std::int64_t{0}}) {
        slow.device = device;
        slow.peer = device == 0 ? "n4" : "";
        ck_assert(slow_fact(fact_of(slow), &why) == slow);
        const std::string text = format_node_extra({"", "", {fact_of(slow)}, ""});
        const NodeExtra extra = parse_node_extra(text);
        ck_assert_uint_eq(extra.facts.size(), 1);
        ck_assert(slow_fact(extra.facts[0], &why) == slow);
    }
    ck_assert(why.empty());
    expect_same(words_of(slow), "its link to n4 is 7.8 times slower");
    slow.peer.clear();
    slow.device = any_gpu;
    expect_same(words_of(slow), "it communicates 7.8 times slower");
    for (const char* value :
         {"1:compute", "1:compute:nan", "1:compute:0.5", "1:compute:1e9", "-2:compute:2",
          "1:power:2", "1:unknown:2", "9999:compute:2", ":compute:2"}) {
        why.clear();
        ck_assert_msg(!slow_fact({"slow", value, {}}, &why) && !why.empty(), "%s", value);
    }
    ck_assert(!slow_fact({"slow", "1:compute:2", {{"by", "1,2,3,4,5,6,7,8,9"}}}, &why));
    for (const char* by : {"1:x", "1:-5", ":5", "1:2:3"})
        ck_assert(!slow_fact({"slow", "1:compute:2", {{"by", by}}}, &why));
    ck_assert(!slow_fact({"slow", "1:compute:2", {{"until", "soon"}}}, &why));
}

// ---- verdicts
// ------------------------------------------------------------------------------------

SlowVerdict verdict(JobId job, double factor = 2.1) {
    SlowVerdict v;
    v.job = job;
    v.user = unnamed_user;
    v.node = "n1";
    v.device = 1;
    v.factor = factor;
    return v;
}

TEST(one_job_alone_confirms_nothing) {
    const SlowdownRules rules;
    std::vector<SlowFact> facts;
    for (int i = 0; i < 100; ++i) add_verdict(facts, verdict(7), 1000 + i, rules);
    ck_assert_uint_eq(facts.size(), 1);
    ck_assert(!is_confirmed(facts[0], rules));
    ck_assert_int_eq(facts[0].since, 1000);
    ck_assert_int_eq(facts[0].until, 1099 + 3600);
    add_verdict(facts, verdict(8, 3), 1100, rules);
    ck_assert(is_confirmed(facts[0], rules));
    ck_assert_msg(facts[0].factor == 3, "the latest counts");
    SlowVerdict other = verdict(9);
    other.device = 2;
    add_verdict(facts, other, 1100, rules);
    ck_assert_msg(facts.size() == 2 && !is_confirmed(facts[1], rules), "of another device");
    for (JobId job = 20; job < 60; ++job) add_verdict(facts, verdict(job), 1100, rules);
    ck_assert_uint_eq(facts[0].by.size(), SlowFact::max_by);
}

SlowVerdict said_by(JobId job, std::uint32_t user, const std::string& node = "n1",
                    const std::string& peer = "", double factor = 2.1) {
    SlowVerdict v = verdict(job, factor);
    v.user = user;
    v.node = node;
    v.peer = peer;
    if (!peer.empty()) v.cause = SlowCause::communication;
    return v;
}

/// What nobody has measured: one job's word has the node checked, and nobody else believes it.
TEST(a_suspicion_wants_a_check_and_no_more) {
    const SlowdownRules rules;
    std::vector<SlowFact> facts;
    SlowVerdict verdict{.job = 7, .user = 1000, .node = "n3", .device = 1, .factor = 2};
    verdict.confidence = 0.97;
    const SlowFact& fact = add_verdict(facts, verdict, 100, rules);
    ck_assert(wants_check(fact, rules) && !is_confirmed(fact, rules));
    expect_same(words_of(fact),
                "GPU 1 computes 2.0 times slower (suspected by who waits for whom, confidence "
                "0.97; no check has told)");
    std::string why;
    ck_assert(slow_fact(fact_of(fact), &why) == fact);
    for (const std::uint32_t user : {1001u, std::uint32_t{admin_user}, std::uint32_t{admin_user}}) {
        verdict.user = user;
        ++verdict.job;
        ck_assert(wants_check(add_verdict(facts, verdict, 150, rules), rules));
        ck_assert(!is_confirmed(facts[0], rules));
    }
    verdict.confidence = 1;  // a job has measured it since
    ++verdict.job;
    const SlowFact& measured = add_verdict(facts, verdict, 200, rules);
    ck_assert_uint_eq(facts.size(), 1);
    ck_assert_double_eq(measured.confidence, 1);
    Fact broken = fact_of(measured);
    for (const char* word : {"0", "1.5", "x"}) {
        broken.set("suspected", word);
        ck_assert(!slow_fact(broken, &why));
    }
}

TEST(all_jobs_of_one_user_are_one_voice) {
    const SlowdownRules rules;
    std::vector<SlowFact> facts;
    for (JobId job = 1; job <= 100; ++job) add_verdict(facts, said_by(job, 1000), 1000, rules);
    ck_assert(facts.size() == 1 && facts[0].seen == 1 && !is_confirmed(facts[0], rules));
    ck_assert_msg(wants_check(facts[0], rules), "a check has to tell");
    add_verdict(facts, said_by(200, 1001), 1000, rules);
    ck_assert(facts[0].seen == 2 && is_confirmed(facts[0], rules));
    for (JobId job = 300; job <= 400; ++job) add_verdict(facts, said_by(job, 1000), 1000, rules);
    const auto& by = facts[0].by;
    ck_assert_msg(std::find(by.begin(), by.end(), SlowVoice{200, 1001}) != by.end(),
                  "one user's jobs push out no other's voice");
    ck_assert_int_eq(facts[0].seen, 2);
    SlowVerdict over = said_by(200, 1001);
    over.is_over = true;
    ck_assert(take_back(facts, over) && facts[0].seen == 1);
    std::vector<SlowFact> roots;
    for (const JobId job : {1U, 2U}) add_verdict(roots, said_by(job, admin_user), 1000, rules);
    ck_assert_msg(is_confirmed(roots[0], rules) && !wants_check(roots[0], rules),
                  "an administrator slanders nobody");
}

TEST(a_job_takes_back_its_own_word_alone) {
    const SlowdownRules rules;
    std::vector<SlowFact> facts;
    for (const JobId job : {7U, 8U, 9U}) add_verdict(facts, verdict(job), 1000, rules);
    SlowVerdict over = verdict(8);
    over.is_over = true;
    ck_assert(take_back(facts, over) && facts[0].seen == 2 && facts[0].by.size() == 2);
    ck_assert_msg(!take_back(facts, over), "once");
    over.device = 2;
    over.job = 7;
    ck_assert_msg(!take_back(facts, over), "of another device");
    over.device = 1;
    ck_assert(take_back(facts, over) && !is_confirmed(facts[0], rules));
    over.job = 9;
    ck_assert(take_back(facts, over) && facts.empty());
}

TEST(a_verdict_gives_no_end_to_a_fact_without_one) {
    const SlowdownRules rules;
    SlowFact written;
    written.device = 1;
    std::vector<SlowFact> facts{written};
    add_verdict(facts, verdict(7), 1000, rules);
    ck_assert(facts.size() == 1 && facts[0].until == 0 && facts[0].seen == 2);
}

TEST(a_fact_ends_by_time_boot_or_driver) {
    SlowFact fact;
    fact.since = 1000;
    fact.until = 5000;
    fact.driver = "1";
    ck_assert(!is_over(fact, 4999, 0, ""));
    ck_assert(is_over(fact, 5000, 0, ""));
    ck_assert_msg(!is_over(fact, 2000, 990, "1"), "it was up before");
    ck_assert_msg(!is_over(fact, 2000, 1003, "1"), "counted anew, a second off");
    ck_assert(is_over(fact, 2000, 1500, "1"));
    ck_assert(is_over(fact, 2000, 990, "2"));
    fact.since = fact.until = 0;
    ck_assert_msg(!is_over(fact, INT64_MAX, 1e9, "1"), "an administrator takes it back himself");
}

std::vector<NodeState> nodes_of(std::size_t count, const std::string& type = "a40") {
    std::vector<NodeState> nodes;
    for (std::size_t i = 0; i < count; ++i) {
        NodeState node;
        node.name = "n" + std::to_string(i + 1);
        node.gpu_type = type;
        node.total_gpus = node.free_gpus = 4;
        nodes.push_back(node);
    }
    return nodes;
}

TEST(no_more_nodes_are_quarantined_than_the_rules_allow) {
    SlowdownRules rules;
    const std::vector<Suspect> suspects{{0, 10}, {1, 30}, {2, 20}, {3, 5}};
    const auto chosen = [&](std::size_t nodes) {
        return choose_quarantined(suspects, nodes_of(nodes), rules);
    };
    ck_assert_msg(chosen(4) == std::vector<NodeIndex>{1}, "the latest one, of few nodes");
    ck_assert((chosen(40) == std::vector<NodeIndex>{1, 2}));
    ck_assert_uint_eq(chosen(100).size(), 4);
    rules.max_quarantined_percent = 100;
    ck_assert_msg(chosen(4).size() == 3, "never the last of its type");
    rules.max_quarantined_percent = 0;
    ck_assert(chosen(100).empty());
}

TEST(users_jobs_alone_take_no_more_than_the_share_of_a_type) {
    const SlowdownRules rules;
    std::vector<Suspect> suspects;
    for (NodeIndex i = 0; i < 10; ++i)
        suspects.push_back({.node = i, .since = 100 + i, .trusted = false});
    for (const std::size_t nodes : {2U, 10U, 19U, 20U, 39U, 40U, 100U, 1000U}) {
        const std::vector<Suspect> some(suspects.begin(),
                                        suspects.begin() + std::min<std::ptrdiff_t>(nodes, 10));
        const auto chosen = choose_quarantined(some, nodes_of(nodes), rules);
        ck_assert_uint_eq(chosen.size(), std::min<std::size_t>(nodes / 20, 10));
    }
    suspects[0].trusted = true;
    const std::vector<Suspect> two(suspects.begin(), suspects.begin() + 2);
    ck_assert_msg(choose_quarantined(two, nodes_of(2), rules) == std::vector<NodeIndex>{0},
                  "a check's or an administrator's word counts in a small cluster, too");
    ck_assert_msg(choose_quarantined(suspects, nodes_of(20), rules) == std::vector<NodeIndex>{0},
                  "and comes first");
}

// ---- links
// ---------------------------------------------------------------------------------------

LinkCulprits culprits(std::vector<SlowNodeLink> links) {
    return find_link_culprits(std::move(links));
}

TEST(both_ends_of_a_slow_link_are_suspects_until_a_third_node_tells) {
    using Nodes = std::vector<NodeIndex>;
    using Pairs = std::vector<NodePair>;
    ck_assert(culprits({}).nodes.empty());
    const LinkCulprits one = culprits({{{1, 2}, 100}});
    ck_assert(one.nodes.empty() && one.open == Pairs({{1, 2}}));
    const LinkCulprits third = culprits({{{1, 2}, 100}, {{1, 3}, 90}});
    ck_assert(third.nodes == Nodes{1} && third.open.empty());
    const LinkCulprits higher = culprits({{{1, 2}, 100}, {{2, 3}, 90}});
    ck_assert_msg(higher.nodes == Nodes{2}, "whichever index it has");
}

TEST(a_link_a_little_slow_is_no_witness_beside_one_that_is_a_hundred_times_slow) {
    const LinkCulprits noise = culprits({{{1, 2}, 100}, {{2, 3}, 1.4}});
    ck_assert_msg(noise.nodes.empty() && noise.open.size() == 2, "2 would be blamed for 1");
    const LinkCulprits found = culprits({{{1, 2}, 100}, {{1, 3}, 98}, {{2, 3}, 1.4}});
    ck_assert(found.nodes == std::vector<NodeIndex>{1});
    ck_assert(found.open == std::vector<NodePair>({{2, 3}}));
}

TEST(where_all_links_are_slow_no_node_is_the_culprit) {
    ck_assert(culprits({{{0, 1}, 3}, {{0, 2}, 3.1}, {{1, 2}, 2.9}}).nodes.empty());
    const LinkCulprits two =
        culprits({{{0, 1}, 9}, {{0, 2}, 9}, {{0, 3}, 9}, {{4, 5}, 9}, {{4, 6}, 9}});
    ck_assert_msg((two.nodes == std::vector<NodeIndex>{0, 4}), "two may be, far from each other");
}

TEST(a_job_takes_back_its_own_word_alone_of_one_link) {
    const SlowdownRules rules;
    std::vector<SlowFact> facts;
    add_verdict(facts, said_by(7, 1000, "n1", "n2"), 1000, rules);
    add_verdict(facts, said_by(7, 1000, "n1", "n3"), 1000, rules);
    ck_assert_uint_eq(facts.size(), 2);
    SlowVerdict over = said_by(7, 1000, "n1", "n2");
    over.is_over = true;
    ck_assert(take_back(facts, over));
    ck_assert(facts.size() == 1 && facts[0].peer == "n3");
}

// ---- book
// ----------------------------------------------------------------------------------------

struct BookScene {
    ClusterView view;
    NodeBook book;
    explicit BookScene(SlowdownRules rules = {}, std::size_t nodes = 4) : book(rules) {
        view.snapshot.nodes = nodes_of(nodes);
        view.snapshot.time_s = 1000;
    }
    void extra(NodeIndex node, const std::string& text) { view.node_records[node].extra = text; }
    [[nodiscard]] const std::string& extra(NodeIndex node) { return view.node_records[node].extra; }
    /// A round, and Slurm takes what it writes.
    std::size_t round() {
        for (NodeState& node : view.snapshot.nodes) node.slow = 1;
        book.new_round(view);
        const auto changes = book.take_changes();
        for (const auto& change : changes) {
            const auto at =
                std::find_if(view.snapshot.nodes.begin(), view.snapshot.nodes.end(),
                             [&](const NodeState& node) { return node.name == change.node; });
            const auto index = static_cast<NodeIndex>(at - view.snapshot.nodes.begin());
            expect_same(extra(index), change.before);
            extra(index, change.after);
            book.note_written({change.node});
        }
        return changes.size();
    }
    std::string log() {
        std::string text;
        for (const auto& line : book.take_log()) text += line.text + "\n";
        return text;
    }
};

TEST(two_jobs_verdicts_make_all_avoid_the_node) {
    BookScene scene;
    scene.extra(0, "rack=7");
    ck_assert_uint_eq(scene.round(), 0);
    ck_assert(scene.book.note(said_by(7, admin_user)));
    ck_assert_uint_eq(scene.round(), 1);
    expect_same(scene.extra(0),
                "rack=7 arena:v1 slow=1:compute:2.10 seen=1 by=7:0 since=1000 until=4600");
    ck_assert(scene.book.avoided().empty());
    // Another life of slurmctld, the same job again, then another.
    scene.book = NodeBook(SlowdownRules{});
    (void)scene.book.note(said_by(7, admin_user));
    ck_assert_msg(scene.round() == 0, "%s", scene.extra(0).c_str());
    (void)scene.book.note(said_by(8, admin_user));
    ck_assert_uint_eq(scene.round(), 1);
    ck_assert(scene.book.avoided() == std::vector<NodeIndex>{0});
    ck_assert(scene.view.snapshot.nodes[0].slow == 2.1);
    ck_assert(scene.log().find("node n1 is avoided: GPU 1 computes 2.1 times slower") !=
              std::string::npos);
    ck_assert_msg(scene.round() == 0 && scene.log().empty(), "said once, written once");
    scene.view.snapshot.time_s = 4600;
    ck_assert_uint_eq(scene.round(), 1);
    expect_same(scene.extra(0), "rack=7");
    ck_assert(scene.book.avoided().empty());
}

// ---- what a node's own tools find
// ----------------------------------------------------------------

struct HealthScene : BookScene {
    using BookScene::BookScene;
    void says(NodeIndex node, const std::string& findings) {
        view.node_records[node].comment = "rack 7 arena:health:v1" + findings;
    }
    [[nodiscard]] bool avoids(std::vector<NodeIndex> nodes) const {
        return book.avoided() == nodes;
    }
};

TEST(a_node_that_its_own_tools_call_slow_is_avoided_until_they_do_not) {
    HealthScene scene;
    scene.says(0, ";slow=hw_thermal/gpu1@900");
    ck_assert_uint_eq(scene.round(), 0);  // nothing is written of it
    ck_assert(scene.avoids({0}));
    ck_assert(scene.view.snapshot.nodes[0].slow == 2);
    expect_same(scene.book.why("n1"),
                "GPU 1: its clocks are halved, or less, because it is too hot");
    const std::string log = scene.log();
    ck_assert(log.find("node n1: its own tools find: GPU 1") != std::string::npos);
    ck_assert(log.find("node n1 is avoided: GPU 1: its clocks") != std::string::npos);
    ck_assert(scene.round() == 0 && scene.log().empty());
    // Neither jobs nor checks have a say in it.
    (void)scene.book.note(said_by(7, admin_user));
    ck_assert_uint_eq(scene.round(), 1);
    expect_same(scene.extra(0), "arena:v1 slow=1:compute:2.10 seen=1 by=7:0 since=1000 until=4600");
    scene.book.note_check({.node = "n1", .driver = "", .whole = true, .verdict = {}});
    scene.round();
    ck_assert(scene.avoids({0}));
    scene.view.node_records[0].comment.clear();
    scene.round();
    ck_assert(scene.avoids({}) && scene.view.snapshot.nodes[0].slow == 1);
}

TEST(what_is_to_be_watched_keeps_no_job_away) {
    SlowdownRules rules;
    rules.confirmations = 1;
    HealthScene scene(rules);
    scene.says(0, ";watch=xid63/gpu1@900");
    scene.round();
    ck_assert(scene.avoids({}) && scene.book.why("n1").empty());
    ck_assert_uint_eq(scene.book.facts("health").size(), 1);
    ck_assert_uint_eq(scene.book.slow("n1").size(), 1);
}

TEST(what_is_gone_is_beyond_the_share_that_may_be_avoided) {
    HealthScene scene;
    for (NodeIndex node : {0U, 1U}) scene.says(node, ";slow=hw_thermal/gpu1@900");
    scene.round();
    ck_assert_uint_eq(scene.book.avoided().size(), 1);  // of four one
    HealthScene gone;
    for (NodeIndex node : {0U, 1U}) gone.says(node, ";gone=xid79/gpu1@900");
    gone.says(2, ";slow=hw_thermal/gpu1@900");
    gone.round();
    ck_assert(gone.avoids({0, 1, 2}));
    gone.says(3, ";gone=xid79/gpu1@900");  // the last one that is slow is better than none
    gone.round();
    ck_assert(gone.avoids({0, 1, 3}));
    SlowdownRules rules;
    rules.quarantine = Quarantine::report;
    HealthScene told(rules);
    told.says(0, ";gone=xid79/gpu1@900");
    told.round();
    ck_assert(told.avoids({}));
}

TEST(a_finding_is_over_with_a_boot_and_when_an_administrator_says_so) {
    HealthScene scene;
    scene.says(0, ";gone=xid79/gpu1@900");
    scene.round();
    scene.book.clear("n1");
    ck_assert_uint_eq(scene.round(), 1);
    expect_same(scene.extra(0), "arena:v1 sound=1000");
    ck_assert(scene.avoids({}));
    scene.book = NodeBook(SlowdownRules{});  // another slurmctld
    ck_assert_uint_eq(scene.round(), 0);
    ck_assert(scene.avoids({}));
    scene.says(0, ";gone=xid79/gpu1@1001");  // again
    ck_assert_uint_eq(scene.round(), 1);
    ck_assert(scene.avoids({0}));
    expect_same(scene.extra(0), "");
    scene.view.node_records[0].boot_s = 1100;
    scene.round();
    ck_assert(scene.avoids({}));
    scene.says(0, ";gone");
    (void)scene.log();
    scene.round();
    ck_assert(scene.avoids({}));
    ck_assert(scene.log().find("says nothing") != std::string::npos);
}

/// A link is told of both ends, as the scheduler does.
void note_link(BookScene& scene, JobId job, std::uint32_t user, const std::string& a,
               const std::string& b, double factor = 50) {
    ck_assert(scene.book.note(said_by(job, user, a, b, factor)));
    ck_assert(scene.book.note(said_by(job, user, b, a, factor)));
}

TEST(the_healthy_end_of_a_slow_link_is_never_avoided_alone) {
    for (const char* slow : {"n1", "n2", "n3"}) {
        const std::string a = slow, b = a == "n1" ? "n2" : "n1", c = a == "n3" ? "n2" : "n3";
        BookScene scene({}, 3);
        note_link(scene, 7, admin_user, a, b);
        scene.round();
        ck_assert(scene.book.avoided().empty() && scene.book.avoidance().pairs.empty());
        note_link(scene, 8, admin_user, b, a);
        scene.round();
        ck_assert_msg(scene.book.avoided().empty(), "nobody knows which");
        ck_assert_uint_eq(scene.book.avoidance().pairs.size(), 1);
        ck_assert(scene.view.snapshot.nodes[0].slow == 1 && scene.view.snapshot.nodes[1].slow == 1);
        ck_assert(scene.log().find("are avoided: the link between them is slow") !=
                  std::string::npos);
        note_link(scene, 9, admin_user, a, c);
        scene.round();
        ck_assert_uint_eq(scene.book.avoided().size(), 1);
        expect_same(scene.view.snapshot.nodes[scene.book.avoided()[0]].name, a);
        ck_assert(scene.view.snapshot.nodes[scene.book.avoided()[0]].slow == 50);
        ck_assert(scene.book.avoidance().pairs.empty());
        ck_assert_uint_eq(scene.book.avoidance().innocent.size(), 2);
        scene.book = NodeBook(SlowdownRules{});  // what is written of it is all that it takes
        scene.round();
        ck_assert_uint_eq(scene.book.avoided().size(), 1);
    }
}

TEST(one_users_jobs_slander_no_node_but_his_own_jobs_avoid_it) {
    BookScene scene({}, 40);
    for (JobId job = 7; job < 12; ++job) (void)scene.book.note(said_by(job, 1000));
    scene.round();
    ck_assert(scene.book.avoided().empty());
    ck_assert(!scene.book.is_confirmed("n1") && scene.view.snapshot.nodes[0].slow == 1);
    ck_assert(scene.book.avoidance().own.at(1000).nodes == std::vector<NodeIndex>{0});
    (void)scene.book.note(said_by(20, 1001));
    scene.round();
    ck_assert(scene.book.avoided() == std::vector<NodeIndex>{0});
}

TEST(in_a_small_cluster_users_jobs_wait_for_a_check) {
    BookScene scene;
    (void)scene.book.note(said_by(7, 1000));
    (void)scene.book.note(said_by(8, 1001));
    scene.round();
    ck_assert(scene.book.avoided().empty());
    ck_assert_uint_eq(scene.book.slow("n1").size(), 1);
    ck_assert(scene.log().find("arena slowdown check n1 tells") != std::string::npos);
    scene.round();
    ck_assert_msg(scene.log().empty(), "said once");
    NodeCheckNews news{.node = "n1", .driver = "1", .whole = true, .verdict = {}};
    news.verdict.devices.push_back({});
    news.verdict.devices[0].device = 1;
    news.verdict.devices[0].state = DeviceVerdict::State::slow;
    news.verdict.devices[0].factor = 2;
    scene.book.note_check(news);
    scene.round();
    ck_assert(scene.book.avoided() == std::vector<NodeIndex>{0});
    scene.book = NodeBook(SlowdownRules{});
    scene.round();
    ck_assert_msg(scene.book.avoided().size() == 1, "the node's Extra keeps that");
}

TEST(pairs_of_users_word_alone_stay_within_the_share) {
    for (const std::size_t nodes : {4U, 39U, 40U}) {
        BookScene scene({}, nodes);
        note_link(scene, 7, 1000, "n1", "n2");
        note_link(scene, 8, 1001, "n1", "n2");
        scene.round();
        ck_assert_uint_eq(scene.book.avoidance().pairs.size(), nodes == 40 ? 1 : 0);
    }
}

TEST(what_an_administrator_writes_counts) {
    BookScene scene;
    scene.extra(2, slow_text);
    ck_assert_msg(scene.round() == 0, "it is not written anew");
    ck_assert(scene.book.avoided() == std::vector<NodeIndex>{2});
    scene.extra(2, "");
    ck_assert_uint_eq(scene.round(), 0);
    ck_assert(scene.book.avoided().empty());
    scene.extra(0, "arena:v1 slow=fast");
    (void)scene.book.note(verdict(7));
    ck_assert_msg(scene.round() == 0, "what is not sound is left alone");
    ck_assert(scene.log().find("its Extra is left alone") != std::string::npos);
    scene.round();
    ck_assert_msg(scene.log().empty(), "and told once");
}

TEST(a_verdict_that_cannot_be_changes_nothing) {
    BookScene scene;
    for (const double factor : {double{NAN}, double{INFINITY}, 0.5, -1.0, 1e9})
        ck_assert(!scene.book.note(verdict(7, factor)));
    ck_assert(!scene.book.note(verdict(0)));
    SlowVerdict elsewhere = verdict(7);
    elsewhere.node = "m1";
    (void)scene.book.note(elsewhere);
    for (int i = 0; i < 100000; ++i) (void)scene.book.note(verdict(7));
    ck_assert_uint_eq(scene.round(), 1);
    ck_assert_msg(scene.view.node_records.size() == 1, "n1's alone");
}

TEST(where_all_are_slow_the_oldest_are_dropped) {
    BookScene scene;
    for (NodeIndex i = 0; i < 4; ++i)
        scene.extra(i, "arena:v1 slow=0:compute:2.00 seen=2 since=" + std::to_string(900 + i));
    ck_assert_uint_eq(scene.round(), 3);
    ck_assert(scene.book.avoided() == std::vector<NodeIndex>{3});
    expect_same(scene.extra(0), "");
    std::size_t errors = 0;
    for (const auto& line : scene.book.take_log()) errors += line.error;
    ck_assert_uint_eq(errors, 3);
}

TEST(a_check_or_an_administrator_clears_a_node) {
    BookScene scene;
    scene.extra(1, std::string(slow_text) + " loan=L7 state=lent");
    scene.round();
    ck_assert(scene.view.snapshot.nodes[1].lent == "L7");
    scene.book.clear("n2");
    scene.book.clear("n3");
    ck_assert_uint_eq(scene.round(), 1);
    expect_same(scene.extra(1), "arena:v1 loan=L7 state=lent");
}

TEST(facts_of_other_kinds_stand_beside) {
    BookScene scene;
    scene.extra(0, slow_text);
    scene.round();
    ck_assert(scene.book.put("n1", {"loan", "L7", {{"state", "lent"}}}));
    ck_assert(scene.book.put("n1", {"loan", "L7", {{"state", "returning"}, {"until", "2000"}}}));
    ck_assert_uint_eq(scene.book.take_changes().size(), 1);
    scene.extra(0, scene.book.take_changes()[0].after);
    scene.round();
    ck_assert_uint_eq(scene.book.facts("loan").size(), 1);
    ck_assert(scene.view.snapshot.nodes[0].returning_s == 2000);
    ck_assert(scene.book.avoided() == std::vector<NodeIndex>{0});
    scene.book.drop("n1", "loan");
    expect_same(scene.book.take_changes()[0].after, slow_text);
}

TEST(fences_follow_the_rules) {
    for (const Quarantine mode :
         {Quarantine::report, Quarantine::avoid, Quarantine::reserve, Quarantine::drain}) {
        SlowdownRules rules;
        rules.quarantine = mode;
        BookScene scene(rules);
        scene.extra(0, slow_text);
        scene.round();
        ck_assert_uint_eq(scene.book.avoided().size(), mode == Quarantine::report ? 0 : 1);
        ck_assert_msg(scene.view.snapshot.nodes[0].slow == 2.1, "told in any case");
        const auto fencings = scene.book.take_fencings();
        const bool fences = mode == Quarantine::reserve || mode == Quarantine::drain;
        ck_assert_uint_eq(fencings.size(), fences);
        if (!fences) continue;
        scene.view.node_records[0].fence = fencings[0].fence;
        scene.round();
        ck_assert(scene.book.take_fencings().empty());
        scene.extra(0, "");
        scene.round();
        const auto ended = scene.book.take_fencings();
        ck_assert(ended.size() == 1 && ended[0].fence == Fence::none);
    }
}

TEST(what_comes_after_a_clear_stands) {
    BookScene scene;
    scene.extra(0, slow_text);
    scene.round();
    scene.book.clear("n1");
    (void)scene.book.note(verdict(7));
    scene.round();
    expect_same(scene.extra(0), "arena:v1 slow=1:compute:2.10 seen=1 by=7 since=1000 until=4600");
    (void)scene.book.note(verdict(8));
    scene.book.clear("n1");
    scene.round();
    expect_same(scene.extra(0), "");
    (void)scene.book.note(verdict(8));
    (void)scene.book.note(verdict(9));
    scene.book.clear("n2");
    scene.round();
    ck_assert_uint_eq(scene.book.slow("n1")[0].seen, 2);
}

TEST(a_verdict_adds_nothing_to_a_fact_that_is_over) {
    BookScene scene;
    (void)scene.book.note(verdict(7));
    scene.round();
    scene.view.snapshot.time_s = 4600;
    (void)scene.book.note(verdict(8));
    scene.round();
    expect_same(scene.extra(0), "arena:v1 slow=1:compute:2.10 seen=1 by=8 since=4600 until=8200");
    scene.view.node_records[0].boot_s = 4700;
    scene.view.snapshot.time_s = 5000;
    (void)scene.book.note(verdict(9));
    scene.round();
    expect_same(scene.extra(0), "arena:v1 slow=1:compute:2.10 seen=1 by=9 since=5000 until=8600");
}

TEST(what_was_not_written_is_written_in_the_next_round) {
    BookScene scene;
    (void)scene.book.note(verdict(7));
    scene.book.new_round(scene.view);  // and the round ends before its changes are taken
    (void)scene.book.note(verdict(8));
    ck_assert_uint_eq(scene.round(), 1);
    ck_assert_uint_eq(scene.book.slow("n1").size(), 1);
    ck_assert_int_eq(scene.book.slow("n1")[0].seen, 2);
    // An administrator is faster than what was to be written.
    (void)scene.book.note(verdict(9));
    scene.book.new_round(scene.view);
    ck_assert_uint_eq(scene.book.take_changes().size(), 1);
    scene.extra(0, "rack=7 " + scene.extra(0));
    scene.round();
    ck_assert_int_eq(scene.book.slow("n1")[0].seen, 3);
    ck_assert(scene.extra(0).starts_with("rack=7 arena:v1 slow=1:compute:2.10 seen=3 by=7,8,9"));
    scene.extra(0, "");  // after it was written
    ck_assert_uint_eq(scene.round(), 0);
    ck_assert(scene.book.slow("n1").empty());
}

TEST(no_reports_break_the_text_of_a_node) {
    BookScene scene;
    scene.extra(0, "rack=7 arena:v1 loan=L7 state=lent");
    scene.round();
    for (std::int64_t device = 0; device < 16; ++device)
        for (const SlowCause cause : {SlowCause::compute, SlowCause::communication}) {
            SlowVerdict v = verdict(static_cast<JobId>(4294960000 + device));
            v.device = device;
            v.cause = cause;
            (void)scene.book.note(v);
        }
    scene.round();
    scene.round();
    ck_assert_msg(scene.log().find("left alone") == std::string::npos, "%s",
                  scene.extra(0).c_str());
    ck_assert_uint_eq(scene.book.slow("n1").size(), max_slow_facts);
    ck_assert_int_eq(scene.book.slow("n1").back().device, 15);
    ck_assert_uint_eq(scene.book.facts("loan").size(), 1);
    BookScene full;
    full.extra(0, std::string(4090, 'x'));
    (void)full.book.note(verdict(7));
    ck_assert_msg(full.round() == 0, "there is no room for it");
    ck_assert(full.log().find("no room") != std::string::npos);
    full.round();
    ck_assert_msg(full.log().empty(), "said once");
}

TEST(confirmed_facts_outlast_a_flood) {
    std::vector<SlowFact> facts;
    const SlowdownRules rules;
    add_verdict(facts, verdict(7), 1000, rules);
    add_verdict(facts, verdict(8), 1000, rules);
    for (std::int64_t device = 2; device < 100; ++device) {
        SlowVerdict v = verdict(9);
        v.device = device;
        add_verdict(facts, v, 1001, rules);
    }
    ck_assert_uint_eq(facts.size(), max_slow_facts);
    ck_assert(facts[0].device == 1 && facts[0].seen == 2);
}

TEST(the_last_node_that_is_up_is_not_avoided) {
    SlowdownRules rules;
    BookScene scene(rules, 2);
    scene.extra(0, slow_text);
    scene.view.snapshot.nodes[1].up = false;
    scene.round();
    ck_assert_msg(scene.book.avoided().size() == 1, "it may be back in a moment");
    scene.view.steady_s += 61;
    scene.round();
    ck_assert(scene.book.avoided().empty());
    expect_same(scene.extra(0), slow_text);
    scene.view.snapshot.nodes[1].up = true;
    scene.round();
    ck_assert(scene.book.avoided() == std::vector<NodeIndex>{0});
    scene.view.snapshot.nodes[0].up = false;  // as Arena drains it
    scene.view.snapshot.nodes[1].up = true;
    scene.view.steady_s += 61;
    scene.round();
    ck_assert(scene.book.avoided() == std::vector<NodeIndex>{0});
}

TEST(a_clock_that_is_set_back_makes_no_fact_last) {
    BookScene scene;
    scene.view.snapshot.time_s = 1e9;
    (void)scene.book.note(verdict(7));
    scene.round();
    scene.view.snapshot.time_s = 5000;
    scene.round();
    ck_assert_int_eq(scene.book.slow("n1")[0].since, 5000);
    ck_assert_int_eq(scene.book.slow("n1")[0].until, 8600);
    ck_assert_msg(scene.round() == 0, "once");
}

// ---- avoidance
// -----------------------------------------------------------------------------------

TEST(a_job_is_left_with_the_other_nodes) {
    ClusterView view;
    view.snapshot.time_s = 1000;
    view.snapshot.nodes = nodes_of(4);
    view.snapshot.node_sets = {{0, 1, 2, 3}, {0, 1}, {2}};
    const AvoidedNodes third{.nodes = {2}}, nothing;
    Avoidance avoidance(view, third);
    JobView job;
    job.slots = {{"main", Place{.node_set = 1}, false}, {"all", Place{.node_set = 0}, false}};
    job.facts.mark = JobMark{};
    job.facts.mark->avoid = {{"n1", 1001}, {"n2", 1000}, {"gone", 5000}};
    JobView other = job, named;
    avoidance.restrict(job);
    ck_assert((job.avoided == std::vector<NodeIndex>{0, 2}));
    ck_assert((view.snapshot.node_sets[job.node_set] == std::vector<NodeIndex>{1, 3}));
    ck_assert((view.snapshot.node_sets[job.slots[0].place.node_set] == std::vector<NodeIndex>{1}));
    ck_assert_uint_eq(job.node_set, job.slots[1].place.node_set);
    ck_assert_uint_eq(view.whole_set(job.node_set), 0);
    const std::size_t sets = view.snapshot.node_sets.size();
    avoidance.restrict(other);
    ck_assert_uint_eq(view.snapshot.node_sets.size(), sets);
    named.node_set = 2;
    avoidance.restrict(named);
    ck_assert_msg(named.node_set == 2 && named.avoided.empty(), "it has no other node");
    JobView plain;
    Avoidance none(view, nothing);
    none.restrict(plain);
    ck_assert(plain.node_set == 0 && view.snapshot.node_sets.size() == sets);
}

TEST(of_a_pair_a_job_avoids_both_then_one_then_none) {
    ClusterView view;
    view.snapshot.time_s = 1000;
    view.snapshot.nodes = nodes_of(3);
    view.snapshot.node_sets = {{0, 1, 2}};
    const AvoidedNodes pair{.pairs = {{0, 1}}};
    for (const JobId id : {1U, 2U}) {
        Avoidance avoidance(view, pair);
        JobView job;
        job.id = id;
        job.slots = {{"main", Place{.node_set = 0}, false}};
        avoidance.restrict(job);
        const auto nodes = [&] { return view.snapshot.node_sets[job.node_set]; };
        ck_assert(nodes() == std::vector<NodeIndex>{2});
        ck_assert(ease_avoidance(job));
        ck_assert_msg(nodes().size() == 2 && nodes()[1] == 2, "another end from job to job");
        ck_assert_uint_eq(nodes()[0], id % 2 == 0 ? 1 : 0);
        ck_assert_uint_eq(job.slots[0].place.node_set, job.node_set);
        ck_assert(ease_avoidance(job) && nodes().size() == 3 && job.avoided.empty());
        ck_assert(!ease_avoidance(job));
    }
}

TEST(a_user_avoids_what_his_own_jobs_found) {
    ClusterView view;
    view.snapshot.nodes = nodes_of(3);
    view.snapshot.node_sets = {{0, 1, 2}};
    AvoidedNodes own;
    own.own[1000].nodes = {1};
    Avoidance avoidance(view, own);
    JobView his, others;
    his.user_id = 1000;
    others.user_id = 1001;
    avoidance.restrict(his);
    avoidance.restrict(others);
    ck_assert(his.avoided == std::vector<NodeIndex>{1} && others.avoided.empty());
}

TEST(a_job_leaves_both_ends_of_a_slow_link_or_none) {
    ClusterView view;
    view.snapshot.nodes = nodes_of(3);
    const std::vector<AvoidedNode> wishes{{"n1", 5000}, {"n2", 5000}};
    AvoidedNodes avoided{.open = {{0, 1}}, .linked = {0, 1}};
    JobView job;
    job.nodes = {0, 1};
    ck_assert_uint_eq(nodes_to_leave(job, wishes, view.snapshot, avoided).size(), 2);
    job.nodes = {1, 2};
    ck_assert(nodes_to_leave(job, wishes, view.snapshot, avoided).empty());
    avoided = {.innocent = {1}};
    job.nodes = {0, 1};
    ck_assert(nodes_to_leave(job, wishes, view.snapshot, avoided) ==
              std::vector<std::string>{"n1"});
}

TEST(a_users_own_excludes_come_back_unless_changed) {
    const std::string kept = keep_own_excludes("n[1-2]", "n[1-3]");
    expect_same(own_excludes("n[1-3]", kept), "n[1-2]");
    ck_assert_msg(own_excludes("n4", kept) == "n4", "its user has changed it since");
    expect_same(own_excludes("", kept), "");
    expect_same(own_excludes("n4", std::nullopt), "n4");
    expect_same(own_excludes("n3", keep_own_excludes("", "n3")), "");
    expect_same(own_excludes("n3", "nonsense"), "n3");
}

/// What Slurm's record has of it, and what is kept beside, as text.
struct SegmentRecord {
    std::int64_t now;
    std::optional<std::string> kept = {};

    void write(std::int64_t plan) {
        const std::int64_t own = own_segment(now, kept);
        kept = std::to_string(own);
        now = joint_segment(own, plan);
    }
    void restore() { now = own_segment(now, std::exchange(kept, std::nullopt)); }
};

TEST(a_users_own_segment_comes_back_however_often_a_plans_is_written) {
    for (const std::int64_t own : {0, 2}) {
        SegmentRecord record{own};
        record.write(4);  // for a start,
        record.write(4);  // which ends in a release
        ck_assert_int_eq(record.now, 4);
        expect_same(*record.kept, std::to_string(own));
        record.restore();
        ck_assert_int_eq(record.now, own);
        record.write(3);
        ck_assert_int_eq(record.now, own == 0 ? 3 : 6);
    }
    ck_assert_int_eq(own_segment(4, "nonsense"), 0);
}

TEST(segments_that_no_job_is_large_enough_for_do_not_wrap) {
    ck_assert_int_eq(joint_segment(40001, 2), longest_segment);  // not 14466
    ck_assert_int_eq(joint_segment(0, 70000), longest_segment);
    ck_assert_int_eq(joint_segment(6, 4), 12);
}

}  // namespace
