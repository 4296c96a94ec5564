// SPDX-License-Identifier: GPL-2.0-or-later
// What is opened by name: libcuda.so.1 (arena-train counts devices by it) and libnvidia-ml.so.1,
// whose GPUs have no processes and one clock. Types as in nvml.h.
#include <cstdio>
#include <cstring>

#include "tests/cuda/device.h"

extern "C" {

int cuInit(unsigned) { return soft::injected("cuInit"); }
int cuDeviceGetCount(int* count) {
    *count = soft::device_count();
    return soft::injected("cuDeviceGetCount");
}

int nvmlInit_v2() { return soft::injected("nvmlInit_v2"); }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int) { return "an error of the software device"; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** gpu) {
    if (const int failure = soft::injected("nvmlDeviceGetHandleByPciBusId_v2"); failure != 0)
        return failure;
    unsigned domain = 0, bus = 0, device = 0, function = 0;
    if (std::sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4 || bus < 1 ||
        bus > static_cast<unsigned>(soft::device_count()))
        return 6;  // NVML_ERROR_NOT_FOUND
    *gpu = reinterpret_cast<void*>(std::uintptr_t{bus});
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) {
    *count = 0;
    return soft::injected("nvmlDeviceGetComputeRunningProcesses_v3");
}
int nvmlSystemGetProcessName(unsigned, char*, unsigned) { return 6; }
int nvmlDeviceGetClockInfo(void*, int, unsigned* value) {
    *value = 1980;
    return soft::injected("nvmlDeviceGetClockInfo");
}
int nvmlDeviceGetTemperature(void*, int, unsigned* value) {
    *value = 41;
    return 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* value) {
    *value = 700000;
    return 0;
}

}  // extern "C"
