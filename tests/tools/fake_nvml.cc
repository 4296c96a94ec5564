// SPDX-License-Identifier: GPL-2.0-or-later
// For tests only: a libnvidia-ml.so.1 of three GPUs. 0000:01:00.0 is idle; 0000:02:00.0 has
// ARENA_TEST_PROCESSES processes, 100, 101, ...; 0000:03:00.0 tells nothing. What it fills in has
// the layout of nvml.h.
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {

struct nvmlDevice_st {
    int number;
};
struct nvmlProcessInfo_t {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
};

int nvmlInit_v2() { return std::getenv("ARENA_TEST_NO_DRIVER") != nullptr ? 9 : 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int code) {
    return code == 9 ? "Driver Not Loaded" : code == 3 ? "Not Supported" : "Not Found";
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, nvmlDevice_st** gpu) {
    static nvmlDevice_st gpus[3] = {{0}, {1}, {2}};
    for (int i = 0; i < 3; ++i) {
        char name[16];
        std::snprintf(name, sizeof name, "0000:%02d:00.0", i + 1);
        *gpu = &gpus[i];
        if (std::strcmp(pci, name) == 0) return 0;
    }
    return 6;
}
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_st* gpu, unsigned* count,
                                            nvmlProcessInfo_t* infos) {
    if (gpu->number == 2) return 3;
    const char* said = std::getenv("ARENA_TEST_PROCESSES");
    const unsigned all =
        gpu->number == 0 || said == nullptr ? 0 : static_cast<unsigned>(std::atoi(said));
    const unsigned room = *count;
    *count = all;
    if (room < all) return 7;
    for (unsigned i = 0; i < all; ++i) infos[i] = {100 + i, 1ULL << 30, 0xffffffffU, 0xffffffffU};
    return 0;
}
int nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
    if (pid % 2 != 0) return 6;
    std::snprintf(name, length, "/usr/bin/train%u\n", pid);
    return 0;
}
int nvmlDeviceGetClockInfo(nvmlDevice_st* gpu, int type, unsigned* value) {
    *value = type == 1 ? 1980 : 1;
    return gpu->number == 2 ? 3 : 0;
}
int nvmlDeviceGetTemperature(nvmlDevice_st* gpu, int sensor, unsigned* value) {
    *value = sensor == 0 ? 41 : 1;
    return gpu->number == 2 ? 3 : 0;
}
int nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_st* gpu, unsigned* value) {
    *value = 699500;
    return gpu->number == 2 ? 3 : 0;
}
int nvmlSystemGetDriverVersion(char* version, unsigned length) {
    std::snprintf(version, length, "580.65.06");
    return 0;
}
}
