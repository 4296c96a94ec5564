// SPDX-License-Identifier: GPL-2.0-or-later
// See cuda_identity.h.
#include "profiler/cuda/cuda_identity.h"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace arena::cuda {

std::string uuid_of(const cudaDeviceProp& p) {
    static constexpr char hex[] = "0123456789abcdef";
    std::string text = "GPU-";
    for (int i = 0; i < 16; ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        const auto byte = static_cast<unsigned char>(p.uuid.bytes[i]);
        text += hex[byte >> 4];
        text += hex[byte & 15];
    }
    return text;
}

std::string pci_of(const cudaDeviceProp& p) {
    char text[40];
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", static_cast<unsigned>(p.pciDomainID),
                  static_cast<unsigned>(p.pciBusID), static_cast<unsigned>(p.pciDeviceID));
    return text;
}

std::string driver_version() {
    std::ifstream f("/proc/driver/nvidia/version");
    std::string line;
    std::getline(f, line);
    std::istringstream words(line);
    for (std::string w; words >> w;)
        if (w.size() > 4 && w.find_first_not_of("0123456789.") == std::string::npos &&
            w.find('.') != std::string::npos)
            return w;
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess)
        (void)cudaGetLastError();  // no failure of the next launch
    return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace arena::cuda
