// SPDX-License-Identifier: GPL-2.0-or-later
// See launcher.h.
#include "profiler/comm/launcher.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "base/trusted_path.h"

namespace arena {
namespace {

/// Beside the program, where `make install` puts it, or where libtool builds it.
std::string find_module() {
    std::error_code ignored;
    const auto here = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
    for (const auto& directory : {here, here / ".libs"})
        if (const auto path = directory / "arena-profiler-mpi.so";
            ::access(path.c_str(), R_OK) == 0)
            return path;
    return {};
}

}  // namespace

Result<bool> is_launched(const Lookup& env) {
    const auto number = [&](const char* name) -> std::optional<std::int64_t> {
        const char* text = env(name);
        return text == nullptr ? std::nullopt : parse_integer(text, 1, 65536);
    };
    if (const auto ranks = number("OMPI_COMM_WORLD_SIZE")) return *ranks > 1;
    if (number("SLURM_STEP_NUM_TASKS").value_or(1) == 1) return false;
    if (env("PMIX_RANK") != nullptr) return true;
    return usage_error(
        "tasks of srun find each other by PMIx: srun --mpi=pmix; where 'srun --mpi=list' does not "
        "name it, mpirun inside the allocation",
        "SLURM_STEP_NUM_TASKS");
}

Result<CommWorld> world_of(int rank, const std::vector<int>& first_on_node) {
    const auto ranks = static_cast<std::int64_t>(first_on_node.size());
    const std::int64_t each = std::count(first_on_node.begin(), first_on_node.end(), 0);
    bool is_good = each > 0 && ranks % each == 0;
    for (std::int64_t i = 0; is_good && i < ranks; ++i)
        is_good = first_on_node[static_cast<std::size_t>(i)] == i / each * each;
    if (is_good) return CommWorld{rank, ranks / each, each};
    return usage_error(
        "needs the same number of ranks on each node, in blocks: srun --ntasks-per-node=GPUS "
        "--distribution=block:block, mpirun --map-by ppr:GPUS:node");
}

Result<std::unique_ptr<Transport>> open_mpi() {
    const std::string path = find_module();
    if (path.empty())
        return environment_error(
            "ranks over several processes need MPI, and this build has no arena-profiler-mpi.so: "
            "configure with Open MPI (Debian: libopenmpi-dev)");
    if (const Status safe = check_trusted(path, ::geteuid()); !safe) return safe.error();
    // Stays open: MPI cannot be begun twice.
    void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr)
        return environment_error("cannot be opened: " + printable(::dlerror(), 300) +
                                     "; install Open MPI on this node (Debian: libopenmpi3)",
                                 path);
    const auto version =
        static_cast<const char* const*>(::dlsym(module, "arena_profiler_module_version"));
    const auto open = reinterpret_cast<decltype(&arena_profiler_open_mpi)>(
        ::dlsym(module, "arena_profiler_open_mpi"));
    if (version == nullptr || open == nullptr || std::string_view(*version) != comm_module_version)
        return environment_error(
            "is not of " + std::string(comm_module_version) + "; install both from one build",
            path);
    return open();
}

}  // namespace arena
