// SPDX-License-Identifier: GPL-2.0-or-later
// How a step of a job that is watched comes to its recorder and its agent. No Slurm here:
// unit-tested.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace arena {

/// A task of a step, by its environment.
struct StepWatch {
    std::string slowdown;  ///< ARENA_SLOWDOWN
    std::string key;       ///< ARENA_WATCH_KEY
    std::string launcher;  ///< ARENA_LAUNCHER
    std::string mpi;       ///< ARENA_WATCH_MPI: 1, 0, or "" as the launcher has it
    std::string preload, profiler;
    std::string binds;  ///< APPTAINER_BIND and SINGULARITY_BIND, one behind the other
};
bool is_watched(const StepWatch& step);
/// What is set in each task; empty where it is not watched.
std::vector<std::pair<std::string, std::string>> task_variables(const StepWatch& step,
                                                                const std::string& libexec);
/// The agent's environment is its task's, less what is preloaded there.
std::vector<std::string> agent_environment(const char* const* task);

}  // namespace arena
