// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugin/spank/ranks.h"

#include "base/hostlist.h"
#include "request/launchers.h"

namespace arena {

std::vector<std::pair<std::string, std::string>> rank_variables(const StepTask& task) {
    const auto choice = parse_launcher(task.launcher);
    if (!choice || !choice->launcher->wants_ranks) return {};
    std::vector<std::pair<std::string, std::string>> list = {
        {"RANK", std::to_string(task.rank)},
        {"LOCAL_RANK", std::to_string(task.local_rank)},
        {"WORLD_SIZE", std::to_string(task.world_size)},
        {"MASTER_PORT", std::to_string(master_port(task.job, task.step))}};
    if (const auto host = parse_first_host(task.nodes)) list.emplace_back("MASTER_ADDR", *host);
    return list;
}

}  // namespace arena
