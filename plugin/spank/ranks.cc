// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugin/spank/ranks.h"

#include "base/hostlist.h"
#include "request/launchers.h"

namespace arena {

bool starts_ranks(const std::string& launcher) {
    const auto choice = parse_launcher(launcher);
    return choice && choice->launcher->wants_ranks;
}

std::vector<std::pair<std::string, std::string>> rank_variables(const StepTask& task) {
    if (!starts_ranks(task.launcher)) return {};
    return {{"RANK", std::to_string(task.rank)},
            {"LOCAL_RANK", std::to_string(task.local_rank)},
            {"WORLD_SIZE", std::to_string(task.world_size)},
            {"MASTER_PORT", std::to_string(master_port(task.job, task.step))}};
}

}  // namespace arena
