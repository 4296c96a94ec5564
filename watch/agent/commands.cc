// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/agent/commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/text.h"
#include "installed_paths.h"
#include "ipc/child.h"
#include "reports/watch_preload.h"
#include "watch/agent/agent_loop.h"
#include "watch/agent/chief_here.h"
#include "watch/ring/rank_id.h"

namespace arena::watch {
namespace {

const char* variable(const char* name) { return ::getenv(name); }

void set(const char* name, const std::string& text) { ::setenv(name, text.c_str(), 1); }

/// Beside this program in a build directory, else where they are installed.
std::string libraries() {
    const std::string built = program_beside(".libs/libarena_watch.so");
    return built.empty() ? ARENA_LIBEXECDIR : std::filesystem::path(built).parent_path().string();
}

/// The same for all ranks of a node, and another for another run or (as nodes may be one machine)
/// another node of a step.
std::string name_of_run(const std::optional<RankId>& rank) {
    if (const std::string given = variable_of("ARENA_WATCH_RUN"); !given.empty()) return given;
    if (!rank) return new_nonce();
    return fmt::format("{}.{}.{}.{}", rank->job, rank->step, rank->life,
                       variable_of("SLURM_NODEID"));
}

Status start_agent() {
    std::error_code failed;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe", failed);
    return start_detached({self, "agent", "--task", std::to_string(::getpid())});
}

void set_watched(bool mpi) {
    const std::string libexec = libraries();
    for (const auto& [name, text] : watch_variables({.libexec = libexec,
                                    .preload = variable_of("LD_PRELOAD"),
                                    .profiler = variable_of("NCCL_PROFILER_PLUGIN"),
                                    .mpi = mpi,
                                    .binds = !variable_of("APPTAINER_BIND").empty() ||
                                                     !variable_of("SINGULARITY_BIND").empty()}))
        set(name.c_str(), text);
}

}  // namespace

Status agent_command(const std::vector<std::string_view>& words) {
    pid_t task = 0;
    if (!words.empty()) {
        const auto pid = words.size() == 2 && words[0] == "--task"
                             ? parse_integer(words[1], 1, INT32_MAX)
                             : std::nullopt;
        if (!pid) return usage_error("agent takes --task PID alone");
        task = static_cast<pid_t>(*pid);
    }
    const auto place = find_place(variable, task);
    if (!place) return place.error();
    const auto chief = chief_here(*place);
    run_agent(*place, chief.get());
    return Done{};
}

Error run_command(const std::vector<std::string_view>& all) {
    std::vector<std::string> words(all.begin(), all.end());
    const bool mpi = !words.empty() && words[0] == "--mpi";
    if (mpi) words.erase(words.begin());
    if (!words.empty() && words[0] == "--") words.erase(words.begin());
    if (words.empty()) return usage_error("run needs a command: arena-watch run [--mpi] -- CMD...");
    const auto rank =
        rank_of_environment([](const char* name) -> const char* { return ::getenv(name); });
    if (!parse_watch_key(variable_of("ARENA_WATCH_KEY"))) set("ARENA_WATCH_KEY", new_nonce());
    set("ARENA_WATCH_RUN", name_of_run(rank));
    if (variable_of("ARENA_SLOWDOWN").empty()) set("ARENA_SLOWDOWN", "watch");
    // One of a node's ranks starts the node's agent; what starts ranks itself does, too.
    const Status started = !rank || rank->local_rank == 0 ? start_agent() : Done{};
    if (!started)
        fmt::print(stderr, "arena-watch: {}: the command runs unwatched\n",
                   started.error().message());
    else
        set_watched(mpi);
    std::fflush(stderr);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    return environment_error(fmt::format("cannot be run: {}", std::strerror(errno)), words[0]);
}

}  // namespace arena::watch
