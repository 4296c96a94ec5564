// SPDX-License-Identifier: GPL-2.0-or-later
// Phase 2 alone (a multiple-choice knapsack), and both phases together.
#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "core/limits.h"
#include "policy/aryl/two_phase.h"
#include "tests/lab/loan/kinds.h"

namespace arena::cli {
namespace {

constexpr std::size_t most_jobs = 1'000'000, most_items = 100'000;
constexpr double most_work = 1e15;
constexpr std::int64_t most_workers = 100'000;

struct WorkerJob {
    JobId id = 0;
    std::int64_t base = 1, most = 1, gpus_per_worker = 1;
    double work = 0, efficiency = 0;
    [[nodiscard]] double base_time() const { return work / static_cast<double>(base); }
};

WorkerJob read_job(const JsonFields& fields, const char* work, std::size_t index) {
    WorkerJob job;
    std::int64_t id = static_cast<std::int64_t>(index);
    if (fields.has("id")) fields.integer("id", id, 0, UINT32_MAX);
    job.id = static_cast<JobId>(id);
    fields.integer("base", job.base, 1, most_workers);
    fields.integer("max", job.most, job.base, most_workers);
    fields.integer("gpus_per_worker", job.gpus_per_worker, 1, limits::gpus);
    fields.number(work, job.work, 0, most_work);
    if (fields.has("eff")) fields.number("eff", job.efficiency, 0, 1);
    return job;
}

std::vector<WorkerJob> read_jobs(const LoanCase& one, const char* work) {
    std::vector<WorkerJob> jobs;
    std::optional<Error> error;
    const Json* list = one.fields.list("jobs", most_jobs);
    for (std::size_t i = 0; list && i < list->size() && !error; ++i)
        jobs.push_back(read_job(
            JsonFields((*list)[i], fmt::format("{}[{}]", one.fields.path("jobs"), i), error), work,
            i));
    if (error) one.fields.refuse("jobs", error->message());
    return jobs;
}

/// Linear speed-up, or the worker x beyond the base adds eff ^ log2(x / base).
Growth growth_of(const WorkerJob& job) {
    Growth growth;
    const auto base = static_cast<double>(job.base);
    double speed = base;
    for (std::int64_t extra = 1; extra <= job.most - job.base; ++extra) {
        const auto x = static_cast<double>(job.base + extra);
        speed += job.efficiency == 0 ? 1 : std::pow(job.efficiency, std::log2(x / base));
        growth.steps.push_back(
            {.gpus = extra * job.gpus_per_worker, .saved_s = job.base_time() - job.work / speed});
    }
    return growth;
}

struct Groups {
    std::vector<Growth> growths;
    std::vector<std::vector<std::int64_t>> workers;  ///< extra ones, by step
};

/// [[extra workers, GPUs, value], ...] of each job, where the file has them.
void read_items(const LoanCase& one, Groups& groups) {
    const Json* lists = one.fields.list("items_workers_weight_value", most_jobs);
    for (std::size_t j = 0; lists && j < lists->size(); ++j) {
        auto& growth = groups.growths.emplace_back();
        auto& workers = groups.workers.emplace_back();
        const Json& list = (*lists)[j];
        if (!list.is_array() || list.size() > most_items)
            return one.fields.refuse("items_workers_weight_value", "a list of lists of items");
        for (const Json& item : list) {
            const bool is_item = item.is_array() && item.size() == 3 &&
                                 item[0].is_number_unsigned() && item[1].is_number_unsigned() &&
                                 item[2].is_number() && std::isfinite(item[2].get<double>()) &&
                                 item[1].get<std::uint64_t>() <= UINT32_MAX / 4;
            if (!is_item)
                return one.fields.refuse("items_workers_weight_value",
                                         "items [extra workers, GPUs, finite value]");
            if (item[1].get<std::int64_t>() == 0) continue;
            growth.steps.push_back({item[1].get<std::int64_t>(), item[2].get<double>()});
            workers.push_back(item[0].get<std::int64_t>());
        }
    }
}

Groups groups_of(const LoanCase& one) {
    Groups groups;
    if (one.fields.has("items_workers_weight_value")) {
        read_items(one, groups);
        return groups;
    }
    for (const WorkerJob& job : read_jobs(one, "remaining_work")) {
        groups.growths.push_back(growth_of(job));
        auto& workers = groups.workers.emplace_back();
        for (std::int64_t extra = 1; extra <= job.most - job.base; ++extra)
            workers.push_back(extra);
    }
    return groups;
}

std::int64_t capacity_of(const LoanCase& one) {
    std::int64_t capacity = 0;
    one.fields.integer("capacity_gpus", capacity, 0, limits::gpus);
    return capacity;
}

Result<Json> solve_knapsack(const LoanCase& one) {
    const std::int64_t capacity = capacity_of(one);
    const Groups groups = groups_of(one);
    if (!one.fields.ok()) return Json();
    const auto start = std::chrono::steady_clock::now();
    const Shares shares = share_out(groups.growths, capacity);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    std::vector<std::int64_t> workers;
    std::int64_t used = 0;
    for (std::size_t j = 0; j < shares.chosen.size(); ++j) {
        const std::int32_t step = shares.chosen[j];
        workers.push_back(step < 0 ? 0 : groups.workers[j][static_cast<std::size_t>(step)]);
        used += step < 0 ? 0 : groups.growths[j].steps[static_cast<std::size_t>(step)].gpus;
    }
    return Json{{"name", one.name},  {"choice", workers},       {"value", shares.saved_s},
                {"gpus_used", used}, {"bound", shares.bound_s}, {"exact", shares.is_exact},
                {"ms", took.count()}};
}

void evaluate_knapsack(const LoanCase& one, const Json& own, LoanReport& report) {
    const double optimum = known_number(one, "optimal_value");
    const auto value = own["value"].get<double>();
    const bool fits = own["gpus_used"].get<std::int64_t>() <= capacity_of(one);
    if (!one.fields.ok()) return;
    report.expect(one.name, fits && is_near(value, optimum), value, optimum);
    report.add("value", value);
    report.add("optimal_value", optimum);
    report.add("exact", own["exact"].get<bool>() ? 1 : 0);
    report.most("ms_most", own["ms"].get<double>());
}

// ---- both phases -------------------------------------------------------------------------------

Result<Json> solve_two_phase(const LoanCase& one) {
    std::int64_t left = capacity_of(one);
    const std::vector<WorkerJob> jobs = read_jobs(one, "work");
    if (!one.fields.ok()) return Json();
    std::vector<BaseDemand> demands;
    for (const WorkerJob& job : jobs)
        demands.push_back({job.id, job.base_time(), job.base * job.gpus_per_worker});
    const auto start = std::chrono::steady_clock::now();
    const std::vector<std::uint32_t> admitted = admit(demands, left);
    std::vector<Growth> growths;
    for (const std::uint32_t i : admitted) {
        left -= demands[i].gpus;
        growths.push_back(growth_of(jobs[i]));
    }
    const Shares shares = share_out(growths, left);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    Json order = Json::array(), extra = Json::object();
    for (std::size_t k = 0; k < admitted.size(); ++k) {
        const WorkerJob& job = jobs[admitted[k]];
        order.push_back(job.id);
        if (job.most > job.base) extra[std::to_string(job.id)] = shares.chosen[k] + 1;
    }
    return Json{{"name", one.name},
                {"admitted_in_order", order},
                {"left_after_phase1", left},
                {"phase2_extra_workers", extra},
                {"phase2_value", shares.saved_s},
                {"exact", shares.is_exact},
                {"ms", took.count()}};
}

void evaluate_two_phase(const LoanCase& one, const Json& own, LoanReport& report) {
    const double value = known_number(one, "phase2_value");
    const Json* order = one.fields.list("admitted_in_order", most_jobs);
    if (!one.fields.ok() || order == nullptr) {
        if (one.fields.ok())
            one.fields.refuse("admitted_in_order", "the known answer, to evaluate,");
        return;
    }
    const Json left = one.json.value("left_after_phase1", own["left_after_phase1"]);
    const bool passed = own["admitted_in_order"] == *order && own["left_after_phase1"] == left &&
                        is_near(own["phase2_value"].get<double>(), value);
    report.expect(
        one.name, passed,
        {{"admitted_in_order", own["admitted_in_order"]}, {"phase2_value", own["phase2_value"]}},
        {{"admitted_in_order", *order}, {"phase2_value", value}});
    report.add("value", own["phase2_value"].get<double>());
    report.add("exact", own["exact"].get<bool>() ? 1 : 0);
    report.most("ms_most", own["ms"].get<double>());
}

}  // namespace

LoanKind knapsack_kind() {
    return {.name = "knapsack",
            .mode = "time saved by extra workers, restarts not charged",
            .keys = {"capacity_gpus", "jobs.remaining_work"},
            .columns = {"name", "value", "bound", "gpus_used", "exact", "choice"},
            .solve = solve_knapsack,
            .evaluate = evaluate_knapsack,
            .finish = nullptr};
}

LoanKind two_phase_kind() {
    return {.name = "two-phase",
            .mode =
                "shortest base demand first, then time saved by extra workers, restarts not "
                "charged",
            .keys = {"capacity_gpus", "jobs.work"},
            .columns = {"name", "admitted_in_order", "left_after_phase1", "phase2_extra_workers",
                        "phase2_value", "exact"},
            .solve = solve_two_phase,
            .evaluate = evaluate_two_phase,
            .finish = nullptr};
}

}  // namespace arena::cli
