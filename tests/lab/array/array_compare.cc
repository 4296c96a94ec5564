// SPDX-License-Identifier: GPL-2.0-or-later
// See array_compare.h.
#include "tests/lab/array/array_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "array/search/prefetch.h"
#include "base/statistics.h"
#include "planner/arrays/array_stages.h"
#include "planner/search/planner.h"
#include "tests/lab/array/baselines.h"

namespace arena {
namespace {

constexpr std::int64_t most_micro_batches = 64;

/// How members of a way keep things.
struct Setting {
    PipelineKind kind = PipelineKind::one_f_one_b;
    std::int64_t micro_batches = 1;
    bool recomputes = false;
};

class Comparer {
  public:
    explicit Comparer(const CompareQuery& query) : q_(query) {
        q_.model.tied_embedding = false;
        q_.pool.max_gpus = q_.stages;
        plan_ = {.model = q_.model,
                 .min_gpus = 1,
                 .max_gpus = q_.stages,
                 .pools = {q_.pool},
                 .can = q_.can};
        for (std::int64_t m = 1; m <= std::min(q_.batch, most_micro_batches); m *= 2)
            if (q_.batch % m == 0) numbers_.push_back(m);
    }

    Result<Comparison> run() {
        for (const std::int64_t m : numbers_) {
            auto stages = price(m);
            if (stages)
                priced_.emplace(m, std::move(*stages));
            else if (m == numbers_.back() && priced_.empty())
                return stages.error();
        }
        std::erase_if(numbers_, [&](std::int64_t m) { return !priced_.contains(m); });
        Comparison all;
        all.model_parallel = best_plain(PipelineKind::gpipe, {1});
        all.model_parallel.way = "model parallelism";
        for (const PipelineKind kind : all_pipeline_kinds) {
            all.plain.push_back(best_plain(kind, numbers_));
            all.with_array.push_back(best_array(kind, all.plain.back()));
        }
        all.array = searched(true, q_.buffers, "ArrayPipe");
        all.without_memory_manager = searched(false, 0, "without memory manager");
        all.without_prefetch = searched(true, 1, "without prefetch");
        all.alone = alone();
        return all;
    }

  private:
    [[nodiscard]] Result<std::vector<ArrayStage>> price(std::int64_t micro_batches) const {
        PlanQuery query = plan_;
        query.global_batch = q_.batch / micro_batches;
        return array_stages(query, q_.pool, q_.stages);
    }
    [[nodiscard]] double capacity() const {
        return real(q_.pool.hardware.memory_bytes) - q_.pool.hardware.reserved_bytes;
    }
    static double kept_bytes(const ArrayStage& stage, bool recomputes) {
        return recomputes ? stage.checkpoint_bytes : stage.activation_bytes;
    }
    static double working_bytes(const ArrayStage& stage, bool recomputes) {
        return recomputes ? stage.working_bytes : 0;
    }

    /// States that every device holds beside what `units` micro-batches keep; below 1: not one.
    [[nodiscard]] std::int64_t states_that_fit(const Setting& s, std::int64_t units) const {
        const auto kept = real(in_flight(s.kind, q_.stages, units));
        double fit = 1e9;
        for (const ArrayStage& stage : priced_.at(s.micro_batches)) {
            const double room = capacity() - kept * kept_bytes(stage, s.recomputes) -
                                working_bytes(stage, s.recomputes);
            fit = std::min(fit, std::floor(room / stage.state_bytes));
        }
        return static_cast<std::int64_t>(std::max(fit, 0.0));
    }

    [[nodiscard]] PipelineRun run_of(const Setting& s, std::int64_t members,
                                     std::int64_t buffers) const {
        PipelineRun run{.kind = s.kind,
                        .devices = {},
                        .members = members,
                        .micro_batches = s.micro_batches,
                        .buffers = buffers};
        for (const ArrayStage& stage : priced_.at(s.micro_batches))
            run.devices.push_back({.forward_s = stage.forward_s,
                                   .backward_s = stage.backward_s,
                                   .recompute_s = s.recomputes ? stage.recompute_s : 0,
                                   .update_s = stage.update_s,
                                   .transfer_s = stage.transfer_s,
                                   .fetch_weights_s = stage.weight_bytes / q_.host_bytes_per_s,
                                   .fetch_state_s = stage.state_bytes / q_.host_bytes_per_s});
        return run;
    }

    // ---- one member after another
    // ----------------------------------------------------------------

    [[nodiscard]] CompareRow best_plain(PipelineKind kind,
                                        const std::vector<std::int64_t>& numbers) const {
        CompareRow best{.way = std::string(words_of(kind))};
        best.reason = "a stage does not fit a device";
        for (const std::int64_t m : numbers)
            for (const bool recomputes : {false, true}) {
                if (!priced_.contains(m)) continue;
                const Setting s{kind, m, recomputes};
                if (states_that_fit(s, m) < 1) continue;
                PipelineTime time = play(run_of(s, 1, 0));
                time.seconds *= real(q_.members);
                keep_better(best, s, 1, 0, time);
                break;  // recomputing what fits is slower
            }
        return best;
    }

    static void keep_better(CompareRow& best, const Setting& s, std::int64_t together,
                            std::int64_t buffers, const PipelineTime& time) {
        if (best.possible && best.time.seconds <= time.seconds) return;
        best.possible = true;
        best.reason.clear();
        best.micro_batches = s.micro_batches;
        best.recomputes = s.recomputes;
        best.together = together;
        best.buffers = buffers;
        best.time = time;
    }

    // ---- members that share
    // ----------------------------------------------------------------------

    /// With the micro-batches that are best for it, no more than without sharing: who shares fills
    /// a pipeline with fewer. One after another where sharing gains nothing.
    [[nodiscard]] CompareRow best_array(PipelineKind kind, const CompareRow& plain) const {
        CompareRow best{.way = plain.way + " + array", .is_array = true};
        best.reason = "the states of two members do not fit";
        for (const std::int64_t m : numbers_)
            for (const bool recomputes : {false, true})
                if (!plain.possible || m <= plain.micro_batches)
                    try_array({kind, m, recomputes}, best);
        if (plain.possible)
            keep_better(best, {kind, plain.micro_batches, plain.recomputes}, 1, 0, plain.time);
        return best;
    }

    void try_array(const Setting& s, CompareRow& best) const {
        const std::int64_t all = states_that_fit(s, q_.members * s.micro_batches);
        if (all >= q_.members)
            return keep_better(best, s, q_.members, 0, play(run_of(s, q_.members, 0)));
        std::int64_t most = q_.members;
        while (most > 1 && states_that_fit(s, most * s.micro_batches) < most) most -= 1;
        if (most > 1) keep_better(best, s, most, 0, in_groups(s, most));
        if (all >= q_.buffers)
            keep_better(best, s, q_.members, all, play(run_of(s, q_.members, all)));
    }

    /// As many at a time as fit, one group after another.
    [[nodiscard]] PipelineTime in_groups(const Setting& s, std::int64_t most) const {
        const std::int64_t rest = q_.members % most;
        std::vector<std::pair<double, PipelineTime>> parts{
            {real(q_.members / most), play(run_of(s, most, 0))}};
        if (rest > 0) parts.emplace_back(1, play(run_of(s, rest, 0)));
        PipelineTime sum;
        for (const auto& [times, part] : parts) {
            const double seconds = times * part.seconds;
            sum.seconds += seconds;
            for (double PipelineTime::*share : {&PipelineTime::forward, &PipelineTime::backward,
                                                &PipelineTime::overhead, &PipelineTime::bubble})
                sum.*share += seconds * (part.*share);
        }
        for (double PipelineTime::*share : {&PipelineTime::forward, &PipelineTime::backward,
                                            &PipelineTime::overhead, &PipelineTime::bubble})
            sum.*share /= sum.seconds;
        return sum;
    }

    // ---- as src/array schedules it
    // ---------------------------------------------------------------

    struct Solved {
        array::Instance instance;
        array::Schedule schedule;
        double tick_s = 0;
    };

    /// With the memory manager nothing but the stage's input is kept, and what has no room for its
    /// state comes from the host; without it all is kept, and only those share who have room.
    [[nodiscard]] CompareRow searched(bool managed, int buffers, const char* way) const {
        CompareRow best{.way = way, .is_array = true};
        best.reason = managed ? "the states of two members do not fit"
                              : "two members' states and activations do not fit";
        if (!priced_.contains(1)) return best;
        for (const bool recomputes : {false, true}) {
            if (!managed && recomputes) continue;
            const Setting s{PipelineKind::gpipe, 1, recomputes};  // all may be in flight
            std::int64_t most = q_.members;
            while (most > 1 && states_that_fit(s, most) < most) most -= 1;
            if (buffers != 1 && most > 1) keep_better(best, s, most, 0, solved_groups(s, most));
            const bool streams = managed && (buffers == 1 || most < q_.members);
            if (streams && states_that_fit(s, q_.members) >= buffers)
                keep_better(best, s, q_.members, buffers,
                            solved(s, q_.members, static_cast<int>(buffers)));
        }
        return best;
    }

    [[nodiscard]] PipelineTime solved_groups(const Setting& s, std::int64_t most) const {
        PipelineTime one = solved(s, most, 0);
        const std::int64_t rest = q_.members % most;
        const double last_s = rest > 0 ? solved(s, rest, 0).seconds : 0;
        one.seconds = real(q_.members / most) * one.seconds + last_s;
        return one;  // shares are those of a whole group
    }

    /// buffers: 0 = every state is there.
    [[nodiscard]] PipelineTime solved(const Setting& s, std::int64_t members, int buffers) const {
        std::vector<ArrayStage> stages = priced_.at(1);
        if (!s.recomputes)
            for (ArrayStage& stage : stages) stage.recompute_s = 0;
        const auto problem = array_problem(stages, members, std::max(buffers, 1), 0);
        if (!problem) return {};
        array::PrefetchedSolution found{problem->instance, {}};
        if (buffers == 0)
            found.solution = array::solve(problem->instance, {}, q_.solve);
        else
            found = array::solve_prefetched(
                problem->instance, {}, prefetch_of(stages, *problem, members, buffers), q_.solve);
        if (!found.solution.schedule) return {};
        return time_of(stages, found.instance, *found.solution.schedule, problem->tick_s,
                       s.recomputes);
    }
    [[nodiscard]] array::PrefetchModel prefetch_of(const std::vector<ArrayStage>& stages,
                                                   const ArrayProblem& problem,
                                                   std::int64_t members, int buffers) const {
        array::PrefetchModel model;
        std::vector<array::Bytes> weights;
        for (std::size_t i = 0; i < stages.size(); ++i) {
            weights.push_back(static_cast<array::Bytes>(stages[i].weight_bytes));
            model.server.push_back(static_cast<int>(i));  // each device has a link of its own
        }
        model.forward_state.assign(static_cast<std::size_t>(members), weights);
        model.backward_state = problem.needs.state;
        model.bytes_per_tick = q_.host_bytes_per_s * problem.tick_s;
        model.buffers = buffers;
        return model;
    }
    [[nodiscard]] PipelineTime time_of(const std::vector<ArrayStage>& stages,
                                       const array::Instance& instance,
                                       const array::Schedule& schedule, double tick_s,
                                       bool recomputes) const {
        double forward_s = 0, backward_s = 0, overhead_s = 0;
        for (const ArrayStage& stage : stages) {
            forward_s += stage.forward_s;
            backward_s += stage.backward_s;
            overhead_s += stage.update_s + (recomputes ? stage.recompute_s : 0);
        }
        PipelineTime time{.seconds = schedule.makespan * tick_s};
        const double all_s = time.seconds * real(q_.stages);
        time.forward = instance.jobs * forward_s / all_s;
        time.backward = instance.jobs * backward_s / all_s;
        time.overhead =
            instance.jobs * overhead_s / all_s + array::breakdown(instance, schedule).switching;
        time.bubble = 1 - time.forward - time.backward - time.overhead;
        return time;
    }

    // ---- side by side
    // ----------------------------------------------------------------------------

    [[nodiscard]] CompareRow alone() const {
        CompareRow row{.way = "one device each"};
        PlanQuery query = plan_;
        query.global_batch = q_.batch;
        query.max_gpus = 1;
        query.pools.front().max_gpus = 1;
        row.reason = "no plan fits one device";
        for (const Offer& offer : make_offers(query)) {
            if (offer.grid.gpus() != 1) continue;
            row.possible = true;
            row.reason.clear();
            row.micro_batches = offer.plan.num_micro_batches;
            row.recomputes = offer.plan.recompute != Recompute::none;
            const double rounds = std::ceil(real(q_.members) / real(q_.stages));
            row.time = {.seconds = rounds * offer.estimate.iteration_s};
        }
        return row;
    }

    CompareQuery q_;
    PlanQuery plan_;
    std::vector<std::int64_t> numbers_;  ///< of micro-batches
    std::map<std::int64_t, std::vector<ArrayStage>> priced_;
};

}  // namespace

Result<Comparison> compare_array(const CompareQuery& query) { return Comparer(query).run(); }

}  // namespace arena
