// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of controller.h; no Slurm here: unit-tested.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "plugin/spank/controller.h"
#include "site/plugin_dir.h"

namespace arena {
namespace {

bool lists_arena(std::string_view plugins) {
    const auto words = split(plugins, ',');
    return std::any_of(words.begin(), words.end(), [](std::string_view word) {
        word = trim(word);
        return word == "arena" || word == "job_submit/arena";
    });
}

/// What cannot be told from here (a PluginDir that this host lacks) is left to slurmctld.
bool schedules_by_arena(const ControllerFacts& facts) {
    if (facts.scheduler_type == "sched/arena") return true;
    return facts.scheduler_type == "sched/backfill" &&
           stands_in_for_backfill(facts.plugin_dir).value_or(true);
}

std::string shown(const std::string& value) {
    return value.empty() ? "empty" : printable(value, 200);
}

}  // namespace

Status check_controller(const ControllerFacts& facts) {
    constexpr const char* remedy =
        "not submitted; ask the administrator (arena doctor), or leave the --arena-* options out "
        "and ask for GPUs, "
        "e.g. --gres=gpu:1";
    if (!lists_arena(facts.job_submit_plugins))
        return environment_error(
            fmt::format("slurmctld runs without Arena (JobSubmitPlugins is {}, without arena): the "
                        "job would run without "
                        "a GPU; {}",
                        shown(facts.job_submit_plugins), remedy));
    if (!schedules_by_arena(facts))
        return environment_error(
            fmt::format("slurmctld runs without Arena's scheduler (SchedulerType is {}, not "
                        "sched/arena): the job would wait for ever; {}",
                        shown(facts.scheduler_type), remedy));
    return Done{};
}

}  // namespace arena
