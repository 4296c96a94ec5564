// SPDX-License-Identifier: GPL-2.0-or-later
// Passes cover every link once and no rank twice; localisation compares each device with itself.
// Small cases by hand, random rings and trees, and the reference data.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "base/csv.h"
#include "base/json.h"
#include "reference_data.h"
#include "slowdown/locate.h"
#include "slowdown/passes.h"
#include "suite.h"

using namespace arena;
using namespace arena::slowdown;
using namespace arena::test;

namespace {

std::vector<int> places(int n) {
    std::vector<int> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    return order;
}

/// No rank twice in a pass; answers all links, sorted.
std::vector<Transfer> links_of(const std::vector<Pass>& passes) {
    std::vector<Transfer> all;
    for (const Pass& pass : passes) {
        std::set<int> busy;
        for (const Transfer& t : pass) {
            ck_assert_msg(busy.insert(t.from).second, "rank %d twice", t.from);
            ck_assert_msg(busy.insert(t.to).second, "rank %d twice", t.to);
            all.push_back(t);
        }
        ck_assert(!pass.empty());
    }
    std::sort(all.begin(), all.end());
    return all;
}

TEST(small_rings_take_two_passes_or_three) {
    ck_assert(ring_passes(places(0)).empty() && ring_passes(places(1)).empty());
    ck_assert(ring_passes(places(2)) == (std::vector<Pass>{{{0, 1}}, {{1, 0}}}));
    const std::vector<int> order{3, 0, 1, 2};
    ck_assert(ring_passes(order) == (std::vector<Pass>{{{3, 0}, {1, 2}}, {{0, 1}, {2, 3}}}));
}

TEST(every_link_of_a_ring_is_measured_once) {
    std::mt19937 random(7);
    for (int n = 2; n <= 257; ++n) {
        auto order = places(n);
        std::shuffle(order.begin(), order.end(), random);
        std::vector<Transfer> expected;
        for (std::size_t i = 0; i < order.size(); ++i)
            expected.push_back({order[i], order[(i + 1) % order.size()]});
        std::sort(expected.begin(), expected.end());
        const auto passes = ring_passes(order);
        ck_assert(links_of(passes) == expected);
        ck_assert_uint_eq(passes.size(), n % 2 ? 3U : 2U);
    }
}

TEST(every_link_of_a_random_tree_is_measured_once) {
    std::mt19937 random(11);
    for (int round = 0; round < 3000; ++round) {
        const int n = std::uniform_int_distribution<int>(1, 256)(random);
        const int arity = std::uniform_int_distribution<int>(1, 3)(random);
        auto name = places(n);
        std::shuffle(name.begin(), name.end(), random);
        std::vector<int> parent(name.size(), -1), children(name.size());
        std::vector<Transfer> expected;
        for (int r = 1; r < n; ++r) {
            int up = 0;
            do up = std::uniform_int_distribution<int>(0, r - 1)(random);
            while (children[static_cast<std::size_t>(up)] == arity);
            ++children[static_cast<std::size_t>(up)];
            const int here = name[static_cast<std::size_t>(r)];
            parent[static_cast<std::size_t>(here)] = name[static_cast<std::size_t>(up)];
            expected.push_back({name[static_cast<std::size_t>(up)], here});
        }
        std::sort(expected.begin(), expected.end());
        const auto passes = tree_passes(parent);
        ck_assert_msg(passes.ok(), "round %d", round);
        ck_assert(links_of(*passes) == expected);
        ck_assert_uint_le(passes->size(), 2 * static_cast<std::size_t>(arity));
    }
}

TEST(what_is_no_tree_is_refused) {
    const auto passes = [](std::vector<int> parent) { return tree_passes(parent); };
    ck_assert(passes({-1})->empty());
    assert_refused(passes({}), "no root");
    assert_refused(passes({-1, -1}), "second root");
    assert_refused(passes({-1, 2}), "no rank");
    assert_refused(passes({-1, -2}), "no rank");
    assert_refused(passes({-1, 2, 1}), "circle");
    assert_refused(passes({1, 0}), "no root");
    assert_refused(passes({-1, 0, 0, 0, 0}), "at most 3");
}

TEST_NEEDING(ring_passes_of_the_reference_data, lacks_reference("greyhound/ring_passes.json")) {
    const auto data = parse_json(read_reference("greyhound/ring_passes.json")).value();
    int rings = 0;
    for (const Json& ring : data.at("rings")) {
        std::vector<Pass> expected;
        for (const Json& pass : ring.at("passes")) {
            expected.emplace_back();
            for (const Json& t : pass) expected.back().push_back({t.at(0), t.at(1)});
        }
        ck_assert(ring_passes(places(ring.at("ring_size"))) == expected);
        ++rings;
    }
    ck_assert_int_ge(rings, 10);
}

// ---- localisation -----------------------------------------------------------------------------

/// Healthy GPUs of 100 ms each, links around the ring that differ as much as real ones.
CheckRound healthy(int ranks) {
    CheckRound round;
    for (int r = 0; r < ranks; ++r) {
        round.gpus.push_back({r, 100.0 + r % 3});
        round.links.push_back({r, (r + 1) % ranks, r % 2 ? 12.8 : 18.9});
    }
    return round;
}

TEST(the_same_again_is_healthy) {
    ck_assert(*locate(healthy(4), healthy(4)) == Verdict{});
    ck_assert(*locate({}, {}) == Verdict{});
}

TEST(a_slow_gpu_explains_its_slow_links) {
    CheckRound now = healthy(4);
    now.gpus[1].time_ms *= 2;
    now.links[0].time_ms *= 1.5;  // 0 > 1
    now.links[1].time_ms *= 1.5;  // 1 > 2
    auto verdict = locate(healthy(4), now).value();
    ck_assert_uint_eq(verdict.gpus.size(), 1);
    ck_assert_int_eq(verdict.gpus[0].rank, 1);
    ck_assert_double_eq_tol(verdict.gpus[0].factor, 2, 0.02);
    ck_assert(verdict.links.empty());
    now.links[2].time_ms *= 1.5;  // 2 > 3: of healthy GPUs
    verdict = locate(healthy(4), now).value();
    ck_assert_uint_eq(verdict.links.size(), 1);
    ck_assert_int_eq(verdict.links[0].from, 2);
    ck_assert_double_eq_tol(verdict.links[0].factor, 1.5, 1e-9);
}

TEST(thresholds_are_beyond_not_at) {
    for (const bool beyond : {false, true}) {
        CheckRound before{{{0, 100}, {1, 100}, {2, 100}}, {{0, 1, 10}}};
        CheckRound now = before;
        now.gpus[2].time_ms = beyond ? 110.2 : 109.9;
        now.links[0].time_ms = beyond ? 12.01 : 11.99;
        const auto verdict = locate(before, now).value();
        ck_assert_uint_eq(verdict.gpus.size(), beyond);
        ck_assert_uint_eq(verdict.links.size(), beyond);
    }
}

TEST(limits_are_beyond_what_a_baseline_differs_by) {
    std::mt19937 random(3);
    const auto rounds = [&](double noise, int count) {
        std::lognormal_distribution<double> times(0, noise);
        CheckRound all;
        for (int round = 0; round < count; ++round)
            for (int r = 0; r < 8; ++r) {
                all.gpus.push_back({r, 100 * times(random)});
                all.links.push_back({r, (r + 1) % 8, 10 * times(random)});
            }
        return all;
    };
    // A steady machine, and one round, are held to the least limits.
    for (const auto& quiet : {rounds(0.01, 3), rounds(0.3, 1), CheckRound{}}) {
        const auto limits = beyond_noise(quiet, rounds(0.01, 1));
        ck_assert_double_eq(limits.gpu, 1.10);
        ck_assert_double_eq(limits.link, 1.20);
    }
    // One round that other work made long is no noise of the others.
    CheckRound disturbed = rounds(0.01, 3);
    for (std::size_t i = 0; i < 8; ++i) disturbed.gpus[i].time_ms *= 2;
    ck_assert_double_eq(beyond_noise(disturbed, rounds(0.01, 1)).gpu, 1.10);
    // A noisy one: what is healthy is seldom beyond it, what is eight times as long nearly always.
    int wrong = 0, found = 0;
    for (int i = 0; i < 200; ++i) {
        const CheckRound before = rounds(0.25, 3);
        CheckRound now = rounds(0.25, 1);
        now.links[3].time_ms *= 8;
        const auto limits = beyond_noise(before, now);
        ck_assert_double_gt(limits.link, 1.4);
        const auto verdict = locate(before, now, limits).value();
        for (const SlowLink& link : verdict.links) (link.from == 3 ? found : wrong) += 1;
    }
    ck_assert_msg(wrong <= 28, "%d of 1400 healthy links are slow", wrong);
    ck_assert_int_ge(found, 190);
}

TEST(a_device_is_no_slower_than_it_always_was) {
    CheckRound before = healthy(4), now = healthy(4);
    before.gpus[2].time_ms = now.gpus[2].time_ms = 300;
    before.links[2].time_ms = now.links[2].time_ms = 300;
    ck_assert(*locate(before, now) == Verdict{});
    before = now = healthy(4);
    before.gpus[2].time_ms = 90;  // measured too quick: it is as quick now as its type
    ck_assert(*locate(before, now) == Verdict{});
}

TEST(each_model_of_gpu_has_its_own_usual_time) {
    CheckRound before{{{0, 60, "h100"}, {1, 60, "h100"}, {2, 240, "a10"}, {3, 240, "a10"}}, {}};
    CheckRound now = before;
    now.gpus[0].time_ms = 90;  // far below the median of all four
    auto verdict = locate(before, now).value();
    ck_assert_uint_eq(verdict.gpus.size(), 1);
    ck_assert(verdict.gpus[0] == (SlowGpu{0, 1.5}));
    now.gpus[0].gpu_type = "a10";
    assert_refused(locate(before, now), "two types");
}

TEST(models_without_a_name_are_told_by_their_baselines) {
    const CheckRound before{{{0, 60}, {1, 61}, {2, 240}, {3, 238}, {4, 59}, {5, 72}}, {}};
    CheckRound now = before;
    now.gpus[1].time_ms = 90;   // still far below the median of all
    now.gpus[5].time_ms = 150;  // the only one of its model
    ck_assert(locate(before, now)->gpus == (std::vector<SlowGpu>{{5, 150.0 / 72}, {1, 90.0 / 60}}));
    now = before;
    for (const std::size_t r : {2U, 3U}) now.gpus[r].time_ms = 300;  // all of one model
    ck_assert_uint_eq(locate(before, now)->gpus.size(), 2);
}

TEST(most_of_a_job_or_all_of_a_type_can_be_slow) {
    CheckRound now = healthy(4);
    for (const std::size_t r : {0U, 1U, 3U}) now.gpus[r].time_ms *= 2;
    ck_assert_uint_eq(locate(healthy(4), now)->gpus.size(), 3);
    const CheckRound one{{{0, 100, "a"}, {1, 50, "b"}}, {}};
    const CheckRound slow{{{0, 130, "a"}, {1, 50, "b"}}, {}};
    ck_assert(locate(one, slow)->gpus == (std::vector<SlowGpu>{{0, 1.3}}));
}

TEST(where_nearly_all_are_slower_by_the_same_factor_none_is_the_culprit) {
    std::mt19937 random(5);
    std::normal_distribution<double> noise(0, 0.01);
    for (const double factor : {1.08, 1.15, 1.5, 3.0})
        for (const int gpus : {4, 8, 32, 257}) {
            CheckRound before, now;
            for (int r = 0; r < gpus; ++r) {
                before.gpus.push_back({r, 100 * (1 + noise(random)), "a100"});
                now.gpus.push_back({r, 100 * factor * (1 + noise(random)), "a100"});
            }
            const Verdict all = locate(before, now).value();
            ck_assert_msg(all.gpus.empty(), "x%g: %zu of %d named", factor, all.gpus.size(), gpus);
            ck_assert_uint_eq(all.common.size(), 1);
            ck_assert_double_eq_tol(all.common[0].factor, factor, 0.03 * factor);
            ck_assert_int_eq(all.common[0].gpus, gpus);
            if (gpus < 8) continue;
            now.gpus[1].time_ms *= 1.4;  // and one more than the others
            const Verdict one = locate(before, now).value();
            ck_assert_uint_eq(one.gpus.size(), 1);
            ck_assert_int_eq(one.gpus[0].rank, 1);
        }
    // A quarter of them is no common matter.
    CheckRound before = healthy(8), now = healthy(8);
    for (const std::size_t r : {0U, 1U}) now.gpus[r].time_ms *= 1.5;
    ck_assert_uint_eq(locate(before, now)->gpus.size(), 2);
    ck_assert(locate(before, now)->common.empty());
}

TEST(without_a_baseline_nothing_is_said) {
    CheckRound before = healthy(4), now = healthy(4);
    before.gpus.erase(before.gpus.begin() + 1);
    before.links.erase(before.links.begin() + 2);
    now.gpus[1].time_ms *= 5;
    now.links[2].time_ms *= 5;
    const auto verdict = locate(before, now).value();
    ck_assert(verdict.gpus.empty() && verdict.links.empty());
    ck_assert(verdict.gpus_without_baseline == std::vector<int>{1});
    ck_assert_int_eq(verdict.links_without_baseline.at(0).from, 2);
}

TEST(no_measurement_is_an_error_not_health) {
    for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
        CheckRound now = healthy(4);
        now.gpus[1].time_ms = bad;
        assert_refused(locate(healthy(4), now), "GPU of rank 1: its time");
        assert_refused(locate(now, healthy(4)), "GPU of rank 1: its time");
        now = healthy(4);
        now.links[3].time_ms = bad;
        assert_refused(locate(healthy(4), now), "link 3>0: its time");
    }
}

/// Both rounds of a file with a line per report of each end.
std::map<std::string, CheckRound> read_rounds(const std::string& text) {
    std::map<std::string, CheckRound> rounds;
    auto csv = sim::Csv::open(text, "benchmarks.csv", {"phase", "kind", "link", "rank", "avg_ms"});
    while (csv->next()) {
        CheckRound& round = rounds[std::string(csv->cell("phase"))];
        const double ms = csv->number("avg_ms", 0, 1e9);
        const std::string link(csv->cell("link"));
        if (csv->cell("kind") == "gemm")
            round.gpus.push_back({static_cast<int>(csv->integer("rank", 0, 1 << 20)), ms});
        else
            round.links.push_back(
                {std::stoi(link), std::stoi(link.substr(link.find('>') + 1)), ms});
    }
    ck_assert(!csv->error());
    return rounds;
}

TEST_NEEDING(the_real_log_has_one_slow_gpu_and_no_slow_link,
             lacks_reference("greyhound/benchmarks.csv")) {
    auto rounds = read_rounds(read_reference("greyhound/benchmarks.csv"));
    const auto verdict = locate(rounds["precheck"], rounds["validation"]).value();
    ck_assert_uint_eq(verdict.gpus.size(), 1);
    ck_assert_int_eq(verdict.gpus[0].rank, 1);
    ck_assert_double_eq_tol(verdict.gpus[0].factor, 7.85, 0.005);
    ck_assert(verdict.links.empty());
    ck_assert(verdict.links_without_baseline.empty());
    ck_assert_uint_eq(rounds["validation"].links.size(), 16);
    ck_assert(*locate(rounds["precheck"], rounds["precheck"]) == Verdict{});
}

}  // namespace
