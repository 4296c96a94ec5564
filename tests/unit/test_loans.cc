// SPDX-License-Identifier: GPL-2.0-or-later
// Loans without a cluster: which servers go back, how many may be lent, who may use a node, what a
// lease's text says. Properties hold over 10,000 random states each.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "policy/loans/demand.h"
#include "policy/loans/lease.h"
#include "policy/loans/ledger.h"
#include "policy/loans/reclaim.h"
#include "policy/loans/reclaim_moves.h"
#include "policy/loans/reclaim_search.h"
#include "policy/loans/reclaim_state.h"
#include "sim/random.h"
#include "suite.h"

using namespace arena;
using arena::sim::Random;
using arena::test::assert_refused;
using arena::test::assert_text;
using arena::test::must;

namespace {

constexpr int states = 10'000;

/// A job on some servers with base parts, and perhaps flexible ones.
void add_random_job(ReclaimProblem& problem, Random& random, bool with_spare) {
    const std::size_t base = random.below(3), flexible = random.below(3);
    if (base + flexible == 0) return;
    const auto spare = with_spare && base > 1 ? static_cast<std::int32_t>(random.below(base)) : 0;
    problem.add_job(1, spare);
    for (std::size_t i = 0; i < base + flexible; ++i)
        problem.add_part({.server = static_cast<ServerIndex>(random.below(problem.servers)),
                          .gpus = static_cast<std::int32_t>(1 + random.below(4)),
                          .is_base = i < base});
}

ReclaimProblem random_problem(Random& random, std::size_t most_servers, bool with_spare = true) {
    ReclaimProblem problem;
    problem.servers = 1 + random.below(most_servers);
    problem.wanted = random.below(problem.servers + 1);
    if (random.below(2) == 1) problem.second = ReclaimSecond::restarts;
    for (std::size_t jobs = random.below(2 * problem.servers + 1); jobs > 0; --jobs)
        add_random_job(problem, random, with_spare);
    return problem;
}

/// Less is better.
std::tuple<double, std::int64_t, std::int64_t> key(const ReclaimProblem& problem,
                                                   const ReclaimCost& cost) {
    const std::int64_t restarts = cost.preemptions + cost.scaled_in;
    if (problem.second == ReclaimSecond::restarts)
        return {cost.weight, restarts, cost.collateral_gpus};
    return {cost.weight, cost.collateral_gpus, restarts};
}

/// All sets of `wanted` servers.
ReclaimCost brute_force(const ReclaimProblem& problem) {
    ReclaimCost best{.weight = std::numeric_limits<double>::infinity()};
    for (std::uint32_t mask = 0; mask < 1U << problem.servers; ++mask) {
        std::vector<ServerIndex> returned;
        for (ServerIndex s = 0; s < problem.servers; ++s)
            if ((mask >> s & 1U) != 0) returned.push_back(s);
        if (returned.size() != problem.wanted) continue;
        const ReclaimCost cost = cost_of(problem, returned);
        if (key(problem, cost) < key(problem, best)) best = cost;
    }
    return best;
}

bool holds_base(const ReclaimProblem& problem, ServerIndex s) {
    return std::any_of(problem.parts.begin(), problem.parts.end(),
                       [&](const auto& part) { return part.server == s && part.is_base; });
}

}  // namespace

TEST(all_choices_are_as_good_as_brute_force) {
    Random random(1);
    for (int i = 0; i < 1500; ++i) {
        const ReclaimProblem problem = random_problem(random, 8);
        const ReclaimAnswer answer = choose_servers(problem);
        ck_assert(answer.is_exact && answer.returned.size() == problem.wanted);
        ck_assert_msg(key(problem, answer.cost) == key(problem, brute_force(problem)), "case %d",
                      i);
    }
}

TEST(exchanges_find_the_fewest_preemptions_of_small_cases_too) {
    Random random(2);
    int worse = 0, cases = 0;
    for (int i = 0; i < 300; ++i) {
        const ReclaimProblem problem = random_problem(random, 10);
        const ReclaimAnswer answer =
            choose_servers(problem, {.exact_choices = 0, .exchanges = 500, .seed = 3});
        const double best = brute_force(problem).weight;
        ck_assert(answer.returned.size() == problem.wanted);
        ck_assert_msg(answer.least_weight <= best + 1e-9, "case %d: the bound %g is above %g", i,
                      answer.least_weight, best);
        worse += answer.cost.weight > best ? 1 : 0;
        ++cases;
    }
    ck_assert_msg(worse * 100 <= cases, "%d of %d are not optimal", worse, cases);
}

TEST(no_base_worker_goes_while_enough_servers_are_idle_or_hold_flexible_ones_only) {
    Random random(3);
    int could = 0;
    for (int i = 0; i < states; ++i) {
        const ReclaimProblem problem = random_problem(random, i % 10 == 0 ? 60 : 12);
        std::size_t without_base = 0;
        for (ServerIndex s = 0; s < problem.servers; ++s)
            without_base += holds_base(problem, s) ? 0 : 1;
        const ReclaimAnswer answer =
            choose_servers(problem, {.exact_choices = 5000, .exchanges = 20, .bound_rounds = 0});
        ck_assert(answer.returned.size() == problem.wanted);
        if (without_base < problem.wanted) continue;
        ++could;
        ck_assert_msg(answer.cost.preemptions == 0, "state %d preempts %d", i,
                      static_cast<int>(answer.cost.preemptions));
    }
    ck_assert_int_gt(could, states / 10);
}

TEST(nothing_preempts_more_than_the_published_greedy_rule) {
    Random random(4);
    for (int i = 0; i < 300; ++i) {
        const ReclaimProblem problem = random_problem(random, 80, false);
        const double greedy = cost_of(problem, greedy_by_share(problem)).weight;
        const ReclaimAnswer answer =
            choose_servers(problem, {.exact_choices = 100, .exchanges = 30, .bound_rounds = 40});
        ck_assert(answer.cost.weight <= greedy && answer.least_weight <= answer.cost.weight);
    }
}

TEST(the_changes_of_a_state_are_those_of_counting_anew) {
    Random random(5);
    for (int i = 0; i < 200; ++i) {
        const ReclaimProblem problem = random_problem(random, 12);
        ReclaimState state(problem);
        for (int turn = 0; turn < 30; ++turn) {
            const auto s = static_cast<ServerIndex>(random.below(problem.servers));
            const double expected = state.cost() + state.change(s);
            state.turn(s);
            ck_assert_double_eq_tol(state.cost(), expected, 1e-6);
            ck_assert_double_eq_tol(state.weight(), cost_of(problem, state.returned()).weight,
                                    1e-9);
        }
        for (const ServerIndex s : state.returned()) state.turn(s);
        ck_assert_double_eq_tol(state.cost(), 0, 1e-6);
    }
}

TEST(weights_count_instead_of_jobs) {
    ReclaimProblem problem;
    problem.servers = 3;
    problem.wanted = 1;
    problem.add_job(5);
    problem.add_part({.server = 0, .gpus = 1});
    for (int i = 0; i < 2; ++i) {
        problem.add_job(1);
        problem.add_part({.server = 1, .gpus = 1});
    }
    problem.add_job(9);
    problem.add_part({.server = 2, .gpus = 1});
    ck_assert(choose_servers(problem).returned == std::vector<ServerIndex>{1});
}

TEST(a_job_that_can_spare_a_server_is_scaled_in) {
    ReclaimProblem problem;
    problem.servers = 2;
    problem.wanted = 1;
    problem.add_job(1, 1);
    problem.add_part({.server = 0, .gpus = 8});
    problem.add_part({.server = 1, .gpus = 8});
    ck_assert(choose_servers(problem).cost == (ReclaimCost{.weight = 0, .scaled_in = 1}));
    problem.wanted = 2;
    ck_assert(choose_servers(problem).cost.preemptions == 1);
}

// ---- moves -------------------------------------------------------------------------------------

namespace {

Offer offer_of(std::int64_t nodes, std::int64_t per_node, double iteration_s) {
    Offer offer;
    offer.grid = {.gpu_type = "a", .nodes = nodes, .gpus_per_node = per_node, .stages = 1};
    offer.estimate.iteration_s = iteration_s;
    return offer;
}

/// Node 0 is training's own, 1 to 3 are lent; 8 GPUs each.
Snapshot four_nodes() {
    Snapshot snapshot;
    for (int n = 0; n < 4; ++n) {
        NodeState node{.name = "n" + std::to_string(n), .gpu_type = "a", .total_gpus = 8};
        node.lent = n == 0 ? "" : "L1";
        snapshot.nodes.push_back(node);
    }
    snapshot.node_sets = {{0, 1, 2, 3}};
    return snapshot;
}

JobState running(JobId id, std::vector<NodeIndex> nodes, bool elastic) {
    JobState job;
    job.id = id;
    job.phase = JobPhase::running;
    job.max_gpus = INT64_MAX;
    job.elastic = elastic;
    job.current = offer_of(static_cast<std::int64_t>(nodes.size()), 8, 1);
    job.nodes = std::move(nodes);
    return job;
}

}  // namespace

TEST(an_elastic_job_is_scaled_in_to_what_fits_and_another_is_preempted) {
    Snapshot snapshot = four_nodes();
    snapshot.jobs = {running(1, {0, 1, 2}, true), running(2, {3}, false)};
    const Offers offers{{1, {offer_of(1, 8, 3), offer_of(2, 8, 2), offer_of(3, 8, 1)}},
                        {2, {offer_of(1, 8, 1)}}};
    const std::vector<NodeIndex> lent{1, 2, 3};
    ReclaimView view = reclaim_view(snapshot, offers, lent, 2, false);
    ReclaimAnswer answer = choose_servers(view.problem);
    ck_assert(answer.returned == (std::vector<ServerIndex>{0, 1}));
    auto moves = reclaim_moves(snapshot, offers, view, answer.returned, false);
    ck_assert_uint_eq(moves.size(), 1);
    ck_assert(moves[0].kind == ActionKind::resize && moves[0].nodes == std::vector<NodeIndex>{0});
    ck_assert(moves[0].offer.grid.gpus() == 8);
    view = reclaim_view(snapshot, offers, lent, 1, false);
    answer = choose_servers(view.problem);
    moves = reclaim_moves(snapshot, offers, view, answer.returned, false);
    ck_assert(moves.size() == 1 && moves[0].nodes.size() == 2 && moves[0].nodes[0] == 0);
    view = reclaim_view(snapshot, offers, lent, 3, false);
    moves = reclaim_moves(snapshot, offers, view, choose_servers(view.problem).returned, false);
    ck_assert(moves.size() == 2 && moves[1].kind == ActionKind::preempt && moves[1].job == 2);
}

/// What stays of its nodes may be in pieces of racks.
TEST(a_job_is_scaled_in_to_no_plan_that_needs_a_domain) {
    Snapshot snapshot = four_nodes();
    snapshot.jobs = {running(1, {0, 1, 2}, true)};
    Offer of_rack = offer_of(2, 8, 2);
    of_rack.segment = 2;
    for (const bool twin : {true, false}) {
        Offers offers{{1, {of_rack, offer_of(3, 8, 1)}}};
        if (twin) offers[1].push_back(offer_of(2, 8, 2.5));
        const ReclaimView view = reclaim_view(snapshot, offers, {1, 2}, 1, false);
        const auto moves =
            reclaim_moves(snapshot, offers, view, choose_servers(view.problem).returned, false);
        ck_assert_uint_eq(moves.size(), 1);
        ck_assert(moves[0].kind == (twin ? ActionKind::resize : ActionKind::preempt));
        ck_assert_int_eq(moves[0].offer.segment, 1);
    }
}

TEST(a_job_on_lent_nodes_alone_keeps_as_many_as_its_smallest_offer_needs) {
    Snapshot snapshot = four_nodes();
    snapshot.jobs = {running(1, {1, 2, 3}, true)};
    const Offers offers{{1, {offer_of(2, 8, 2), offer_of(3, 8, 1)}}};
    ReclaimView view = reclaim_view(snapshot, offers, {1, 2, 3}, 1, false);
    ck_assert(choose_servers(view.problem).cost == (ReclaimCost{.weight = 0, .scaled_in = 1}));
    view = reclaim_view(snapshot, offers, {1, 2, 3}, 2, false);
    ck_assert(choose_servers(view.problem).cost.preemptions == 1);
    snapshot.jobs[0].min_gpus = 24;  // the user's range: the smaller offer is none
    view = reclaim_view(snapshot, offers, {1, 2, 3}, 1, false);
    ck_assert(choose_servers(view.problem).cost.preemptions == 1);
}

TEST(who_was_promised_an_end_is_stopped_last) {
    Snapshot snapshot = four_nodes();
    snapshot.jobs = {running(1, {1}, false), running(2, {2}, false), running(3, {3}, false)};
    const auto returned = [&](std::size_t wanted) {
        return choose_servers(reclaim_view(snapshot, {}, {1, 2, 3}, wanted, false).problem)
            .returned;
    };
    using Servers = std::vector<ServerIndex>;
    ck_assert(returned(1) == Servers{0});
    snapshot.jobs[0].due_s = 5000;
    ck_assert(returned(1) == Servers{1});
    ck_assert(returned(2) == (Servers{1, 2}));
    snapshot.jobs.push_back(running(4, {2}, false));  // rather two others than it
    ck_assert(returned(2) == (Servers{1, 2}));
}

TEST(a_job_that_ends_in_time_is_let_run_and_empty_servers_go_before_its_own) {
    Snapshot snapshot = four_nodes();
    snapshot.time_s = 1000;
    snapshot.jobs = {running(1, {1}, false), running(2, {2}, false)};
    for (JobState& job : snapshot.jobs) job.remaining_iterations = 500;
    snapshot.jobs[1].remaining_iterations = 100;  // of a second each
    const Offers offers;
    const std::vector<NodeIndex> lent{1, 2, 3};
    const auto returned = [&](std::size_t wanted, double within_s) {
        const EndsInTime ends{.within_s = within_s};
        const ReclaimView view = reclaim_view(snapshot, offers, lent, wanted, false, ends);
        return choose_servers(view.problem).returned;
    };
    using Servers = std::vector<ServerIndex>;
    ck_assert(returned(1, 270) == Servers{2});
    ck_assert(returned(2, 270) == (Servers{1, 2}));
    ck_assert(returned(2, 99) == (Servers{0, 2}));  // none ends by then: the first of the two
    ReclaimView view = reclaim_view(snapshot, offers, lent, 3, false, {.within_s = 270});
    const auto moves = [&] { return reclaim_moves(snapshot, offers, view, {0, 1, 2}, false); };
    ck_assert(moves().size() == 1 && moves()[0].job == 1);
    snapshot.jobs[1].start_s = 900;  // not at work before 1171
    view = reclaim_view(snapshot, offers, lent, 3, false, {.within_s = 270, .restart_s = 271});
    ck_assert_uint_eq(moves().size(), 2);
    snapshot.jobs[1].overrun = true;  // nobody knows when it ends
    view = reclaim_view(snapshot, offers, lent, 3, false, {.within_s = 270});
    ck_assert_uint_eq(moves().size(), 2);
}

TEST(a_job_does_not_stay_on_a_node_that_is_returning_already) {
    Snapshot snapshot = four_nodes();
    snapshot.jobs = {running(1, {1, 2, 3}, true)};
    snapshot.nodes[3].returning_s = 500;
    const Offers offers{{1, {offer_of(1, 8, 3), offer_of(2, 8, 2), offer_of(3, 8, 1)}}};
    const ReclaimView view = reclaim_view(snapshot, offers, {1, 2}, 1, false);
    const auto moves = reclaim_moves(snapshot, offers, view, {0}, false);
    ck_assert(moves.size() == 1 && moves[0].kind == ActionKind::resize);
    ck_assert(moves[0].nodes == std::vector<NodeIndex>{2});
}

// ---- demand ------------------------------------------------------------------------------------

TEST(spare_servers_leave_headroom) {
    const LendingRules rules;
    ck_assert(spare_servers({.servers = 10, .gpus_per_server = 8, .peak_gpus = 40}, rules) == 3);
    ck_assert(spare_servers({.servers = 100, .gpus_per_server = 8, .peak_gpus = 400}, rules) == 45);
    ck_assert(spare_servers({.servers = 10, .gpus_per_server = 8, .peak_gpus = 90}, rules) == 0);
    ck_assert(spare_servers({.servers = 2, .gpus_per_server = 8, .peak_gpus = 0}, rules) == 0);
}

TEST(servers_are_lent_at_the_second_tick_and_taken_back_at_once) {
    Lender lender{LendingRules{}};
    LendingPool pool{.servers = 10, .gpus_per_server = 8, .lent = 0, .peak_gpus = 40};
    ck_assert(lender.decide(pool, true) == LendingStep{});
    ck_assert(lender.decide(pool, false) == LendingStep{});
    pool.peak_gpus = 48;  // the smaller of two ticks counts
    ck_assert(lender.decide(pool, true) == (LendingStep{.lend = 2}));
    pool.lent = 2;
    ck_assert(lender.decide(pool, true) == LendingStep{});
    pool.peak_gpus = 60;
    ck_assert(lender.decide(pool, false) == (LendingStep{.lend = 0, .reclaim = 2}));
    pool.lent = 0;
    pool.peak_gpus = 40;
    ck_assert(lender.decide(pool, true) == LendingStep{});
}

TEST(a_load_that_goes_up_and_down_by_one_server_is_not_followed) {
    Lender lender{LendingRules{}};
    LendingPool pool{.servers = 10, .gpus_per_server = 8, .lent = 3, .peak_gpus = 40};
    std::int64_t moved = 0;
    for (int tick = 0; tick < 100; ++tick) {
        pool.peak_gpus = tick % 2 == 0 ? 40 : 32;
        const LendingStep step = lender.decide(pool, true);
        pool.lent += step.lend - step.reclaim;
        moved += step.lend + step.reclaim;
    }
    ck_assert_int_eq(moved, 0);
}

TEST(the_forecast_knows_the_last_rise_and_that_of_yesterday) {
    DemandHistory history;
    ck_assert_double_eq(history.peak(900), 0);
    history.add(0, 10);
    history.add(600, 18);
    ck_assert_double_eq(history.peak(900), 26);
    DemandHistory days;
    days.add(0, 10);
    days.add(36000, 10);
    days.add(36600, 50);
    days.add(40000, 10);
    days.add(86400 + 36000, 12);
    ck_assert_double_eq(days.peak(900), 52);
    ck_assert_double_eq(days.peak(300), 14);  // only its own rise, of two since an hour ago
}

TEST(the_forecast_goes_on_while_nothing_changes) {
    DemandHistory history;
    history.add(0, 0);
    history.add(600, 40);
    history.add(700, 40);
    ck_assert_double_eq(history.peak(900), 80);
    history.add(1600, 40);
    ck_assert_double_eq(history.peak(900), 40);  // the rise is over
    history.add(86400 - 300, 40);
    ck_assert_double_eq(history.peak(900), 40);
    history.add(86400, 40);
    ck_assert_double_eq(history.peak(900), 80);  // a day ago demand rose at this hour
}

// ---- who may use a node ------------------------------------------------------------------------

namespace {

struct Message {
    enum Kind { offer, reclaim, vacate, expire } kind;
    LoanNumber loan;
    std::vector<NodeIndex> nodes;
    std::int64_t time_s;
};

void apply(LoanLedger& ledger, const Message& m) {
    switch (m.kind) {
        case Message::offer:
            ledger.offer({.loan = m.loan, .nodes = m.nodes, .at_s = m.time_s});
            return;
        case Message::reclaim:
            ledger.reclaim({.loan = m.loan, .nodes = m.nodes, .deadline_s = m.time_s + 300});
            return;
        case Message::vacate:
            for (const NodeIndex n : m.nodes) ledger.vacated(m.loan, n);
            return;
        case Message::expire:
            ledger.expire(m.time_s, 300);
    }
}

Message random_message(const LoanLedger& ledger, Random& random, std::int64_t time_s) {
    Message m{static_cast<Message::Kind>(random.below(4)), 0, {}, time_s};
    const LoanNumber newest = ledger.next_loan();
    m.loan = m.kind == Message::offer ? newest : 1 + random.below(static_cast<std::size_t>(newest));
    for (NodeIndex n = 0; n < ledger.nodes() + 1; ++n)  // one too many
        if (random.below(2) == 1) m.nodes.push_back(n);
    return m;
}

}  // namespace

TEST(no_node_is_ever_usable_by_both_and_a_message_come_again_changes_nothing) {
    Random random(6);
    for (int i = 0; i < states / 20; ++i) {
        LoanLedger ledger(6);
        std::vector<Message> sent;
        for (int step = 0; step < 20; ++step) {
            sent.push_back(random_message(ledger, random, 1000 + step));
            const LoanLedger before = ledger;
            apply(ledger, sent.back());
            for (NodeIndex n = 0; n < 6; ++n) {
                ck_assert(!(ledger.is_inferences(n) && ledger.is_trainings(n)));
                // From one owner to the other only by way of nobody's.
                ck_assert(!(before.is_trainings(n) && ledger.is_inferences(n)));
                if (before.is_inferences(n) && ledger.is_trainings(n))
                    ck_assert(sent.back().kind == Message::offer);
            }
            const LoanLedger once = ledger;
            apply(ledger, sent.back());
            ck_assert(ledger == once);
            const Message& old = sent[random.below(sent.size())];
            if (old.kind != Message::offer) continue;
            apply(ledger, old);  // however late: its number is not new
            ck_assert(ledger == once);
        }
    }
}

TEST(an_old_loans_message_does_not_touch_a_later_loan) {
    LoanLedger ledger(1);
    ledger.offer({.loan = 1, .nodes = {0}, .at_s = 10});
    ledger.reclaim({.loan = 1, .nodes = {0}, .deadline_s = 300});
    ck_assert(!ledger.is_trainings(0) && !ledger.is_inferences(0));
    ck_assert(ledger.vacated(1, 0) && ledger.is_inferences(0));
    ledger.offer({.loan = 2, .nodes = {0}, .at_s = 20});
    ck_assert(ledger.reclaim({.loan = 1, .nodes = {0}, .deadline_s = 300}).empty());
    ck_assert(!ledger.vacated(1, 0) && ledger.is_trainings(0));
    ck_assert(ledger.lease(0)->loan == 2);
}

TEST(a_lease_ends_by_itself_and_its_deadline_only_comes_nearer) {
    LoanLedger ledger(2);
    ledger.offer({.loan = 1, .nodes = {0, 1}, .at_s = 10, .until_s = 100});
    ck_assert(ledger.expire(99, 300).empty());
    ck_assert_uint_eq(ledger.expire(100, 300).size(), 2);
    ck_assert(ledger.lease(0)->until_s == 400 && ledger.overdue(399).empty());
    ledger.reclaim({.loan = 1, .nodes = {0}, .deadline_s = 200});
    ledger.reclaim({.loan = 1, .nodes = {0}, .deadline_s = 900});
    ck_assert(ledger.overdue(200) == std::vector<NodeIndex>{0});
}

TEST(a_restart_restores_leases_and_which_numbers_were_seen) {
    LoanLedger before(3), after(3);
    before.offer({.loan = 7, .nodes = {0, 2}, .at_s = 10});
    before.reclaim({.loan = 7, .nodes = {2}, .deadline_s = 310});
    for (NodeIndex n = 0; n < 3; ++n)
        if (const Lease* lease = before.lease(n))
            after.restore(n, must(parse_lease(format_lease(*lease))));
    ck_assert(after == before && after.next_loan() == 8);
}

// ---- text --------------------------------------------------------------------------------------

TEST(a_lease_survives_its_text) {
    const Lease lease{.loan = 7, .state = LeaseState::returning, .since_s = 100, .until_s = 400};
    assert_text(format_lease(lease), "loan=L7 state=returning since=100 until=400");
    ck_assert(must(parse_lease(format_lease(lease))) == lease);
    assert_text(format_lease({.loan = 1}), "loan=L1 state=lent");
    const Lease ends{.loan = 2, .state = LeaseState::returning, .until_s = 5, .ends = {12, 15}};
    assert_text(format_lease(ends), "loan=L2 state=returning until=5 ends=12:15");
    ck_assert(must(parse_lease(format_lease(ends))) == ends);
}

TEST(what_is_no_lease_is_refused_with_a_sentence) {
    assert_refused(parse_lease(""), "does not begin with loan=");
    assert_refused(parse_lease("loan=7 state=lent"), "L and a number");
    assert_refused(parse_lease("loan=L07 state=lent"), "L and a number");
    assert_refused(parse_lease("loan=L7"), "state=offered, lent");
    assert_refused(parse_lease("loan=L7 state=lent ends=12"), "only a returning lease");
    for (const char* list : {"", "0", "12:12", "15:12", "12:", "x",
                             "1:2:3:4:5:6:7:8:9:10:11:12:13:"
                             "14:15:16:17"})
        assert_refused(parse_lease(std::string("loan=L7 state=returning until=5 ends=") + list),
                       "ascending jobs");
    assert_refused(parse_lease("loan=L7 state=gone"), "lent, returning or broken");
    assert_refused(parse_lease("loan=L7 state=returning"), "deadline");
    assert_refused(parse_lease("loan=L7 state=lent until=0"), "epoch seconds");
    assert_refused(parse_lease("loan=L7 state=lent state=lent"), "twice");
    assert_refused(parse_lease("loan=L7 state=lent  until=5"), "KEY=VALUE");
    assert_refused(parse_lease("loan=L7 state=lent x=5"), "not one of");
    assert_refused(parse_lease("loan=L7 state=lent" + std::string(600, ' ')), "512");
}
