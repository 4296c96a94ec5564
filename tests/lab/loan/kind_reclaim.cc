// SPDX-License-Identifier: GPL-2.0-or-later
// Which servers to return: preemptions against the optimum and the published greedy rule.
#include <fmt/format.h>

#include <chrono>

#include "base/text.h"
#include "core/limits.h"
#include "policy/loans/reclaim.h"
#include "tests/lab/loan/kinds.h"

namespace arena::cli {
namespace {

constexpr std::size_t most_jobs = 1'000'000;
constexpr double most_weight = 1e9, total_tolerance = 1.03;

/// {"SERVER": GPUs}.
void read_parts(const JsonFields& job, const char* key, bool is_base, ReclaimProblem& problem) {
    if (!job.has(key)) return;
    const Json* parts = job.object(key);
    if (!parts) return;
    for (const auto& [name, gpus] : parts->items()) {
        const auto server = parse_integer(name, 0, static_cast<std::int64_t>(problem.servers) - 1);
        if (!server || !gpus.is_number_unsigned() ||
            gpus.get<std::uint64_t>() > static_cast<std::uint64_t>(limits::gpus))
            return job.refuse(key, fmt::format("{{\"SERVER\": GPUs}} with servers from 0 to {}",
                                               problem.servers - 1));
        problem.add_part({.server = static_cast<ServerIndex>(*server),
                          .gpus = gpus.get<std::int32_t>(),
                          .is_base = is_base});
    }
}

ReclaimProblem problem_of(const LoanCase& one) {
    ReclaimProblem problem;
    std::int64_t servers = 1, wanted = 0;
    one.fields.integer("servers", servers, 1, limits::gpus);
    one.fields.integer("reclaim", wanted, 0, servers);
    problem.servers = static_cast<std::size_t>(servers);
    problem.wanted = static_cast<std::size_t>(wanted);
    const Json* jobs = one.fields.list("jobs", most_jobs);
    std::optional<Error> error;
    for (std::size_t i = 0; jobs && i < jobs->size() && !error; ++i) {
        const JsonFields job((*jobs)[i], fmt::format("{}[{}]", one.fields.path("jobs"), i), error);
        double weight = 1;
        std::int64_t spare = 0;
        if (job.has("weight")) job.number("weight", weight, 0, most_weight);
        if (job.has("spare")) job.integer("spare", spare, 0, limits::gpus);
        problem.add_job(weight, static_cast<std::int32_t>(spare));
        read_parts(job, "base", true, problem);
        read_parts(job, "flexible", false, problem);
    }
    if (error) one.fields.refuse("jobs", error->message());
    return problem;
}

Result<Json> solve(const LoanCase& one) {
    const ReclaimProblem problem = problem_of(one);
    if (!one.fields.ok()) return Json();
    const auto start = std::chrono::steady_clock::now();
    const ReclaimAnswer answer = choose_servers(problem);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    return Json{{"name", one.name},
                {"returned", answer.returned},
                {"preemptions", answer.cost.preemptions},
                {"weight", answer.cost.weight},
                {"collateral_gpus", answer.cost.collateral_gpus},
                {"scaled_in", answer.cost.scaled_in},
                {"least_weight", answer.least_weight},
                {"gap", answer.gap()},
                {"exact", answer.is_exact},
                {"ms", took.count()}};
}

std::optional<std::int64_t> greedy_preemptions(const LoanCase& one) {
    const auto greedy = one.json.find("greedy");
    if (greedy == one.json.end() || !greedy->is_object()) return std::nullopt;
    const auto share = greedy->find("share");
    if (share == greedy->end() || !share->is_object()) return std::nullopt;
    const auto preemptions = share->find("preemptions");
    if (preemptions == share->end() || !preemptions->is_number_unsigned()) return std::nullopt;
    return preemptions->get<std::int64_t>();
}

/// Never more than the greedy rule; where all choices were looked at, the optimum with the least
/// collateral.
void evaluate(const LoanCase& one, const Json& own, LoanReport& report) {
    const auto preemptions = own["preemptions"].get<std::int64_t>();
    const auto greedy = greedy_preemptions(one);
    const bool exact = own["exact"].get<bool>();
    Json want = Json::object();
    bool passed = true;
    if (greedy) {
        want["preemptions_at_most"] = *greedy;
        passed = preemptions <= *greedy;
    }
    if (!greedy || one.fields.has("optimal_preemptions")) {
        const double optimum = known_number(one, "optimal_preemptions");
        want["preemptions"] = optimum;
        report.add("optimal_preemptions", optimum);
        report.add("preemptions_where_optimum_is_known", static_cast<double>(preemptions));
        if (exact) passed = passed && static_cast<double>(preemptions) == optimum;
    }
    if (exact && one.fields.has("optimal_collateral_gpus")) {
        const double collateral = known_number(one, "optimal_collateral_gpus");
        want["collateral_gpus"] = collateral;
        passed = passed && own["collateral_gpus"].get<double>() == collateral;
    }
    if (!one.fields.ok()) return;
    report.expect(one.name, passed,
                  {{"returned", own["returned"]},
                   {"preemptions", preemptions},
                   {"collateral_gpus", own["collateral_gpus"]}},
                  want);
    report.add("preemptions", static_cast<double>(preemptions));
    report.add("greedy_preemptions", greedy ? static_cast<double>(*greedy) : 0);
    report.add("least_weight", own["least_weight"].get<double>());
    report.add("exact", exact ? 1 : 0);
    report.most("gap_most", own["gap"].get<double>());
    report.most("ms_most", own["ms"].get<double>());
}

/// The total is a case of its own where some answers are not exact.
void finish(LoanReport& report) {
    const double optimum = report.metrics.value("optimal_preemptions", 0.0);
    if (optimum <= 0) return;
    const double own = report.metrics.value("preemptions_where_optimum_is_known", 0.0);
    report.metrics["over_optimum"] = own / optimum - 1;
    if (report.metrics.value("exact", 0.0) < static_cast<double>(report.cases))
        report.expect("total", own <= total_tolerance * optimum, own,
                      fmt::format("<= {:.2f} x {}", total_tolerance, optimum));
}

}  // namespace

LoanKind reclaim_kind() {
    return {.name = "reclaim",
            .mode = "fewest preempted jobs, then GPUs of theirs on servers that stay",
            .keys = {"servers", "reclaim", "jobs"},
            .columns = {"name", "preemptions", "least_weight", "collateral_gpus", "scaled_in",
                        "exact", "returned"},
            .solve = solve,
            .evaluate = evaluate,
            .finish = finish};
}

}  // namespace arena::cli
