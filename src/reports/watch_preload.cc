// SPDX-License-Identifier: GPL-2.0-or-later
#include "reports/watch_preload.h"

namespace arena {

std::vector<std::pair<std::string, std::string>> watch_variables(const WatchedTask& task) {
    const std::string recorder = task.libexec + "/libarena_watch.so",
                      mpi = task.libexec + "/libarena_watch_mpi.so";
    std::string preload = task.preload;
    const auto append = [&](const std::string& library) {
        if (preload.find(library) == std::string::npos)
            preload += (preload.empty() ? "" : ":") + library;
    };
    append(recorder);
    if (task.mpi) append(mpi);
    std::vector<std::pair<std::string, std::string>> list;
    if (preload != task.preload) list.emplace_back("LD_PRELOAD", preload);
    if (task.profiler.empty()) list.emplace_back("NCCL_PROFILER_PLUGIN", recorder);
    return list;
}

}  // namespace arena
