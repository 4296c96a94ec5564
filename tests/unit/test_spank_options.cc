// SPDX-License-Identifier: GPL-2.0-or-later
// sbatch's --arena-* options: which value counts, what is a file, and what of hostile files is
// read.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/text.h"
#include "core/cluster.h"
#include "core/limits.h"
#include "planner/hardware/hardware.h"
#include "planner/models/readers.h"
#include "planner/requests/would_fit.h"
#include "plugin/common/quick_estimate.h"
#include "plugin/spank/controller.h"
#include "plugin/spank/given.h"
#include "plugin/spank/preview.h"
#include "plugin/spank/spank_options.h"
#include "plugin/spank/watch.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

std::string directory;

std::string in_directory(const std::string& name) { return directory + "/" + name; }

std::string written(const std::string& name, const std::string& content) {
    ck_assert(write_file_atomic(in_directory(name), content).ok());
    return in_directory(name);
}

void make_directory() {
    char name[] = "/tmp/arena-spank-XXXXXX";
    ck_assert(mkdtemp(name) != nullptr);
    directory = name;
}

void remove_directory() {
    const std::string command = "rm -rf '" + directory + "'";
    ck_assert_int_eq(std::system(command.c_str()), 0);
}

OptionSet options(const std::string& model) {
    OptionSet set;
    set.add("model", model, OptionSource::command_line);
    set.add("batch", "8", OptionSource::command_line);
    return set;
}

void refused(const std::string& model, const std::string& word, bool is_root = false) {
    const auto r = make_record(options(model), is_root);
    ck_assert_msg(!r.ok(), "%s was accepted", model.c_str());
    const std::string message = r.error().message();
    ck_assert_msg(message.find("--arena-model") != std::string::npos,
                  "'%s' does not name the option", message.c_str());
    ck_assert_msg(message.find(word) != std::string::npos, "'%s' does not name '%s'",
                  message.c_str(), word.c_str());
}

const char* const tiny =
    "family: gpt\nlayers: 2\nhidden: 64\nheads: 4\nvocab: 1000\nseq_length: 128\n";

}  // namespace

TEST(the_command_line_wins_over_environment_and_script) {
    OptionSet set;
    set.add("batch", "1", OptionSource::script);
    set.add("batch", "2", OptionSource::environment);
    set.add("batch", "3", OptionSource::command_line);
    set.add("batch", "3", OptionSource::command_line);
    ck_assert(set.status().ok());
    ck_assert_str_eq(set.find("batch")->c_str(), "3");
}

TEST(two_values_from_one_place_are_a_mistake) {
    for (const OptionSource place : {OptionSource::script, OptionSource::command_line}) {
        OptionSet set;
        set.add("gpus", "1-2", place);
        set.add("gpus", "1-4", place);
        ck_assert(!set.status().ok());
        ck_assert(set.status().error().message().find("--arena-gpus: given twice") == 0);
        ck_assert(!make_record(set, false).ok());
    }
}

TEST(a_flag_without_a_place_never_conflicts) {
    OptionSet set;
    set.add("elastic", "no", OptionSource::script);
    set.add("elastic", "yes", std::nullopt);
    ck_assert_str_eq(set.find("elastic")->c_str(), "yes");
    set.add("elastic", "no", OptionSource::command_line);
    ck_assert_str_eq(set.find("elastic")->c_str(), "no");
    ck_assert(set.status().ok());
}

TEST(names_and_files_are_told_apart) {
    ck_assert(!names_model_file("gpt2"));
    ck_assert(!names_model_file("no-such-model"));
    for (const char* file : {"./gpt2", "a/b", "/dev/zero", "config.json", "m.yaml", "m.yml"})
        ck_assert_msg(names_model_file(file), "%s", file);
    make_directory();
    ck_assert_int_eq(chdir(directory.c_str()), 0);
    written("mine", tiny);
    written("gpt2", tiny);
    ck_assert(names_model_file("mine"));
    ck_assert(!names_model_file("gpt2"));
    ck_assert_int_eq(chdir("/"), 0);
    remove_directory();
}

TEST(names_and_files_become_records) {
    make_directory();
    for (const std::string& model : {std::string("gpt2"), written("m.yaml", tiny)}) {
        const auto r = must(make_record(options(model), false));
        ck_assert(parse_record(r).ok());
    }
    remove_directory();
}

TEST(hostile_files_are_refused) {
    make_directory();
    refused("no-such-model", "no-such-model");
    refused(in_directory("absent.json"), "absent.json");
    refused(directory + "/", directory);
    refused("/dev/zero", "not a regular file");
    refused(written("empty.json", ""), "empty");
    refused(written("big.json", std::string(70000, ' ')), "big.json");
    refused(written("bad.json", "{"), "bad.json");
    refused(written("nan.yaml", std::string(tiny) + "ffn_hidden: .nan\n"), "ffn_hidden");
    refused(written("negative.yaml",
                    "family: gpt\nlayers: -2\nhidden: 64\nheads: 4\nvocab: 9\nseq_length: 8\n"),
            "layers");
    refused(written("huge.yaml",
                    "family: gpt\nlayers: 99999999999999999999\nhidden: 64\nheads: 4\nvocab: "
                    "9\nseq_length: 8\n"),
            "layers");
    refused(written("deep.json", std::string(5000, '[')), "deep.json");
    refused(written("binary.json", std::string("\0\1\2\xff", 4)), "binary.json");
    const std::string fifo = in_directory("fifo.json");
    ck_assert_int_eq(mkfifo(fifo.c_str(), 0600), 0);
    refused(fifo, "not a regular file");
    remove_directory();
}

TEST(a_user_may_name_a_link_and_root_may_not) {
    make_directory();
    const std::string link = in_directory("link.yaml");
    ck_assert_int_eq(symlink(written("m.yaml", tiny).c_str(), link.c_str()), 0);
    ck_assert(make_record(options(link), false).ok());
    refused(link, "symbolic link", true);
    remove_directory();
}

/// A job may allow as many GPU types as a site may map: what a writer accepts every reader takes.
TEST(as_many_gpu_types_are_read_as_are_written) {
    std::string types;
    for (std::size_t i = 0; i < limits::gpu_types; ++i)
        types += (i == 0 ? "t" : ",t") + std::to_string(i);
    OptionSet most = options("gpt2");
    most.add("types", types, OptionSource::command_line);
    const auto record = must(make_record(most, false));
    const auto request = must(parse_record(record));
    ck_assert_uint_eq(request.gpu_types.size(), limits::gpu_types);
    Snapshot snapshot;
    snapshot.node_sets = {{}};
    JobState& job = snapshot.jobs.emplace_back();
    job.id = 1;
    job.gpu_types = request.gpu_types;
    ck_assert(parse_snapshot(to_json(snapshot)).ok());

    OptionSet more = options("gpt2");
    more.add("types", types + ",x", OptionSource::command_line);
    const auto refused = make_record(more, false);
    ck_assert(!refused.ok());
    ck_assert_msg(refused.error().message().find("65 types given; at most 64") != std::string::npos,
                  "%s", refused.error().message().c_str());
    Request forged = request;
    forged.gpu_types.push_back("x");
    ck_assert(!parse_record(format_record(forged).value()).ok());
}

TEST(what_arena_gave_is_taken_back_and_nothing_else) {
    const auto left = [](const char* given, const char* preload = "") {
        std::string text;
        for (const auto& [name, value] : taken_back(given, preload))
            text += (text.empty() ? "" : " ") + name + (value ? "=" + *value : "");
        return text;
    };
    test::assert_text(given_also("ARENA_GIVEN ARENA_PP", {"RANK", "ARENA_PP", "MASTER_ADDR"}),
                      "ARENA_GIVEN ARENA_PP RANK MASTER_ADDR");
    test::assert_text(given_also("", {"RANK", "RANK"}), "RANK");
    test::assert_text(left("ARENA_GIVEN RANK"), "ARENA_GIVEN RANK");
    test::assert_text(left(""), "");
    test::assert_text(left(" A=1  PATH"), "PATH");
    test::assert_text(left("LD_PRELOAD", "/usr/libexec/slurm-arena/libarena_watch.so"),
                      "LD_PRELOAD");
    test::assert_text(left("LD_PRELOAD", "/x/own.so:/l/libarena_watch.so:/l/libarena_watch_mpi.so"),
                      "LD_PRELOAD=/x/own.so");
    test::assert_text(left("RANK", "/l/libarena_watch.so"), "RANK");
}

TEST(a_watched_task_has_the_recorder_and_a_container_of_apptainers_has_it_too) {
    const auto text = [](const StepWatch& step) {
        std::string all;
        for (const auto& [name, value] : task_variables(step, "/l"))
            all += name + "=" + value + " ";
        return all;
    };
    StepWatch step{.slowdown = "watch", .key = "k", .launcher = "ddp"};
    test::assert_text(text(step),
                      "LD_PRELOAD=/l/libarena_watch.so NCCL_PROFILER_PLUGIN=/l/libarena_watch.so "
                      "APPTAINER_BIND=/l ");
    step.preload = "/x/own.so:/l/libarena_watch.so";
    step.profiler = "own";
    step.binds = "/scratch";  // the user's own stays as it is
    test::assert_text(text(step), "");
    step.key = "";
    step.preload = step.binds = "";
    test::assert_text(text(step), "");
}

TEST(a_controller_that_runs_arena_takes_requests) {
    for (const char* plugins : {"arena", "lua,arena", "lua, arena", "job_submit/arena"})
        ck_assert_msg(check_controller({plugins, "sched/arena", "/usr/lib/slurm"}).ok(), "%s",
                      plugins);
    // Nothing here tells which scheduler /nonexistent has.
    ck_assert(check_controller({"arena", "sched/backfill", "/nonexistent"}).ok());
}

TEST(a_controller_without_arenas_parts_gets_no_requests) {
    for (const char* plugins : {"", "lua", "arenas", "lua,not/arena"}) {
        const ControllerFacts facts{plugins, "sched/arena", ""};
        arena::test::assert_refused(check_controller(facts), "JobSubmitPlugins is ");
        arena::test::assert_refused(check_controller(facts),
                                    "not submitted; ask the administrator");
    }
    arena::test::assert_refused(check_controller({"arena", "sched/builtin", ""}),
                                "SchedulerType is sched/builtin, not sched/arena");
}

TEST(which_scheduler_stands_behind_slurms_name_is_looked_up) {
    make_directory();
    const std::string ours = written("sched_arena.so", ""), alias = in_directory("alias"),
                      stock = in_directory("stock");
    ck_assert(mkdir(alias.c_str(), 0700) == 0 && mkdir(stock.c_str(), 0700) == 0);
    ck_assert(symlink(ours.c_str(), (alias + "/sched_backfill.so").c_str()) == 0);
    ck_assert(write_file_atomic(stock + "/sched_backfill.so", "").ok());
    ck_assert(
        check_controller({"arena", "sched/backfill", "/nonexistent:" + alias + ":" + stock}).ok());
    arena::test::assert_refused(check_controller({"arena", "sched/backfill", stock + ":" + alias}),
                                "SchedulerType is sched/backfill, not sched/arena");
    remove_directory();
}

// ---- the look before the submission ------------------------------------------------------------

static PlanQuery query_for(const char* model, std::int64_t gpus) {
    static const auto hardware = load_hardware("");
    ck_assert(hardware.ok());
    PlanQuery query;
    query.model = *find_zoo_model(model);
    query.global_batch = 64;
    query.max_gpus = gpus;
    GpuPool pool;
    pool.gpu_type = "a100";
    pool.hardware = *find_hardware(*hardware, "A100");
    pool.max_gpus = gpus;
    query.pools = {pool};
    return query;
}

TEST(a_preview_is_what_the_planner_offers) {
    const auto estimate = parse_estimate(preview({query_for("gpt2", 8)}, std::chrono::seconds(60)));
    ck_assert(estimate && estimate->complete);
    const std::vector<Offer> offers = make_offers(query_for("gpt2", 8));
    ck_assert_int_eq(static_cast<int>(estimate->shapes.size()), static_cast<int>(offers.size()));
    ck_assert(estimate->shapes[0].grid.gpus() == offers[0].grid.gpus());
    ck_assert(std::abs(estimate->shapes[0].iteration_s - offers[0].estimate.iteration_s) <
              1e-3 * offers[0].estimate.iteration_s);
    ck_assert(estimate->shapes[0].plan == short_form(offers[0].plan));
    ck_assert(preview({}, std::chrono::seconds(1)).empty());
}

TEST(a_preview_of_no_plan_names_what_would_fit) {
    PlanQuery query = query_for("llama-2-7b", 8);
    query.can = capabilities_of("ddp");
    const auto estimate = parse_estimate(preview({query, query}, std::chrono::seconds(60)));
    ck_assert(estimate && estimate->complete && estimate->shapes.empty());
    PlanBudget budget;
    ck_assert(estimate->would_fit == what_would_fit(query, budget));
    ck_assert(!estimate->would_fit.empty());
}

TEST(a_preview_ends_when_its_time_is_up_with_what_it_has) {
    // More than can be planned in a second: the child is killed, and what it gave before counts.
    std::vector<PlanQuery> queries(20000, query_for("gpt2", 64));
    queries.insert(queries.begin(), query_for("gpt2", 1));
    const auto start = std::chrono::steady_clock::now();
    const auto estimate = parse_estimate(preview(queries, std::chrono::seconds(1)));
    ck_assert(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
    ck_assert(estimate && !estimate->complete && !estimate->shapes.empty());
    const auto none = parse_estimate(preview(queries, std::chrono::milliseconds(0)));
    ck_assert(none && !none->complete);
}
