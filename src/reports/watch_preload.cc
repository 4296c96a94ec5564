// SPDX-License-Identifier: GPL-2.0-or-later
#include "reports/watch_preload.h"

#include "base/text.h"

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
    if (!task.binds) list.emplace_back("APPTAINER_BIND", task.libexec);
    return list;
}

std::string without_recorder(std::string_view preload) {
    std::vector<std::string> kept;
    for (const std::string_view word : split(preload, ':'))
        if (!word.substr(word.rfind('/') + 1).starts_with("libarena_watch"))
            kept.emplace_back(word);
    return join(kept, ":");
}

}  // namespace arena
