// SPDX-License-Identifier: GPL-2.0-or-later
// Lengths of pipelines: closed forms against replays of every task, bounds against lengths, and the
// quick partition of layers against all partitions.
#include <map>
#include <numeric>

#include "planner/plans/memory.h"
#include "planner/plans/schedule.h"
#include "planner/plans/zero_bubble.h"
#include "planner_cases.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;

namespace {

/// Length of 1F1B by replaying every task: stage i runs (stages - i) warm-up forwards, then one
/// forward and one backward in turn.
double replay_1f1b(const std::vector<double>& forward, const std::vector<double>& backward, int m) {
    const int p = static_cast<int>(forward.size());
    const auto cell = [&](int stage, int k) { return static_cast<std::size_t>(stage * m + k); };
    std::vector<double> f(static_cast<std::size_t>(p * m), -1), b(f);
    std::vector<double> free_at(forward.size(), 0);
    std::vector<int> nf(forward.size(), 0), nb(forward.size(), 0);
    for (int done = 0; done < 2 * p * m;) {
        for (int i = 0; i < p; ++i) {
            const auto s = static_cast<std::size_t>(i);
            const bool backward_turn = nf[s] == m || nf[s] - nb[s] >= p - i;
            if (backward_turn && nb[s] < m) {
                const double ready = i + 1 == p ? f[cell(i, nb[s])] : b[cell(i + 1, nb[s])];
                if (ready < 0) continue;
                free_at[s] = b[cell(i, nb[s]++)] = std::max(free_at[s], ready) + backward[s];
                ++done;
            } else if (!backward_turn) {
                const double ready = i == 0 ? 0 : f[cell(i - 1, nf[s])];
                if (ready < 0) continue;
                free_at[s] = f[cell(i, nf[s]++)] = std::max(free_at[s], ready) + forward[s];
                ++done;
            }
        }
    }
    return *std::max_element(free_at.begin(), free_at.end());
}

/// Stage times that differ a little, a lot, or by one heavy stage.
std::vector<double> any_stages(Random& random, std::size_t stages) {
    std::vector<double> list;
    const int kind = static_cast<int>(random.whole(0, 3));
    for (std::size_t i = 0; i < stages; ++i)
        list.push_back(kind == 0   ? 1
                       : kind == 1 ? random.real(0.9, 1.1)
                       : kind == 2 ? random.real(0.01, 1)
                                   : random.of({1.0, 1.0, 1.0, 10.0}));
    return list;
}

double sum_of(const std::vector<double>& a, const std::vector<double>& b) {
    return std::accumulate(a.begin(), a.end(), 0.0) + std::accumulate(b.begin(), b.end(), 0.0);
}

/// Least maximum stage time over every way to partition the layers.
double best_partition(const EqualLayers& problem, std::size_t stage, std::int64_t left) {
    const std::size_t stages = problem.capacity.size();
    const double extra =
        (stage == 0 ? problem.first_s : 0) + (stage + 1 == stages ? problem.last_s : 0);
    if (stage + 1 == stages)
        return left >= 1 && left <= problem.capacity[stage]
                   ? static_cast<double>(left) * problem.layer_s + extra
                   : 1e9;
    double best = 1e9;
    for (std::int64_t n = 1; n <= std::min(left, problem.capacity[stage]); ++n)
        best = std::min(best, std::max(static_cast<double>(n) * problem.layer_s + extra,
                                       best_partition(problem, stage + 1, left - n)));
    return best;
}

double longest_stage(const EqualLayers& problem, const std::vector<std::int64_t>& layers) {
    double longest = 0;
    for (std::size_t i = 0; i < layers.size(); ++i)
        longest = std::max(longest, static_cast<double>(layers[i]) * problem.layer_s +
                                        (i == 0 ? problem.first_s : 0) +
                                        (i + 1 == layers.size() ? problem.last_s : 0));
    return longest;
}

}  // namespace

TEST(the_closed_pipeline_length_is_that_of_a_1f1b_replay) {
    Random random(20);
    int shorter = 0, longer = 0;
    for (int n = 0; n < 20000; ++n) {
        const auto stages = static_cast<std::size_t>(random.whole(1, 9));
        const std::vector<double> f = any_stages(random, stages), g = any_stages(random, stages);
        const auto m = static_cast<int>(random.whole(1, random.of<std::int64_t>({4, 12, 64})));
        const double replay = replay_1f1b(f, g, m);
        ck_assert_double_eq_tol(pipeline_seconds(f, g, m), replay, 1e-9 * replay);
        double longest = 0;
        for (std::size_t i = 0; i < stages; ++i) longest = std::max(longest, f[i] + g[i]);
        const double classical = sum_of(f, g) + (m - 1) * longest;
        shorter += replay < classical * (1 - 1e-6) ? 1 : 0;
        longer += replay > classical * (1 + 1e-6) ? 1 : 0;
        const auto p = static_cast<std::int64_t>(stages);
        ck_assert_double_le(least_pipeline_seconds(sum_of(f, g), longest, p, m),
                            replay * (1 + 1e-12));
        ck_assert_double_le(least_pipeline_seconds(sum_of(f, g), 0, p, m), replay * (1 + 1e-12));
        ck_assert_double_le(least_pipeline_seconds(sum_of(f, g), 0, p, m, f.back() + g.back()),
                            replay * (1 + 1e-12));
    }
    // sum + (m - 1) * longest, the usual formula, is neither a lower nor an upper bound of them.
    ck_assert_int_gt(shorter, 5000);
    ck_assert_int_gt(longer, 100);
}

TEST(what_follows_a_prefix_of_the_pipeline_is_no_shorter_than_its_bound) {
    Random random(21);
    for (int n = 0; n < 5000; ++n) {
        const auto stages = static_cast<std::size_t>(random.whole(1, 8));
        const std::vector<double> f = any_stages(random, stages), g = any_stages(random, stages);
        const std::int64_t m = random.whole(1, 20), p = static_cast<std::int64_t>(stages);
        const double whole = pipeline_seconds(f, g, m);
        PipelineLength prefix;
        double rest = sum_of(f, g), last = 0;
        for (std::size_t i = 0; i < stages; ++i) {
            prefix.add(f[i], g[i], std::min(m, p - static_cast<std::int64_t>(i)), m);
            rest -= f[i] + g[i];
            ck_assert_double_le(prefix.least_s(rest), whole * (1 + 1e-9));
            ck_assert_double_ge(prefix.closed_s, last);
            last = prefix.closed_s;
        }
        ck_assert_double_eq_tol(last, whole, 1e-12 * whole);
    }
}

TEST(more_micro_batches_shrink_the_bubble) {
    const double forward[] = {0.3, 0.4, 0.4, 0.3}, backward[] = {0.7, 0.8, 0.6, 0.8};
    double last = 1;
    for (std::int64_t m = 1; m <= 1024; m *= 2) {
        const double share =
            1 - static_cast<double>(m) * 1.2 / pipeline_seconds(forward, backward, m);
        ck_assert_double_lt(share, last);
        last = share;
    }
}

namespace {

/// One task of an interleaved schedule.
struct Task {
    bool forward;
    std::int64_t chunk, micro_batch;
    auto operator<=>(const Task&) const = default;
};

/// Megatron-LM's order on one stage: warm-up forwards, then forwards and backwards in turn.
std::vector<Task> megatron_order(std::int64_t p, std::int64_t v, std::int64_t m,
                                 std::int64_t stage) {
    std::vector<Task> forward, backward, order;
    for (std::int64_t group = 0; group < m; group += p)
        for (std::int64_t chunk = 0; chunk < v; ++chunk)
            for (std::int64_t j = group; j < group + p; ++j) {
                forward.push_back({true, chunk, j});
                backward.push_back({false, v - 1 - chunk, j});
            }
    const auto warm = static_cast<std::size_t>(std::min(m * v, (p - stage - 1) * 2 + (v - 1) * p));
    order.assign(forward.begin(), forward.begin() + static_cast<std::ptrdiff_t>(warm));
    for (std::size_t i = warm; i < forward.size(); ++i) {
        order.push_back(forward[i]);
        order.push_back(backward[i - warm]);
    }
    order.insert(order.end(), backward.end() - static_cast<std::ptrdiff_t>(warm), backward.end());
    return order;
}

/// Ends of all tasks by relaxing "after the one before on this stage, and after what it needs"
/// until nothing moves: the longest path, whatever the order of looking at tasks.
double longest_interleaved_path(const InterleavedStages& s) {
    const auto p = static_cast<std::int64_t>(s.stages());
    const std::int64_t v = s.chunks, m = s.micro_batches, last = p - 1;
    std::map<std::pair<std::int64_t, Task>, double> end;
    bool moved = true;
    double length = 0;
    while (moved) {
        moved = false;
        for (std::int64_t i = 0; i < p; ++i) {
            double free_s = 0;
            for (const Task& t : megatron_order(p, v, m, i)) {
                const std::size_t at =
                    static_cast<std::size_t>(s.chunks_differ ? t.chunk * p + i : i);
                double ready = 0, took = (t.forward ? s.chunk_forward_s : s.chunk_backward_s)[at];
                const bool first = i == 0 && t.chunk == 0, final = i == last && t.chunk == v - 1;
                if (first) took += t.forward ? s.first_forward_s : s.first_backward_s;
                if (final) took += t.forward ? s.last_forward_s : s.last_backward_s;
                if (t.forward && !first)
                    ready =
                        i > 0 ? end[{i - 1, t}] : end[{last, {true, t.chunk - 1, t.micro_batch}}];
                if (!t.forward && final) ready = end[{i, {true, t.chunk, t.micro_batch}}];
                if (!t.forward && !final)
                    ready =
                        i < last ? end[{i + 1, t}] : end[{0, {false, t.chunk + 1, t.micro_batch}}];
                free_s = std::max(free_s, ready) + took;
                double& known = end[{i, t}];
                moved |= known < free_s;
                known = free_s;
                length = std::max(length, free_s);
            }
        }
    }
    return length;
}

}  // namespace

TEST(interleaved_length_is_the_longest_path_of_megatrons_order) {
    Random random(22);
    InterleavedReplay replay;
    for (int n = 0; n < 150; ++n) {
        const auto stages = static_cast<std::size_t>(random.whole(2, 5));
        const std::int64_t chunks = random.whole(2, 4), groups = random.whole(1, 4);
        const bool differ = n % 2 == 1;
        const std::size_t times = stages * static_cast<std::size_t>(differ ? chunks : 1);
        const std::vector<double> f = any_stages(random, times), g = any_stages(random, times);
        const InterleavedStages s{f,
                                  g,
                                  random.real(0, 1),
                                  random.real(0, 1),
                                  random.real(0, 3),
                                  random.real(0, 3),
                                  chunks,
                                  groups * static_cast<std::int64_t>(stages),
                                  differ};
        const double length = replay.seconds(s);
        ck_assert_double_eq_tol(length, longest_interleaved_path(s), 1e-9 * length);
        ck_assert_double_le(least_interleaved_seconds(s), length * (1 + 1e-12));
    }
}

TEST(a_long_interleaved_pipeline_repeats_itself) {
    Random random(23);
    InterleavedReplay replay;
    double worst = 0;
    for (int n = 0; n < 300; ++n) {
        const std::int64_t p = random.whole(2, 6), v = random.whole(2, 4);
        std::vector<double> f, g;
        for (std::int64_t i = 0; i < p; ++i)
            f.push_back(random.real(0.8, 1.2)), g.push_back(2 * f.back());
        const InterleavedStages s{f,
                                  g,
                                  random.real(0, 1),
                                  random.real(0, 1),
                                  random.real(0, 3),
                                  random.real(0, 3),
                                  v,
                                  p * random.whole(60, 90)};
        const double whole = replay.seconds(s, std::numeric_limits<std::int64_t>::max());
        const double part = replay.seconds(s, 40 * p * v * p);
        worst = std::max(worst, std::fabs(part / whole - 1));
        // Not even eight groups: an estimate all the same, and no memory for all tasks.
        ck_assert_double_eq_tol(replay.seconds(s, p), whole, 0.25 * whole);
    }
    std::printf("long interleaved pipelines: off by at most %.2g %%\n", 100 * worst);
    ck_assert_double_lt(worst, 0.005);
    const std::vector<double> one(2, 1.0);
    const double endless = replay.seconds({one, one, 0, 0, 0, 0, 2, std::int64_t{1} << 40});
    ck_assert_double_eq_tol(endless, 4 * std::exp2(40), 1e-6 * endless);
}

TEST(even_interleaving_shrinks_the_bubble_by_the_number_of_chunks) {
    for (std::size_t p : {2u, 4u, 8u})
        for (std::int64_t v : {2, 3, 6})
            for (std::int64_t m : {p, 2 * p, 8 * p}) {
                const std::vector<double> f(p, 1.0 / 3), g(p, 2.0 / 3);
                const double length = InterleavedReplay().seconds(
                    {f, g, 0, 0, 0, 0, v, static_cast<std::int64_t>(m)});
                const auto chunks = static_cast<double>(m * v) + static_cast<double>(p - 1);
                ck_assert_double_eq_tol(length, chunks, 1e-9 * chunks);
            }
}

namespace {

using Kind = PipelineTask::Kind;

struct SplitCase {
    std::vector<double> forward, inputs, weights;
    SplitStages stages;

    SplitCase(Schedule schedule, std::int64_t p, std::int64_t chunks, std::int64_t m,
              const std::function<double()>& seconds) {
        for (std::vector<double>* list : {&forward, &inputs, &weights})
            for (std::int64_t i = 0; i < p * chunks; ++i) list->push_back(seconds());
        stages = {forward, inputs, weights, p, chunks, m, schedule};
    }
};

/// A schedule that p stages and m micro-batches can have, with its chunks.
struct SplitShape {
    Schedule schedule;
    std::int64_t p, chunks, m;
};
SplitShape any_split(Random& random) {
    const Schedule schedule = random.of({Schedule::zb_h1, Schedule::zb_v, Schedule::dual_pipe_v});
    const std::int64_t p = random.whole(2, 6);
    const std::int64_t m = p * random.whole(schedule == Schedule::dual_pipe_v ? 2 : 1, 5);
    return {schedule, p, is_v_shaped(schedule) ? 2 : random.whole(1, 3), m};
}

/// The longest path by relaxing every task's end until none moves, whatever order tasks are in.
double relaxed_s(const SplitStages& s) {
    std::vector<std::vector<PipelineTask>> orders;
    for (std::int64_t i = 0; i < s.stages; ++i)
        orders.push_back(stage_tasks(s.schedule, i, s.stages, s.chunks, s.micro_batches));
    std::map<std::array<std::int64_t, 3>, double> end;  // kind (0 forward, 1 inputs), place, mb
    double longest = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (std::int64_t i = 0; i < s.stages; ++i) {
            double now = 0;
            std::span<const PipelineTask> left = orders[static_cast<std::size_t>(i)];
            while (!left.empty()) {
                const auto joined = left.first(left.front().joins_next ? 2 : 1);
                double work = 0;
                for (const PipelineTask& t : joined) {
                    const std::int64_t place = s.place(i, t.chunk), k = t.micro_batch;
                    const auto at = static_cast<std::size_t>(t.chunk * s.stages + i);
                    const bool last = place + 1 == s.stages * s.chunks;
                    double ready = 0;
                    if (t.kind == Kind::forward && place > 0) ready = end[{0, place - 1, k}];
                    if (t.kind == Kind::weights) ready = end[{1, place, k}];
                    if (t.kind == Kind::inputs || t.kind == Kind::backward)
                        ready = last ? end[{0, place, k}] : end[{1, place + 1, k}];
                    now = std::max(now, ready);
                    work += t.kind == Kind::forward   ? s.forward_s[at]
                            : t.kind == Kind::weights ? s.weights_s[at]
                            : t.kind == Kind::inputs  ? s.inputs_s[at]
                                                      : s.inputs_s[at] + s.weights_s[at];
                }
                now += work;
                longest = std::max(longest, now);
                for (const PipelineTask& t : joined) {
                    if (t.kind == Kind::weights) continue;
                    const int kind = t.kind == Kind::forward ? 0 : 1;
                    double& own = end[{kind, s.place(i, t.chunk), t.micro_batch}];
                    moved = moved || now > own;
                    own = std::max(own, now);
                }
                left = left.subspan(joined.size());
            }
        }
    }
    return longest;
}

}  // namespace

TEST(a_schedule_that_splits_backwards_does_every_task_once_and_holds_what_memory_says) {
    Random random(31);
    for (int n = 0; n < 2000; ++n) {
        const auto [schedule, p, chunks, m] = any_split(random);
        double most = 0;
        for (std::int64_t i = 0; i < p; ++i) {
            std::map<std::array<std::int64_t, 2>, std::array<int, 3>> done;
            const auto tasks = stage_tasks(schedule, i, p, chunks, m);
            for (const PipelineTask& t : tasks) {
                auto& [forward, inputs, weights] = done[{t.chunk, t.micro_batch}];
                forward += t.kind == Kind::forward;
                inputs += t.kind == Kind::inputs || t.kind == Kind::backward;
                weights += t.kind == Kind::weights || t.kind == Kind::backward;
                ck_assert(inputs <= forward && weights <= inputs);
            }
            ck_assert_int_eq(std::ssize(done), chunks * m);
            for (const auto& [task, counts] : done) ck_assert(counts == (std::array{1, 1, 1}));
            most = std::max(
                most, static_cast<double>(most_chunks_held(tasks)) / static_cast<double>(chunks));
            const PlanChoice choice{
                .stages = p, .micro_batches = m, .vpp = chunks, .schedule = schedule};
            ck_assert_double_ge(
                micro_batches_in_flight(choice, i) + 1e-9,
                static_cast<double>(most_chunks_held(tasks)) / static_cast<double>(chunks));
        }
        const PlanChoice choice{
            .stages = p, .micro_batches = m, .vpp = chunks, .schedule = schedule};
        ck_assert_double_eq_tol(micro_batches_in_flight(choice, 0), most, 1e-9);
    }
}

TEST(the_length_of_a_split_pipeline_is_its_longest_path) {
    Random random(32);
    for (int n = 0; n < 1000; ++n) {
        const auto [schedule, p, chunks, m] = any_split(random);
        const SplitCase c(schedule, p, chunks, m, [&] { return random.real(0.1, 1); });
        const double seconds = split_seconds(c.stages, 1 << 18);
        ck_assert_double_eq_tol(seconds, relaxed_s(c.stages), 1e-9);
        ck_assert_double_ge(seconds * (1 + 1e-12), least_split_seconds(c.stages));
    }
}

/// Bubbles in units of a task, where all three take one: (p - 1)(f + b - w) of ZB-H1 (Qi et al.
/// 2024, table 2), beside (p - 1)(f + b + w) of 1F1B; as many of half a stage's chunks, the way to
/// the last stage, in a V; of DualPipeV (p - 1)(f&b + b - 3w),
/// two of them (DeepSeek-V3 2024, table 2).
TEST(split_backwards_leave_the_published_bubbles) {
    for (const std::int64_t p : {2, 4, 8}) {
        const auto bubble = [&](Schedule schedule, std::int64_t chunks) {
            const SplitCase c(schedule, p, chunks, 4 * p, [] { return 1.0; });
            return split_seconds(c.stages, 1 << 18) - least_split_seconds(c.stages);
        };
        const double q = static_cast<double>(p);
        ck_assert_double_eq_tol(bubble(Schedule::zb_h1, 1), q - 1, 1e-9);
        ck_assert_double_eq_tol(bubble(Schedule::zb_h1, 2), q - 1, 1e-9);
        ck_assert_double_eq_tol(bubble(Schedule::zb_v, 2), q - 1, 1e-9);
        ck_assert_double_eq_tol(bubble(Schedule::dual_pipe_v, 2), 2 * (q - 1), 1e-9);
    }
}

TEST(a_long_split_pipeline_repeats_itself) {
    for (const Schedule schedule : {Schedule::zb_h1, Schedule::zb_v, Schedule::dual_pipe_v}) {
        const std::int64_t chunks = schedule == Schedule::zb_h1 ? 1 : 2;
        const SplitCase c(schedule, 4, chunks, 400, [] { return 0.7; });
        const double whole = split_seconds(c.stages, 1 << 18);
        ck_assert_double_eq_tol(split_seconds(c.stages, 3 * 4 * chunks * 4 * 10) / whole, 1, 1e-9);
    }
}

/// Not even 4 groups of micro-batches may be played: an estimate all the same, and no memory for
/// all tasks.
TEST(a_split_pipeline_that_is_too_long_to_play_has_the_published_length) {
    for (const Schedule schedule : {Schedule::zb_h1, Schedule::zb_v, Schedule::dual_pipe_v}) {
        const std::int64_t chunks = schedule == Schedule::zb_h1 ? 1 : 2;
        const SplitCase c(schedule, 8, chunks, 64, [] { return 0.7; });
        const double whole = split_seconds(c.stages, 1 << 18);
        ck_assert_double_eq_tol(split_seconds(c.stages, 3 * 8 * chunks * 8 * 3) / whole, 1, 1e-9);
        const SplitCase endless(schedule, 1024, chunks, std::int64_t{1} << 40, [] { return 1.0; });
        const double least = least_split_seconds(endless.stages);
        ck_assert_double_eq_tol(split_seconds(endless.stages, 1 << 18) / least, 1, 1e-6);
    }
}

TEST(layers_are_partitioned_as_well_as_exhaustive_search_does) {
    const std::vector<std::vector<std::int64_t>> capacities{
        {99, 99}, {99, 99, 99}, {2, 99, 99}, {4, 4, 4, 4}, {99, 99, 1, 99}};
    for (const auto& capacity : capacities)
        for (std::int64_t layers = 1; layers <= 16; ++layers)
            for (double first : {0.0, 0.3, 2.5})
                for (double last : {0.0, 0.9, 5.4, 40.0}) {
                    const EqualLayers problem{layers, 1.0, first, last, capacity};
                    std::vector<std::int64_t> found(capacity.size());
                    const double best = best_partition(problem, 0, layers);
                    ck_assert(partition_layers(problem, found) == (best < 1e8));
                    if (best >= 1e8) continue;
                    std::int64_t sum = 0;
                    for (std::size_t i = 0; i < found.size(); ++i) {
                        ck_assert(found[i] >= 1 && found[i] <= capacity[i]);
                        sum += found[i];
                    }
                    ck_assert_int_eq(sum, layers);
                    ck_assert_double_eq_tol(longest_stage(problem, found), best, 1e-9);
                }
}

SUITE({.timeout_s = 300});
