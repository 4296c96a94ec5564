// SPDX-License-Identifier: GPL-2.0-or-later
// The longest planning that a search over generated model files finds
// (tests/unit/hostile_models.h): by mutation of what overran its budget the most so far, then the
// worst of them with the limits of slurmctld and of arena plan. Exit 1 when a goal is missed.
//   planner-budget-search [EVALUATIONS [SEED]]
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>

#include "../unit/hostile_models.h"
#include "planner/hardware/hardware.h"
#include "planner/models/model.h"
#include "plugin/sched/plans/plan_desk.h"
#include "request/request.h"

using namespace arena;
using namespace arena::test;

namespace {

using Clock = std::chrono::steady_clock;

constexpr double probe_s = 0.03;  ///< budget of one evaluation
constexpr std::size_t worst_kept = 12;

double cpu_s(clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double wall_s(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

double peak_mib() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024;
}

struct Found {
    HostileModel model;
    double over_s = 0;  ///< what it took beyond its budget
};

bool all_met = true;

void goal(const char* what, double value, double most, const char* unit) {
    const bool met = value <= most;
    all_met = all_met && met;
    std::printf("%-78s %9.1f %9.0f %-4s %s\n", what, value, most, unit, met ? "PASS" : "MISSED");
}

/// CPU time beyond the budget, reading the file and planning it; negative where it needed less.
double overrun_s(const HostileModel& model, const std::vector<GpuType>& hardware, bool any) {
    const double start = cpu_s();
    const auto query = model.query(hardware, any ? all_capabilities() : Capabilities{});
    if (!query) return -1;
    PlanBudget budget({.seconds = probe_s, .bytes = std::size_t{64} << 20});
    (void)plan_grids(*query, budget);
    return cpu_s() - start - probe_s;
}

void keep(std::vector<Found>& worst, Found found) {
    worst.push_back(std::move(found));
    std::sort(worst.begin(), worst.end(),
              [](const Found& a, const Found& b) { return a.over_s > b.over_s; });
    if (worst.size() > worst_kept) worst.pop_back();
}

std::vector<Found> hunt(const std::vector<GpuType>& hardware, bool any, int evaluations,
                        std::mt19937_64& random) {
    std::vector<Found> worst;
    int refused = 0, within = 0;
    for (int i = 0; i < evaluations; ++i) {
        const bool is_new = worst.size() < worst_kept || random() % 4 == 0;
        Found found{is_new ? HostileModel::random(random)
                           : worst[random() % worst.size()].model.mutated(random)};
        found.over_s = overrun_s(found.model, hardware, any);
        refused += found.over_s == -1 ? 1 : 0;
        within += found.over_s > -1 && found.over_s < 0 ? 1 : 0;
        if (found.over_s > -1) keep(worst, std::move(found));
    }
    std::printf(
        "launcher %s: %d model files, %d refused by the reader, %d planned to the end in %.0f ms, "
        "the others cut "
        "short; longest overrun %.1f ms\n",
        any ? "any" : "env", evaluations, refused, within, 1e3 * probe_s,
        1e3 * worst.front().over_s);
    return worst;
}

/// What a round does with a job's model besides waiting for its plan.
double own_cost_s(const PlanQuery& query) {
    Request request;
    request.model = query.model;
    request.global_batch = query.global_batch;
    const auto record = format_record(request);
    if (!record) return 0;  // job_submit refuses it
    const double start = cpu_s();
    const auto parsed = parse_record(*record);
    if (!parsed || !check_model(parsed->model)) return cpu_s() - start;
    (void)fingerprint(parsed->model);
    return cpu_s() - start;
}

void with_slurms_limits(const std::vector<Found>& worst, const std::vector<GpuType>& hardware) {
    double round_s = 0, own_s = 0, stop_s = 0, plan_s = 0;
    for (const Found& found : worst) {
        const auto query = found.model.query(hardware, {});
        PlanLimits limits = slurm_plan_limits();
        std::atomic<int> done{0};
        limits.on_done = [&] { ++done; };
        auto desk = std::make_unique<PlanDesk>(limits);
        auto start = Clock::now();
        desk->begin_round();
        (void)desk->ask(1000, "it", [&] { return *query; });
        round_s = std::max(round_s, wall_s(start));
        own_s = std::max(own_s, own_cost_s(*query));
        start = Clock::now();
        desk.reset();
        stop_s = std::max(stop_s, wall_s(start));
        PlanBudget budget(limits.own);
        const double begin = cpu_s();
        (void)plan_grids(*query, budget);
        plan_s = std::max(plan_s, cpu_s() - begin);
    }
    goal("round: waits for new plans", 1e3 * round_s, 500, "ms");
    goal("round: reads, checks and names one model's record, CPU", 1e3 * own_s, 50, "ms");
    goal("slurmctld stops: until the plan that is being made is given up", 1e3 * stop_s, 1000,
         "ms");
    goal("one plan in slurmctld, beside the rounds, CPU", 1e3 * plan_s, 1200, "ms");
}

void with_arena_plans_limits(const std::vector<Found>& worst,
                             const std::vector<GpuType>& hardware) {
    double plan_s = 0;
    for (const Found& found : worst) {
        const double begin = cpu_s();
        const auto query = found.model.query(hardware, all_capabilities());
        PlanBudget budget({.seconds = 0.8, .bytes = std::size_t{512} << 20});
        (void)plan_grids(*query, budget);
        plan_s = std::max(plan_s, cpu_s() - begin);
    }
    goal("arena plan --launcher any, CPU", 1e3 * plan_s, 1000, "ms");
}

}  // namespace

int main(int argc, char** argv) {
    const int evaluations = argc > 1 ? std::atoi(argv[1]) : 1000;
    const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 16;
    const auto hardware = load_hardware("");
    if (!hardware || evaluations < 1) {
        std::fprintf(stderr, "planner-budget-search [EVALUATIONS [SEED]]\n");
        return 3;
    }
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    std::mt19937_64 random(seed);
    const double before_mib = peak_mib();
    const auto slurm = hunt(*hardware, false, evaluations / 2, random);
    const auto any = hunt(*hardware, true, evaluations - evaluations / 2, random);
    std::printf("\n%-78s %9s %9s\n", "worst of each search", "worst", "goal");
    goal("overrun of a budget of 30 ms", 1e3 * std::max(slurm.front().over_s, any.front().over_s),
         200, "ms");
    with_slurms_limits(slurm, *hardware);
    with_arena_plans_limits(any, *hardware);
    goal("peak memory, above what the program takes by itself", peak_mib() - before_mib, 1024,
         "MiB");
    std::printf("\nworst model, launcher env:\n%.600s\nbatch %lld, up to %lld GPUs\n",
                slurm.front().model.text().c_str(),
                static_cast<long long>(slurm.front().model.batch()),
                static_cast<long long>(slurm.front().model.gpus()));
    return all_met ? 0 : 1;
}
