// SPDX-License-Identifier: GPL-2.0-or-later
// See simulate_options.h.
#include "cli/simulation/simulate_options.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/text.h"
#include "core/limits.h"

namespace arena::cli {
namespace {

constexpr double a_century_s = 3.2e9;

Status check_numbers(const SimulateOptions& given) {
    const sim::SimulationOptions& s = given.simulation;
    const OptionNumber numbers[] = {{"--round", s.round_s},
                                    {"--min-gap", s.min_gap_s},
                                    {"--max-time", given.max_time_s},
                                    {"--restart-s", given.restart_s},
                                    {"--true-restart-s", given.true_restart_s},
                                    {"--checkpoint-s", given.checkpoint_s},
                                    {"--estimate-error", s.errors.estimate_sigma},
                                    {"--work-error", s.errors.work_sigma},
                                    {"--said-error", s.errors.said_sigma},
                                    {"--said-wrong", s.errors.wrong_share},
                                    {"--liars", s.errors.liar_share},
                                    {"--elastic-share", s.elastic_share},
                                    {"--deadline-s", given.lending.deadline_s}};
    if (const Status finite = check_finite(numbers); !finite) return finite;
    if (s.errors.liar_share > 0 && s.work_unknown)
        return usage_error("needs work that users say something of: not with --work-unknown",
                           "--liars");
    if (s.min_gap_s > s.round_s) {
        return usage_error(
            fmt::format("{} must not be larger than --round ({})", s.min_gap_s, s.round_s),
            "--min-gap");
    }
    return Done{};
}

/// Nothing without a curve.
Result<std::optional<sim::LoanOptions>> read_loans(const SimulateOptions& given) {
    if (given.inference.empty()) return std::optional<sim::LoanOptions>();
    if (given.placement == "pools")
        return usage_error("loans need --placement nodes: a pool has no nodes to lend",
                           "--inference");
    auto curve = read_inference(given.inference);
    if (!curve) return curve.error();
    sim::LoanOptions loans;
    loans.curve = std::move(*curve);
    loans.lend = given.loan == "on";
    loans.rules = given.lending;
    return std::optional(std::move(loans));
}

void add_planner_options(CLI::App& command, PlannerOptions& planner) {
    command.add_flag("--planner", planner.on, "the planner's estimates instead of a table");
    command.add_option("--hardware", planner.hardware,
                       "with --planner: more hardware entries (YAML)");
    command
        .add_option("--launcher", planner.launcher,
                    "with --planner: only plans that it can be told")
        ->capture_default_str();
    command.add_option("--max-gpus", planner.max_gpus, "with --planner: GPUs of the largest offer")
        ->check(CLI::Range(std::int64_t{1}, limits::gpus))
        ->capture_default_str();
}

void add_loan_options(CLI::App& command, SimulateOptions& given) {
    command.add_option("--inference", given.inference,
                       "load of inference beside the cluster, CSV (its nodes: inference: true)");
    command.add_option("--loan", given.loan, "whether inference lends what it does not need")
        ->check(CLI::IsMember({"on", "off"}))
        ->capture_default_str();
    command
        .add_option("--deadline-s", given.lending.deadline_s,
                    "for a lent node to be back once it is asked for, s")
        ->check(CLI::Range(1.0, 86400.0))
        ->capture_default_str();
}

/// What policies do not know, and may not change.
void add_order_options(CLI::App& command, SimulateOptions& given) {
    sim::SimulationOptions& s = given.simulation;
    command
        .add_option(
            "--order", given.order,
            "priority: Slurm's order is kept as promises, and what jobs say is believed as far "
            "as limits enforce it; value: by values alone")
        ->capture_default_str();
    command.add_flag("--priority-by-shares", s.priority_by_shares,
                     "priorities by the cluster's account shares and what accounts held so far");
    command
        .add_option("--promise-slack", s.promises.slack,
                    "how much later than in Slurm's order a promised job may end, of its JCT")
        ->check(CLI::Range(0.0, 10.0))
        ->capture_default_str();
    command
        .add_option("--promise-depth", s.promises.depth,
                    "steps of priority whose first job is promised an end")
        ->check(CLI::Range(0, 32))
        ->capture_default_str();
}

void add_error_options(CLI::App& command, sim::SimulationOptions& s) {
    command
        .add_option("--estimate-error", s.errors.estimate_sigma,
                    "sigma of the hidden factor on each iteration time")
        ->check(CLI::Range(0.0, 5.0))
        ->capture_default_str();
    command
        .add_option("--work-error", s.errors.work_sigma, "sigma of the hidden factor on each work")
        ->check(CLI::Range(0.0, 5.0))
        ->capture_default_str();
    command
        .add_option(
            "--said-error", s.errors.said_sigma,
            "sigma of the hidden factor on what users say of their work, which stays the trace's")
        ->check(CLI::Range(0.0, 5.0))
        ->capture_default_str();
    command
        .add_option("--said-wrong", s.errors.wrong_share,
                    "share of the users who say 60% too much or too little of their work")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    command
        .add_option("--liars", s.errors.liar_share,
                    "share of the users who say 1% of their work, by --seed")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    command
        .add_option("--elastic-share", s.elastic_share,
                    "share of the jobs that may be changed while they run, by --seed")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    command.add_flag("--work-unknown", s.work_unknown,
                     "policies see time limits instead of each work");
    command.add_flag("--ignore-network", s.ignore_network,
                     "policies do not see the cluster's leaf switches and racks");
    command
        .add_option("--seed", s.errors.seed,
                    "seed of the errors, of who lies, and of which jobs are elastic")
        ->capture_default_str();
}

}  // namespace

Status check_finite(std::span<const OptionNumber> numbers) {
    for (const auto& [option, value] : numbers)
        if (!std::isfinite(value)) return usage_error("a finite number is needed", option);
    return Done{};
}

Result<sim::SimulationOptions> simulation_options(const SimulateOptions& given) {
    if (const Status status = check_numbers(given); !status) return status.error();
    sim::SimulationOptions out = given.simulation;
    if (given.max_time_s > 0) out.max_time_s = given.max_time_s;
    out.placement =
        given.placement == "pools" ? sim::PlacementRule::pools : sim::PlacementRule::nodes;
    if (given.checkpoint_s >= 0) out.policy.restart.checkpoint_s = given.checkpoint_s;
    if (given.restart_s >= 0) out.policy.restart = {given.restart_s, 0, 0};
    if (given.true_restart_s >= 0) out.true_restart_s = given.true_restart_s;
    const auto objective = parse_objective(given.objective);
    if (!objective) {
        return usage_error(fmt::format("\"{}\" is not one of jct, throughput, fairness",
                                       printable(given.objective)),
                           "--objective");
    }
    out.policy.objective = *objective;
    const auto order = parse_queue_order(given.order);
    if (!order) {
        return usage_error(
            fmt::format("\"{}\" is not one of priority, value", printable(given.order)), "--order");
    }
    out.policy.order = *order;
    auto loans = read_loans(given);
    if (!loans) return loans.error();
    out.loans = std::move(*loans);
    out.keep_stays = !given.html.empty();
    return out;
}

void add_simulate_options(CLI::App& command, SimulateOptions& given, SimulateAddition* addition) {
    command.add_option("--cluster", given.files.cluster, "cluster YAML")->required();
    command.add_option("--trace", given.files.trace, "trace of jobs, CSV")->required();
    command.add_option("--throughputs", given.files.throughputs, "table of iteration times, CSV");
    add_planner_options(command, given.files.planner);
    command.add_option("--policy", given.policies, "one policy or several, with commas")
        ->delimiter(',')
        ->capture_default_str();
    sim::SimulationOptions& s = given.simulation;
    command.add_option("--round", s.round_s, "longest time between decisions, s")
        ->check(CLI::Range(1.0, 86400.0))
        ->capture_default_str();
    command.add_option("--min-gap", s.min_gap_s, "shortest time between decisions, s")
        ->check(CLI::Range(0.0, 3600.0))
        ->capture_default_str();
    command
        .add_option("--restart-s", given.restart_s,
                    "cost of every start and change of GPUs, s [min(10 x GPUs, 40) + checkpoint]")
        ->check(CLI::Range(0.0, 86400.0));
    command
        .add_option("--true-restart-s", given.true_restart_s,
                    "what these really cost, s, where policies take them for something else")
        ->check(CLI::Range(0.0, 86400.0));
    command.add_flag("--measure-moves", s.measures_moves,
                     "policies know what each job's own last moves took");
    command
        .add_option("--checkpoint-s", given.checkpoint_s, "part of it for the checkpoint, s [30]")
        ->check(CLI::Range(0.0, 86400.0));
    command.add_option("--placement", given.placement, "nodes or pools")
        ->check(CLI::IsMember({"nodes", "pools"}))
        ->capture_default_str();
    command.add_option("--objective", given.objective, "jct, throughput or fairness")
        ->capture_default_str();
    add_order_options(command, given);
    add_loan_options(command, given);
    add_error_options(command, s);
    if (addition != nullptr) addition->add_options(command, given);
    command.add_option("--max-time", given.max_time_s, "end the simulation, s after the first job")
        ->check(CLI::Range(1.0, a_century_s));
    command
        .add_option("--iteration-divisor", given.iteration_divisor,
                    "a job does num_iteration / N iterations")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    command.add_flag("--beside-stock", given.beside_stock,
                     "also each job's JCT / its JCT under backfill and fcfs, as requested");
    command.add_option("--html", given.html, "also write a page with charts to this file");
    command.add_option("--search-steps", s.policy.search_steps, "search budget of one decision")
        ->check(CLI::Range(1, 2000000000))
        ->capture_default_str();
}

}  // namespace arena::cli
