// SPDX-License-Identifier: GPL-2.0-or-later
// `arena explain JOBID` and `arena stats`. On the controller the scheduler plug-in answers on its socket;
// elsewhere explain reads what the plug-in wrote into the job's fields, and says that it did so.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/ask.h"
#include "cli/cli.h"
#include "core/json.h"
#include "core/text.h"
#include "planner/planner.h"

namespace arena::cli {
namespace {

struct Explanation {
    std::string state, reason, unmeasured, left_out;
    std::int64_t chosen = -1;
    std::vector<Offer> offers;
    std::vector<std::pair<Grid, std::string>> infeasible;
};

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
    fields.integer("chosen", out.chosen, -1, 1 << 20);
    if (const Json* offers = fields.list("offers", 1 << 20)) {
        for (const Json& offer : *offers) {
            if (!error) read(offer, "offers", error, out.offers.emplace_back());
        }
    }
    read_infeasible(fields, error, out);
    if (error) return environment_error(error->message(), "answer of the scheduler plug-in");
    return out;
}

void print_offers(const Explanation& e) {
    Table table({{"", false}, {"rank", true}, {"grid", false}, {"plan", false}, {"iteration", true},
                 {"samples/s", true}, {"memory/GPU", true}, {"source", false}});
    for (std::size_t i = 0; i < e.offers.size(); ++i) {
        const Offer& offer = e.offers[i];
        const Estimate& estimate = offer.estimate;
        table.add({static_cast<std::int64_t>(i) == e.chosen ? "->" : "", fmt::format("{}", i + 1),
                   short_form(offer.grid), short_form(offer.plan), human_seconds(estimate.iteration_s),
                   fmt::format("{:.4g}", estimate.samples_per_s),
                   human_bytes(estimate.memory_bytes_per_gpu),
                   fmt::format("{} +-{:.0f} %", to_string(estimate.source),
                               100 * estimate.error_bound)});
    }
    fmt::print("\n{}", table.text());
}

void print_choice(const Explanation& e) {
    if (e.chosen < 0 || e.chosen >= static_cast<std::int64_t>(e.offers.size())) return;
    const Offer& chosen = e.offers[static_cast<std::size_t>(e.chosen)];
    fmt::print("\nChosen: {}, {}\n", short_form(chosen.grid),
               e.chosen == 0 ? "the best offer."
                             : "the best of those whose nodes were free and not kept for a job ahead.");
}

/// GRES types that arena.yaml maps to hardware that a CPU stands in for.
void print_emulated(const Config& config) {
    const auto hardware = load_hardware(config.hardware_file);
    if (!hardware) return;
    for (const GpuMapping& mapping : config.gpu_types) {
        const auto entry = find_hardware(*hardware, mapping.hardware);
        if (entry && entry->emulated) {
            fmt::print("{} is emulated ({}): its times are a CPU's\n", mapping.gres_type, entry->name);
        }
    }
}

void print_explanation(JobId job, const Explanation& e, const Config& config) {
    fmt::print("JobId={} {}: {}\n", job, e.state, e.reason);
    print_emulated(config);
    if (!e.offers.empty()) print_offers(e);
    print_choice(e);
    if (!e.unmeasured.empty()) fmt::print("\nNot measured, estimated instead: {}\n", e.unmeasured);
    if (!e.left_out.empty()) fmt::print("\nLeft out: {}\n", e.left_out);
    if (e.infeasible.empty()) return;
    fmt::print("\nNot possible:\n");
    for (const auto& [grid, reason] : e.infeasible) {
        fmt::print("  {} in {} stages: {}\n", short_form(grid), grid.stages, reason);
    }
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
    fmt::print("JobId={} {}: {}\n  {}\n", job, field("JobState"), field("Reason"), admin);
    for (const std::string_view part : split(offers, ';')) {
        if (!trim(part).empty()) fmt::print("  {}\n", trim(part));
    }
    fmt::print("Read from {}.\n", source);
    return exit_yes;
}

int explain(const Globals& globals, JobId job) {
    const Result<Config> config = load_site_config(globals);
    if (!config) return explain_from_fields(globals, job, config.error().message());
    const Result<std::string> answer = ask_socket(config->socket, fmt::format("explain {}", job));
    if (!answer) return explain_from_fields(globals, job, answer.error().message());
    if (trim(*answer).empty()) {
        // It speaks of jobs that wait or run, to their owners; Slurm itself decides who sees the rest.
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
        print_explanation(job, *explanation, *config);
    }
    return exit_yes;
}

void print_flat(const Json& json, const std::string& prefix) {
    for (const auto& [key, value] : json.items()) {
        const std::string name = prefix.empty() ? key : prefix + "." + key;
        if (value.is_object()) {
            print_flat(value, name);
        } else if (name == "profiles.users") {
            for (const Json& user : value) print_flat(user, "profiles.user");
        } else if (name != "schema_version") {
            fmt::print("{:<28} {}\n", name, value.is_string() ? value.get<std::string>() : value.dump());
        }
    }
}

int stats(const Globals& globals) {
    const Result<Config> config = load_site_config(globals);
    if (!config) return fail(globals, config.error());
    const Result<std::string> answer = ask_socket(config->socket, "stats");
    if (!answer) {
        Error error = answer.error();
        error.text += "; run arena stats on the controller";
        return fail(globals, error);
    }
    const Result<Json> json = parse_json(*answer);
    if (!json || !json->is_object()) {
        return fail(globals, environment_error("the scheduler plug-in gave no answer: it is off or "
                                               "still starting; see slurmctld's log",
                                               config->socket));
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
    command->add_option("jobid", *job, "job id")->required()->check(CLI::Range(1U, UINT32_MAX));
    command->callback([&globals, job] { globals.status = explain(globals, *job); });
}

void add_stats(CLI::App& app, Globals& globals) {
    CLI::App* command = app.add_subcommand("stats", "counters and times of the scheduler plug-in");
    command->callback([&globals] { globals.status = stats(globals); });
}

}  // namespace arena::cli
