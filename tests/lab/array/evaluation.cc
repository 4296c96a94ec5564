// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/array/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <tuple>

#include "array/bounds.h"
#include "array/list_rule.h"
#include "base/statistics.h"
#include "tests/lab/array/schedule_check.h"

namespace arena::cli {

namespace {

using array::Convention;
using array::Instance;
using array::KnownAnswers;
using array::Rules;
using array::Ticks;

constexpr std::size_t small_blocks = 40;   ///< so many must be proved
constexpr double most_gap_percent = 6;     ///< of a run from the best
constexpr double most_above_found = 1.05;  ///< of what others found, not proved
/// Of all runs together; asked where there are enough vectors to be a sample.
constexpr std::size_t enough_vectors = 10;
constexpr double least_hits = 0.70, most_mean_percent = 0.5, most_p95_percent = 3;

double seconds_of(const auto& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The best schedule as known, or that there is none.
Json json_of(const array::Solution& solution) {
    if (solution.schedule) return solution.schedule->makespan;
    return solution.proven ? Json(KnownAnswers::infeasible) : Json();
}

bool is_small(const Instance& instance) { return instance.blocks.size() <= small_blocks; }

}  // namespace

void ArrayEvaluation::expect(const std::string& name, bool passed, const Json& got,
                             const Json& want) {
    ++cases_;
    if (!passed) failed_.push_back({{"case", name}, {"got", got}, {"want", want}});
}

void ArrayEvaluation::judge(const array::ArrayCase& one) {
    judge_stored(one);
    if (one.known.list_rule) {
        const auto own = array::append(one.instance, {}, array::list_order(one.instance, {}));
        expect(one.instance.name + " list rule", own->makespan == *one.known.list_rule,
               own->makespan, *one.known.list_rule);
    }
    options_.solver == array::Solver::exact ? judge_exact(one) : judge_genetic(one);
}

/// The checker takes the schedules of the file, at the makespan that the file says is the best.
void ArrayEvaluation::judge_stored(const array::ArrayCase& one) {
    for (const auto& stored : one.schedules) {
        const bool literal = stored.convention == Convention::literal;
        const Instance instance = array::under(one.instance, stored.convention);
        const auto starts = array::starts_of(instance, stored.blocks);
        const Result<Ticks> makespan =
            starts ? array::check_schedule(instance, stored.rules, *starts) : starts.error();
        const auto& known = literal ? one.known.literal : one.known.physical;
        const std::string name =
            fmt::format("{} schedule {}", instance.name, literal ? "literal" : "physical");
        const bool same = makespan && (!known || *makespan == *known);
        expect(name, same, makespan ? Json(*makespan) : Json(makespan.error().text),
               known ? Json(*known) : Json("holds"));
    }
}

array::Solution ArrayEvaluation::solve_exactly(const Instance& instance, const Rules& rules) {
    array::Solution solution;
    const double took_s = seconds_of([&] {
        solution = array::solve(instance, rules,
                                {.solver = array::Solver::exact, .seconds = options_.limit_s()});
    });
    slowest_s_ = std::max(slowest_s_, took_s);
    total_s_ += took_s;
    nodes_ += solution.nodes;
    proven_ += solution.proven;
    ++vectors_;
    return solution;
}

void ArrayEvaluation::judge_optimum(const std::string& name, const Instance& instance,
                                    const Rules& rules, Ticks want) {
    const array::Solution solution = solve_exactly(instance, rules);
    const Json got = json_of(solution);
    bool passed = got == Json(want);
    if (solution.schedule)
        passed &= array::check_schedule(instance, rules, solution.schedule->start).ok();
    if (!solution.proven) {
        open_.push_back({{"case", name}, {"got", got}, {"bound", solution.bound}, {"known", want}});
        passed = !is_small(instance) && solution.schedule && solution.bound <= want &&
                 solution.schedule->makespan >= want &&
                 solution.schedule->makespan <= want * (1 + most_gap_percent / 100);
    }
    expect(name, passed, got, want);
}

void ArrayEvaluation::judge_exact(const array::ArrayCase& one) {
    const auto& [physical, literal, forward_first, in_flight] = std::tie(
        one.known.physical, one.known.literal, one.known.forward_first, one.known.in_flight);
    const std::string& name = one.instance.name;
    if (physical) judge_optimum(name + " physical", one.instance, {}, *physical);
    const Instance other = array::under(one.instance, Convention::literal);
    const bool is_same = physical && other == one.instance;  // no switches: solved above
    if (literal && is_same)
        expect(name + " literal", *literal == *physical, *physical, *literal);
    else if (literal)
        judge_optimum(name + " literal", other, {}, *literal);
    if (forward_first)
        judge_optimum(name + " forward first", one.instance, {.forward_first = true},
                      *forward_first);
    for (const auto& [cap, want] : in_flight)
        judge_optimum(fmt::format("{} in flight {}", name, cap), one.instance,
                      {.in_flight_cap = cap}, want);
    if (physical || literal) return;
    const array::Solution solution = solve_exactly(one.instance, {});
    if (!solution.proven)
        open_.push_back({{"case", name}, {"got", json_of(solution)}, {"bound", solution.bound}});
    if (solution.schedule) judge_large(one, solution.schedule->makespan);
}

/// What is known of an instance whose optimum is not.
void ArrayEvaluation::judge_large(const array::ArrayCase& one, Ticks makespan) {
    const auto& [instance, known] = std::tie(one.instance, one.known);
    const auto own = array::append(instance, {}, array::list_order(instance, {}));
    answers_[instance.name] = {{"makespan", makespan}, {"list_rule", own->makespan}};
    const auto most = [&](const char* what, double want) {
        expect(fmt::format("{} {}", instance.name, what), makespan <= want, makespan,
               fmt::format("<= {}", want));
    };
    most("no worse than the list rule", own->makespan);
    if (known.list_rule) most("no worse than the known list rule", *known.list_rule);
    if (known.authors) most("no worse than the authors", *known.authors);
    if (known.best_found) most("near the best found", *known.best_found * most_above_found);
    if (known.lower_bound)
        expect(instance.name + " not below the bound", makespan >= *known.lower_bound, makespan,
               fmt::format(">= {}", *known.lower_bound));
}

void ArrayEvaluation::judge_genetic(const array::ArrayCase& one) {
    const Instance& instance = one.instance;
    const auto& known = one.known.physical;
    const auto rule = array::append(instance, {}, array::list_order(instance, {}));
    const auto run = [&](int seed) {
        array::Solution solution;
        const double took_s = seconds_of([&] {
            solution = array::solve(instance, {},
                                    {.solver = array::Solver::genetic,
                                     .seconds = options_.limit_s(),
                                     .seed = static_cast<std::uint64_t>(seed)});
        });
        slowest_s_ = std::max(slowest_s_, took_s);
        total_s_ += took_s;
        return *solution.schedule;  // without rules there always is one
    };
    std::vector<Ticks> makespans;
    array::Schedule first;
    for (int seed = 1; seed <= options_.seeds; ++seed) {
        const array::Schedule schedule = run(seed);
        if (seed == 1) first = schedule;
        makespans.push_back(schedule.makespan);
        const auto holds = array::check_schedule(instance, {}, schedule.start);
        if (!holds) expect(instance.name + " holds", false, holds.error().text, "holds");
        if (known && is_small(instance)) {
            gaps_.push_back(100.0 * (schedule.makespan - *known) / *known);
            optima_ += schedule.makespan == *known;
        }
    }
    ++vectors_;
    const Ticks worst = *std::max_element(makespans.begin(), makespans.end());
    expect(instance.name + " no worse than the list rule", worst <= rule->makespan, worst,
           rule->makespan);
    if (options_.seeds > 1)
        expect(instance.name + " the same with the same seed", run(1) == first, false, true);
    if (known)
        expect(instance.name + " near the best",
               worst >= *known && worst <= *known * (1 + most_gap_percent / 100), worst,
               fmt::format("{} + {} %", *known, most_gap_percent));
    else
        judge_large(one, worst);
}

/// Over all runs.
void ArrayEvaluation::judge_runs() {
    std::sort(gaps_.begin(), gaps_.end());
    const double runs = static_cast<double>(gaps_.size());
    const double hits = static_cast<double>(optima_) / runs, p95 = percentile(gaps_, 0.95);
    const double mean = std::accumulate(gaps_.begin(), gaps_.end(), 0.0) / runs;
    if (vectors_ >= enough_vectors) {
        expect("optimum in so many runs", hits >= least_hits, hits,
               fmt::format(">= {}", least_hits));
        expect("mean gap in percent", mean <= most_mean_percent, mean,
               fmt::format("<= {}", most_mean_percent));
        expect("95th percentile of gaps in percent", p95 <= most_p95_percent, p95,
               fmt::format("<= {}", most_p95_percent));
    }
    answers_["runs"] = gaps_.size();
    answers_["optimum_share"] = hits;
    answers_["mean_gap_percent"] = mean;
    answers_["p95_gap_percent"] = p95;
    answers_["max_gap_percent"] = gaps_.back();
}

Json ArrayEvaluation::finish() {
    if (!gaps_.empty()) judge_runs();
    Json metrics = answers_;
    metrics["searches"] = vectors_;
    metrics["slowest_s"] = slowest_s_;
    metrics["total_s"] = total_s_;
    if (options_.solver == array::Solver::exact) {
        metrics["proven"] = proven_;
        metrics["open"] = open_;
        metrics["nodes"] = nodes_;
    }
    return {{"cases", cases_},
            {"passed", cases_ - failed_.size()},
            {"failed", failed_},
            {"metrics", metrics}};
}

}  // namespace arena::cli
