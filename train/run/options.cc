// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/options.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "core/limits.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"

namespace arena::train {
namespace {

void add_model_options(CLI::App& app, CommandLine& line) {
    app.add_option(
        "--model", line.model,
        "config.json, model YAML, or a built-in name (arena-model(5)); else the sizes below");
    app.add_option("--layers", line.layers, "blocks")
        ->check(CLI::Range(1, 65536))
        ->capture_default_str();
    app.add_option("--hidden", line.hidden, "width")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    app.add_option("--heads", line.heads, "attention heads")
        ->check(CLI::Range(1, 65536))
        ->capture_default_str();
    app.add_option("--ffn", line.ffn, "MLP width [4 x hidden]")->check(CLI::Range(1, 1 << 22));
    app.add_option("--vocab", line.vocab, "vocabulary")
        ->check(CLI::Range(1, 1 << 24))
        ->capture_default_str();
    app.add_option("--seq-length", line.seq, "tokens per sample [the model's, else 128]")
        ->check(CLI::Range(std::int64_t{1}, limits::tokens));
    app.add_flag("--untied", line.untied, "the output head has a matrix of its own");
}

void add_plan_options(CLI::App& app, CommandLine& line) {
    const CLI::Range degree(std::int64_t{1}, limits::gpus);
    app.add_option("--global-batch", line.global_batch, "samples per step [ARENA_GLOBAL_BATCH]")
        ->check(CLI::Range(std::int64_t{1}, limits::batch));
    app.add_option("--pp", line.plan.pp, "pipeline stages [1]")->check(degree);
    app.add_option("--dp", line.plan.dp, "replicas [the ranks that are left]")->check(degree);
    app.add_option("--tp", line.plan.tp, "tensor-parallel ranks [1]")->check(degree);
    app.add_option("--micro-batch", line.plan.micro_batch, "samples [1]")->check(degree);
    app.add_option("--stage-layers", line.plan.stage_layers,
                   "layers per stage, such as 5,7 [as even as can be]");
    app.add_option("--recompute", line.plan.recompute, "none, selective or full [none]");
    app.add_option("--zero", line.plan.zero, "ZeRO stage, 0 or 1 [0]")->check(CLI::Range(0, 1));
    app.add_option(
           "--ranks", line.ranks,
           "run so many ranks as threads of this process, without MPI [what the plan takes]")
        ->check(CLI::Range(1, 256));
    app.add_option("--device", line.device,
                   "cpu, cuda, or auto: cuda where there is a GPU for each rank")
        ->check(CLI::IsMember({"cpu", "cuda", "auto"}))
        ->capture_default_str();
    app.add_option("--stall-limit", line.stall_limit_s,
                   "under MPI end when no other rank answers for so many seconds [never]")
        ->check(CLI::Range(std::int64_t{1}, limits::batch));
    app.add_option("--check-limit", line.run.check_limit_s,
                   "seconds after which a check of devices and links is given up")
        ->check(CLI::Range(1.0, longest_check_s))
        ->capture_default_str();
    app.add_option("--threads", line.run.threads, "of each rank")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
}

void add_training_options(CLI::App& app, CommandLine& line) {
    OptimizerOptions& o = line.run.optimizer;
    app.add_option("--data", line.run.data, "file of bytes or token ids");
    app.add_option("--tokens", line.token_width,
                   "u8, u16 or u32: little-endian ids of so many bits")
        ->check(CLI::IsMember({"u8", "u16", "u32"}))
        ->capture_default_str();
    app.add_option("--steps", line.run.steps, "the run ends after so many, over all its lives")
        ->check(CLI::Range(0, 1 << 30));
    app.add_option("--seed", line.run.seed, "of weights and data order")->capture_default_str();
    app.add_option("--lr", o.rate, "AdamW's learning rate")
        ->check(CLI::Range(0.0, 1e3))
        ->capture_default_str();
    app.add_option("--warmup-steps", o.warmup_steps, "the rate grows linearly up to this step")
        ->check(CLI::Range(0, 1 << 30));
    app.add_option("--weight-decay", o.decay, "of matrices and tables")
        ->check(CLI::Range(0.0, 1e3))
        ->capture_default_str();
    app.add_option("--clip", o.clip, "largest norm of the gradients; 0 = any")
        ->check(CLI::Range(0.0, 1e9))
        ->capture_default_str();
    app.add_option("--checkpoint", line.run.checkpoints,
                   "directory to save to and to resume from; made where it is missing");
    app.add_option("--save-every", line.run.save_every,
                   "steps between checkpoints [at the end, and when told to leave]")
        ->check(CLI::Range(std::int64_t{1}, limits::batch));
    app.add_option("--control", line.run.control,
                   "file of what is done before which step: split, swap, park, check");
    app.add_option("--log", line.run.log, "append one line of JSON per step to this file");
    app.add_flag("!--no-report", line.run.report,
                 "do not tell Arena how long the steps take (else, in a job that it started, by "
                 "arena report)");
    app.add_flag("--quiet", line.run.quiet, "no lines on stdout");
    app.add_option("--requeue-code", line.run.requeue_code,
                   "exit code after SIGUSR1 or SIGTERM, saved (resize.requeue_exit_code)")
        ->check(CLI::Range(1, 255))
        ->capture_default_str();
}

void add_array_options(CLI::App& app, CommandLine& line) {
    ArrayFlags& a = line.array;
    app.add_option(
        "--array-serve", a.serve,
        "train the members that attach here, on one pipeline: PORT, HOST:PORT, /PATH or @NAME");
    app.add_option("--array-members", a.members, "at once")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    app.add_option("--array-buffers", a.buffers,
                   "members' states on a device [2; on CPUs they stay where they are]")
        ->check(CLI::Range(1, 1024));
    app.add_option("--array-idle", a.idle_s, "seconds without members, after which it ends")
        ->check(CLI::Range(0.0, 1e6))
        ->capture_default_str();
    app.add_option("--array-solve", a.solve_s, "seconds of a search for a schedule")
        ->check(CLI::Range(0.0, 600.0))
        ->capture_default_str();
}

/// What a run needs, and an array leaves to its members.
void check_needed(const CLI::App& app, const CommandLine& line) {
    for (const char* name : {"--data", "--steps"}) {
        if (line.array.serve.empty() && app.count(name) == 0) throw CLI::RequiredError(name);
        if (!line.array.serve.empty() && app.count(name) != 0)
            throw CLI::ExcludesError("--array-serve", name);
    }
}

Model model_of_sizes(const CommandLine& line) {
    Model model;
    model.name = "arena-train";
    model.layers = line.layers;
    model.hidden = line.hidden;
    model.heads = model.kv_heads = line.heads;
    model.ffn_hidden = line.ffn != 0 ? line.ffn : 4 * line.hidden;
    model.vocab = line.vocab;
    model.seq_length = 128;
    model.tied_embedding = !line.untied;
    return model;
}

Result<Model> named_model(const CommandLine& line) {
    if (line.model.empty()) return model_of_sizes(line);
    const bool is_file = line.model.find_first_of("/.") != std::string::npos;
    if (!is_file) return find_zoo_model(line.model);
    const auto text = read_regular_file(line.model, max_model_bytes);
    if (!text) return text.error();
    return parse_model(*text, line.model);
}

Result<Model> read_model(const CommandLine& line) {
    auto model = named_model(line);
    if (model && line.seq != 0) model->seq_length = line.seq;
    return model;
}

TokenWidth width_of(const CommandLine& line) {
    if (line.token_width == "u8") return TokenWidth::u8;
    return line.token_width == "u16" ? TokenWidth::u16 : TokenWidth::u32;
}

Result<Index> read_global_batch(const CommandLine& line, const Environment& environment) {
    const auto text = environment("ARENA_GLOBAL_BATCH");
    if (!text && line.global_batch == 0)
        return usage_error("is needed where ARENA_GLOBAL_BATCH is not set", "--global-batch");
    if (!text) return line.global_batch;
    const auto number = parse_integer(*text, 1, Index{1} << 30);
    if (!number)
        return usage_error(fmt::format("\"{}\" is no number of samples", printable(*text)),
                           "ARENA_GLOBAL_BATCH");
    // A member of an array chooses its own, up to that which its array has memory for.
    if (line.global_batch != 0 && environment("ARENA_ARRAY") && line.array.serve.empty())
        return line.global_batch;
    if (line.global_batch != 0 && line.global_batch != *number)
        return usage_error(
            fmt::format(
                "{} differs from ARENA_GLOBAL_BATCH={}; leave it out, or unset the variable",
                line.global_batch, *number),
            "--global-batch");
    return *number;
}

WatchOptions read_watch(const Environment& environment) {
    return {.key = environment("ARENA_WATCH_KEY").value_or(""),
            .precheck = environment("ARENA_WATCH_PRECHECK").value_or("1") != "0",
            .elastic = environment("ARENA_WATCH_ELASTIC").value_or("0") == "1"};
}

Status make_directory(const std::string& path) {
    if (path.empty() || mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return Done{};
    return environment_error(fmt::format("cannot be made: {}", std::strerror(errno)), path);
}

Result<TrainPlan> read_plan(const CommandLine& line, const Environment& environment,
                            const GptShape& shape, Index batch, Index ranks) {
    auto given = plan_of_environment(environment);
    if (!given) return given.error();
    if (!*given) return plan_of_flags(line.plan, shape, batch, std::max<Index>(ranks, 1));
    if (line.plan.any())
        return usage_error(
            "is set and says the plan; leave out --pp, --dp, --tp, --micro-batch, --stage-layers, "
            "--recompute and --zero, or unset it",
            "ARENA_PLAN");
    return **given;
}

/// What is trained, whoever says how: model, batch and token width.
struct What {
    TrainOptions run;
    Index batch = 0;  ///< of all replicas
};
Result<What> read_what(const CommandLine& line, const Environment& environment) {
    What what{.run = line.run};
    const auto model = read_model(line);
    if (!model) return model.error();
    const auto shape = shape_of(*model);
    if (!shape) return shape.error();
    what.run.shape = *shape;
    what.run.width = width_of(line);
    what.run.flops_per_sample = 3 * forward_flops(*model);
    const auto batch = read_global_batch(line, environment);
    if (!batch) return batch.error();
    what.batch = *batch;
    return what;
}

}  // namespace

ParsedLine parse_command_line(int argc, char** argv, CommandLine& line) {
    CLI::App app{"arena-train: trains a GPT under the plan that Arena gave the job"};
    app.name("arena-train");
    app.set_version_flag("--version", "arena-train " ARENA_VERSION);
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    add_model_options(app, line);
    add_plan_options(app, line);
    add_training_options(app, line);
    add_array_options(app, line);
    try {
        app.parse(argc, argv);
        check_needed(app, line);
    } catch (const CLI::ParseError& error) {
        return {false, app.exit(error) == 0 ? 0 : 2};
    }
    return {true, 0};
}

Result<MemberOptions> complete_member(const CommandLine& line, const Environment& environment) {
    if (line.plan.any() || line.ranks != 0 || !line.run.control.empty())
        return usage_error(
            "is set, and the array says how its members are trained; leave out --pp, --dp, --tp, "
            "--micro-batch, --stage-layers, --recompute, --zero, --ranks and --control, or unset "
            "it",
            "ARENA_ARRAY");
    const auto what = read_what(line, environment);
    if (!what) return what.error();
    if (const Status s = make_directory(what->run.checkpoints); !s) return s.error();
    return member_of(what->run, what->batch, environment);
}

Result<TrainOptions> complete(const CommandLine& line, const Environment& environment,
                              Index ranks) {
    auto what = read_what(line, environment);
    if (!what) return what.error();
    TrainOptions run = std::move(what->run);
    run.watch = read_watch(environment);
    run.environment = environment;
    const auto plan = read_plan(line, environment, run.shape, what->batch, ranks);
    if (!plan) return plan.error();
    run.plan = *plan;
    if (const Status s = check_plan(run.plan, run.shape, what->batch,
                                    ranks != 0 ? ranks : run.plan.layout.size());
        !s)
        return s.error();
    if (const Status s = make_directory(run.checkpoints); !s) return s.error();
    return run;
}

}  // namespace arena::train
