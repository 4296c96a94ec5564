// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/device_choice.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/count_text.h"
#include "base/text.h"
#include "base/trusted_path.h"
#include "installed_paths.h"
#include "planner/hardware/hardware.h"
#include "train/core/device_module.h"

namespace arena::train {
namespace {

/// The numbers of "4(x2),3" that are no repetition, the largest of them.
Index most_tasks(std::string_view list) {
    Index most = 0;
    while (!list.empty()) {
        const auto end = std::min(list.find(','), list.size());
        const auto digits = std::min(list.substr(0, end).find('('), end);
        const auto number = parse_integer(list.substr(0, digits), 1, 1 << 20);
        if (!number) return 0;
        most = std::max<Index>(most, *number);
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return most;
}

}  // namespace

Result<DeviceChoice> choose_device(const std::string& wanted, const DeviceFacts& facts) {
    if (wanted == "cpu" || (wanted == "auto" && !facts.has_module)) return DeviceChoice{};
    if (!facts.has_module)
        return environment_error(
            "this build has no arena-train-cuda.so; configure with CUDA, or take --device cpu",
            "--device cuda");
    const Result<int> gpus = facts.gpus();
    if (wanted == "cuda") {
        if (!gpus) return environment_error(gpus.error().text, "--device cuda");
        return DeviceChoice{true, ""};
    }
    if (!gpus) return DeviceChoice{false, gpus.error().text};
    const Index ranks = facts.ranks_of_node();
    if (ranks > *gpus)
        return DeviceChoice{
            false, counted(ranks, "rank") + " here, " + counted(*gpus, "GPU") + " visible"};
    return DeviceChoice{true, ""};
}

Result<int> count_gpus() {
    // Stays open, as does what it begins.
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr)
        return environment_error("no usable GPU: no CUDA driver (libcuda.so.1) is here");
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
    const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
    if (init == nullptr || count == nullptr)
        return environment_error("no usable GPU: libcuda.so.1 is no CUDA driver");
    int gpus = 0;
    if (const int code = init(0); code != 0)
        return environment_error(fmt::format("no usable GPU: cuInit says {}", code));
    if (const int code = count(&gpus); code != 0)
        return environment_error(fmt::format("no usable GPU: cuDeviceGetCount says {}", code));
    if (gpus == 0) return environment_error("no usable GPU: CUDA sees no device");
    return gpus;
}

Index launched_ranks(const Environment& environment) {
    if (const auto local = environment("OMPI_COMM_WORLD_LOCAL_SIZE")) return most_tasks(*local);
    if (const auto tasks = environment("SLURM_STEP_TASKS_PER_NODE")) return most_tasks(*tasks);
    return 0;
}

std::string cuda_module() {
    std::error_code ignored;
    const auto beside = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
    for (const auto& directory :
         {beside, beside / ".libs", beside.parent_path() / "libexec/slurm-arena",
          std::filesystem::path(ARENA_LIBEXECDIR)}) {
        const auto module = directory / "arena-train-cuda.so";
        if (access(module.c_str(), R_OK) == 0) return module;
    }
    return "";
}

Result<DeviceMaker> open_module(const std::string& path) {
    if (const Status safe = check_trusted(path, geteuid()); !safe) return safe.error();
    void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr)
        return environment_error(fmt::format("cannot be opened: {}", printable(dlerror(), 400)),
                                 path);
    const auto version =
        static_cast<const char* const*>(dlsym(module, "arena_train_module_version"));
    const auto open = reinterpret_cast<decltype(&arena_train_open_device)>(
        dlsym(module, "arena_train_open_device"));
    if (version == nullptr || open == nullptr)
        return environment_error("is no module of arena-train", path);
    if (std::string_view(*version) != module_version)
        return environment_error(
            fmt::format("is of {}, this program is {}; install both from one build",
                        printable(*version), module_version),
            path);
    return DeviceMaker(open);
}

double peak_flops(const std::string& device) {
    const auto types = load_hardware("");
    if (!types) return 0;
    std::string word = device;
    std::ranges::replace(word, ' ', '-');
    const auto type = find_hardware(*types, word);
    if (!type || !type->flops.contains(Precision::bf16)) return 0;
    return type->flops.at(Precision::bf16);
}

}  // namespace arena::train
