// SPDX-License-Identifier: GPL-2.0-or-later
// The step that repeats in a call stream: on programs by seed, and on the reference streams where
// they are.
#include "reference_data.h"
#include "slowdown/period.h"
#include "slowdown_cases.h"
#include "suite.h"
#include "tests/lab/slowdown/truth/steps.h"

using namespace arena;
using namespace arena::slowdown;
using namespace arena::test;

namespace {

const CallKey small = key(Op::broadcast, 4096, 1), other = key(Op::bcast, 4096, 1);
const CallKey bucket = key(Op::all_reduce, 25'000'000, 2);

PeriodScore score_of(const MadeStream& made) {
    std::vector<TrueStep> steps;
    for (const MadeStep& step : made.steps)
        steps.push_back({step.start_us, step.duration_us, step.calls});
    return *score_period({"made", made.calls}, steps);
}

void assert_solved(const char* what, std::size_t steps,
                   const std::function<StepKeys(std::size_t)>& step) {
    for (unsigned seed = 1; seed <= 5; ++seed) {
        const PeriodScore score = score_of(make_stream(seed, steps, step));
        ck_assert_msg(score.is_good(),
                      "%s: period %zu, not %zu; first after %zu steps, %zu wrong in a row, %zu "
                      "measured with error %.4f",
                      what, score.period, score.wanted, score.first_answer, score.longest_wrong,
                      score.measured, score.median_error);
    }
}

StepKeys micro_batches(std::size_t count, const CallKey& gradients) {
    StepKeys keys;
    append(keys, count, {small, other});
    keys.insert(keys.begin() + 8, gradients);
    return keys;
}

}  // namespace

TEST(an_inner_loop_is_not_the_step) {
    for (std::size_t inner : {3, 128, 1000})
        assert_solved("inner loop", 16, [&](std::size_t) {
            StepKeys keys;
            append(keys, inner, {small, other});
            append(keys, 1, {bucket});
            return keys;
        });
    assert_solved("sequence parallel", 16, [](std::size_t) {
        StepKeys keys;
        append(keys, 149, {key(Op::all_gather, 1 << 20, 3), key(Op::reduce_scatter, 1 << 20, 3)});
        append(keys, 1, {key(Op::all_reduce, 354'000'000, 2), key(Op::broadcast, 2048, 6)});
        return keys;
    });
    assert_solved("tensor parallel, micro-batches", 20, [](std::size_t) {
        StepKeys micro_batch, keys;
        append(micro_batch, 12, {key(Op::all_reduce, 8 << 20, 1)});
        append(micro_batch, 1, {key(Op::send, 1 << 20, 3)});
        append(keys, 8, micro_batch);
        append(keys, 1, {key(Op::reduce_scatter, 400'000'000, 2)});
        append(keys, 1, {key(Op::all_gather, 400'000'000, 2)});
        return keys;
    });
}

TEST(equal_buckets_are_one_step) {
    for (std::size_t buckets : {2, 3, 4, 8, 25, 60})
        assert_solved("buckets", 40, [&](std::size_t) {
            StepKeys keys;
            append(keys, 8, {small, other});
            append(keys, buckets, {bucket});
            return keys;
        });
    assert_solved("spread buckets", 40, [](std::size_t) {
        StepKeys keys;
        append(keys, 4, {small, small, bucket});
        append(keys, 1, {other});
        return keys;
    });
    assert_solved("nothing but buckets, the last smaller", 40, [](std::size_t) {
        StepKeys keys(6, bucket);
        append(keys, 1, {key(Op::all_reduce, 7'000'000, 2)});
        return keys;
    });
    assert_solved("sharded parameters", 20, [](std::size_t) {
        const CallKey gather = key(Op::all_gather, 12'000'000, 1);
        StepKeys keys(24, gather);
        append(keys, 24, {gather, key(Op::reduce_scatter, 12'000'000, 1)});
        return keys;
    });
}

TEST(a_change_of_period_is_followed) {
    assert_solved("micro-batches move", 110,
                  [](std::size_t k) { return micro_batches(k < 30 || k >= 70 ? 8 : 9, bucket); });
    assert_solved("groups are built anew", 80, [](std::size_t k) {
        return micro_batches(k < 30 ? 12 : 6, key(Op::all_reduce, k < 30 ? 354'000 : 350'000, 2));
    });
    assert_solved("larger gradients", 80, [](std::size_t k) {
        return micro_batches(k < 40 ? 12 : 14, key(Op::all_reduce, k < 40 ? 300'000 : 350'000, 2));
    });
}

TEST(what_comes_now_and_then_is_not_the_step) {
    assert_solved("checkpoints", 100, [](std::size_t k) {
        StepKeys keys = micro_batches(8, bucket);
        if (k % 30 == 29) append(keys, 3, {key(Op::all_reduce, 1024, 7)});
        return keys;
    });
    assert_solved("evaluation", 105, [](std::size_t k) {
        StepKeys keys = micro_batches(8, bucket);
        if (k % 20 == 19) append(keys, 30, {small});
        return keys;
    });
    for (const CallKey& start :
         {key(Op::broadcast, 50'000'000, 1), key(Op::all_reduce, 50'000'000, 1)})
        assert_solved("start-up", 40, [&](std::size_t k) {
            StepKeys keys;
            if (k == 0) append(keys, 4, {start});
            append(keys, 1, micro_batches(8, bucket));
            return keys;
        });
}

TEST(a_pipeline_without_reductions_has_a_step) {
    assert_solved("send and receive", 40, [](std::size_t) {
        StepKeys keys;
        append(keys, 8, {key(Op::send, 4096, 3), key(Op::recv, 4096, 3)});
        append(keys, 1, {key(Op::send, 9999, 3)});
        return keys;
    });
}

/// Calls at their own places of steps of different length, a little earlier or later.
MadeStream uneven_stream(unsigned seed, std::size_t calls, double differ, double jitter) {
    Random random{std::mt19937_64(seed)};
    std::vector<double> places{0};
    while (places.size() < calls) places.push_back(random.uniform(0, 1));
    std::sort(places.begin(), places.end());
    StepKeys keys(calls, small);
    keys[random.engine() % calls] = bucket;
    MadeStream made;
    double now_us = random.uniform(0, 1e7);
    for (std::size_t k = 0; k < 60; ++k) {
        const double duration_us = 1e6 * std::max(0.3, 1 + differ * random.normal());
        made.steps.push_back({std::int64_t(now_us), std::int64_t(duration_us), calls});
        double last_us = now_us;
        for (std::size_t i = 0; i < calls; ++i) {
            const double at = i == 0 ? 0 : places[i] + jitter * random.normal();
            last_us = std::max(last_us, now_us + std::clamp(at, 0.0, 0.999) * duration_us);
            made.calls.push_back({keys[i], std::int64_t(last_us)});
        }
        now_us += duration_us;
    }
    return made;
}

TEST(steps_of_different_length_are_cut_at_their_own_border) {
    double worst = 0;
    for (const std::size_t calls : {8U, 17U, 60U, 400U})
        for (const double differ : {0.03, 0.10, 0.21})
            for (const double jitter : {0.0, 0.002, 0.005})
                for (unsigned seed = 1; seed <= 5; ++seed) {
                    const PeriodScore score = score_of(uneven_stream(seed, calls, differ, jitter));
                    worst = std::max(worst, score.median_error);
                    ck_assert_msg(score.is_good(),
                                  "%zu calls, steps differ by %g, calls by %g: error %.4f", calls,
                                  differ, jitter, score.median_error);
                }
    std::printf("# iterations that differ by 3 to 21 %%: %.2f %% off at the most (median)\n",
                100 * worst);
}

/// Where such a step is the last one looked at, the places of the pattern are behind its calls.
TEST(a_step_with_fewer_calls_is_followed) {
    for (const std::size_t short_at : {5U, 13U, 29U}) {
        std::size_t found = 0;
        PeriodFinder finder;
        const MadeStream made = make_stream(1, 40, [&](std::size_t k) {
            StepKeys keys;
            append(keys, k == short_at ? 1000 : 1800, {small});
            append(keys, 1, {bucket});
            return keys;
        });
        for (const Call& call : made.calls)
            if (const auto iteration = *finder.add(call)) ++found;
        ck_assert_uint_eq(finder.period(), 1801);
        ck_assert_uint_ge(found, 35);
    }
}

TEST(times_of_another_anchor_are_of_another_series) {
    const MadeStream made = make_stream(1, 60, [](std::size_t k) {
        return micro_batches(8, key(Op::all_reduce, k < 30 ? 300'000 : 400'000, 2));
    });
    PeriodFinder finder;
    std::vector<std::size_t> series;
    for (const Call& call : made.calls)
        if (const auto iteration = *finder.add(call)) series.push_back(iteration->series);
    ck_assert_uint_ne(series.front(), series.back());
    ck_assert(std::is_sorted(series.begin(), series.end()));
    ck_assert_int_eq(finder.anchor().count, 400'000);
}

TEST(nonsense_is_refused_and_noise_has_no_period) {
    PeriodFinder finder;
    ck_assert(finder.add({bucket, 5}).ok());
    assert_refused(finder.add({bucket, 4}), "clocks of a stream must not go back");
    Random random{std::mt19937_64(9)};
    PeriodFinder lost;
    for (std::int64_t i = 0; i < 20'000; ++i) {
        const auto count = static_cast<std::int64_t>(random.engine() % 3000);
        ck_assert(!*lost.add({key(Op::send, count, 1), i}));
    }
    ck_assert_uint_eq(lost.period(), 0);
    const std::string head = "sequence,t_us,op_id,count,comm\n";
    assert_refused(parse_calls(head + "a,5,6,1,1\na,4,6,1,1\n", "t.csv"),
                   "t.csv:3: t_us goes back");
    assert_refused(parse_calls(head + "a,5,99,1,1\n", "t.csv"), "op_id: \"99\"");
    assert_refused(parse_calls("sequence\n", "t.csv"), "no column \"t_us\"");
    assert_refused(parse_steps("sequence,start_us,duration_us,calls\na,1,0,1\n", "t.csv"),
                   "duration_us");
}

TEST_NEEDING(the_reference_streams_are_solved, lacks_reference("greyhound/nccl_sequences.csv")) {
    const auto streams = parse_calls(read_reference("greyhound/nccl_sequences.csv"), "calls");
    const auto truth = parse_steps(read_reference("greyhound/nccl_sequences_truth.csv"), "steps");
    ck_assert(streams.ok() && truth.ok());
    ck_assert_uint_gt(streams->size(), 0);
    for (const CallStream& stream : *streams) {
        const PeriodScore score = *score_period(stream, truth->at(stream.name));
        ck_assert_msg(score.is_good(), "%s: period %zu, error %.4f", stream.name.c_str(),
                      score.period, score.median_error);
    }
}
