// SPDX-License-Identifier: GPL-2.0-or-later
// `arena trace generate|inference`: a trace for `arena simulate` on a machine that has none, and a
// load of inference beside it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "base/count_text.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/simulation/commands.h"
#include "cli/simulation/simulate_input.h"
#include "core/limits.h"
#include "sim/generate.h"
#include "sim/generate_inference.h"

namespace arena::cli {
namespace {

constexpr std::size_t max_mix_bytes = std::size_t{1} << 30;

struct TraceOptions {
    std::string cluster, throughputs, mix, out, arrivals = "poisson";
    std::vector<std::string> accounts, models;
    PlannerOptions planner;
    sim::GeneratorOptions generator;
};

/// "physics:70,biology:30".
Status read_accounts(const std::vector<std::string>& texts, sim::GeneratorOptions& out) {
    for (const std::string& text : texts) {
        const auto parts = split(text, ':');
        const auto share = parts.size() == 2 ? parse_number(parts[1], 1e-6, 1e6) : std::nullopt;
        if (!share || parts[0].empty() || parts[0].find(',') != std::string_view::npos) {
            return usage_error(
                fmt::format("\"{}\" is not NAME:SHARE with a share above 0", printable(text)),
                "--accounts");
        }
        out.accounts.emplace_back(parts[0], *share);
    }
    return Done{};
}

/// "gpt2-xl:64,moe__2.4B:256".
Result<std::vector<PlannedModel>> read_models(const std::vector<std::string>& texts) {
    std::vector<PlannedModel> models;
    for (const std::string& text : texts) {
        const auto parts = split(text, ':');
        const auto batch =
            parts.size() == 2 ? parse_integer(parts[1], 1, limits::batch) : std::nullopt;
        if (!batch || parts[0].empty()) {
            return usage_error(fmt::format("\"{}\" is not MODEL:BATCH", printable(text)),
                               "--models");
        }
        models.push_back({std::string(parts[0]), *batch, "--models"});
    }
    return models;
}

Result<sim::Throughputs> read_table(const Globals& globals, const TraceOptions& given,
                                    const sim::Cluster& cluster) {
    if (given.models.empty() == given.throughputs.empty()) {
        return usage_error(
            "one of the two is needed: a table of iteration times, or models for the planner",
            "--throughputs, --models");
    }
    if (given.models.empty()) return read_throughputs(given.throughputs);
    const auto models = read_models(given.models);
    if (!models) return models.error();
    return plan_throughputs(globals, cluster, *models, given.planner);
}

Result<std::vector<sim::TraceJob>> generate(const Globals& globals, const TraceOptions& given) {
    sim::GeneratorOptions options = given.generator;
    options.diurnal = given.arrivals == "diurnal";
    for (const double number : {options.load, options.odd_share, options.median_s, options.sigma}) {
        if (!std::isfinite(number)) {
            return usage_error(
                "--load, --odd-sizes, --median-s and --sigma: finite numbers are needed");
        }
    }
    if (const Status status = read_accounts(given.accounts, options); !status)
        return status.error();
    const Result<sim::Cluster> cluster = read_cluster(given.cluster);
    if (!cluster) return cluster.error();
    const Result<sim::Throughputs> table = read_table(globals, given, *cluster);
    if (!table) return table.error();
    if (!given.mix.empty()) {
        const Result<std::string> text = read_user_file(given.mix, max_mix_bytes);
        if (!text) return text.error();
        Result<std::vector<sim::TraceJob>> mix = sim::parse_trace(*text, given.mix);
        if (!mix) return mix.error();
        options.mix = std::move(*mix);
    }
    return sim::generate_trace(*cluster, *table, options);
}

int run(const Globals& globals, const TraceOptions& given) {
    const Result<std::vector<sim::TraceJob>> jobs = generate(globals, given);
    if (!jobs) return fail(globals, jobs.error());
    if (given.out.empty() || given.out == "-") {
        fmt::print("{}", sim::format_trace(*jobs));
        return exit_yes;
    }
    if (const Status status = write_file_atomic(given.out, sim::format_trace(*jobs)); !status) {
        return fail(globals, status.error());
    }
    const double span_s = jobs->back().submit_s;
    if (globals.json) {
        fmt::print("{}\n", dump_json({{"schema_version", 1},
                                      {"file", given.out},
                                      {"jobs", jobs->size()},
                                      {"span_s", span_s}}));
    } else {
        fmt::print("{}: {} in {}\n", given.out, counted(jobs->size(), "job"),
                   human_seconds(span_s));
    }
    return exit_yes;
}

void add_options(CLI::App& command, TraceOptions& given) {
    command.add_option("--cluster", given.cluster, "cluster YAML")->required();
    command.add_option("--throughputs", given.throughputs, "table of iteration times, CSV");
    command
        .add_option("--models", given.models,
                    "MODEL:BATCH,...: draw from these, with the planner's estimates")
        ->delimiter(',');
    command.add_option("--out", given.out, "file to write [standard output]");
    command.add_option(
        "--mix", given.mix,
        "draw models, sizes and work from this trace, GPU types such that all have the load");
    sim::GeneratorOptions& g = given.generator;
    command.add_option("--jobs", g.jobs, "number of jobs")
        ->check(CLI::Range(1, 10000000))
        ->capture_default_str();
    command.add_option("--load", g.load, "GPU time asked for per GPU time of the cluster")
        ->check(CLI::Range(0.001, 100.0))
        ->capture_default_str();
    command.add_option("--arrivals", given.arrivals, "poisson or diurnal")
        ->check(CLI::IsMember({"poisson", "diurnal"}))
        ->capture_default_str();
    command.add_option("--accounts", given.accounts, "NAME:SHARE,... of the jobs")->delimiter(',');
    command.add_option("--priorities", g.priorities, "priority levels")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    command
        .add_option("--odd-sizes", g.odd_share, "share of jobs that ask for 3, 6, 12 or 24 GPUs")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    command.add_option("--median-s", g.median_s, "median run time as requested, s")
        ->check(CLI::Range(1.0, 1e7))
        ->capture_default_str();
    command.add_option("--sigma", g.sigma, "spread of the run times (log-normal)")
        ->check(CLI::Range(0.0, 5.0))
        ->capture_default_str();
    command.add_option("--iteration-divisor", g.iteration_divisor, "as for arena simulate")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    command.add_option("--seed", g.seed, "the same seed gives the same trace")
        ->capture_default_str();
}

struct InferenceOptions {
    std::string out;
    sim::InferenceGeneratorOptions generator;
};

int run_inference(const Globals& globals, const InferenceOptions& given) {
    const Result<sim::InferenceCurve> curve = sim::generate_inference(given.generator);
    if (!curve) return fail(globals, curve.error());
    const std::string text = sim::format_inference_curve(*curve);
    if (given.out.empty() || given.out == "-") {
        fmt::print("{}", text);
        return exit_yes;
    }
    if (const Status status = write_file_atomic(given.out, text); !status)
        return fail(globals, status.error());
    const std::size_t steps = curve->loads.front().steps.size();
    if (globals.json) {
        fmt::print("{}\n",
                   dump_json({{"schema_version", 1}, {"file", given.out}, {"steps", steps}}));
    } else {
        fmt::print("{}: {} steps of {} s\n", given.out, steps, given.generator.step_s);
    }
    return exit_yes;
}

void add_inference(CLI::App& trace, Globals& globals) {
    CLI::App* command = trace.add_subcommand("inference", "make a day-night load from a seed");
    auto given = std::make_shared<InferenceOptions>();
    sim::InferenceGeneratorOptions& g = given->generator;
    command->add_option("--gpus", g.gpus, "GPUs of inference")->required();
    command->add_option("--gpu-type", g.gpu_type, "column gpu_type [none: the only type]");
    command->add_option("--days", g.days, "length")->capture_default_str();
    command->add_option("--low", g.low, "share of the GPUs at night")->capture_default_str();
    command->add_option("--high", g.high, "share of the GPUs by day")->capture_default_str();
    command->add_option("--noise", g.noise, "sigma of a day's height, thrice that of a step")
        ->capture_default_str();
    command->add_option("--spikes", g.spikes_per_day, "sudden rises a day, a tenth of the GPUs")
        ->capture_default_str();
    command->add_option("--step-s", g.step_s, "seconds of a step")->capture_default_str();
    command->add_option("--out", given->out, "file to write [standard output]");
    command->add_option("--seed", g.seed, "the same seed gives the same load")
        ->capture_default_str();
    command->callback([&globals, given] { globals.status = run_inference(globals, *given); });
}

}  // namespace

void add_trace(CLI::App& app, Globals& globals) {
    CLI::App* trace = app.add_subcommand("trace", trace_about);
    trace->require_subcommand(1);
    CLI::App* command = trace->add_subcommand("generate", "make a trace from a seed");
    auto given = std::make_shared<TraceOptions>();
    add_options(*command, *given);
    command->callback([&globals, given] { globals.status = run(globals, *given); });
    add_inference(*trace, globals);
    add_trace_history(*trace, globals);
}

}  // namespace arena::cli
