// SPDX-License-Identifier: GPL-2.0-or-later
// What stands in the environment of a task that is watched: by Slurm (plugin/spank) or by
// `arena-watch run`.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace arena {

struct WatchedTask {
    std::string libexec;   ///< directory of libarena_watch.so
    std::string preload;   ///< LD_PRELOAD as it is
    std::string profiler;  ///< NCCL_PROFILER_PLUGIN as it is
    bool mpi = false;      ///< MPI's calls, too
    bool binds = false;    ///< the user says himself what apptainer binds
};
/// LD_PRELOAD with the recorder behind what is there, and NCCL_PROFILER_PLUGIN unless it is set.
/// None of what is there already. APPTAINER_BIND, by which a container of apptainer's has the
/// recorder at its path, unless the user has one.
std::vector<std::pair<std::string, std::string>> watch_variables(const WatchedTask& task);

/// LD_PRELOAD as it was before watch_variables().
std::string without_recorder(std::string_view preload);

}  // namespace arena
