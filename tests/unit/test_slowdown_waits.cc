// SPDX-License-Identifier: GPL-2.0-or-later
// Who waits least: small cases by hand; and, over simulated jobs of many shapes, nobody is named in
// healthy ones however noisy they are, and whoever is slow in the others.
#include <array>
#include <functional>

#include "slowdown/waits.h"
#include "suite.h"
#include "waiting_job.h"

using namespace arena;

namespace {

using namespace slowdown;
using test::WaitingJob;
using test::WaitingRun;

// ---- by hand -----------------------------------------------------------------------------------

/// A rank whose steps take 1 s beside its calls of group "g", which take so long.
RankWaits rank_of(int rank, double own_s, double calls_s) {
    RankWaits one{rank, {}, {{"g", -1, {}}}};
    for (int i = 0; i < 8; ++i) {
        one.step_s.push_back(own_s + calls_s);
        one.calls[0].seconds.push_back(calls_s);
    }
    return one;
}

const Look healthy{rank_of(0, 1, 0.1), rank_of(1, 1, 0.1), rank_of(2, 1, 0.1)};

std::vector<Look> thrice(const Look& look) { return {look, look, look}; }

TEST(who_waits_least_is_slow) {
    const auto verdict = test::must(find_least_waiting(
        healthy, thrice({rank_of(0, 1, 0.6), rank_of(1, 1.5, 0.1), rank_of(2, 1, 0.6)})));
    ck_assert_double_eq_tol(verdict.step_factor, 1.6 / 1.1, 1e-9);
    ck_assert_uint_eq(verdict.ranks.size(), 1);
    ck_assert_int_eq(verdict.ranks[0].rank, 1);
    ck_assert_double_eq_tol(verdict.ranks[0].share, 1, 1e-9);
    ck_assert_double_eq_tol(verdict.ranks[0].factor, 1.5, 1e-9);
    ck_assert(verdict.ranks[0].confidence >= 0.99 && verdict.ranks[0].confidence < 1);
    ck_assert(verdict.groups.empty() && !verdict.is_common);
}

TEST(who_waits_together_has_a_slow_link) {
    const auto verdict = test::must(find_least_waiting(
        healthy, thrice({rank_of(0, 1, 0.6), rank_of(1, 1, 0.6), rank_of(2, 1, 0.6)})));
    ck_assert(verdict.ranks.empty());
    ck_assert_uint_eq(verdict.groups.size(), 1);
    test::assert_text(verdict.groups[0].group, "g");
    ck_assert(verdict.groups[0].ranks == (std::vector<int>{0, 1, 2}));
    ck_assert_double_eq_tol(verdict.groups[0].factor, 6, 1e-9);
}

TEST(what_all_do_more_of_names_nobody) {
    const auto verdict = test::must(find_least_waiting(
        healthy, thrice({rank_of(0, 1.5, 0.1), rank_of(1, 1.5, 0.1), rank_of(2, 1.5, 0.1)})));
    ck_assert(verdict.is_common && verdict.ranks.empty() && verdict.groups.empty());
}

TEST(one_look_names_nobody_and_neither_do_looks_that_differ) {
    const Look first{rank_of(0, 1, 0.6), rank_of(1, 1.5, 0.1), rank_of(2, 1, 0.6)};
    const Look other{rank_of(0, 1.5, 0.1), rank_of(1, 1, 0.6), rank_of(2, 1, 0.6)};
    const Look two[] = {first, first}, differ[] = {first, first, other};
    ck_assert(test::must(find_least_waiting(healthy, two)).ranks.empty());
    ck_assert(test::must(find_least_waiting(healthy, differ)).ranks.empty());
}

TEST(a_rank_or_group_that_nobody_knew_before_is_not_judged) {
    const Look now{rank_of(0, 1, 0.6), rank_of(7, 1.5, 0.1), rank_of(2, 1, 0.6)};
    const auto verdict = test::must(find_least_waiting(healthy, thrice(now)));
    ck_assert(verdict.ranks.empty() && verdict.groups.empty());
    ck_assert(test::must(find_least_waiting({}, thrice(now))).ranks.empty());
}

TEST(looks_are_put_behind_each_other) {
    Look all{rank_of(0, 1, 0.1)};
    RankWaits more = rank_of(0, 2, 0.2);
    more.calls[0].group = "h";
    add_look(all, {more, rank_of(1, 1, 0.1)});
    ck_assert_uint_eq(all.size(), 2);
    ck_assert_uint_eq(all[0].step_s.size(), 16);
    ck_assert_uint_eq(all[0].calls.size(), 2);
    for (const WaitedCalls& calls : all[0].calls) ck_assert_uint_eq(calls.seconds.size(), 16);
    ck_assert(all[0].calls[0].seconds[15] == 0 && all[0].calls[1].seconds[0] == 0);
}

TEST(times_that_are_none_are_refused) {
    Look wrong{rank_of(0, 1, 0.1), rank_of(0, 1, 0.1)};
    test::assert_refused(find_least_waiting(wrong, {}), "twice");
    wrong = {rank_of(0, 1, 0.1)};
    wrong[0].calls[0].seconds.pop_back();
    test::assert_refused(find_least_waiting(healthy, thrice(wrong)), "for each step");
    wrong = {rank_of(0, 1, -0.1)};
    test::assert_refused(find_least_waiting(healthy, thrice(wrong)), "from 0 seconds on");
    wrong = {rank_of(0, 0, 0)};
    test::assert_refused(find_least_waiting(healthy, thrice(wrong)), "more than 0 seconds");
}

// ---- simulated jobs ----------------------------------------------------------------------------

struct Kind {
    const char* name;
    std::function<void(WaitingJob&)> shape;
};

const Kind shapes[] = {
    {"dp2", [](auto& j) { j.dp = 2; }},
    {"dp4", [](auto& j) { j.dp = 4; }},
    {"dp8, overlapped", [](auto& j) { j.dp = 8, j.overlapped = true; }},
    {"tp2 dp2", [](auto& j) { j.tp = 2, j.dp = 2; }},
    {"pp2 dp2", [](auto& j) { j.pp = 2, j.dp = 2; }},
    {"pp4, uneven",
     [](auto& j) {
         j.pp = 4, j.dp = 1, j.micro_batches = 8;
         j.stage_weight = {1.1, 1, 1, 1.3};
     }},
    {"pp2 dp2, eager", [](auto& j) { j.pp = 2, j.dp = 2, j.eager = true; }},
    {"pp4, eager", [](auto& j) { j.pp = 4, j.dp = 1, j.eager = true, j.micro_batches = 8; }},
    {"dp8 ep4", [](auto& j) { j.dp = 8, j.ep = 4; }},
    {"tp4 pp2 dp2, overlapped", [](auto& j) { j.tp = 4, j.pp = 2, j.dp = 2, j.overlapped = true; }},
    {"pp4 dp4 tp4", [](auto& j) { j.pp = 4, j.dp = 4, j.tp = 4; }},
};
constexpr int begins = 100;  ///< the step from which on something is otherwise

/// Looks as a chief has them: before, and three once the steps are slow.
WaitVerdict judge(const WaitingJob& job, int iterations = 8) {
    WaitingRun run(job);
    Look before;
    for (const int at : {20, 45, 70}) add_look(before, run.look(at, 8));
    std::vector<Look> looks;
    for (int i = 0; i < 3; ++i)
        looks.push_back(run.look(begins + 8 + i * 7 * iterations / 4, iterations));
    return test::must(find_least_waiting(before, looks));
}

/// As often as the chief looks, each time longer.
WaitVerdict judge_again(const WaitingJob& job) {
    for (const int iterations : {8, 16, 32}) {
        const WaitVerdict verdict = judge(job, iterations);
        if (!verdict.ranks.empty() || !verdict.groups.empty() || iterations == 32) return verdict;
    }
    return {};
}

const Kind healthy_kinds[] = {
    {"quiet", [](auto&) {}},
    {"jitter of 10 %", [](auto& j) { j.jitter = 0.1; }},
    {"jitter of 30 %", [](auto& j) { j.jitter = 0.3; }},
    {"drifting apart", [](auto& j) { j.drift = 0.01; }},
    {"unequal ranks", [](auto& j) { j.unequal = 0.2; }},
    {"sequences of 1 to 8 times", [](auto& j) { j.lengths = 8; }},
    {"a straggler that moves", [](auto& j) { j.moving = 2; }},
    {"one that moves seldom", [](auto& j) { j.moving = 2, j.moves_each = 8; }},
    {"spikes", [](auto& j) { j.spikes = 0.3; }},
    {"rank 0 writes now and then", [](auto& j) { j.rank0 = 0.2; }},
    {"more work for all", [](auto& j) { j.from = begins, j.longer = 1.6; }},
    {"longer sequences, too",
     [](auto& j) { j.from = begins, j.longer = 2, j.lengths = 8, j.jitter = 0.1; }},
};

/// Whether an event is open or not: nobody is named, in 264 jobs, by the shortest looks or the
/// longest.
TEST(in_healthy_jobs_nobody_is_named) {
    int jobs = 0;
    for (const Kind& kind : healthy_kinds)
        for (const Kind& shape : shapes)
            for (unsigned seed = 1; seed <= 2; ++seed, ++jobs) {
                WaitingJob job;
                job.seed = seed;
                shape.shape(job);
                kind.shape(job);
                const WaitVerdict verdict = judge(job, seed == 1 ? 8 : 32);
                ck_assert_msg(verdict.ranks.empty() && verdict.groups.empty(),
                              "%s, %s, seed %u: %zu ranks, %zu groups named", kind.name, shape.name,
                              seed, verdict.ranks.size(), verdict.groups.size());
            }
    ck_assert_int_ge(jobs, 200);
}

/// Two ranks, one of which is slow for some steps, then perhaps the other: of two looks at random
/// steps half say the same. More ranks are told apart.
TEST(a_straggler_that_begins_to_move_is_seldom_named) {
    int named = 0, jobs = 0;
    for (const int each : {3, 6})
        for (const Kind& shape : shapes)
            for (unsigned seed = 1; seed <= 5; ++seed, ++jobs) {
                WaitingJob job;
                job.from = begins, job.moving_later = 2, job.seed = seed;
                shape.shape(job);
                job.moves_each = each;
                const WaitVerdict verdict = judge(job);
                named += !verdict.ranks.empty() || !verdict.groups.empty();
            }
    ck_assert_msg(named <= jobs / 50, "%d of %d", named, jobs);
}

struct Count {
    int right = 0, wrong = 0, jobs = 0;
};

Count name_slow_ranks(double factor, const std::function<void(WaitingJob&)>& noise, int seeds) {
    Count count;
    for (const Kind& shape : shapes)
        for (int seed = 1; seed <= seeds; ++seed, ++count.jobs) {
            WaitingJob job;
            job.seed = static_cast<unsigned>(seed);
            job.from = begins;
            job.slow = factor;
            shape.shape(job);
            noise(job);
            job.slow_rank = 5 * seed % job.ranks();
            const WaitVerdict verdict = judge_again(job);
            const bool is_it = verdict.ranks.size() == 1 && verdict.ranks[0].rank == job.slow_rank;
            count.right += is_it;
            count.wrong += !is_it && (!verdict.ranks.empty() || !verdict.groups.empty());
        }
    return count;
}

TEST(a_slow_rank_is_named_in_all_groups) {
    for (const double factor : {1.3, 2.0, 4.0}) {
        const Count quiet = name_slow_ranks(
            factor, [](auto&) {}, 4);
        const Count noisy = name_slow_ranks(
            factor, [](auto& job) { job.jitter = 0.1; }, 4);
        ck_assert_int_eq(quiet.wrong + noisy.wrong, 0);
        // A stage that is not the slowest of an uneven pipeline slows it by less than half.
        ck_assert_msg(quiet.right >= quiet.jobs - 2, "x%g: %d of %d", factor, quiet.right,
                      quiet.jobs);
        ck_assert_msg(10 * noisy.right >= 9 * noisy.jobs, "x%g, noisy: %d of %d", factor,
                      noisy.right, noisy.jobs);
    }
}

TEST(a_slow_rank_is_named_where_sequences_differ) {
    const Count twice = name_slow_ranks(
        2, [](auto& job) { job.lengths = 8; }, 4);
    const Count four = name_slow_ranks(
        4, [](auto& job) { job.lengths = 8; }, 4);
    ck_assert_int_eq(twice.wrong + four.wrong, 0);
    ck_assert_msg(4 * twice.right >= 3 * twice.jobs, "x2: %d of %d", twice.right, twice.jobs);
    ck_assert_msg(four.right >= four.jobs - 1, "x4: %d of %d", four.right, four.jobs);
}

/// A pair that has calls of its own is named; of a larger ring all of its members.
TEST(a_slow_link_is_named_by_who_waits_together) {
    int right = 0, jobs = 0;
    for (const double delay_s : {0.02, 0.1})
        for (const Kind& shape : shapes)
            for (int seed = 0; seed < 4; ++seed, ++jobs) {
                WaitingJob job;
                job.seed = static_cast<unsigned>(seed + 1);
                job.from = begins;
                job.delay_s = delay_s;
                shape.shape(job);
                const int d = seed % job.dp, t = seed % job.tp;
                const auto at = [&](int replica, int stage, int shard) {
                    return (stage * job.dp + replica) * job.tp + shard;
                };
                if (job.pp > 1)
                    job.link = {at(d, 0, t), at(d, 1, t)};
                else
                    job.link = {at(0, 0, 0), job.tp > 1 ? at(0, 0, 1) : at(1, 0, 0)};
                const WaitVerdict verdict = judge(job);
                ck_assert_msg(verdict.ranks.empty(), "%s: a rank is named", shape.name);
                if (verdict.groups.empty()) continue;
                const std::vector<int>& ranks = verdict.groups[0].ranks;
                const auto has = [&](int rank) { return std::ranges::count(ranks, rank) > 0; };
                const bool is_pair = job.pp * job.tp == 1 || ranks.size() == 2 || job.tp > 2;
                right += has(job.link.first) && has(job.link.second) && is_pair;
            }
    ck_assert_msg(right >= jobs - 4, "%d of %d", right, jobs);
}

}  // namespace

SUITE({.timeout_s = 600});
