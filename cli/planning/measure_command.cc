// SPDX-License-Identifier: GPL-2.0-or-later
// `arena measure`: what the profiler saves, done all the same: runs arena-train under each of a set
// of plans and sets what it took against what the planner says. Plans take turns, round by round,
// and the least disturbed round of each counts: a machine that is busy with other things slows all
// of them alike.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>

#include "base/json.h"
#include "base/statistics.h"
#include "base/text.h"
#include "cli/common/ask.h"
#include "cli/planning/commands.h"
#include "cli/planning/plan_input.h"
#include "core/limits.h"
#include "core/observation.h"
#include "core/values_json.h"
#include "planner/search/grids.h"
#include "planner/search/planner.h"
#include "store/store.h"

namespace arena::cli {
namespace {

constexpr std::size_t max_log_bytes = std::size_t{64} << 20, most_plans = 1000;
constexpr const char* launcher = "arena-train";

struct MeasureOptions {
    PlanOptions plan;
    std::vector<std::string> fixed;
    std::string with, data, trainer, store;
    std::int64_t steps = 8, rounds = 3, threads = 1, max_ranks = 2;
    double limit_s = 600;
    bool is_emulated = false;  ///< what the estimates are for
};

struct Subject {
    Offer offer;
    std::vector<double> rounds;  ///< median seconds of a step in each
    double spread = 0;           ///< of the steps of the best round
    [[nodiscard]] double measured_s() const { return *std::ranges::min_element(rounds); }
    [[nodiscard]] double error() const { return offer.estimate.iteration_s / measured_s() - 1; }
};

/// Everything that the runs share; the directory goes with it.
struct Scratch {
    std::filesystem::path directory;
    Scratch() = default;
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        std::error_code ignored;
        if (!directory.empty()) std::filesystem::remove_all(directory, ignored);
    }
};

/// A step's ranks, on whatever node, see the working directory; what others see is on this node.
Status make_scratch(Scratch& scratch, const std::string& runner) {
    const char* temporary = std::getenv("TMPDIR");
    std::error_code unknown;
    const std::string base = runner == "srun" ? std::filesystem::current_path(unknown).string()
                             : temporary != nullptr ? temporary
                                                    : "/tmp";
    if (unknown) return environment_error("the working directory: " + unknown.message());
    std::string name = base + "/arena-measure.XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
        return environment_error(fmt::format("cannot be made: {}", std::strerror(errno)), name);
    scratch.directory = name;
    return Done{};
}

/// Bytes that any vocabulary has, where the user gives none: what is learned does not matter here.
Status write_data(MeasureOptions& options, const Model& model, const Scratch& scratch) {
    if (!options.data.empty()) return Done{};
    const std::int64_t vocab = std::min<std::int64_t>(model.vocab, 256);
    std::string text(static_cast<std::size_t>(64 * (model.seq_length + 1)), '\0');
    std::uint64_t state = 1;
    for (char& byte : text) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        byte = static_cast<char>((state >> 33) % static_cast<std::uint64_t>(vocab));
    }
    options.data = scratch.directory / "data";
    return write_file_atomic(options.data, text);
}

std::string trainer_of(const MeasureOptions& options) {
    if (!options.trainer.empty()) return options.trainer;
    const std::string beside = program_beside(launcher);
    return beside.empty() ? launcher : beside;
}

/// Whether the ranks are threads, MPI processes of mpirun, or an srun step.
std::string runner_of(const MeasureOptions& options) {
    if (!options.with.empty()) return options.with;
    return std::getenv("SLURM_JOB_ID") != nullptr ? "srun" : "threads";
}

std::vector<std::string> command_line(const MeasureOptions& options, const std::string& runner,
                                      const Offer& offer, const std::string& log) {
    const std::string ranks = std::to_string(offer.plan.gpus());
    std::vector<std::string> words{"env", "ARENA_PLAN=" + to_json(offer),
                                   fmt::format("ARENA_GLOBAL_BATCH={}", options.plan.global_batch),
                                   "OMPI_MCA_rmaps_base_oversubscribe=1"};
    if (runner == "srun") {
        for (const char* word : {"srun", "--mpi=pmix", "--overlap", "-n"}) words.emplace_back(word);
        words.push_back(ranks);
    } else if (runner == "mpi") {
        // --quiet, which Open MPI 5 has not.
        for (const char* word : {"OMPI_MCA_orte_execute_quiet=1", "PRTE_MCA_prte_execute_quiet=1",
                                 "mpirun", "--oversubscribe", "-n"})
            words.emplace_back(word);
        words.push_back(ranks);
        if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
    }
    const std::string steps =
        std::to_string(options.steps + static_cast<std::int64_t>(warm_up_steps));
    for (const std::string& word :
         {trainer_of(options), std::string("--model"), options.plan.model, std::string("--data"),
          options.data, std::string("--steps"), steps, std::string("--threads"),
          std::to_string(options.threads), std::string("--log"), log, std::string("--quiet"),
          std::string("--no-report"), std::string("--device"),
          std::string(options.is_emulated ? "cpu" : "cuda")})
        words.push_back(word);
    if (options.plan.seq_length > 0)
        for (const std::string& word :
             {std::string("--seq-length"), std::to_string(options.plan.seq_length)})
            words.push_back(word);
    if (runner == "threads")
        for (const std::string& word : {std::string("--ranks"), ranks}) words.push_back(word);
    return words;
}

/// iteration_s of every step in the log.
Result<std::vector<double>> step_seconds(const std::string& log) {
    const auto text = read_user_file(log, max_log_bytes);
    if (!text) return text.error();
    std::vector<double> seconds;
    for (const std::string_view line : split(*text, '\n')) {
        const auto json = parse_json(line);
        if (json && json->is_object() && json->contains("iteration_s") &&
            (*json)["iteration_s"].is_number())
            seconds.push_back((*json)["iteration_s"].get<double>());
    }
    if (seconds.size() <= warm_up_steps) return environment_error("has no steps to measure", log);
    return seconds;
}

Status run_once(const MeasureOptions& options, const std::string& runner, const Scratch& scratch,
                Subject& subject) {
    const std::string log = scratch.directory / "log";
    std::filesystem::remove(log);
    const auto output =
        run_program(command_line(options, runner, subject.offer, log),
                    std::chrono::seconds(static_cast<std::int64_t>(options.limit_s)));
    if (!output) return output.error();
    if (output->status != 0)
        return environment_error(fmt::format("arena-train ends with {}: {}", output->status,
                                             printable(trim(output->err), 300)),
                                 short_form(subject.offer.plan));
    const auto seconds = step_seconds(log);
    if (!seconds) return seconds.error();
    const StepTimes times = step_times(*seconds);
    if (subject.rounds.empty() || times.median_s < subject.measured_s())
        subject.spread = times.spread;
    subject.rounds.push_back(times.median_s);
    return Done{};
}

/// In rounds, until one fails: what was measured until then stays.
Status run_all(const MeasureOptions& options, const std::string& runner, const Scratch& scratch,
               std::vector<Subject>& subjects) {
    for (std::int64_t round = 0; round < options.rounds; ++round)
        for (Subject& subject : subjects)
            if (auto s = run_once(options, runner, scratch, subject); !s) return s;
    return Done{};
}

/// Every (pp, dp, tp, micro-batch) of at most so many ranks that shares everything out evenly.
std::vector<FixedPlan> all_plans(const Model& model, std::int64_t batch, std::int64_t max_ranks) {
    std::vector<FixedPlan> plans;
    for (std::int64_t ranks = 1; ranks <= max_ranks; ++ranks)
        for (std::int64_t pp = 1; pp <= std::min(ranks, model.layers); ++pp)
            for (std::int64_t tp = 1; pp * tp <= ranks; ++tp) {
                const std::int64_t dp = ranks / (pp * tp);
                if (pp * tp * dp != ranks || batch % dp != 0 || model.heads % tp != 0) continue;
                for (std::int64_t mb = 1; mb <= batch / dp; mb *= 2) {
                    if (batch / dp % mb != 0 || plans.size() >= most_plans) continue;
                    FixedPlan plan;
                    plan.pp = pp, plan.dp = dp, plan.tp = tp, plan.micro_batch = mb;
                    plans.push_back(plan);
                }
            }
    return plans;
}

Result<std::vector<FixedPlan>> plans_of(const MeasureOptions& options, const Model& model) {
    std::vector<FixedPlan> plans;
    if (options.fixed.empty())
        return all_plans(model, options.plan.global_batch, options.max_ranks);
    for (const std::string& text : options.fixed) {
        const auto plan = parse_fixed(text);
        if (!plan) return plan.error();
        plans.push_back(*plan);
    }
    return plans;
}

Result<std::vector<Subject>> subjects_of(const MeasureOptions& options, const Model& model,
                                         GpuPool pool) {
    const auto plans = plans_of(options, model);
    if (!plans) return plans.error();
    std::vector<Subject> subjects;
    for (const FixedPlan& fixed : *plans) {
        const auto plan = make_plan(fixed, model, options.plan.global_batch, LayerSplit::any);
        if (!plan) return plan.error();
        const std::string foreign = inexpressible(capabilities_of(launcher), model, *plan);
        if (!foreign.empty())
            return usage_error(fmt::format("has {}, which arena-train cannot run", foreign),
                               "--fixed");
        const std::int64_t gpus = fixed.gpus();
        const NodeShape shape = node_shape(gpus, pool.gpus_per_node);
        if (fixed.tp > shape.gpus_per_node) {
            if (options.fixed.empty()) continue;
            return usage_error(
                fmt::format("{}: {} ranks fill {} nodes of {} equally, tp{} needs {} on one",
                            short_form(*plan), gpus, shape.nodes, shape.gpus_per_node, fixed.tp,
                            fixed.tp),
                "--fixed");
        }
        const Grid grid{pool.gpu_type, shape.nodes, shape.gpus_per_node, fixed.pp};
        pool.max_gpus = gpus;
        const auto estimate = price_plan(model, options.plan.global_batch, grid, *plan, pool);
        if (!estimate && options.fixed.empty() && estimate.error().code == ErrorCode::no) continue;
        if (!estimate) return estimate.error();
        const auto memory = static_cast<double>(pool.hardware.memory_bytes);
        if (options.fixed.empty() && estimate->memory_bytes_per_gpu > memory) continue;
        subjects.push_back({{grid, *plan, *estimate}, {}, 0});
    }
    if (subjects.empty())
        return no_error("no plan of that model, batch and number of ranks is feasible");
    return subjects;
}

Status keep(const MeasureOptions& options, const Model& model,
            const std::vector<Subject>& subjects) {
    if (options.store.empty()) return Done{};
    std::string notice;
    const auto store = ProfileStore::open(options.store, &notice);
    if (!store) return store.error();
    if (!notice.empty()) fmt::print(stderr, "arena: {}\n", notice);
    for (const Subject& s : subjects) {
        const Observation observation{.grid = s.offer.grid,
                                      .plan = s.offer.plan,
                                      .iteration_s = s.measured_s(),
                                      .estimated_s = s.offer.estimate.iteration_s,
                                      .spread = s.spread};
        const auto kept = (*store)->reports().keep({.model_fingerprint = fingerprint(model),
                                                    .model_name = model.name,
                                                    .global_batch = options.plan.global_batch,
                                                    .launcher = launcher,
                                                    .observation = observation,
                                                    .steps = options.steps,
                                                    .at_s = static_cast<double>(std::time(nullptr)),
                                                    .shared = true});
        if (!kept) return Error{kept.error().code, kept.error().text, short_form(s.offer.plan)};
    }
    return Done{};
}

struct Summary {
    double mean = 0, median = 0, max = 0, bias = 0;
};
Summary summary_of(const std::vector<Subject>& subjects) {
    std::vector<double> errors;
    Summary all;
    for (const Subject& s : subjects) {
        errors.push_back(std::fabs(s.error()));
        all.mean += errors.back() / static_cast<double>(subjects.size());
        all.bias += s.error() / static_cast<double>(subjects.size());
    }
    std::ranges::sort(errors);
    all.median = median(errors);
    all.max = errors.back();
    return all;
}

Json json_of(const Subject& s) {
    return {{"grid", arena::json_of(s.offer.grid)},
            {"plan", arena::json_of(s.offer.plan)},
            {"measured_s", s.measured_s()},
            {"spread", s.spread},
            {"rounds_s", s.rounds},
            {"estimate", arena::json_of(s.offer.estimate)},
            {"error", s.error()}};
}

/// One document, also where a run or the store failed: what was measured, and the error beside it.
void print_json(const MeasureOptions& options, const Model& model, const std::string& runner,
                const std::vector<Subject>& subjects, const Status& ended) {
    const Summary all = summary_of(subjects);
    Json rows = Json::array();
    for (const Subject& s : subjects) rows.push_back(json_of(s));
    Json json = {{"schema_version", 1},
                 {"model", model.name},
                 {"global_batch", options.plan.global_batch},
                 {"gpu_type", options.plan.gpu_types.front()},
                 {"ranks_as", runner},
                 {"plans", rows},
                 {"n", subjects.size()},
                 {"mean_abs", all.mean},
                 {"median_abs", all.median},
                 {"max_abs", all.max},
                 {"bias", all.bias}};
    if (!ended) json["error"] = {{"text", ended.error().text}, {"where", ended.error().where}};
    fmt::print("{}\n", dump_json(json));
}

void print_table(const MeasureOptions& options, const Model& model, const std::string& runner,
                 const std::vector<Subject>& subjects) {
    Table table({{"plan", false, Wide::below},
                 {"layers"},
                 {"recompute"},
                 {"ranks", true},
                 {"measured", true},
                 {"spread", true},
                 {"estimated", true},
                 {"source"},
                 {"error", true}});
    for (const Subject& s : subjects) {
        const Plan& plan = s.offer.plan;
        table.add({short_form(plan), fmt::format("{}", fmt::join(plan.stage_layers, ",")),
                   std::string(to_string(plan.recompute)), std::to_string(plan.gpus()),
                   human_seconds(s.measured_s()), fmt::format("{:.0f} %", 100 * s.spread),
                   human_seconds(s.offer.estimate.iteration_s),
                   std::string(to_string(s.offer.estimate.source)),
                   fmt::format("{:+.1f} %", 100 * s.error())});
    }
    fmt::print("{}, global batch {}, {} steps in {} rounds, ranks as {}\n\n{}\n", model.name,
               options.plan.global_batch, options.steps, options.rounds,
               runner == "threads" ? "threads"
               : runner == "mpi"   ? "MPI processes"
                                   : "an srun step",
               table.text());
    const Summary all = summary_of(subjects);
    fmt::print("{} plans: |error| mean {:.1f} %, median {:.1f} %, max {:.1f} %; bias {:+.1f} %\n",
               subjects.size(), 100 * all.mean, 100 * all.median, 100 * all.max, 100 * all.bias);
}

/// Keeps and shows what was measured, whether or not all of it could be; the exit code.
int finish(const Globals& globals, const MeasureOptions& options, const Model& model,
           const std::string& runner, const std::vector<Subject>& subjects, const Status& ran) {
    const Status kept = keep(options, model, subjects);
    const Status& ended = ran ? kept : ran;
    if (globals.json)
        print_json(options, model, runner, subjects, ended);
    else
        print_table(options, model, runner, subjects);
    if (!ran && !kept) fmt::print(stderr, "arena: {}\n", kept.error().message());
    if (ended) return exit_yes;
    Globals told = globals;
    told.json = false;  // the document has it
    return fail(told, ended.error());
}

int measure(const Globals& globals, MeasureOptions options) {
    const auto model = read_model(options.plan);
    if (!model) return fail(globals, model.error());
    if (model->family != Family::gpt)
        return fail(globals, usage_error("arena-train runs GPT-2 alone, not " +
                                             std::string(to_string(model->family)),
                                         "--model"));
    const auto pools = read_pools(globals, options.plan);
    if (!pools) return fail(globals, pools.error());
    const std::string runner = runner_of(options);
    options.is_emulated = pools->front().hardware.emulated;
    auto subjects = subjects_of(options, *model, pools->front());
    if (!subjects) return fail(globals, subjects.error());
    Scratch scratch;
    if (auto s = make_scratch(scratch, runner); !s) return fail(globals, s.error());
    if (auto s = write_data(options, *model, scratch); !s) return fail(globals, s.error());
    const Status ran = run_all(options, runner, scratch, *subjects);
    std::erase_if(*subjects, [](const Subject& s) { return s.rounds.empty(); });
    if (subjects->empty()) return fail(globals, ran.error());
    return finish(globals, options, *model, runner, *subjects, ran);
}

}  // namespace

void add_measure(CLI::App& app, Globals& globals) {
    CLI::App* command =
        app.add_subcommand("measure", "run arena-train under plans and compare with the estimates");
    const auto o = std::make_shared<MeasureOptions>();
    o->plan.launcher = launcher;
    o->plan.gpu_types = {"emulated-cpu"};
    const CLI::Range count(std::int64_t{1}, std::int64_t{1} << 20);
    command->add_option("--model", o->plan.model, "built-in name, config.json or model YAML")
        ->required();
    command->add_option("--global-batch", o->plan.global_batch, "samples per iteration")
        ->required()
        ->check(CLI::Range(std::int64_t{1}, limits::batch));
    command->add_option("--seq-length", o->plan.seq_length, "tokens per sample [the model's]")
        ->check(count);
    command->add_option("--fixed", o->fixed,
                        "this plan, as in arena plan; may be repeated [all of --ranks]");
    command->add_option("--ranks", o->max_ranks, "all plans of at most so many ranks")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    command->add_option("--gpu-type", o->plan.gpu_types, "what they run on [emulated-cpu]")
        ->expected(1);
    command->add_option("--hardware", o->plan.hardware, "more hardware entries (YAML)");
    command->add_option("--calibration", o->plan.calibration,
                        "constants over the built-in ones (YAML)");
    command->add_option("--profiles", o->plan.profiles, "profile JSON, or a profile store (.db)");
    command
        ->add_option("--with", o->with,
                     "ranks are threads, mpi or srun [srun in an allocation, else threads]")
        ->check(CLI::IsMember({"threads", "mpi", "srun"}));
    command->add_option("--steps", o->steps, "of a run, beside the first two")
        ->check(count)
        ->capture_default_str();
    command->add_option("--rounds", o->rounds, "runs of each plan, in turn; the fastest counts")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    command->add_option("--threads", o->threads, "of each rank")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    command->add_option("--limit", o->limit_s, "seconds that one run may take")
        ->check(CLI::Range(1, 86400))
        ->capture_default_str();
    command->add_option("--data", o->data, "file of bytes [made for the run]");
    command->add_option("--trainer", o->trainer,
                        "arena-train to run [beside this program, else PATH]");
    command->add_option("--store", o->store, "keep what was measured in this profile store");
    command->callback([&globals, o] { globals.status = measure(globals, *o); });
}

}  // namespace arena::cli
