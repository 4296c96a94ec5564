// SPDX-License-Identifier: GPL-2.0-or-later
// See nvml.h. Names, types and numbers are those of nvml.h (NVML API reference, driver 510 and
// later).
#include "profiler/core/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace arena {
namespace {

constexpr int success = 0, insufficient_size = 7;  // nvmlReturn_t
constexpr int clock_sm = 1, temperature_gpu = 0;   // nvmlClockType_t, nvmlTemperatureSensors_t
constexpr unsigned most_processes = 1024;

}  // namespace

struct Nvml::Functions {
    using Handle = struct nvmlDevice_st*;
    /// nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3 (and _v2).
    struct ProcessInfo {
        unsigned pid;
        unsigned long long used_memory;
        unsigned gpu_instance, compute_instance;
    };
    static_assert(sizeof(ProcessInfo) == 24);

    void* library = nullptr;
    bool is_started = false;
    int (*init)() = nullptr;
    int (*shutdown)() = nullptr;
    const char* (*error_string)(int) = nullptr;
    int (*handle_by_pci)(const char*, Handle*) = nullptr;
    int (*compute_processes)(Handle, unsigned*, ProcessInfo*) = nullptr;
    int (*process_name)(unsigned, char*, unsigned) = nullptr;
    int (*clock)(Handle, int, unsigned*) = nullptr;
    int (*temperature)(Handle, int, unsigned*) = nullptr;
    int (*power_limit)(Handle, unsigned*) = nullptr;

    Functions() = default;
    ~Functions() {
        if (is_started) shutdown();
        if (library != nullptr) ::dlclose(library);
    }
    Functions(const Functions&) = delete;
    Functions& operator=(const Functions&) = delete;

    /// The name of the first function that is not there; null when all are.
    const char* find_all() {
        const char* missing = nullptr;
        const auto find = [&](auto& function, const char* name) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
                ::dlsym(library, name));
            if (function == nullptr && missing == nullptr) missing = name;
        };
        find(init, "nvmlInit_v2");
        find(shutdown, "nvmlShutdown");
        find(error_string, "nvmlErrorString");
        find(handle_by_pci, "nvmlDeviceGetHandleByPciBusId_v2");
        find(compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3");
        find(process_name, "nvmlSystemGetProcessName");
        find(clock, "nvmlDeviceGetClockInfo");
        find(temperature, "nvmlDeviceGetTemperature");
        find(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
        return missing;
    }
};

Nvml::Nvml(std::unique_ptr<Functions> functions) : f_(std::move(functions)) {}
Nvml::~Nvml() = default;

Error Nvml::error(const std::string& doing, int code) const {
    const char* word = f_->error_string(code);
    return environment_error("NVML: " + doing + ": " +
                             printable(word == nullptr ? "?" : word, 120));
}

Result<std::unique_ptr<Nvml>> Nvml::open(const std::string& library) {
    auto f = std::make_unique<Functions>();
    f->library = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (f->library == nullptr) {
        const char* why = ::dlerror();
        return environment_error("NVML cannot be loaded: " +
                                 printable(why == nullptr ? "?" : why, 200));
    }
    if (const char* missing = f->find_all(); missing != nullptr)
        return environment_error(std::string("NVML has no ") + missing +
                                 ": a driver of 510 or later is needed");
    std::unique_ptr<Nvml> nvml(new Nvml(std::move(f)));
    if (const int code = nvml->f_->init(); code != success) return nvml->error("start", code);
    nvml->f_->is_started = true;
    return nvml;
}

Result<std::vector<GpuProcess>> Nvml::processes(const std::string& pci) const {
    Functions::Handle gpu = nullptr;
    if (const int code = f_->handle_by_pci(pci.c_str(), &gpu); code != success)
        return error("find GPU " + printable(pci), code);
    unsigned count = 64;
    std::vector<Functions::ProcessInfo> found(count);
    int code = f_->compute_processes(gpu, &count, found.data());
    while (code == insufficient_size && found.size() < most_processes) {
        count = std::min(most_processes, std::max(count, static_cast<unsigned>(found.size())) *
                                             2);  // more may come
        found.resize(count);
        code = f_->compute_processes(gpu, &count, found.data());
    }
    if (code != success) return error("list the processes of GPU " + printable(pci), code);
    std::vector<GpuProcess> processes;
    for (std::size_t i = 0; i < std::min<std::size_t>(count, found.size()); ++i) {
        std::array<char, 256> name{};
        const bool is_named =
            f_->process_name(found[i].pid, name.data(), name.size() - 1) == success;
        processes.push_back({found[i].pid, is_named ? printable(name.data(), 60) : std::string()});
    }
    return processes;
}

DeviceState Nvml::state(const std::string& pci) const {
    DeviceState state;
    Functions::Handle gpu = nullptr;
    if (f_->handle_by_pci(pci.c_str(), &gpu) != success) return state;
    unsigned value = 0;
    if (f_->clock(gpu, clock_sm, &value) == success) state.clock_mhz = value;
    if (f_->temperature(gpu, temperature_gpu, &value) == success) state.temperature_c = value;
    if (f_->power_limit(gpu, &value) == success) state.power_limit_w = value / 1000.0;
    return state;
}

Error busy_error(const std::string& gpu, const std::vector<GpuProcess>& processes) {
    std::string text = "GPU " + gpu + " is in use, so nothing was measured: ";
    for (std::size_t i = 0; i < processes.size() && i < 3; ++i)
        text += (i == 0 ? "process " : ", ") + std::to_string(processes[i].pid) +
                (processes[i].name.empty() ? "" : " (" + processes[i].name + ")");
    if (processes.size() > 3) text += " and " + std::to_string(processes.size() - 3) + " more";
    return environment_error(text);
}

Status refuse_busy_gpu(const std::string& pci) {
    const auto nvml = Nvml::open();
    const auto found =
        nvml ? (*nvml)->processes(pci) : Result<std::vector<GpuProcess>>(nvml.error());
    if (!found)
        return environment_error("nobody can tell whether GPU " + pci +
                                 " is in use, so nothing was measured: " + found.error().message());
    if (!found->empty()) return busy_error(pci, *found);
    return Done{};
}

}  // namespace arena
