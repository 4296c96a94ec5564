// SPDX-License-Identifier: GPL-2.0-or-later
// A budget ends the search wherever it is: model files that are dear to plan, by steps, which are
// the same on every machine; what was left out is said, and what was found are plans.
#include <sys/resource.h>

#include <atomic>
#include <thread>

#include "hostile_models.h"
#include "planner/models/layer_index.h"
#include "planner/models/layer_sums.h"
#include "planner/plans/memory.h"
#include "planner/plans/schedule.h"
#include "planner/search/budget.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;

namespace {

PlanQuery query_of(const std::string& text, std::int64_t batch, std::int64_t gpus,
                   const Capabilities& can = {}) {
    const Model model = must(parse_model(text, "hostile.yaml"));
    const GpuType type = find_hardware(load_hardware("").value(), "A100-SXM-80GB").value();
    return {model, batch, 1, gpus, {}, {{"a100", type, 8, gpus, {}, {}, {}}}, can};
}

struct Hostile {
    const char* what;
    std::string text;
    std::int64_t batch, gpus;
    bool mixed;
};

std::vector<Hostile> known_hostile() {
    return {{"50 kinds x 200 layers", kinds_by_runs_text(50, 200), 720720, 64, false},
            {"two kinds x 5,000 layers", kinds_by_runs_text(2, 5000), 720720, 64, false},
            {"two alternating kinds, 10,000 layers", alternating_text(), 720720, 64, false},
            {"360 kinds x 27 layers", kinds_by_runs_text(360, 27), 5040, 64, false},
            {"60 unlike layers with large outputs", large_outputs_text(), 64, 32, true}};
}

/// A plan that the pricer takes for the grid it stands for.
void assert_sound(const PlanQuery& query, const std::vector<GridResult>& grids) {
    for (const GridResult& grid : grids) {
        if (!grid.feasible) {
            ck_assert(!grid.reason.empty());
            continue;
        }
        const auto estimate =
            price_plan(query.model, query.global_batch, grid.grid, grid.plan, query.pools[0]);
        ck_assert_msg(estimate.ok(), "%s", estimate.ok() ? "" : estimate.error().message().c_str());
        ck_assert_double_eq_tol(estimate->iteration_s / grid.estimate.iteration_s, 1, 1e-9);
    }
}

}  // namespace

TEST(a_spent_budget_ends_the_search_within_few_steps_and_says_what_was_left_out) {
    constexpr std::int64_t polls = 20'000'000;
    for (const Hostile& hostile : known_hostile()) {
        const Capabilities can = hostile.mixed ? all_capabilities() : Capabilities{};
        const PlanQuery query = query_of(hostile.text, hostile.batch, hostile.gpus, can);
        PlanBudget budget({.polls = polls, .bytes = std::size_t{64} << 20});
        const std::vector<GridResult> grids = plan_grids(query, budget);
        std::size_t in_part = 0, feasible = 0;
        for (const GridResult& grid : grids) {
            in_part += grid.in_part ? 1 : 0;
            feasible += grid.feasible ? 1 : 0;
        }
        ck_assert_msg(budget.polls() < polls + polls / 4, "%s: %lld steps", hostile.what,
                      static_cast<long long>(budget.polls()));
        ck_assert_msg(in_part > 0, "%s: nothing was left out", hostile.what);
        ck_assert_msg(feasible > 0, "%s: no plan was found", hostile.what);
        assert_sound(query, grids);
    }
}

TEST(generated_models_stay_within_their_steps) {
    constexpr std::uint64_t seed = 20250101;
    constexpr std::int64_t polls = 200'000;
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    std::mt19937_64 random(seed);
    const std::vector<GpuType> hardware = load_hardware("").value();
    int accepted = 0;
    for (int i = 0; i < 200; ++i) {
        const auto query = HostileModel::random(random).query(
            hardware, i % 2 ? Capabilities{} : all_capabilities());
        if (!query) continue;
        ++accepted;
        PlanBudget budget({.polls = polls, .bytes = std::size_t{64} << 20});
        (void)plan_grids(*query, budget);
        // What is begun is replayed to its end, for a few grids: some milliseconds
        // (tests/bench/planner-budget).
        ck_assert_int_lt(budget.polls(), polls + 64 * max_replayed_tasks);
    }
    ck_assert_int_gt(accepted, 50);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    ck_assert_int_lt(usage.ru_maxrss, 1 << 20);  // KiB: a stranger's model does not fill the memory
}

TEST(another_thread_stops_a_search) {
    const PlanQuery query = query_of(kinds_by_runs_text(50, 200), 720720, 64);
    std::atomic<bool> stop{false}, begun{false};
    std::vector<GridResult> grids;
    std::thread planner([&] {
        PlanBudget budget({.stop = &stop});
        begun = true;
        grids = plan_grids(query, budget);
    });
    while (!begun) std::this_thread::yield();
    stop = true;
    planner.join();  // the suite's limit ends the test where it does not
    ck_assert(
        std::any_of(grids.begin(), grids.end(), [](const GridResult& g) { return g.in_part; }));
}

TEST(a_budget_that_does_changes_nothing) {
    const Model model = find_zoo_model("gpt2-xl").value();
    PlanQuery query = query_of(large_outputs_text(), 64, 8);
    query.model = model;
    PlanBudget ample(
        {.seconds = 3600, .polls = std::int64_t{1} << 40, .bytes = std::size_t{1} << 40});
    const auto limited = plan_grids(query, ample), free = plan_grids(query);
    ck_assert_uint_eq(limited.size(), free.size());
    for (std::size_t i = 0; i < free.size(); ++i) {
        ck_assert(limited[i].plan == free[i].plan && limited[i].estimate == free[i].estimate);
        ck_assert(!limited[i].in_part && !free[i].in_part);
    }
}

TEST(slices_share_what_is_left_and_give_it_back) {
    PlanBudget budget({.polls = 100'000});
    {
        const PlanBudget::Slice half(budget, 0.5);
        while (!budget.poll()) {
        }
        ck_assert_int_le(budget.polls(), 52'000);
        ck_assert_int_ge(budget.polls(), 50'000);
    }
    ck_assert(!budget.look());
    while (!budget.poll()) {
    }
    ck_assert_int_le(budget.polls(), 102'000);
    const PlanBudget::Slice nothing(budget, 1);
    ck_assert(budget.look());
}

/// Sums, greatest and ends of ranges by runs and by counts are those of every layer by itself.
TEST(tables_of_many_layers_say_what_tables_of_every_layer_say) {
    std::mt19937_64 random(7);
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
    for (const bool alternates : {false, true}) {
        LayerList list;
        const std::int64_t kinds = alternates ? 3 : 40, runs = alternates ? 900 : 40;
        for (std::int64_t k = 0; k < kinds; ++k)
            list.kinds.push_back({LayerKind::Body::custom, 0, static_cast<std::size_t>(k), false});
        for (std::int64_t r = 0; r < runs; ++r)
            list.runs.push_back(
                {static_cast<std::size_t>(r % kinds), 1 + below(alternates ? 3 : 60)});
        const auto index = std::make_shared<const LayerIndex>(list);
        ck_assert(index->form() ==
                  (alternates ? LayerIndex::Form::counted : LayerIndex::Form::by_run));
        std::vector<LayerSums<1>::Row> rows;
        std::vector<double> values, every{0.5};
        for (std::int64_t k = 0; k < kinds; ++k) {
            values.push_back(static_cast<double>(1 + below(1000)));
            rows.push_back({values.back()});
        }
        for (const LayerRun& run : list.runs)
            every.insert(every.end(), static_cast<std::size_t>(run.count), values[run.kind]);
        LayerSums<1> sums;
        sums.set(index, rows);
        LayerMost most;
        most.set(index, values);
        LayerEnds ends;
        ends.set(index, 0.5, values);
        for (int n = 0; n < 2000; ++n) {
            const std::int64_t begin = below(static_cast<std::uint64_t>(index->layers()));
            const std::int64_t end =
                begin + 1 + below(static_cast<std::uint64_t>(index->layers() - begin));
            double sum = 0, greatest = 0;
            for (std::int64_t i = begin; i < end; ++i) {
                sum += every[static_cast<std::size_t>(i) + 1];
                greatest = std::max(greatest, every[static_cast<std::size_t>(i) + 1]);
            }
            ck_assert_double_eq(sums.over({begin, end})[0], sum);  // whole numbers: exact
            ck_assert_double_eq(most.over({begin, end}), greatest);
            ck_assert_double_eq(ends.at(end), every[static_cast<std::size_t>(end)]);
        }
        ck_assert_double_eq(ends.at(0), 0.5);
    }
}
