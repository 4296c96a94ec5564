// SPDX-License-Identifier: GPL-2.0-or-later
// How long the planner thinks, in CPU time of one core, and what its answers weigh. Each line:
// what, number of repetitions, mean, median, 90th percentile, goal. Exit 1 when a median misses its
// goal.
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "planner/hardware/hardware.h"
#include "planner/models/readers.h"
#include "planner/operators/cost.h"
#include "planner/search/offers.h"
#include "planner/search/planner.h"

using namespace arena;

namespace {

double cpu_s() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

bool all_met = true;

/// `peers`: what others take for the same or the nearest thing, measured on 2 shared cores; their
/// search spaces are their own.
void line(const char* what, std::vector<double> values, const char* unit, double scale, double goal,
          const char* peers = "") {
    std::sort(values.begin(), values.end());
    const double mean =
        std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    const double median = values[values.size() / 2], p90 = values[values.size() * 9 / 10];
    const bool met = median * scale <= goal;
    all_met = all_met && met;
    std::printf("%-74s %5zu %9.2f %9.2f %9.2f %8.0f %-3s %s\n", what, values.size(), mean * scale,
                median * scale, p90 * scale, goal, unit, met ? "PASS" : "MISSED");
    if (*peers != '\0') std::printf("    peers: %s\n", peers);
}

/// Each value is the mean of `inner` calls.
std::vector<double> timed(int outer, int inner, const std::function<void()>& call) {
    call();
    std::vector<double> seconds;
    for (int i = 0; i < outer; ++i) {
        const double start = cpu_s();
        for (int j = 0; j < inner; ++j) call();
        seconds.push_back((cpu_s() - start) / inner);
    }
    return seconds;
}

template <typename T>
T must(Result<T> result) {
    if (result) return std::move(result).value();
    std::fprintf(stderr, "planner-speed: %s\n", result.error().message().c_str());
    std::exit(3);
}

struct Bench {
    std::vector<GpuType> hardware = must(load_hardware(""));

    GpuPool pool(const char* name, std::int64_t gpus) const {
        GpuType type = must(find_hardware(hardware, name));
        const std::int64_t per_node = type.gpus_per_node;
        return {name, std::move(type), per_node, gpus, {}, {}, {}};
    }

    PlanQuery query(const char* model, std::int64_t batch, std::int64_t min, std::int64_t max,
                    const std::vector<const char*>& types) const {
        PlanQuery q{must(find_zoo_model(model)), batch, min, max, {}, {}, all_capabilities()};
        q.can.set(Feature::mixed, Degree::no);
        for (const char* type : types) q.pools.push_back(pool(type, max));
        return q;
    }
};

void fixed_plan(const Bench& bench) {
    const Model model = must(find_zoo_model("gpt-175b"));
    const GpuPool pool = bench.pool("A100-SXM-80GB", 1024);
    Plan plan;
    plan.stage_layers.assign(16, 6), plan.stage_dp.assign(16, 8), plan.stage_tp.assign(16, 8);
    plan.num_micro_batches = 192;
    plan.recompute = Recompute::full;
    plan.sequence_parallel = true;
    const Grid grid{"A100-SXM-80GB", 128, 8, 16};
    const auto price = [&] { return must(price_plan(model, 1536, grid, plan, pool)); };
    const Estimate estimate = price();
    line("price one plan, GPT-3 175B on 1,024 A100 (tp8 pp16 dp8, full recompute)",
         timed(50, 1000, price), "us", 1e6, 5,
         "Calculon 12 ms; llm-analysis 0.10 s; vTrain 10.0 s (2.24 M events)");
    std::printf("    predicted iteration %.1f s\n", estimate.iteration_s);
}

/// GPT2-XL on 16 GPUs priced from a profile of 500 rows: of all its own operators, and of another
/// model's, whose times are carried over to it. Where each price reads all rows it takes 330 us.
void profiled_plan(const Bench& bench) {
    constexpr std::size_t rows = 500;
    const Model model = must(find_zoo_model("gpt2-xl"));
    const Grid grid{"A100-SXM-80GB", 2, 8, 4};
    Plan plan;
    plan.stage_layers.assign(4, 12), plan.stage_dp.assign(4, 4), plan.stage_tp.assign(4, 1);
    plan.num_micro_batches = 128;
    for (const std::vector<const char*>& measured :
         {std::vector<const char*>{"gpt2-xl", "gpt-1.3b"}, {"gpt-1.3b"}}) {
        GpuPool pool = bench.pool("A100-SXM-80GB", 64);
        OpSeconds seconds;
        for (const char* name : measured)
            for (const OpShape& shape :
                 operator_list(bench.query(name, 512, 1, 64, {"A100-SXM-80GB"}))) {
                if (seconds.size() == rows) break;
                seconds[shape] = 1.3 * analytic_seconds(pool.hardware, shape);
            }
        pool.profile = ProfileTable(seconds);
        const bool is_own = measured.size() > 1;
        const std::string what = "price one plan from a profile of " +
                                 std::to_string(pool.profile.rows().size()) + " rows, " +
                                 (is_own ? "the model's among them" : "of another model");
        line(what.c_str(), timed(50, 100, [&] { must(price_plan(model, 512, grid, plan, pool)); }),
             "us", 1e6, is_own ? 20 : 66);
    }
}

void uniform_search(const Bench& bench) {
    struct Case {
        const char *model, *name, *peers;
        std::int64_t batch, gpus;
    };
    for (const Case& c :
         {Case{"gpt-175b", "GPT-3 175B on 1,024 A100",
               "Calculon 52.5 s for 4,812 plans (10.9 ms each)", 1536, 1024},
          Case{"gpt-22b", "GPT 22B on 64 A100",
               "Calculon 44.1 s for 4,038 plans; Galvatron 165 s (Llama-2-7B, 8 GPUs)", 256, 64}}) {
        const PlanQuery query = bench.query(c.model, c.batch, c.gpus, c.gpus, {"A100-SXM-80GB"});
        std::int64_t plans = 0;
        for (const GridResult& grid : plan_grids(query)) plans += grid.candidates;
        const std::string what =
            "all uniform plans, " + std::string(c.name) + " (" + std::to_string(plans) + ")";
        line(what.c_str(), timed(30, 1, [&] { plan_grids(query); }), "ms", 1e3, 50, c.peers);
    }
}

void all_grids(const Bench& bench) {
    const PlanQuery query =
        bench.query("gpt2-xl", 512, 1, 64, {"A100-SXM-80GB", "H100-SXM", "A40", "L40S"});
    const std::vector<GridResult> grids = plan_grids(query);
    std::int64_t plans = 0;
    for (const GridResult& grid : grids) plans += grid.candidates;
    const std::string what = "all grids, 48 layers, 4 GPU types, up to 64 GPUs (" +
                             std::to_string(grids.size()) + " grids, " + std::to_string(plans) +
                             " plans)";
    line(what.c_str(), timed(30, 1, [&] { plan_grids(query); }), "ms", 1e3, 100,
         "AMP 253 s for 53 plans (16 T4); Metis 0.14-0.29 s for 13-255 (4-16 A100)");
}

/// What sched/arena asks: each count on more nodes than it needs, too.
void all_layouts(const Bench& bench) {
    PlanQuery query =
        bench.query("gpt2-xl", 512, 1, 64, {"A100-SXM-80GB", "H100-SXM", "A40", "L40S"});
    const std::size_t fewest = make_offers(query).size();
    for (GpuPool& pool : query.pools) pool.nodes = 8;
    const std::string what = "the same, each count on up to 8 nodes (" +
                             std::to_string(make_offers(query).size()) + " offers for " +
                             std::to_string(fewest) + ")";
    line(what.c_str(), timed(30, 1, [&] { plan_grids(query); }), "ms", 1e3, 200);
}

void mixed_stages(const Bench& bench) {
    PlanQuery query = bench.query("gpt2-xl", 512, 64, 64, {"A100-SXM-80GB"});
    query.can.set(Feature::mixed, Degree::free);
    line("stages of unlike dp and tp by DP, 48 layers, 64 A100, all stage counts",
         timed(10, 1, [&] { plan_grids(query); }), "ms", 1e3, 200,
         "Piper 0.19 s for 64 GPUs (BERT-32 layers, one stage count), 4.3 s (BERT-96); Aceso 200 s "
         "budgets");
    query = bench.query("gpt-22b", 256, 64, 64, {"A40"});
    query.can.set(Feature::mixed, Degree::free);
    line("the same, GPT 22B on 64 A40 (memory binds)", timed(10, 1, [&] { plan_grids(query); }),
         "ms", 1e3, 200);
}

void cached_offers(const Bench& bench) {
    PlanQuery query =
        bench.query("gpt2-xl", 512, 1, 64, {"A100-SXM-80GB", "H100-SXM", "A40", "L40S"});
    query.can = {};
    const std::vector<Offer> offers = make_offers(query);
    const std::size_t before = mallinfo2().uordblks;
    OfferCache cache;
    std::size_t stored = 0;
    for (; stored < 10000; stored += offers.size()) cache.insert(std::to_string(stored), offers);
    const auto bytes = static_cast<double>(mallinfo2().uordblks - before);
    line("10,000 offers cached", {bytes * 10000 / static_cast<double>(stored)}, "MiB",
         1.0 / (1 << 20), 50);
}

}  // namespace

/// Arguments choose lines (fixed, profile, uniform, grids, layouts, mixed, offers); none: all.
int main(int argc, char** argv) {
    const Bench bench;
    const auto wanted = [&](const char* name) {
        return argc < 2 || std::find(argv + 1, argv + argc, std::string(name)) != argv + argc;
    };
    std::printf("%-74s %5s %9s %9s %9s %8s\n", "CPU time of one core", "n", "mean", "median", "p90",
                "goal");
    if (wanted("fixed")) fixed_plan(bench);
    if (wanted("profile")) profiled_plan(bench);
    if (wanted("uniform")) uniform_search(bench);
    if (wanted("grids")) all_grids(bench);
    if (wanted("layouts")) all_layouts(bench);
    if (wanted("mixed")) mixed_stages(bench);
    if (wanted("offers")) cached_offers(bench);
    return all_met ? 0 : 1;
}
