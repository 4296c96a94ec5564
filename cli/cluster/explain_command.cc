// SPDX-License-Identifier: GPL-2.0-or-later
// `arena explain JOBID` and `arena stats`. On the controller the scheduler plug-in answers on its
// socket; elsewhere explain reads what the plug-in wrote into the job's fields, and says that it
// did so.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "base/count_text.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/job_id.h"
#include "cli/common/ask.h"
#include "cli/common/wrap.h"
#include "core/limits.h"
#include "core/values_json.h"
#include "planner/hardware/hardware.h"
#include "planner/search/offers.h"

namespace arena::cli {
namespace {

struct Explanation {
    std::string state, reason, unmeasured, left_out;
    std::string slowdown, slow_words;  ///< "" = it is not watched; nothing slow was found
    std::string adapters;              ///< what of the model is trained; "" = all of it
    std::string model_ignore;          ///< words of its text that the model was read without
    std::string array;                 ///< what becomes of it with its siblings
    std::vector<std::string> avoids;
    std::string unsaved;
    std::string promise;              ///< "" = nothing was promised
    std::vector<std::string> passed;  ///< who started before it, and why that costs it nothing
    std::string move;                 ///< what one costs it; "" = it was never moved
    std::string work;                 ///< what is believed of it, and from what
    std::string observed;             ///< what would have become of it, had Arena acted
    std::string span;                 ///< how far apart the nodes lie that it runs on
    double iteration_s = 0;           ///< estimated, for these
    std::int64_t chosen = -1;
    std::vector<Offer> offers;
    std::vector<std::pair<Grid, std::string>> infeasible;
};

void read_promise(const JsonFields& fields, std::optional<Error>& error, Explanation& out) {
    if (!fields.has("promise")) return;
    const Json* told = fields.object("promise");
    if (told == nullptr) return;
    const JsonFields promise(*told, "promise", error);
    promise.text("words", out.promise, 1024);
    const Json* list = promise.has("passed") ? promise.list("passed", 64) : nullptr;
    for (std::size_t i = 0; list != nullptr && i < list->size() && !error; ++i) {
        const JsonFields entry((*list)[i], "promise.passed", error);
        std::int64_t job = 0;
        double at_s = 0;
        std::string grid, why;
        if (entry.has("job")) entry.integer("job", job, 1, UINT32_MAX);
        entry.number("at_s", at_s, 0, 1e12);
        entry.text("grid", grid);
        entry.text("why", why, 1024);
        out.passed.push_back(fmt::format("{} started at {} UTC with {}: {}",
                                         job == 0 ? "another job" : fmt::format("JobId={}", job),
                                         utc_time(at_s), grid, why));
    }
}

void read_infeasible(const JsonFields& fields, std::optional<Error>& error, Explanation& out) {
    const Json* list = fields.list("infeasible", 1 << 20);
    if (list == nullptr) return;
    for (const Json& item : *list) {
        auto& [grid, reason] = out.infeasible.emplace_back();
        const JsonFields entry(item, "infeasible", error);
        if (const Json* json = entry.any("grid")) read(*json, "infeasible.grid", error, grid);
        entry.text("reason", reason, 1024);
        if (error) return;
    }
}

/// The pieces that the chosen offer has, which stands for every split of its count.
void read_split(const JsonFields& fields, Explanation& out) {
    if (!fields.has("chosen_split") || out.chosen < 0 || out.chosen >= std::ssize(out.offers))
        return;
    std::vector<std::int64_t> split;
    fields.integers("chosen_split", split, 1, limits::gpus, limits::gpus);
    Grid& grid = out.offers[static_cast<std::size_t>(out.chosen)].grid;
    if (!split.empty()) set_split(grid, std::move(split));
}

Result<Explanation> parse_explanation(const Json& json) {
    Explanation out;
    std::optional<Error> error;
    const JsonFields fields(json, "", error);
    std::int64_t version = 0;
    fields.integer("schema_version", version, 1, 1);
    fields.text("state", out.state);
    fields.text("reason", out.reason, 1024);
    if (fields.has("unmeasured")) fields.text("unmeasured", out.unmeasured, 4096);
    if (fields.has("left_out")) fields.text("left_out", out.left_out, 1024);
    if (fields.has("adapters")) fields.text("adapters", out.adapters);
    if (fields.has("model_ignore")) fields.text("model_ignore", out.model_ignore, 16384);
    if (const Json* told = fields.has("slowdown") ? fields.object("slowdown") : nullptr) {
        const JsonFields slowdown(*told, "slowdown", error);
        slowdown.text("mode", out.slowdown);
        slowdown.text("words", out.slow_words, 512);
    }
    if (const Json* told = fields.has("work") ? fields.object("work") : nullptr)
        JsonFields(*told, "work", error).text("words", out.work, 1024);
    if (const Json* told = fields.has("move") ? fields.object("move") : nullptr)
        JsonFields(*told, "move", error).text("words", out.move, 1024);
    if (const Json* told = fields.has("observe") ? fields.object("observe") : nullptr)
        JsonFields(*told, "observe", error).text("words", out.observed, 1024);
    if (const Json* told = fields.has("runs") ? fields.object("runs") : nullptr) {
        const JsonFields runs(*told, "runs", error);
        runs.text("span", out.span);
        runs.number("iteration_s", out.iteration_s, 0, 1e12);
    }
    if (fields.has("array")) fields.text("array", out.array, 1024);
    if (fields.has("unsaved")) fields.text("unsaved", out.unsaved, 1024);
    if (fields.has("avoids")) fields.texts("avoids", out.avoids, 4096, 1024);
    fields.integer("chosen", out.chosen, -1, 1 << 20);
    if (const Json* offers = fields.list("offers", 1 << 20)) {
        for (const Json& offer : *offers) {
            if (!error) read(offer, "offers", error, out.offers.emplace_back());
        }
    }
    read_split(fields, out);
    read_promise(fields, error, out);
    read_infeasible(fields, error, out);
    if (error) return environment_error(error->message(), "answer of the scheduler plug-in");
    return out;
}

/// What of an explanation is shown.
struct Shown {
    std::size_t top = top_offers;  ///< the chosen one in any case
    bool all = false;              ///< every offer, and every grid that is not possible
};

/// How many offers are not shown.
std::size_t print_offers(const Explanation& e, const Shown& shown) {
    const auto any = [&](auto has) { return std::any_of(e.offers.begin(), e.offers.end(), has); };
    const bool spans = any([](const Offer& offer) { return offer.knows_spans(); });
    const bool segments = any([](const Offer& offer) { return offer.segment > 1; });
    std::vector<Table::Column> columns{{"", false},
                                       {"rank", true},
                                       {"grid", false},
                                       {"plan", false, Wide::below},
                                       {"iteration", true}};
    if (spans) columns.insert(columns.end(), {{"over leaves", true}, {"over pods", true}});
    if (segments) columns.push_back({"nodes of a block", true});
    columns.insert(columns.end(),
                   {{"samples per s", true}, {"memory per GPU", true}, {"source", false}});
    Table table(columns);
    std::size_t hidden = 0;
    for (std::size_t i = 0; i < e.offers.size(); ++i) {
        const bool is_chosen = static_cast<std::int64_t>(i) == e.chosen;
        if (!shown.all && i >= shown.top && !is_chosen) {
            ++hidden;
            continue;
        }
        const Offer& offer = e.offers[i];
        const Estimate& estimate = offer.estimate;
        std::vector<std::string> row{is_chosen ? "->" : "", fmt::format("{}", i + 1),
                                     short_form(offer.grid), short_form(offer.plan),
                                     human_seconds(estimate.iteration_s)};
        for (const Span span : {Span::pod, Span::pods})
            if (spans)
                row.push_back(offer.grid.nodes > 1 ? human_seconds(offer.iteration_s(span)) : "");
        if (segments) row.push_back(offer.segment > 1 ? fmt::format("{}", offer.segment) : "");
        row.insert(row.end(), {fmt::format("{:.4g}", estimate.samples_per_s),
                               human_bytes(estimate.memory_bytes_per_gpu),
                               fmt::format("{} +-{:.0f} %", to_string(estimate.source),
                                           100 * estimate.error_bound)});
        table.add(std::move(row));
    }
    fmt::print("\n{}", table.text());
    return hidden;
}

/// A line for each type of which no run was measured.
void print_data_sheets(const Explanation& e) {
    std::set<std::string> types;
    for (const Offer& offer : e.offers)
        if (offer.estimate.source == Source::data_sheet) types.insert(offer.grid.gpu_type);
    for (const std::string& type : types) print_wrapped("", data_sheet_note(type));
}

/// What full, zero1 and sp stand for: "full recomputation, ZeRO 1, sequence parallel".
std::string settings_text(const Plan& plan) {
    std::vector<std::string> parts;
    if (plan.recompute != Recompute::none)
        parts.push_back(fmt::format("{} recomputation", to_string(plan.recompute)));
    if (plan.zero_stage != 0) parts.push_back(fmt::format("ZeRO {}", plan.zero_stage));
    if (plan.sequence_parallel) parts.emplace_back("sequence parallel");
    return join(parts, ", ");
}

void print_choice(const Explanation& e) {
    if (e.chosen < 0 || e.chosen >= static_cast<std::int64_t>(e.offers.size())) return;
    const Offer& chosen = e.offers[static_cast<std::size_t>(e.chosen)];
    const bool waits = e.state.starts_with("waiting");
    fmt::print("\n{}: {}, {}\n", waits ? "Waits with" : "Chosen", short_form(chosen.grid),
               e.chosen == 0 ? "the best offer."
               : waits       ? "which is worth most to it now."
                             : "the best of those whose nodes were free and not kept for a job "
                               "ahead.");
    if (const std::string settings = settings_text(chosen.plan); !settings.empty())
        fmt::print("It has: {}.\n", settings);
    if (!e.span.empty())
        fmt::print("Its nodes lie {}: {} per iteration there.\n", e.span,
                   human_seconds(e.iteration_s));
}

/// GRES types that arena.yaml maps to hardware that a CPU stands in for.
void print_emulated(const Config& config) {
    const auto hardware = load_hardware(config.hardware_file);
    if (!hardware) return;
    for (const GpuMapping& mapping : config.gpu_types) {
        const auto entry = find_hardware(*hardware, mapping.hardware);
        if (entry && entry->emulated) {
            fmt::print("{} is emulated ({}): its times are a CPU's\n", mapping.gres_type,
                       entry->name);
        }
    }
}

using Shape = std::tuple<std::string, std::int64_t, std::int64_t>;
Shape shape_of(const Grid& grid) { return {grid.gpu_type, grid.nodes, grid.gpus_per_node}; }

/// "2 GPUs", "1 to 7 GPUs"
std::string count_text(std::int64_t fewest, std::int64_t most) {
    if (fewest == most) return counted(most, "GPU");
    return fmt::format("{} to {} GPUs", fewest, most);
}

/// Numbers of GPUs without any offer, a line per type and kind of reason ("memory: ..."): that of
/// the most GPUs.
void print_impossible(const Explanation& e) {
    std::set<Shape> offered;
    for (const Offer& offer : e.offers) offered.insert(shape_of(offer.grid));
    struct Group {
        std::int64_t fewest = INT64_MAX;
        const std::pair<Grid, std::string>* largest = nullptr;
        std::set<std::int64_t> counts;
    };
    std::map<std::pair<std::string, std::string>, Group> groups;
    for (const auto& entry : e.infeasible) {
        if (offered.contains(shape_of(entry.first))) continue;
        Group& group =
            groups[{entry.first.gpu_type, entry.second.substr(0, entry.second.find(':'))}];
        group.fewest = std::min(group.fewest, entry.first.gpus());
        group.counts.insert(entry.first.gpus());
        if (!group.largest || entry.first.gpus() > group.largest->first.gpus())
            group.largest = &entry;
    }
    if (groups.empty()) return;
    fmt::print("\nNot possible:\n");
    for (const auto& [key, group] : groups) {
        const auto& [grid, reason] = *group.largest;
        print_wrapped(
            fmt::format("  {}, {}: ", key.first, count_text(group.fewest, grid.gpus())),
            reason + (group.counts.size() > 1 ? fmt::format(" (of {})", short_form(grid)) : ""));
    }
}

void print_all_impossible(const Explanation& e) {
    if (e.infeasible.empty()) return;
    fmt::print("\nNot possible:\n");
    for (const auto& [grid, reason] : e.infeasible)
        print_wrapped(fmt::format("  {} pp{}: ", short_form(grid), grid.stages), reason);
}

void print_slowdown(JobId job, const Explanation& e) {
    if (e.slowdown.empty()) return;
    const std::string found = e.slow_words.empty()
                                  ? "nothing is known to be slow"
                                  : fmt::format("{} (arena slowdown show {})", e.slow_words, job);
    fmt::print("Watched for slow GPUs and links ({}): {}\n", e.slowdown, found);
}

void print_promise(const Explanation& e) {
    if (e.promise.empty()) return;
    print_wrapped("Promised: ", printable(e.promise, 1024));
    for (const std::string& passing : e.passed)
        print_wrapped("Before it: ", printable(passing, 1024));
}

void print_explanation(JobId job, const Explanation& e, const Config& config, const Shown& shown) {
    fmt::print("JobId={} {}{}{}\n", job, e.state, e.reason.empty() ? "" : ": ", e.reason);
    if (!e.observed.empty())
        print_wrapped("Arena only observes; acting, it ", printable(e.observed, 1024));
    print_promise(e);
    if (!e.work.empty()) print_wrapped("Work: ", printable(e.work, 1024));
    if (!e.move.empty()) print_wrapped("A move costs it: ", printable(e.move, 1024));
    print_slowdown(job, e);
    print_emulated(config);
    print_data_sheets(e);
    const std::size_t hidden = e.offers.empty() ? 0 : print_offers(e, shown);
    print_choice(e);
    if (!e.unmeasured.empty()) fmt::print("\nNot measured, estimated instead: {}\n", e.unmeasured);
    if (!e.left_out.empty()) fmt::print("\nLeft out: {}\n", e.left_out);
    if (!e.adapters.empty())
        fmt::print("\nTrained: {}; all other weights are frozen\n", printable(e.adapters, 256));
    if (!e.model_ignore.empty()) fmt::print("\nThe model was read without: {}\n", e.model_ignore);
    if (!e.array.empty()) print_wrapped("\nSiblings: ", printable(e.array, 1024));
    if (!e.unsaved.empty()) fmt::print("\nMoves: {}\n", e.unsaved);
    if (!e.avoids.empty()) fmt::print("\nAvoids: {}\n", join(e.avoids, "; "));
    if (shown.all) return print_all_impossible(e);
    print_impossible(e);
    if (hidden == 0 && e.infeasible.empty()) return;
    std::vector<std::string> more;
    if (hidden > 0) more.push_back(counted(hidden, "more offer"));
    if (!e.infeasible.empty())
        more.push_back(fmt::format("why {} grid{} not possible", e.infeasible.size(),
                                   e.infeasible.size() == 1 ? " is" : "s are"));
    fmt::print("\narena explain {} --all shows {}.\n", job, join(more, ", and "));
}

/// The plug-in's comment lines carry the essentials to hosts without the socket.
int explain_from_fields(const Globals& globals, JobId job, const std::string& why) {
    const auto text = program_text({"scontrol", "show", "job", std::to_string(job)});
    if (!text) return fail(globals, text.error());
    const auto fields = parse_scontrol_fields(*text);
    const auto field = [&](const char* name) {
        const auto at = fields.find(name);
        return at == fields.end() || at->second == "(null)" ? std::string() : at->second;
    };
    const std::string admin = field("AdminComment"), offers = field("SystemComment");
    if (!admin.starts_with("arena:")) {
        return fail(globals, no_error(fmt::format("JobId={} is not an Arena job", job)));
    }
    const std::string source = fmt::format("scontrol's fields ({})", why);
    if (globals.json) {
        fmt::print("{}\n", dump_json({{"schema_version", 1},
                                      {"job", job},
                                      {"source", source},
                                      {"state", field("JobState")},
                                      {"reason", field("Reason")},
                                      {"admin_comment", admin},
                                      {"system_comment", offers}}));
        return exit_yes;
    }
    const std::string reason = field("Reason");
    fmt::print("JobId={} {}{}\n  {}\n", job, field("JobState"),
               reason.empty() || reason == "None" ? "" : ": " + reason, admin);
    for (const std::string_view part : split(offers, ';')) {
        if (!trim(part).empty()) fmt::print("  {}\n", trim(part));
    }
    fmt::print("Read from {}.\n", source);
    return exit_yes;
}

int explain(const Globals& globals, JobId job, const Shown& shown) {
    const Result<Config> config = load_site_config(globals);
    if (!config) return explain_from_fields(globals, job, config.error().message());
    const Result<std::string> answer = ask_socket(config->socket, fmt::format("explain {}", job));
    if (!answer) return explain_from_fields(globals, job, answer.error().message());
    if (trim(*answer).empty()) {
        // It speaks of jobs that wait or run, to their owners; Slurm itself decides who sees the
        // rest.
        return explain_from_fields(globals, job,
                                   "the scheduler does not speak of it: over, or not yours");
    }
    const Result<Json> json = parse_json(*answer);
    if (!json) return fail(globals, environment_error(json.error().message(), config->socket));
    const Result<Explanation> explanation = parse_explanation(*json);
    if (!explanation) return fail(globals, explanation.error());
    if (globals.json) {
        fmt::print("{}\n", dump_json(*json));
    } else {
        print_explanation(job, *explanation, *config, shown);
    }
    return exit_yes;
}

void print_flat(const Json& json, const std::string& prefix) {
    for (const auto& [key, value] : json.items()) {
        const std::string name = prefix.empty() ? key : prefix + "." + key;
        if (name == "histograms") continue;  // for programs: arena exporter
        if (value.is_object()) {
            print_flat(value, name);
        } else if (name == "profiles.users") {
            for (const Json& user : value) print_flat(user, "profiles.user");
        } else if (name == "observe.lines") {
            for (const Json& line : value)
                fmt::print("JobId={} {}\n", line.value("job", JobId{0}),
                           printable(line.value("words", ""), 300));
        } else if (name != "schema_version") {
            fmt::print("{:<28} {}\n", name,
                       value.is_string() ? value.get<std::string>() : value.dump());
        }
    }
}

int stats(const Globals& globals, bool resets) {
    const Result<Config> config = load_site_config(globals);
    if (!config) return fail(globals, config.error());
    const Result<std::string> answer = ask_socket(config->socket, resets ? "stats reset" : "stats");
    if (!answer) {
        Error error = answer.error();
        error.text += "; run arena stats on the controller";
        return fail(globals, error);
    }
    const Result<Json> json = parse_json(*answer);
    if (!json || !json->is_object()) {
        const char* why =
            resets ? "the scheduler plug-in counted nothing afresh: only root and SlurmUser may "
                     "ask for "
                     "it, or it is off or still starting; see slurmctld's log"
                   : "the scheduler plug-in gave no answer: it is off or still starting; see "
                     "slurmctld's log";
        return fail(globals, environment_error(why, config->socket));
    }
    if (globals.json) {
        fmt::print("{}\n", dump_json(*json));
    } else {
        print_flat(*json, "");
    }
    return exit_yes;
}

}  // namespace

void add_explain(CLI::App& app, Globals& globals) {
    CLI::App* command = app.add_subcommand("explain", "rank a job's offers and say why this one");
    auto job = std::make_shared<JobId>(0);
    command->add_option("jobid", *job, "job id")->required()->transform(job_id());
    const auto shown = std::make_shared<Shown>();
    const auto top =
        command
            ->add_option("--top", shown->top,
                         fmt::format("show the K best offers, and the chosen one [{}]", shown->top))
            ->check(CLI::Range(1, 1 << 20));
    command
        ->add_flag("--all", shown->all,
                   "show every offer, and every grid that is not possible with its reason")
        ->excludes(top);
    command->callback([&globals, job, shown] { globals.status = explain(globals, *job, *shown); });
}

void add_stats(CLI::App& app, Globals& globals) {
    CLI::App* command = app.add_subcommand("stats", "counters and times of the scheduler plug-in");
    const auto resets = std::make_shared<bool>(false);
    command->add_flag("--reset", *resets,
                      "count longest and mean times afresh from now on (root, SlurmUser)");
    command->callback([&globals, resets] { globals.status = stats(globals, *resets); });
}

}  // namespace arena::cli
