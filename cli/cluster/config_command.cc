// SPDX-License-Identifier: GPL-2.0-or-later
// `arena config check|get|keys`: arena.yaml as the plug-ins would read it. `get` is what the Prolog
// calls: it reads one file and has no other effect.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/json.h"
#include "base/text.h"
#include "cli/cluster/commands.h"
#include "planner/hardware/calibration.h"
#include "planner/hardware/hardware.h"
#include "policy/arena/slurm_policies.h"

namespace arena::cli {
namespace {

/// What arena.yaml can only be checked for with the rest of the program at hand.
Status check_references(const Config& config, const std::string& path) {
    const Policy* policy = find_slurm_policy(config.policy);
    if (policy == nullptr)
        return usage_error(fmt::format("policy: \"{}\" is no policy of sched/arena; accepted: {}",
                                       config.policy, slurm_policy_names()),
                           path);
    const auto hardware = load_hardware(config.hardware_file);
    if (!hardware) return hardware.error();
    const auto calibration = load_calibration(config.calibration_file);
    if (!calibration) return calibration.error();
    for (const GpuMapping& mapping : config.gpu_types) {
        const auto entry = find_hardware(*hardware, mapping.hardware);
        if (!entry) {
            return usage_error(
                fmt::format("gpu_types.{}: {}", mapping.gres_type, entry.error().text), path);
        }
    }
    return Done{};
}

int check(const Globals& globals) {
    const std::string path = site_config_path(globals);
    const Result<Config> config = load_site_config(globals);
    if (!config) return fail(globals, config.error());
    if (const Status status = check_references(*config, path); !status) {
        return fail(globals, status.error());
    }
    if (config->gpu_types.empty())
        return fail(
            globals,
            no_error(
                "no GPU type is mapped, so that no job is ever offered a GPU; name your GRES types "
                "and their hardware entries, \"gpu_types: {a100: A100-SXM-80GB}\"",
                path));
    if (globals.json) {
        fmt::print("{}\n", dump_json({{"schema_version", 1}, {"file", path}, {"ok", true}}));
    } else {
        fmt::print("{}: ok, policy {}, {} GPU types\n", path, config->policy,
                   config->gpu_types.size());
    }
    return exit_yes;
}

int get(const Globals& globals, const std::string& key) {
    const Result<Config> config = load_site_config(globals);
    if (!config) return fail(globals, config.error());
    const Result<std::string> value = config_value(*config, key);
    if (!value) return fail(globals, value.error());
    if (globals.json) {
        fmt::print("{}\n", dump_json({{"schema_version", 1}, {"key", key}, {"value", *value}}));
    } else {
        fmt::print("{}\n", *value);
    }
    return exit_yes;
}

int keys(const Globals& globals) {
    const std::string text = describe_config_keys();
    if (!globals.json) {
        fmt::print("{}", text);
        return exit_yes;
    }
    Json list = Json::array();
    for (const std::string_view line : split(trim(text), '\n')) list.push_back(line);
    fmt::print("{}\n", dump_json({{"schema_version", 1}, {"keys", list}}));
    return exit_yes;
}

}  // namespace

void add_config(CLI::App& app, Globals& globals) {
    CLI::App* config = app.add_subcommand("config", "check or read arena.yaml");
    config->require_subcommand(1);
    CLI::App* checking = config->add_subcommand("check", "check arena.yaml and what it refers to");
    checking->add_option("file", globals.config_file, "file to check");
    checking->callback([&globals] { globals.status = check(globals); });
    CLI::App* getting = config->add_subcommand("get", "print the value of one key");
    auto key = std::make_shared<std::string>();
    getting->add_option("key", *key, "such as interval_s or profile.user")->required();
    getting->callback([&globals, key] { globals.status = get(globals, *key); });
    CLI::App* listing = config->add_subcommand("keys", "list every key with default and range");
    listing->callback([&globals] { globals.status = keys(globals); });
}

}  // namespace arena::cli
