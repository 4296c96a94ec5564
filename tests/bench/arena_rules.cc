// SPDX-License-Identifier: GPL-2.0-or-later
// What each constant of policy arena is worth: mean JCT without it over that with it, in percent,
// on generated traces, venus and pai:
//   tests/bench/arena-rules [SEEDS [FIRST-SEED]]        (default: 3 201)
// Those that mean JCT cannot price (fairness, shares, priorities, starving) are left out.
// The reference data are those of tests/bench/policies (ARENA_REFERENCE_DATA).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>

#include "policy/arena/arena_policy.h"
#include "sim/generate.h"
#include "sim/simulator.h"

using namespace arena;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

struct Variant {
    const char* name;
    void (*change)(ArenaRules&);
};
/// Each takes one rule out: what it multiplies counts once, what it adds not at all.
constexpr Variant variants[] = {
    {"short_s", [](ArenaRules& r) { r.short_s = 0; }},
    {"long_s", [](ArenaRules& r) { r.long_s = infinite; }},
    {"charged_restarts", [](ArenaRules& r) { r.charged_restarts = 1; }},
    {"growth_restarts", [](ArenaRules& r) { r.growth_restarts = 0; }},
    {"free_starts", [](ArenaRules& r) { r.free_starts = 0; }},
    {"least_bonus", [](ArenaRules& r) { r.least_bonus = 1; }},
    {"most_bonus", [](ArenaRules& r) { r.most_bonus = r.least_bonus; }},
    {"few_waiting_share", [](ArenaRules& r) { r.few_waiting_share = 1; }},
    {"momentum", [](ArenaRules& r) { r.momentum = 1; }},
    {"grow_factor", [](ArenaRules& r) { r.grow_factor = 1; }},
    {"period_share", [](ArenaRules& r) { r.period_share = 0; }},
    {"lately_s", [](ArenaRules& r) { r.lately_s = 1; }},
    {"idle_share", [](ArenaRules& r) { r.idle_share = 1; }},
    {"estimate_error", [](ArenaRules& r) { r.estimate_error = 0; }},
};

struct Shape {
    const char* name;
    std::int64_t gpus;
    const char* trace = nullptr;  ///< of the reference data; else generated, as follows
    std::int64_t jobs = 0;
    double load = 0, median_s = 3600, sigma = 1.5;
    bool diurnal = false;
};
const Shape shapes[] = {
    {.name = "load 2", .gpus = 640, .jobs = 1000, .load = 2},
    {.name = "days", .gpus = 320, .jobs = 800, .load = 3, .diurnal = true},
    {.name = "long jobs", .gpus = 320, .jobs = 600, .load = 2.5, .median_s = 7200, .sigma = 2},
    {.name = "crowded", .gpus = 160, .jobs = 800, .load = 1.5},
    {.name = "venus", .gpus = 160, .trace = "venus"},
    {.name = "pai", .gpus = 80, .trace = "pai"},
};
constexpr double elastic_shares[] = {1, 0.5, 0};

[[noreturn]] void stop(const std::string& why) {
    std::fprintf(stderr, "arena-rules: %s\n", why.c_str());
    std::exit(3);
}

template <typename T>
T must(Result<T> result) {
    if (!result) stop(result.error().message());
    return std::move(*result);
}

std::string read(const std::string& path) {
    std::ifstream file(path);
    if (!file) stop("no " + path + " (set ARENA_REFERENCE_DATA)");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

/// That of tests/bench/policies.
sim::Cluster cluster_of(std::int64_t gpus) {
    const std::int64_t divisor = 1280 / gpus, wide = std::max<std::int64_t>(1, divisor / 4);
    sim::Cluster cluster;
    cluster.groups = {{"a100", 80 / divisor, 4, "a"},
                      {"v100", 20 * wide / divisor, 16 / wide, "v"},
                      {"a40", 160 / divisor, 2, "f"},
                      {"a10", 160 / divisor, 2, "t"}};
    return cluster;
}

struct Case {
    std::size_t shape;
    double share;
    sim::Workload workload;
    double mean_s = 0;  ///< with all rules
};

ArenaRules rules;
Decision decide(const Snapshot& s, const Offers& o, const PolicyOptions& options) {
    return decide_arena(s, o, options, rules);
}

std::vector<Case> cases_of(long seeds, std::uint64_t first) {
    const char* given = std::getenv("ARENA_REFERENCE_DATA");
    const std::string data = (given != nullptr ? given : "../shared/data") + std::string("/arena/");
    const sim::Throughputs table =
        must(sim::parse_throughputs(read(data + "alpa_optimal.csv"), "alpa_optimal.csv"));
    std::vector<Case> cases;
    for (std::size_t i = 0; i < std::size(shapes); ++i) {
        const sim::Cluster cluster = cluster_of(shapes[i].gpus);
        for (long n = 0; n < (shapes[i].trace != nullptr ? 1 : seeds); ++n) {
            sim::GeneratorOptions options;
            options.jobs = shapes[i].jobs;
            options.load = shapes[i].load;
            options.median_s = shapes[i].median_s;
            options.sigma = shapes[i].sigma;
            options.diurnal = shapes[i].diurnal;
            options.seed = first + static_cast<std::uint64_t>(n);
            const std::string file = data + "traces/simulate_trace_" +
                                     (shapes[i].trace != nullptr ? shapes[i].trace : "") + ".csv";
            const auto trace = shapes[i].trace != nullptr
                                   ? must(sim::parse_trace(read(file), file))
                                   : must(sim::generate_trace(cluster, table, options));
            for (const double share : elastic_shares)
                cases.push_back({i, share, must(sim::bind_workload(cluster, trace, table, {}))});
        }
    }
    return cases;
}

sim::Metrics run(const Case& c) {
    sim::SimulationOptions options;
    options.elastic_share = c.share;
    options.policy.order = QueueOrder::value;
    return must(sim::simulate(c.workload, "arena", decide, options));
}

double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// A row: by shape, by share of elastic jobs, and over all shapes; restarts per job last.
void print_row(const char* name, const std::vector<Case>& cases, const std::vector<double>& worth,
               double restarts) {
    std::printf("| %-26s |", name);
    std::vector<double> by_shape;
    for (std::size_t i = 0; i < std::size(shapes); ++i) {
        std::vector<double> here;
        for (std::size_t c = 0; c < cases.size(); ++c)
            if (cases[c].shape == i) here.push_back(worth[c]);
        std::printf(" %+.2f |", by_shape.emplace_back(mean(here)));
    }
    for (const double share : elastic_shares) {
        std::vector<double> here;
        for (std::size_t c = 0; c < cases.size(); ++c)
            if (cases[c].share == share) here.push_back(worth[c]);
        std::printf(" %+.2f |", mean(here));
    }
    std::printf(" %+.2f | %.2f |\n", mean(by_shape), restarts);
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    const long seeds = argc > 1 ? std::atol(argv[1]) : 3;
    std::vector<Case> cases =
        cases_of(std::max(1L, seeds), argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 201);
    std::printf("| without |");
    for (const Shape& shape : shapes) std::printf(" %s |", shape.name);
    for (const double share : elastic_shares) std::printf(" elastic %.1f |", share);
    std::printf(" mean | restarts |\n");
    for (const Variant& variant : variants) {
        const bool first = cases.front().mean_s == 0;
        for (Case& c : cases)
            if (first) c.mean_s = run(c).jct_s.mean;
        rules = {};
        variant.change(rules);
        std::vector<double> worth, restarts;
        for (const Case& c : cases) {
            const sim::Metrics m = run(c);
            worth.push_back(100 * (m.jct_s.mean / c.mean_s - 1));
            if (c.share == 1)
                restarts.push_back(static_cast<double>(m.restarts) / static_cast<double>(m.jobs));
        }
        print_row(variant.name, cases, worth, mean(restarts));
    }
}
