// SPDX-License-Identifier: GPL-2.0-or-later
// Change points, what verification lets through, events: on series by seed, and on the reference
// series where they are.
#include <chrono>
#include <limits>
#include <numeric>

#include "base/statistics.h"
#include "reference_data.h"
#include "slowdown/event.h"
#include "slowdown/suspects.h"
#include "slowdown_cases.h"
#include "suite.h"

using namespace arena;
using namespace arena::slowdown;
using namespace arena::test;

namespace {

void assert_good(const char* what, const DetectionScore& score) {
    std::printf(
        "# %s: recall %.2f %% of %zu, precision %.2f %%, latency %.0f, p95 %.0f, %zu of "
        "%zu quiet series flagged, %zu wrong signs\n",
        what, 100 * score.recall(), score.wanted, 100 * score.precision(), score.latency(0.5),
        score.latency(0.95), score.flagged, score.quiet, score.wrong_signs);
    std::fflush(stdout);
    ck_assert_msg(score.recall() >= 0.98, "%s", what);
    ck_assert_msg(score.precision() >= 0.95, "%s", what);
    ck_assert_msg(score.latency(0.5) <= 5 && score.latency(0.95) <= 8, "%s", what);
    ck_assert_msg(score.flagged <= 1 + score.quiet / 12, "%s", what);
    ck_assert_msg(200 * score.wrong_signs <= score.reports, "%s", what);
}

/// The level that the first report of 2 % more every `every` iterations came at; 0: never.
double crept_to(unsigned seed, std::size_t every, double spread) {
    Random random{std::mt19937_64(seed)};
    Detector detector;
    for (std::size_t i = 0; i < 100 + 20 * every; ++i) {
        const double level = i < 100 ? 1 : 1 + 0.02 * static_cast<double>(1 + (i - 100) / every);
        if (*detector.add(level * (1 + spread * random.normal()))) return i < 100 ? -1 : level;
    }
    return 0;
}

}  // namespace

TEST(a_constant_hazard_is_the_mass_of_a_run_that_begins) {
    ChangePoints points;
    Random random{std::mt19937_64(7)};
    for (int i = 0; i < 1000; ++i) {
        points.add(i < 500 ? 1 + 0.02 * random.normal() : 3 + 0.1 * random.normal());
        const auto posterior = points.posterior();
        ck_assert_double_eq_tol(posterior[0], 1.0 / 250, 1e-12);
        ck_assert_double_eq_tol(std::accumulate(posterior.begin(), posterior.end(), 0.0), 1, 1e-9);
        ck_assert(posterior.size() <= 301);
    }
}

TEST(a_value_that_no_level_explains_keeps_the_posterior_a_probability) {
    ChangePoints points;
    for (int i = 0; i < 50; ++i) points.add(1 + 1e-9 * i);
    for (double x : {1e12, 1.0, 1e-12, 1e12}) {
        points.add(x);
        const auto posterior = points.posterior();
        ck_assert_double_eq_tol(std::accumulate(posterior.begin(), posterior.end(), 0.0), 1, 1e-9);
    }
}

TEST(one_sample_takes_less_than_a_millisecond) {
    Detector detector;
    const auto made = make_series(1, {.length = 4000});
    const auto begin = std::chrono::steady_clock::now();
    for (const SeriesSample& sample : made.series) ck_assert(detector.add(sample.time_s).ok());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    ck_assert_double_lt(took.count() / 4000, 1e-3);
}

TEST(steps_are_found_in_noise) {
    assert_good("as measured", score_of(1, 60, {}));
    assert_good("many spikes", score_of(2, 60, {.spike_share = 0.02}));
    assert_good("large spikes", score_of(3, 60, {.largest_spike = 6}));
    assert_good("drift", score_of(4, 60, {.drift = 0.05}));
    assert_good("long", score_of(5, 10, {.length = 2000}));
    assert_good("short events", score_of(6, 60, {.shortest_event = 11, .longest_event = 30}));
    assert_good("pauses that double", score_of(7, 60, {.pause = 2}));
    assert_good("other factors",
                score_of(8, 60, {.factors = {1.14, 1.18, 1.25, 1.28, 1.5, 3, 7.9}}));
}

TEST(without_verification_most_reports_are_false) {
    const auto score = score_of(1, 40, {}, {.verify = false});
    ck_assert_double_lt(score.precision(), 0.6);
    ck_assert_double_gt(score.recall(), 0.9);
}

TEST(the_unit_of_time_does_not_matter) {
    auto made = make_series(11, {});
    const auto seconds = *detect(made.series);
    for (SeriesSample& sample : made.series) sample.time_s *= 1024;
    const auto others = *detect(made.series);
    ck_assert_uint_gt(seconds.size(), 0);
    ck_assert_uint_eq(seconds.size(), others.size());
    for (std::size_t i = 0; i < seconds.size(); ++i) {
        ck_assert_uint_eq(seconds[i].change_at, others[i].change_at);
        ck_assert_uint_eq(seconds[i].reported_at, others[i].reported_at);
        ck_assert_double_eq_tol(seconds[i].ratio(), others[i].ratio(), 1e-9);
    }
}

TEST(creeping_is_reported_before_15_percent) {
    for (std::size_t every : {10, 20, 40, 100})
        for (double spread : {0.003, 0.01, 0.02}) {
            int late = 0;
            for (unsigned seed = 0; seed < 50; ++seed) {
                const double level = crept_to(seed, every, spread);
                late += level <= 1 || level >= 1.15;
            }
            ck_assert_msg(late <= 1, "every %zu, spread %g: %d of 50", every, spread, late);
        }
    for (unsigned seed = 0; seed < 50; ++seed) ck_assert_double_lt(crept_to(seed, 1, 0.003), 1.15);
}

TEST(longer_sequences_are_no_slowdown_where_tokens_are_known) {
    Random random{std::mt19937_64(3)};
    Series known, unknown;
    for (int i = 0; i < 300; ++i) {
        const double tokens = i < 100 ? 4096 : i < 200 ? 8192 : 2048;
        const double time_s = tokens / 4096 * (1 + 0.01 * random.normal());
        known.push_back({time_s, tokens});
        unknown.push_back({time_s, 0});
    }
    ck_assert_uint_eq(detect(known)->size(), 0);
    ck_assert_uint_eq(detect(unknown)->size(), 2);
}

TEST(a_slow_start_is_no_relief) {
    Series series(60, {1, 0});
    for (std::size_t i = 0; i < 5; ++i) series[i].time_s = 8;
    for (std::size_t i = 0; i < 60; ++i) series[i].time_s *= i % 2 ? 1.005 : 0.995;
    ck_assert_uint_eq(detect(series)->size(), 0);
}

TEST(what_is_no_time_is_refused) {
    Detector detector;
    for (double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                       std::numeric_limits<double>::infinity()}) {
        assert_refused(detector.add(bad), "finite and above 0");
        assert_refused(detector.add(1, bad == 0 ? -1 : bad), "tokens are finite");
    }
    ck_assert_uint_eq(detector.samples(), 0);
    ck_assert(detector.add(1, 100).ok());
    assert_refused(detector.add(1), "for each iteration or for none");
    ck_assert_uint_eq(detector.samples(), 1);
    assert_refused(parse_series("series,iter_time_s\n1,nan\n", "t.csv"), "t.csv:2: iter_time_s");
    assert_refused(parse_series("a,b\n", "t.csv"), "no column \"series\"");
    assert_refused(parse_labels("series,iteration,kind,must_detect\n1,2,x,1\n", "t.csv"),
                   "onset or relief");
}

TEST(an_event_knows_its_loss_and_its_end) {
    Random random{std::mt19937_64(5)};
    EventTracker tracker;
    std::vector<Step> steps;
    for (int i = 0; i < 200; ++i) {
        const double level = i >= 80 && i < 120 ? 1.5 : i >= 120 && i < 140 ? 1.2 : 1;
        steps.push_back(*tracker.add(2 * level * (1 + 0.005 * random.normal())));
    }
    ck_assert_int_eq(std::count(steps.begin(), steps.end(), Step::onset), 1);
    ck_assert_int_eq(std::count(steps.begin(), steps.end(), Step::changed), 1);
    ck_assert_int_eq(std::count(steps.begin(), steps.end(), Step::relief), 1);
    const Event& event = *tracker.event();
    ck_assert(!tracker.is_open());
    ck_assert_uint_eq(event.onset, 80);
    ck_assert_uint_eq(*event.relief, 140);
    ck_assert_double_eq_tol(event.healthy, 2, 0.02);
    ck_assert_double_eq_tol(event.worst, 3, 0.03);
    ck_assert_double_eq_tol(event.lost_s, 40 * 1.0 + 20 * 0.4, 1);
}

TEST(what_crept_in_and_crept_out_ends) {
    EventTracker tracker;
    Random random{std::mt19937_64(6)};
    std::vector<Step> steps;
    for (int i = 0; i < 600; ++i) {
        const double up = std::clamp((i - 100) / 20, 0, 8), down = std::clamp((i - 350) / 20, 0, 8);
        steps.push_back(*tracker.add((1 + 0.02 * (up - down)) * (1 + 0.003 * random.normal())));
    }
    ck_assert_int_eq(std::count(steps.begin(), steps.end(), Step::onset), 1);
    ck_assert_int_eq(std::count(steps.begin(), steps.end(), Step::relief), 1);
    ck_assert(!tracker.is_open());
    ck_assert_double_eq_tol(tracker.event()->healthy, 1, 0.01);
}

TEST(groups_are_held_against_their_like) {
    const std::vector<GroupTime> groups{{"a", "dp", 0, {1, 1.02}}, {"b", "dp", 0, {1, 1.3}},
                                        {"c", "dp", 0, {0.9, 1}},  {"d", "dp", 1, {5, 5}},
                                        {"e", "pp", 0, {2}},       {"f", "pp", 0, {2.1}}};
    const auto suspects = *find_suspects(groups);
    ck_assert_uint_eq(suspects.size(), 2);
    assert_text(suspects[0].group, "b");
    ck_assert_double_eq_tol(suspects[0].factor, 1.3 / 1.02, 1e-12);
    ck_assert(!suspects[0].is_alone);
    assert_text(suspects[1].group, "d");
    ck_assert(suspects[1].is_alone);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    assert_refused(find_suspects(std::vector<GroupTime>{{"a", "dp", 0, {}}}), "without members");
    assert_refused(find_suspects(std::vector<GroupTime>{{"a", "dp", 0, {1, nan}}}), "finite");
}

TEST_NEEDING(the_reference_series_are_solved, lacks_reference("greyhound/synthetic_series.csv")) {
    const auto series = parse_series(read_reference("greyhound/synthetic_series.csv"), "series");
    auto labels = parse_labels(read_reference("greyhound/synthetic_labels.csv"), "labels");
    ck_assert(series.ok() && labels.ok());
    DetectionScore score, unverified;
    for (const auto& [name, samples] : *series) {
        score.add((*labels)[name], *detect(samples));
        unverified.add((*labels)[name], *detect(samples, {.verify = false}));
    }
    assert_good("reference", score);
    ck_assert_double_lt(unverified.precision(), 0.6);
}
