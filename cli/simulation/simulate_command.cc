// SPDX-License-Identifier: GPL-2.0-or-later
// `arena simulate`: policies on a trace, on the rules that doc/policies.md states, the same for
// each.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/count_text.h"
#include "base/json.h"
#include "base/text.h"
#include "baselines/registry.h"
#include "cli/simulation/commands.h"
#include "cli/simulation/simulate_input.h"
#include "cli/simulation/simulate_options.h"
#include "sim/lower_bound.h"
#include "sim/page.h"
#include "sim/simulator.h"

namespace arena::cli {
namespace {

/// Not a policy: what none can beat.
constexpr std::string_view bound_name = "lower-bound";

/// The policies by name; the bound has no function to decide.
Result<std::vector<Policy>> policies_of(const std::vector<std::string>& names) {
    std::vector<Policy> found;
    for (const std::string& name : names) {
        const Policy* policy = find_policy(name);
        if (policy == nullptr && name != bound_name) {
            std::vector<std::string> known;
            for (const Policy& p : policies()) known.emplace_back(p.name);
            known.emplace_back(bound_name);
            return usage_error(
                fmt::format("\"{}\" is not one of {}", printable(name), join(known, ", ")),
                "--policy");
        }
        found.push_back(policy == nullptr ? Policy{bound_name, "", nullptr} : *policy);
    }
    return found;
}

/// What was asked for: simulations and, when named, the bound.
struct Answers {
    std::vector<sim::Metrics> runs;
    std::optional<sim::Bound> bound;
};

/// A bar on the terminal for what takes longer than a moment; nothing when stderr is not one.
class ProgressBar {
  public:
    explicit ProgressBar(std::string_view policy) : policy_(policy), on_(::isatty(2) == 1) {}
    ~ProgressBar() {
        if (shown_) fmt::print(stderr, "\r\033[K");
    }
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;
    void show(double now_s, std::size_t ended, std::size_t jobs) {
        if (!on_ || ++calls_ % 256 != 0 || jobs == 0) return;
        constexpr std::size_t width = 30;
        const std::size_t full = width * ended / jobs;
        fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {}/{} jobs, {}\033[K", policy_, "", full, "",
                   width - full, ended, jobs, human_seconds(now_s));
        shown_ = true;
    }

  private:
    std::string_view policy_;
    bool on_, shown_ = false;
    unsigned calls_ = 0;
};

void print_table(const std::vector<sim::Metrics>& runs) {
    Table table({{"POLICY"},
                 {"JOBS", true},
                 {"ENDED", true},
                 {"JCT mean", true},
                 {"p50", true},
                 {"p90", true},
                 {"p99", true},
                 {"QUEUED", true},
                 {"MAKESPAN", true},
                 {"SAMPLES/S", true},
                 {"GPUS USED", true},
                 {"RESTARTS/JOB", true},
                 {"DECISION p50", true},
                 {"max", true}});
    for (const sim::Metrics& m : runs) {
        table.add(
            {m.policy, std::to_string(m.jobs), std::to_string(m.finished),
             fmt::format("{:.0f}", m.jct_s.mean), fmt::format("{:.0f}", m.jct_s.p50),
             fmt::format("{:.0f}", m.jct_s.p90), fmt::format("{:.0f}", m.jct_s.p99),
             fmt::format("{:.0f}", m.queuing_s.mean), fmt::format("{:.0f}", m.makespan_s),
             fmt::format("{:.1f}", m.throughput_mean),
             fmt::format("{:.1f}%", 100 * m.gpu_utilization),
             fmt::format("{:.2f}", static_cast<double>(m.restarts) /
                                       static_cast<double>(std::max<std::int64_t>(1, m.jobs))),
             fmt::format("{:.3f} ms", m.decision_ms_p50),
             fmt::format("{:.3f} ms", m.decision_ms_max)});
    }
    fmt::print("{}", table.text());
}

void print_loans(const std::vector<sim::Metrics>& runs) {
    constexpr double hour_s = 3600;
    for (const sim::Metrics& run : runs) {
        if (!run.loans) continue;
        const sim::LoanMetrics& m = *run.loans;
        fmt::print(
            "{}: both clusters used {:.1f}%, {:.0f} GPU-hours lent; {} lent, {} "
            "returned, {} late; {} preempted (at least {}), {} scaled in, {} let end; short "
            "{:.0f} server-seconds, {:.0f} s beyond the deadline\n",
            run.policy, 100 * m.usage_both, m.lent_gpu_s / hour_s,
            counted(m.servers_lent, "server"), m.servers_returned, m.late_returns,
            counted(m.preemptions, "job"), m.least_preemptions, m.scaled_in, m.let_end,
            m.short_server_s, m.short_late_s);
    }
}

void print_beside(const std::vector<sim::Metrics>& runs) {
    Table table({{"POLICY"},
                 {"BESIDE"},
                 {"MEAN", true},
                 {"p50", true},
                 {"p99", true},
                 {"max", true},
                 {"ABOVE 1", true},
                 {"ABOVE 1.1", true},
                 {"ABOVE 2", true},
                 {"JOBS", true},
                 {"UNFINISHED", true},
                 {"IN BOTH", true}});
    for (const sim::Metrics& m : runs) {
        for (const sim::Beside& b : m.beside) {
            table.add({m.policy, b.policy, fmt::format("{:.3f}", b.ratio.mean),
                       fmt::format("{:.3f}", b.ratio.p50), fmt::format("{:.3f}", b.ratio.p99),
                       fmt::format("{:.3f}", b.ratio.max), fmt::format("{:.1f}%", 100 * b.above_1),
                       fmt::format("{:.1f}%", 100 * b.above_1_1),
                       fmt::format("{:.1f}%", 100 * b.above_2), std::to_string(b.jobs),
                       std::to_string(b.unfinished), std::to_string(b.unfinished_in_both)});
        }
    }
    fmt::print("{}", table.text());
}

void print_liars(const std::vector<sim::Metrics>& runs) {
    for (const sim::Metrics& run : runs) {
        if (!run.liars) continue;
        const sim::LiarMetrics& m = *run.liars;
        fmt::print(
            "{}: {} of users who lied: mean JCT {:.0f} s, {:.0f} s had nobody lied; the others' "
            "{:.0f} s, {:.0f} s had nobody lied\n",
            run.policy, counted(m.jobs, "job"), m.jct_s, m.truthful_jct_s, m.honest_jct_s,
            m.honest_truthful_jct_s);
    }
}

void print_network(const std::vector<sim::Metrics>& runs) {
    for (const sim::Metrics& run : runs) {
        if (!run.network || run.network->placements == 0) continue;
        const auto placements = static_cast<double>(run.network->placements);
        const bool racks = run.network->racks;
        fmt::print(
            "{}: {} of several nodes: {:.1f}% {}, {:.2f} {} each{}\n", run.policy,
            counted(run.network->placements, "placement"),
            100 * static_cast<double>(run.network->in_one_leaf) / placements,
            racks ? "in one rack" : "below one leaf switch",
            static_cast<double>(run.network->leaves) / placements, racks ? "racks" : "leaves",
            racks ? fmt::format("; {} with a plan that needs one", run.network->need_domain) : "");
    }
}

void print_power(const std::vector<sim::Metrics>& runs) {
    constexpr double hour_s = 3600;
    for (const sim::Metrics& run : runs)
        if (run.power)
            fmt::print("{}: {}, {:.0f} of {:.0f} node-hours awake\n", run.policy,
                       counted(run.power->boots, "boot"), run.power->awake_node_s / hour_s,
                       run.power->node_s / hour_s);
}

void print_bound(const Answers& answers) {
    fmt::print("No policy has a mean JCT below {:.0f} s ({:.0f} s were each job alone).\n",
               answers.bound->mean_jct_s, answers.bound->alone_s);
    for (const sim::Metrics& m : answers.runs) {
        fmt::print("  {} is {:.1f}% above\n", m.policy,
                   100 * (m.jct_s.mean / answers.bound->mean_jct_s - 1));
    }
}

void print_text(const Answers& answers, const SimulateAddition* addition) {
    if (!answers.runs.empty()) print_table(answers.runs);
    print_loans(answers.runs);
    if (!answers.runs.empty() && !answers.runs.front().beside.empty()) print_beside(answers.runs);
    print_liars(answers.runs);
    print_network(answers.runs);
    print_power(answers.runs);
    if (addition != nullptr) addition->print(answers.runs);
    if (answers.bound) print_bound(answers);
    if (!answers.runs.empty() && answers.runs.front().dropped > 0) {
        fmt::print("left out of the trace: {} without a usable row for their model and batch\n",
                   counted(answers.runs.front().dropped, "job"));
    }
}

std::string bound_json(const sim::Bound& bound) {
    return dump_json({{"policy", bound_name},
                      {"jobs", bound.jobs},
                      {"jct_s", {{"mean", bound.mean_jct_s}}},
                      {"alone_s", bound.alone_s}});
}

void print_json(const Answers& answers) {
    std::vector<std::string> parts;
    for (const sim::Metrics& m : answers.runs) parts.push_back(sim::metrics_json(m));
    if (answers.bound) parts.push_back(bound_json(*answers.bound));
    if (parts.size() == 1) {
        fmt::print("{{\"schema_version\":1,{}\n", parts.front().substr(1));
    } else {
        fmt::print("{{\"schema_version\":1,\"runs\":[{}]}}\n", join(parts, ","));
    }
}

Result<sim::Metrics> run_policy(const sim::Workload& workload, const Policy& policy,
                                sim::SimulationOptions options) {
    ProgressBar bar(policy.name);
    options.progress = [&](double now_s, std::size_t ended, std::size_t jobs) {
        bar.show(now_s, ended, jobs);
    };
    options.only_events = policy.only_events;
    Result<sim::Metrics> run = sim::simulate(workload, policy.name, policy.decide, options);
    if (!run && run.error().code == ErrorCode::environment)
        return environment_error(run.error().message(), std::string(policy.name));
    return run;
}

/// With an addition the run that it wants beside each.
Status add_run_beside(const sim::Workload& workload, const Policy& policy,
                      const sim::SimulationOptions& options, const SimulateAddition* addition,
                      sim::Metrics& run) {
    const auto other = addition == nullptr ? std::nullopt : addition->beside(options);
    if (!other) return Done{};
    const Result<sim::Metrics> beside = run_policy(workload, policy, *other);
    if (!beside) return beside.error();
    addition->compare(*beside, run);
    return Done{};
}

/// With liars the same where nobody lies: what they gain, and the others lose, is the difference.
Status add_truthful_run(const sim::Workload& workload, const Policy& policy,
                        const sim::SimulationOptions& options, sim::Metrics& run) {
    if (options.errors.liar_share == 0) return Done{};
    sim::SimulationOptions truthful = options;
    truthful.errors.liar_share = 0;
    truthful.keep_stays = false;
    const Result<sim::Metrics> without = run_policy(workload, policy, truthful);
    if (!without) return without.error();
    run.liars = sim::liars_of(options.errors, run, *without);
    return Done{};
}

/// A policy's run with what it is compared with.
Result<sim::Metrics> run_with_companions(const sim::Workload& workload, const Policy& policy,
                                         const sim::SimulationOptions& options,
                                         const SimulateAddition* addition) {
    Result<sim::Metrics> run = run_policy(workload, policy, options);
    if (!run) return run;
    if (const Status beside = add_run_beside(workload, policy, options, addition, *run); !beside)
        return beside.error();
    if (const Status truthful = add_truthful_run(workload, policy, options, *run); !truthful)
        return truthful.error();
    return run;
}

/// Puts jobs as requested under stock policies beside the runs: limits as the trace has them, and
/// nobody lies, as these policies hear nothing of the work.
Status add_stock_runs(const sim::Workload& workload, const sim::SimulationOptions& options,
                      std::vector<sim::Metrics>& runs) {
    sim::SimulationOptions stock = options;
    stock.policy.order = QueueOrder::value;
    stock.errors.liar_share = 0;
    stock.keep_stays = false;
    for (const char* name : {"backfill", "fcfs"}) {
        const Result<sim::Metrics> other = run_policy(workload, *find_policy(name), stock);
        if (!other) return other.error();
        for (sim::Metrics& run : runs) run.beside.push_back(sim::beside_of(run, *other));
    }
    return Done{};
}

/// What the runs of a page have in common.
sim::PageFacts facts_of(const SimulateOptions& given, const sim::Workload& workload,
                        const sim::SimulationOptions& options, const SimulateAddition* addition) {
    const sim::Errors& errors = options.errors;
    sim::PageFacts facts{
        {"cluster", fmt::format("{}: {}", given.files.cluster, counted(workload.gpus(), "GPU"))},
        {"trace", fmt::format("{}: {}, {} left out", given.files.trace,
                              counted(workload.jobs.size(), "job"), workload.dropped)},
        {"iteration times", given.files.planner.on ? "estimates of the planner, launcher " +
                                                         given.files.planner.launcher
                                                   : given.files.throughputs},
        {"rules", fmt::format("rounds of {} s, placement by {}, objective {}, order {}",
                              options.round_s, given.placement, given.objective, given.order)}};
    if (given.max_time_s > 0) facts.emplace_back("end", fmt::format("{} s", given.max_time_s));
    if (errors.estimate_sigma > 0 || errors.work_sigma > 0 || errors.said_sigma > 0) {
        facts.emplace_back(
            "hidden errors",
            fmt::format("sigma {} on times, {} on work, {} on what is said of it, seed {}",
                        errors.estimate_sigma, errors.work_sigma, errors.said_sigma, errors.seed));
    }
    if (errors.wrong_share > 0)
        facts.emplace_back("wrong run times", fmt::format("60% off in a share of {}, seed {}",
                                                          errors.wrong_share, errors.seed));
    if (errors.liar_share > 0)
        facts.emplace_back("liars", fmt::format("1% of the work said by a share of {}, seed {}",
                                                errors.liar_share, errors.seed));
    if (options.elastic_share < 1) {
        facts.emplace_back("elastic jobs", fmt::format("a share of {}, seed {}",
                                                       options.elastic_share, errors.seed));
    }
    if (options.loans)
        facts.emplace_back("inference", fmt::format("{}, loans {}", given.inference, given.loan));
    if (addition != nullptr) addition->add_facts(options, facts);
    if (options.priority_by_shares)
        facts.emplace_back("priorities", "by shares of accounts, in place of the trace's");
    if (options.work_unknown) facts.emplace_back("work", "hidden: policies see time limits");
    return facts;
}

int simulate(const Globals& globals, const SimulateOptions& given,
             const SimulateAddition* addition) {
    Result<sim::SimulationOptions> options = simulation_options(given);
    if (!options) return fail(globals, options.error());
    if (addition != nullptr)
        if (const Status goes = addition->check(given); !goes) return fail(globals, goes.error());
    const Result<std::vector<Policy>> chosen = policies_of(given.policies);
    if (!chosen) return fail(globals, chosen.error());
    sim::WorkloadOptions binding;
    binding.placement = options->placement;
    binding.iteration_divisor = given.iteration_divisor;
    const Result<sim::Workload> workload = read_workload(globals, given.files, binding);
    if (!workload) return fail(globals, workload.error());
    if (addition != nullptr)
        if (const Status read = addition->read(*workload, *options); !read)
            return fail(globals, read.error());
    Answers answers;
    for (const Policy& policy : *chosen) {
        if (policy.decide == nullptr) {
            sim::BoundOptions bound;
            bound.max_time_s = options->max_time_s;
            bound.errors = options->errors;
            bound.restart = options->policy.restart;
            answers.bound = sim::lower_bound(*workload, bound);
            continue;
        }
        Result<sim::Metrics> run = run_with_companions(*workload, policy, *options, addition);
        if (!run) return fail(globals, run.error());
        answers.runs.push_back(std::move(*run));
    }
    if (given.beside_stock) {
        const Status beside = add_stock_runs(*workload, *options, answers.runs);
        if (!beside) return fail(globals, beside.error());
    }
    if (!given.html.empty()) {
        const std::string page = sim::page_html(*workload, answers.runs, answers.bound,
                                                facts_of(given, *workload, *options, addition));
        if (const Status status = write_file_atomic(given.html, page); !status)
            return fail(globals, status.error());
    }
    if (globals.json) {
        print_json(answers);
    } else {
        print_text(answers, addition);
    }
    return exit_yes;
}

}  // namespace

void add_simulate(CLI::App& app, Globals& globals, std::shared_ptr<SimulateAddition> addition) {
    CLI::App* command = app.add_subcommand("simulate", simulate_about);
    auto given = std::make_shared<SimulateOptions>();
    add_simulate_options(*command, *given, addition.get());
    command->callback([&globals, given, addition = std::move(addition)] {
        globals.status = simulate(globals, *given, addition.get());
    });
}

}  // namespace arena::cli
