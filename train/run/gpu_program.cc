// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/gpu_program.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/text.h"
#include "planner/hardware/hardware.h"

namespace arena::train {
namespace {

std::string number_of(Index n, const char* what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

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
    if (wanted == "cpu" || (wanted == "auto" && !facts.has_program)) return DeviceChoice{};
    if (!facts.has_program)
        return environment_error(
            "this build has no arena-train-cuda; configure with CUDA, or take --device cpu",
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
            false, number_of(ranks, "rank") + " here, " + number_of(*gpus, "GPU") + " visible"};
    return DeviceChoice{true, ""};
}

Result<int> count_gpus() {
    const std::unique_ptr<void, int (*)(void*)> driver(
        dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), dlclose);
    if (!driver) return environment_error("no usable GPU: no CUDA driver (libcuda.so.1) is here");
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver.get(), "cuInit"));
    const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver.get(), "cuDeviceGetCount"));
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

std::string gpu_program() {
    std::error_code ignored;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
    for (const auto& directory : {self.parent_path(), std::filesystem::path(ARENA_LIBEXECDIR)}) {
        const auto program = directory / "arena-train-cuda";
        if (access(program.c_str(), X_OK) == 0) return program;
    }
    return "";
}

Error become(const std::string& program, char** argv) {
    execv(program.c_str(), argv);
    return environment_error(fmt::format("cannot be run: {}", std::strerror(errno)), program);
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
