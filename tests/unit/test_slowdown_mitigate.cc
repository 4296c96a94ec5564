// SPDX-License-Identifier: GPL-2.0-or-later
// When an answer to a slowdown is due, and how micro-batches are dealt out: by hand, against
// enumeration, and on the reference data.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "base/json.h"
#include "reference_data.h"
#include "slowdown/micro_batches.h"
#include "slowdown/ski_rental.h"
#include "suite.h"

using namespace arena;
using namespace arena::slowdown;
using namespace arena::test;

namespace {

using Strategies = std::vector<Strategy>;
constexpr auto S2 = Strategy::micro_batches;
constexpr auto S3 = Strategy::roles;
constexpr auto S4 = Strategy::restart;

TEST(causes_have_their_strategies) {
    const std::vector<Priced> all{{S4, 60}, {S2, 30}, {S3, 30}};
    ck_assert(candidates(Cause::compute, all) ==
              (std::vector<Priced>{{S2, 30}, {S3, 30}, {S4, 60}}));
    ck_assert(candidates(Cause::communication, all) == (std::vector<Priced>{{S3, 30}, {S4, 60}}));
    for (const Strategy s : all_strategies) ck_assert(parse_strategy(name(s)) == s);
    ck_assert(!parse_strategy("S1"));
}

TEST(a_strategy_is_due_when_the_loss_reaches_its_price) {
    const std::vector<Priced> priced{{S3, 1}, {S2, 0.3}};
    auto event = SkiRental::begin(1, priced).value();
    ck_assert(event.next() == (Priced{S2, 0.3}));
    ck_assert(event.iteration(0.5)->empty());  // a quick one gives nothing back
    ck_assert(event.iteration(1.1)->empty());
    ck_assert(event.iteration(1.1)->empty());
    ck_assert(*event.iteration(1.1) == Strategies{S2});  // 0.1 + 0.1 + 0.1, rounded, is 0.3
    ck_assert(event.iteration(1.6)->empty());
    ck_assert(*event.iteration(1.1) == Strategies{S3});  // not counted from 0 again
    ck_assert(!event.next());
    ck_assert(event.iteration(100)->empty());
    ck_assert_double_eq_tol(event.lost_s(), 100, 1e-9);
}

TEST(one_long_iteration_makes_several_due) {
    const std::vector<Priced> priced{{S2, 1}, {S3, 5}, {S4, 50}};
    auto event = SkiRental::begin(1, priced).value();
    ck_assert(*event.iteration(11) == (Strategies{S2, S3}));
    ck_assert(SkiRental::begin(1, {})->iteration(1e6)->empty());
}

TEST(what_is_no_time_is_refused) {
    const std::vector<Priced> fine{{S2, 1}}, twice{{S2, 1}, {S2, 2}};
    for (const double bad : {std::nan(""), -1.0, HUGE_VAL}) {
        assert_refused(SkiRental::begin(bad, fine), "healthy");
        assert_refused(SkiRental::begin(1, std::vector<Priced>{{S3, bad}}), "S3: its overhead");
        auto event = SkiRental::begin(1, fine).value();
        assert_refused(event.iteration(bad), "iteration time");
        ck_assert_double_eq(event.lost_s(), 0);
    }
    assert_refused(SkiRental::begin(0, fine), "healthy");
    assert_refused(SkiRental::begin(1, twice), "S2: it is priced twice");
}

/// To bear it, or to pay once and be rid of it: at most twice the best in hindsight, and one
/// iteration's loss.
TEST(two_options_cost_at_most_twice_the_best) {
    std::mt19937 random(3);
    const auto pick = [&](double low, double high) {
        return std::uniform_real_distribution<double>(low, high)(random);
    };
    double worst = 0;
    for (int round = 0; round < 5000; ++round) {
        const double price = std::exp(pick(-1, 5));
        const std::vector<Priced> priced{{S4, price}};
        auto event = SkiRental::begin(1, priced).value();
        double borne = 0, paid = 0, all = 0, most = 0;
        for (auto left = static_cast<int>(std::exp(pick(0, 6))); left > 0; --left) {
            const double loss = pick(0, 4);
            all += loss, most = std::max(most, loss);
            if (paid > 0) continue;
            borne += loss;
            if (!event.iteration(1 + loss)->empty()) paid = price;
        }
        const double best = std::min(all, price);
        ck_assert_double_le(borne + paid, 2 * best + most + 1e-6);
        worst = std::max(worst, (borne + paid) / best);
        ck_assert_double_eq_tol(borne, event.lost_s(), 1e-6);
    }
    ck_assert_double_gt(worst, 1.5);  // the bound is not idle
}

TEST_NEEDING(ski_rental_of_the_reference_data,
             lacks_reference("greyhound/ski_rental_vectors.json")) {
    const auto data = parse_json(read_reference("greyhound/ski_rental_vectors.json")).value();
    int fires = 0;
    for (const Json& one : data.at("cases")) {
        std::vector<Priced> priced;
        for (const auto& [word, overhead] : one.at("overheads_s").items())
            priced.push_back({parse_strategy(word).value(), overhead});
        auto event = SkiRental::begin(one.at("healthy_s"), priced).value();
        Json got = Json::array();
        const auto& times = one.at("iter_times_s");
        for (std::size_t i = 0; i < times.size(); ++i) {
            const auto due = event.iteration(times[i]).value();
            for (const Strategy s : due) got.push_back({i, std::string(name(s)), event.lost_s()});
        }
        const auto& expected = one.at("expected_fires_if_no_strategy_helps");
        ck_assert_uint_eq(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i, ++fires) {
            ck_assert(got[i][0] == expected[i].at("iteration"));
            ck_assert(got[i][1] == expected[i].at("strategy"));
            ck_assert_double_eq_tol(got[i][2], expected[i].at("accumulated_s"), 1e-6);
        }
    }
    ck_assert_int_gt(fires, 4);
}

// ---- micro-batches ----------------------------------------------------------------------------

using Times = std::vector<double>;
using Counts = std::vector<std::int64_t>;

/// The least greatest time of all plans.
double enumerate(const Times& times, std::int64_t micro_batches, std::int64_t stages) {
    double best = INFINITY;
    Counts counts(times.size(), 1);
    const std::function<void(std::size_t, std::int64_t)> deal = [&](std::size_t i,
                                                                    std::int64_t left) {
        if (i + 1 == times.size()) {
            counts[i] = left;
            best = std::min(best, greatest_time(times, counts, stages));
            return;
        }
        const auto rest = static_cast<std::int64_t>(times.size() - i - 1);
        for (counts[i] = 1; counts[i] <= left - rest; ++counts[i]) deal(i + 1, left - counts[i]);
    };
    deal(0, micro_batches);
    return best;
}

TEST(the_greatest_time_is_least_not_the_variance) {
    const auto plan = split_micro_batches(Times{4.99, 3.97, 1.13}, 10).value();
    ck_assert(plan.counts == (Counts{1, 2, 7}));
    ck_assert_double_eq_tol(plan.value, 7.94, 1e-9);
    ck_assert(split_micro_batches(Times{1, 1, 1}, 8)->counts == (Counts{3, 3, 2}));
    ck_assert(split_micro_batches(Times{1, 1000}, 2)->counts == (Counts{1, 1}));
    ck_assert(split_micro_batches(Times{5}, 9)->counts == Counts{9});
}

TEST(pipelines_fill_before_they_run) {
    // 3 stages: (m + 2) t. Without the fill 8 and 4 would be best.
    const auto plan = split_micro_batches(Times{1, 2}, 12, 3).value();
    ck_assert(plan.counts == (Counts{9, 3}));
    ck_assert_double_eq(plan.value, 11);
    ck_assert(split_micro_batches(Times{1, 2}, 12)->counts == (Counts{8, 4}));
}

TEST(plans_are_as_good_as_enumeration) {
    std::mt19937 random(5);
    for (int round = 0; round < 5000; ++round) {
        const auto pick = [&](std::int64_t low, std::int64_t high) {
            return std::uniform_int_distribution<std::int64_t>(low, high)(random);
        };
        Times times(static_cast<std::size_t>(pick(1, 4)));
        for (double& t : times) t = static_cast<double>(pick(1, round % 2 ? 5 : 500)) / 100;
        const auto replicas = static_cast<std::int64_t>(times.size());
        const std::int64_t micro_batches = pick(replicas, 16), stages = pick(1, 6);
        const auto plan = split_micro_batches(times, micro_batches, stages).value();
        ck_assert_int_eq(std::accumulate(plan.counts.begin(), plan.counts.end(), std::int64_t{0}),
                         micro_batches);
        for (const auto count : plan.counts) ck_assert_int_ge(count, 1);
        ck_assert_double_eq_tol(plan.value, greatest_time(times, plan.counts, stages), 1e-12);
        ck_assert_double_eq_tol(plan.value, enumerate(times, micro_batches, stages), 1e-9);
    }
}

TEST(what_cannot_be_dealt_is_refused) {
    assert_refused(split_micro_batches(Times{}, 4), "no replica");
    assert_refused(split_micro_batches(Times{1, 1, 1}, 2), "each needs one");
    assert_refused(split_micro_batches(Times{1, 1}, 2, 0), "stage");
    assert_refused(split_micro_batches(Times{1, 1}, 2, INT64_MAX), "stage");
    assert_refused(split_micro_batches(Times{1, 1}, INT64_MAX), "more than");
    for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL})
        assert_refused(split_micro_batches(Times{1, bad}, 4), "replica 1: its time");
}

TEST(weights_make_the_mean_of_replicas_the_mean_of_the_batch) {
    std::mt19937 random(9);
    std::normal_distribution<double> sample;
    const Counts counts{9, 6, 9, 8};
    const auto weights = gradient_weights(counts);
    ck_assert(weights == (Times{1.125, 0.75, 1.125, 1}));
    double all = 0, weighted = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        double own = 0;
        for (std::int64_t m = 0; m < counts[i]; ++m) own += sample(random);
        all += own / 32;
        weighted += weights[i] * own / static_cast<double>(counts[i]) / 4;
    }
    ck_assert_double_eq_tol(all, weighted, 1e-12);
}

TEST(the_fixed_part_of_an_iteration_is_found) {
    const std::vector<Observed> exact{{10, 13}, {20, 18}, {30, 23}};
    const auto fit = calibrate(exact).value();
    ck_assert_double_eq_tol(fit.fixed, 8, 1e-9);
    ck_assert_double_eq_tol(fit.slope, 0.5, 1e-9);
    ck_assert_double_eq_tol(fit.iteration(40), 28, 1e-9);
    const std::vector<Observed> one_split{{10, 12}, {10, 14}}, steep{{10, 10}, {20, 30}};
    ck_assert_double_eq_tol(calibrate(one_split)->fixed, 3, 1e-9);
    ck_assert_double_eq(calibrate(one_split)->slope, 1);
    ck_assert_double_eq(calibrate(steep)->fixed, 0);
    ck_assert_double_eq_tol(calibrate(steep)->slope, 1.4, 1e-9);
    const std::vector<Observed> falling{{10, 20}, {20, 10}};
    ck_assert_double_eq(calibrate(falling)->slope, 0);
    ck_assert_double_eq(calibrate(falling)->fixed, 15);
    assert_refused(calibrate({}), "observed");
    assert_refused(calibrate(std::vector<Observed>{{1, std::nan("")}}), "above 0");
}

TEST(products_stand_in_for_times_of_micro_batches) {
    // The real log: GPU 1 locked, 8 micro-batches each; its plan was 9, 6, 9, 8.
    const Times products{65.5, 515.5, 65.7, 65.7};
    const Bounds bounds{.healthy = 1052.28, .current = 1471.4975, .even_share = 8};
    const auto times = times_from_products(products, bounds).value();
    ck_assert_double_eq_tol(times[0], 131.535, 1e-9);
    ck_assert_double_eq_tol(times[1], 183.9371875, 1e-9);
    ck_assert(split_micro_batches(times, 32)->counts == (Counts{9, 6, 9, 8}));
    ck_assert_double_eq_tol(times_from_products(Times{1, 1.2}, {1, 1.3, 1})->at(1), 1.3, 1e-12);
    ck_assert_double_eq(times_from_products(Times{1, 1}, {1, 1.3, 1})->at(1), 1);
    assert_refused(times_from_products(Times{1, 0}, bounds), "matrix product");
    assert_refused(times_from_products(Times{1, 1}, {2, 1, 1}), "healthy");
}

TEST(a_large_job_is_dealt_in_no_time) {
    std::mt19937 random(13);
    Times times(512);
    for (double& t : times) t = std::uniform_real_distribution<double>(0.5, 2)(random);
    const auto before = std::chrono::steady_clock::now();
    const auto plan = split_micro_batches(times, 4096, 4).value();
    const std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - before;
    std::printf("# 512 groups x 4,096 micro-batches: %.2f ms\n", took.count());
    std::fflush(stdout);
    ck_assert_double_lt(took.count(), 50);
    // As good as it gets: by one unit of time less, fewer could be placed.
    std::int64_t below = 0;
    for (const double t : times)
        below += std::max<std::int64_t>(
            1, static_cast<std::int64_t>(std::ceil(plan.value / t * (1 - 1e-12))) - 1 - 3);
    ck_assert_int_lt(below, 4096);
}

TEST_NEEDING(micro_batches_of_the_reference_data,
             lacks_reference("greyhound/s2_microbatch_vectors.json")) {
    const auto data = parse_json(read_reference("greyhound/s2_microbatch_vectors.json")).value();
    int cases = 0;
    for (const Json& one : data.at("cases")) {
        const auto times = one.at("micro_batch_time").get<Times>();
        const auto plan = split_micro_batches(times, one.at("micro_batches")).value();
        ck_assert_double_eq_tol(plan.value, one.at("min_max_value"), 1e-9);
        ++cases;
    }
    ck_assert_int_ge(cases, 10);
}

}  // namespace
