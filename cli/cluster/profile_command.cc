// SPDX-License-Identifier: GPL-2.0-or-later
// `arena profile`: looks into the profile store, moves profiles between sites, and cleans up.
#include <fmt/format.h>
#include <pwd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <map>
#include <memory>

#include "base/count_text.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/job_id.h"
#include "cli/cluster/profile_run.h"
#include "core/values_json.h"
#include "planner/hardware/hardware.h"
#include "store/store.h"

namespace arena::cli {
namespace {

/// Options that the profile sub-commands share; unused ones stay empty.
struct ProfileOptions {
    std::string store;  ///< --store; empty = arena.yaml's
    std::string nonce, file, model_name, gpu_type, table, user;
    std::int64_t job = 0;
    bool csv = false, remove = false, all = false, withdraw = false;
    double older_than_days = 0;
};

Result<std::string> store_path(const Globals& globals, const ProfileOptions& options) {
    if (!options.store.empty()) return options.store;
    const Result<Config> config = load_site_config(globals);
    if (!config) return config.error();
    return config->profile_store;
}

/// Opens the store for reading, or for writing, and calls use(store).
template <typename F>
int with_store(const Globals& globals, const ProfileOptions& options, bool writable, F use) {
    const Result<std::string> path = store_path(globals, options);
    if (!path) return fail(globals, path.error());
    std::string notice;
    auto store =
        writable ? ProfileStore::open(*path, &notice) : ProfileStore::open_read_only(*path);
    if (!store) return fail(globals, store.error());
    if (!notice.empty()) fmt::print(stderr, "arena: {}\n", notice);
    return use(*store.value());
}

Json json_of(const ProfileRun& run) {
    return {{"nonce", run.nonce},
            {"gpu_type", run.gpu_type},
            {"hardware", run.hardware},
            {"model_name", run.model_name},
            {"model_fingerprint", run.model_fingerprint},
            {"device_identity", run.device_identity},
            {"node", run.node},
            {"status", to_string(run.status)},
            {"reason", run.reason},
            {"started_s", run.started_s},
            {"device_seconds", run.device_seconds},
            {"wanted", run.wanted},
            {"reused", run.reused},
            {"direct_seconds", run.direct_seconds},
            {"entries", run.entries}};
}

int list(const Globals& globals, const ProfileOptions& options, ProfileStore& store) {
    const auto runs = store.runs();
    if (!runs) return fail(globals, runs.error());
    Table table({{"nonce", false, Wide::whole},
                 {"started", false, Wide::whole},
                 {"model"},
                 {"GPU type"},
                 {"hardware", false, Wide::below},
                 {"node", false, Wide::below},
                 {"entries", true},
                 {"re-used", true},
                 {"device s", true},
                 {"status"},
                 {"why", false, Wide::below}});
    Json json = Json::array();
    for (const ProfileRun& run : *runs) {
        if (!options.gpu_type.empty() && run.gpu_type != options.gpu_type) continue;
        json.push_back(json_of(run));
        table.add({run.nonce, utc_time(run.started_s), printable(run.model_name, 40), run.gpu_type,
                   run.hardware, printable(run.node, 40), fmt::format("{}", run.entries),
                   fmt::format("{}", run.reused), fmt::format("{:.1f}", run.device_seconds),
                   std::string(to_string(run.status)), run.reason});
    }
    if (globals.json) {
        fmt::print("{}\n", dump_json({{"schema_version", 1}, {"runs", json}}));
    } else {
        fmt::print("{}", table.text());
    }
    return exit_yes;
}

std::string user_name(std::int64_t user) {
    if (user == unknown_user) return "not known";
    const passwd* entry = ::getpwuid(static_cast<uid_t>(user));
    return entry != nullptr ? entry->pw_name : std::to_string(user);
}

std::string counts_for(const ObservedRun& run) {
    if (run.shared) return "everybody";
    if (run.user == unknown_user) return "nobody yet";
    if (counts(run)) return user_name(run.user);
    return fmt::format("nobody yet: {} of {} jobs agree", run.agreeing.size(), outlier_jobs);
}

int observed(const Globals& globals, const ProfileOptions& options, ProfileStore& store) {
    const auto observed = store.reports().all();
    if (!observed) return fail(globals, observed.error());
    warn(observed->bad);
    Table table({{"model"},
                 {"batch", true},
                 {"launcher"},
                 {"grid"},
                 {"plan", false, Wide::below},
                 {"measured", true},
                 {"estimated", true},
                 {"off", true},
                 {"steps", true, Wide::below},
                 {"job", true},
                 {"reported", false, Wide::below},
                 {"of"},
                 {"counts for", false, Wide::below}});
    Json json = Json::array();
    for (const ObservedRun& run : observed->runs) {
        const Observation& o = run.observation;
        if (!options.gpu_type.empty() && o.grid.gpu_type != options.gpu_type) continue;
        json.push_back({{"model_name", run.model_name},
                        {"model_fingerprint", run.model_fingerprint},
                        {"global_batch", run.global_batch},
                        {"launcher", run.launcher},
                        {"grid", arena::json_of(o.grid)},
                        {"plan", arena::json_of(o.plan)},
                        {"iteration_s", o.iteration_s},
                        {"estimated_s", o.estimated_s},
                        {"spread", o.spread},
                        {"steps", run.steps},
                        {"job", run.job},
                        {"at_s", run.at_s},
                        {"uid", run.user},
                        {"shared", run.shared},
                        {"agreeing", run.agreeing},
                        {"counts", counts(run) && (run.shared || run.user != unknown_user)}});
        table.add({printable(run.model_name, 40), std::to_string(run.global_batch), run.launcher,
                   short_form(o.grid), short_form(o.plan), human_seconds(o.iteration_s),
                   human_seconds(o.estimated_s), off_words(o.iteration_s, o.estimated_s),
                   std::to_string(run.steps), run.job != 0 ? std::to_string(run.job) : "by hand",
                   utc_time(run.at_s), run.job != 0 ? user_name(run.user) : "an administrator",
                   counts_for(run)});
    }
    if (globals.json) {
        fmt::print("{}\n",
                   dump_json({{"schema_version", 1}, {"observed", json}, {"bad", observed->bad}}));
    } else {
        fmt::print("{}", table.text());
    }
    return exit_yes;
}

std::string text_of(const GpuPlace& place) {
    std::string text = place.pci;
    if (place.numa_node >= 0) text += fmt::format(", NUMA node {}", place.numa_node);
    if (!place.switches.empty()) text += ", below PCI switch " + place.switches.front();
    for (const std::string& nic : place.nics)
        text += (&nic == place.nics.data() ? ", beside " : " ") + nic;
    return text;
}

void print_profile(const Profile& profile) {
    const Device& device = profile.device;
    fmt::print("{} {} on {}: {}, {} {}, driver {}, {}\n", profile.nonce, to_string(profile.status),
               profile.gpu_type, profile.hardware, device.kind, device.name, device.driver,
               device.library);
    if (!profile.reason.empty()) fmt::print("  {}\n", profile.reason);
    fmt::print("  {} of {} operators re-used; {} of the device", profile.reused, profile.wanted,
               human_seconds(profile.device_seconds));
    if (profile.direct_seconds > 0)
        fmt::print(", where {} iterations of every grid would take {}", direct_iterations,
                   human_seconds(profile.direct_seconds));
    fmt::print("\n");
    if (profile.state.clock_mhz > 0)
        fmt::print("  at {:.0f} MHz, {:.0f} degrees C, power cap {:.0f} W\n",
                   profile.state.clock_mhz, profile.state.temperature_c,
                   profile.state.power_limit_w);
    if (!profile.place.pci.empty()) fmt::print("  in {}\n", text_of(profile.place));
    Table table({{"operator"},
                 {"time", true},
                 {"repeats", true},
                 {"spread", true},
                 {"TFLOP/s", true},
                 {"GB/s", true}});
    for (const ProfileEntry& entry : profile.entries) {
        table.add({op_key(entry.shape), human_seconds(entry.seconds),
                   fmt::format("{}", entry.repeats), fmt::format("{:.1f} %", 100 * entry.spread),
                   fmt::format("{:.3g}", op_flops(entry.shape) / entry.seconds / 1e12),
                   fmt::format("{:.3g}", op_bytes(entry.shape) / entry.seconds / 1e9)});
    }
    fmt::print("{}", table.text());
}

int show(const Globals& globals, const ProfileOptions& options, ProfileStore& store) {
    const auto profile = store.load(options.nonce);
    if (!profile) return fail(globals, profile.error());
    if (globals.json) {
        fmt::print("{}\n", to_json(*profile));
    } else {
        print_profile(*profile);
    }
    return exit_yes;
}

struct TypeStatus {
    std::int64_t complete = 0, partial = 0, failed = 0;
    std::string last_failure;
};

int status(const Globals& globals, const ProfileOptions&, ProfileStore& store) {
    const auto runs = store.runs();
    if (!runs) return fail(globals, runs.error());
    std::map<std::string, TypeStatus> types;
    for (const ProfileRun& run : *runs) {  // newest first
        TypeStatus& type = types[run.gpu_type];
        if (run.status == ProfileStatus::complete) ++type.complete;
        if (run.status == ProfileStatus::partial) ++type.partial;
        if (run.status != ProfileStatus::failed) continue;
        if (type.failed++ == 0) {
            type.last_failure =
                fmt::format("{} on {}: {}", utc_time(run.started_s), run.node, run.reason);
        }
    }
    Table table({{"GPU type"},
                 {"operators", true},
                 {"complete", true},
                 {"partial", true},
                 {"failed", true},
                 {"last failure", false, Wide::below}});
    Json json = Json::array();
    for (const auto& [name, type] : types) {
        const auto operators = store.table(name);
        if (!operators) return fail(globals, operators.error());
        table.add({name, fmt::format("{}", operators->rows().size()),
                   fmt::format("{}", type.complete), fmt::format("{}", type.partial),
                   fmt::format("{}", type.failed), type.last_failure});
        json.push_back({{"gpu_type", name},
                        {"operators", operators->rows().size()},
                        {"complete", type.complete},
                        {"partial", type.partial},
                        {"failed", type.failed},
                        {"last_failure", type.last_failure}});
    }
    if (globals.json) {
        fmt::print("{}\n", dump_json({{"schema_version", 1}, {"gpu_types", json}}));
    } else {
        fmt::print("{}", types.empty() ? "no profile yet\n" : table.text());
    }
    return exit_yes;
}

int done(const Globals& globals, const Json& json, const std::string& text) {
    fmt::print("{}\n", globals.json ? dump_json(json) : text);
    return exit_yes;
}

int import(const Globals& globals, const ProfileOptions& options, ProfileStore& store) {
    const auto profile = read_user_profile(options.file);
    if (!profile) return fail(globals, profile.error());
    const std::string name =
        options.model_name.empty() ? profile->model_fingerprint : options.model_name;
    if (const Status status = store.import(*profile, name); !status) {
        return fail(globals, status.error());
    }
    const std::size_t entries = profile->entries.size();
    return done(globals, {{"schema_version", 1}, {"nonce", profile->nonce}, {"entries", entries}},
                fmt::format("{}: {} on {}", profile->nonce, counted(entries, "operator"),
                            profile->gpu_type));
}

int export_profile(const Globals& globals, const ProfileOptions& options, ProfileStore& store) {
    const auto profile = store.load(options.nonce);
    if (!profile) return fail(globals, profile.error());
    if (options.file.empty() || options.file == "-") {
        fmt::print("{}\n", to_json(*profile));
        return exit_yes;
    }
    if (const Status status = write_file_atomic(options.file, to_json(*profile) + "\n"); !status) {
        return fail(globals, status.error());
    }
    return done(globals, {{"schema_version", 1}, {"nonce", options.nonce}, {"file", options.file}},
                options.file);
}

/// What was wrong and is no more was removed; what cannot be removed stays wrong.
int tell_verified(const Globals& globals, const std::vector<std::string>& before,
                  const std::vector<std::string>& wrong) {
    std::vector<std::string> removed;
    for (const std::string& line : before)
        if (std::find(wrong.begin(), wrong.end(), line) == wrong.end()) removed.push_back(line);
    if (globals.json) {
        fmt::print("{}\n", dump_json({{"schema_version", 1},
                                      {"ok", wrong.empty()},
                                      {"wrong", wrong},
                                      {"removed", removed}}));
    } else {
        for (const std::string& line : removed) fmt::print("gone  {}\n", line);
        for (const std::string& line : wrong) fmt::print("bad   {}\n", line);
        if (wrong.empty())
            fmt::print("ok    every row of the profile store{}\n",
                       removed.empty()
                           ? ""
                           : "; a running slurmctld looks again after `scontrol reconfigure`");
    }
    return wrong.empty() ? exit_yes : exit_no;
}

int verify(const Globals& globals, const ProfileOptions& options, ProfileStore& store) {
    const auto wrong = store.verify();
    if (!wrong) return fail(globals, wrong.error());
    if (!options.remove || wrong->empty()) return tell_verified(globals, *wrong, *wrong);
    return with_store(globals, options, true, [&](ProfileStore& writable) {
        if (const Status removed = writable.remove_bad(); !removed)
            return fail(globals, removed.error());
        const auto left = writable.verify();
        return left ? tell_verified(globals, *wrong, *left) : fail(globals, left.error());
    });
}

int prune(const Globals& globals, const ProfileOptions& options, ProfileStore& store) {
    const double now_s = static_cast<double>(std::time(nullptr));
    const auto gone = store.prune(now_s - options.older_than_days * 86400);
    if (!gone) return fail(globals, gone.error());
    return done(globals, {{"schema_version", 1}, {"removed", *gone}},
                fmt::format("{} runs removed", *gone));
}

Result<std::int64_t> uid_of(const std::string& user) {
    if (const auto id = parse_integer(user, 0, UINT32_MAX)) return *id;
    const passwd* entry = ::getpwnam(user.c_str());
    if (entry == nullptr)
        return usage_error(fmt::format("there is no user \"{}\"", printable(user, 40)), "--user");
    return static_cast<std::int64_t>(entry->pw_uid);
}

int promote(const Globals& globals, const ProfileOptions& options, ProfileStore& store) {
    WhichObserved which;
    which.gpu_type = options.gpu_type;
    if (options.job == 0 && options.user.empty() && !options.all)
        return fail(globals, usage_error("say whose reports: --job N, --user NAME, or --all"));
    if (options.job != 0) which.job = static_cast<JobId>(options.job);
    if (!options.user.empty()) {
        const auto uid = uid_of(options.user);
        if (!uid) return fail(globals, uid.error());
        which.user = *uid;
    }
    const auto changed = store.reports().share(which, !options.withdraw);
    if (!changed) return fail(globals, changed.error());
    const std::string now =
        options.withdraw ? "counts for its user again" : "counts for everybody now";
    return done(
        globals, {{"schema_version", 1}, {"changed", *changed}, {"shared", !options.withdraw}},
        fmt::format(
            "{}: each {}{}", counted(*changed, "report"), now,
            *changed == 0 ? "" : "; a running slurmctld looks again after `scontrol reconfigure`"));
}

int run(const Globals& globals, const ProfileOptions& profile, RunOptions options) {
    const auto hardware = load_hardware(options.hardware_file);
    if (!hardware) return fail(globals, hardware.error());
    if (auto s = complete(options, *hardware); !s) return fail(globals, s.error());
    if (!options.out_dir.empty()) return run_profiles(globals, options, nullptr);
    return with_store(globals, profile, true,
                      [&](ProfileStore& store) { return run_profiles(globals, options, &store); });
}

int import_comm(const Globals& globals, const ProfileOptions& options, ProfileStore& store) {
    const auto text = read_user_file(options.file, max_comm_bytes);
    if (!text) return fail(globals, text.error());
    const auto times = parse_comm_csv(*text, options.gpu_type, options.table);
    if (!times) {
        const Error& e = times.error();
        return fail(globals, usage_error(e.text, e.where.empty() ? options.file
                                                                 : options.file + ": " + e.where));
    }
    const auto count = store.comm().import(*times, options.file);
    if (!count) return fail(globals, count.error());
    return done(globals, {{"schema_version", 1}, {"rows", *count}},
                fmt::format("{} times of collectives on {}", *count, times->front().gpu_type));
}

/// One line per group: latency at the smallest buffer, bus bandwidth at the largest.
int comm(const Globals& globals, const ProfileOptions& options, ProfileStore& store) {
    const auto times = store.comm().times(options.gpu_type);
    if (!times) return fail(globals, times.error());
    if (options.csv) {
        fmt::print("{}", to_csv(*times));
        return exit_yes;
    }
    Table table({{"GPU type"},
                 {"collective"},
                 {"ranks", true},
                 {"nodes", true},
                 {"span"},
                 {"groups", true},
                 {"buffers", true},
                 {"smallest", true},
                 {"time", true},
                 {"largest", true},
                 {"busbw GB/s", true}});
    Json json = Json::array();
    for (std::size_t i = 0, next = 0; i < times->size(); i = next) {  // sorted by group, then bytes
        const CommTime& first = (*times)[i];
        const auto same = [&](const CommTime& t) {
            return t.gpu_type == first.gpu_type && t.op == first.op && t.ranks == first.ranks &&
                   t.nodes == first.nodes && t.groups == first.groups && t.span == first.span;
        };
        for (next = i + 1; next < times->size() && same((*times)[next]);) ++next;
        const CommTime& last = (*times)[next - 1];
        const double busbw = bus_bytes_per_s(last);
        table.add({first.gpu_type, std::string(to_string(first.op)), fmt::format("{}", first.ranks),
                   fmt::format("{}", first.nodes), std::string(to_string(first.span)),
                   fmt::format("{}", first.groups), fmt::format("{}", next - i),
                   human_bytes(static_cast<double>(first.bytes)), human_seconds(first.median_s),
                   human_bytes(static_cast<double>(last.bytes)),
                   fmt::format("{:.1f}", busbw / 1e9)});
        json.push_back({{"gpu_type", first.gpu_type},
                        {"op", to_string(first.op)},
                        {"ranks", first.ranks},
                        {"nodes", first.nodes},
                        {"span", to_string(first.span)},
                        {"groups", first.groups},
                        {"buffers", next - i},
                        {"smallest_bytes", first.bytes},
                        {"smallest_s", first.median_s},
                        {"largest_bytes", last.bytes},
                        {"largest_s", last.median_s},
                        {"bus_bytes_per_s", busbw}});
    }
    if (globals.json) {
        fmt::print("{}\n", dump_json({{"schema_version", 1}, {"comm", json}}));
    } else {
        fmt::print("{}", times->empty() ? "no communication table yet\n" : table.text());
    }
    return exit_yes;
}

using Shared = std::shared_ptr<ProfileOptions>;
using Action = int (*)(const Globals&, const ProfileOptions&, ProfileStore&);

CLI::App* add(CLI::App* profile, Globals& globals, const Shared& options, const char* name,
              const char* help, bool writable, Action action) {
    CLI::App* command = profile->add_subcommand(name, help);
    command->callback([&globals, options, writable, action] {
        globals.status = with_store(globals, *options, writable, [&](ProfileStore& store) {
            return action(globals, *options, store);
        });
    });
    return command;
}

void add_run(CLI::App* profile, Globals& globals, const Shared& options) {
    const auto o = std::make_shared<RunOptions>();
    CLI::App* command = profile->add_subcommand("run", "measure models on this machine");
    command->add_option("models", o->models, "names of the zoo, or files");
    command->add_flag("--zoo", o->zoo, "all models of the zoo");
    command->add_option("--batch", o->global_batch, "global batch, samples")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    command->add_option("--max-gpus", o->max_gpus, "most GPUs of a plan")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    command->add_option("--gpus-per-node", o->gpus_per_node,
                        "GPUs of a node [the hardware entry's]");
    command->add_option("--hardware", o->hardware, "hardware entry of this device")
        ->capture_default_str();
    command->add_option("--hardware-file", o->hardware_file, "the site's own hardware entries");
    command->add_option("--gpu-type", o->gpu_type, "GRES type [the hardware entry]");
    command->add_option("--budget", o->budget_s, "seconds per model")
        ->capture_default_str()
        ->check(CLI::Range(1.0, 3600.0));
    command->add_option("--threads", o->threads, "CPU: at most this many threads");
    command->add_option("--out-dir", o->out_dir, "leave files here instead of in the store");
    command->callback([&globals, options, o] { globals.status = run(globals, *options, *o); });
}

void add_comm(CLI::App* profile, Globals& globals, const Shared& options) {
    CLI::App* command =
        add(profile, globals, options, "comm", "times of collectives", false, &comm);
    command->add_option("--gpu-type", options->gpu_type, "only this GRES type");
    command->add_flag("--csv", options->csv, "every row, as import-comm reads them");
    CLI::App* importing = add(profile, globals, options, "import-comm",
                              "add a table of collectives", true, &import_comm);
    importing->add_option("file", options->file, "CSV")->required();
    importing->add_option("--gpu-type", options->gpu_type,
                          "GRES type of all rows [the file's column]");
    importing->add_option("--table", options->table, "the one of several tables in the file");
}

}  // namespace

void add_profile(CLI::App& app, Globals& globals) {
    CLI::App* profile = app.add_subcommand("profile", "look into the profile store");
    profile->require_subcommand(1);
    const auto options = std::make_shared<ProfileOptions>();
    profile->add_option("--store", options->store, "profile store [profile.store of arena.yaml]");
    add_run(profile, globals, options);
    add_comm(profile, globals, options);
    add(profile, globals, options, "list", "profile runs, newest first", false, &list)
        ->add_option("--gpu-type", options->gpu_type, "only this GRES type");
    add(profile, globals, options, "observed", "iteration times that jobs reported", false,
        &observed)
        ->add_option("--gpu-type", options->gpu_type, "only this GRES type");
    CLI::App* promoting = add(profile, globals, options, "promote",
                              "let reports of users' jobs count for everybody", true, &promote);
    promoting->add_option("--job", options->job, "what this job reported")->transform(job_id());
    promoting->add_option("--user", options->user, "what jobs of this user reported");
    promoting->add_flag("--all", options->all, "what all jobs reported");
    promoting->add_option("--gpu-type", options->gpu_type, "only of this GRES type");
    promoting->add_flag("--withdraw", options->withdraw,
                        "let them count for their users alone again");
    add(profile, globals, options, "show", "operators of one run", false, &show)
        ->add_option("nonce", options->nonce, "run")
        ->required();
    add(profile, globals, options, "status", "runs and operators per GPU type", false, &status);
    CLI::App* importing =
        add(profile, globals, options, "import", "add a profile file", true, &import);
    importing->add_option("file", options->file, "profile JSON")->required();
    importing->add_option("--model-name", options->model_name, "name to list it under");
    CLI::App* exporting =
        add(profile, globals, options, "export", "write one run as a file", false, &export_profile);
    exporting->add_option("nonce", options->nonce, "run")->required();
    exporting->add_option("file", options->file, "file to write [standard output]");
    add(profile, globals, options, "verify", "check every row", false, &verify)
        ->add_flag("--remove", options->remove, "remove the bad ones");
    add(profile, globals, options, "prune", "remove old runs", true, &prune)
        ->add_option("--older-than-days", options->older_than_days, "age in days")
        ->required()
        ->check(CLI::Range(0.0, 36500.0));
}

}  // namespace arena::cli
