// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugin/spank/watch.h"

#include <algorithm>

#include "reports/slowdown_mode.h"
#include "reports/watch_preload.h"

namespace arena {
namespace {

constexpr std::string_view loader_variables[] = {"LD_PRELOAD=", "LD_AUDIT="};

}  // namespace

bool is_watched(const StepWatch& step) {
    return !step.key.empty() &&
           parse_slowdown_mode(step.slowdown).value_or(SlowdownMode::off) != SlowdownMode::off;
}

std::vector<std::pair<std::string, std::string>> task_variables(const StepWatch& step,
                                                                const std::string& libexec) {
    if (!is_watched(step)) return {};
    const bool mpi = step.mpi.empty() ? step.launcher.starts_with("arena-train") : step.mpi == "1";
    return watch_variables({.libexec = libexec,
                            .preload = step.preload,
                            .profiler = step.profiler,
                            .mpi = mpi,
                            .binds = !step.binds.empty()});
}

std::vector<std::string> agent_environment(const char* const* task) {
    std::vector<std::string> all;
    for (; task != nullptr && *task != nullptr; ++task) {
        const std::string_view entry(*task);
        const bool loads =
            std::any_of(std::begin(loader_variables), std::end(loader_variables),
                        [&](std::string_view name) { return entry.starts_with(name); });
        if (!loads) all.emplace_back(entry);
    }
    return all;
}

}  // namespace arena
