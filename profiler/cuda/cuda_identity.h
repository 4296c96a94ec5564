// SPDX-License-Identifier: GPL-2.0-or-later
// Who a GPU is: its UUID, its PCI address, its driver's version.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace arena::cuda {

/// "GPU-4bb5d5c6-..."
std::string uuid_of(const cudaDeviceProp&);
/// "0000:17:00.0"
std::string pci_of(const cudaDeviceProp&);
/// "580.65.06" from the kernel module, else the CUDA version that the driver supports.
std::string driver_version();

}  // namespace arena::cuda
