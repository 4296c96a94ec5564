// SPDX-License-Identifier: GPL-2.0-or-later
// What NVML knows of one GPU: who uses it, its clock, temperature and power cap, the driver. The
// library comes with the driver and is loaded when it is asked for; its few functions are declared
// here after nvml.h, so that a build needs no header of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/profile.h"

namespace arena {

struct GpuProcess {
    unsigned pid = 0;
    std::string name;  ///< of its program; "" = not told
    bool operator==(const GpuProcess&) const = default;
};

class Nvml {
  public:
    static Result<std::unique_ptr<Nvml>> open(const std::string& library = "libnvidia-ml.so.1");
    ~Nvml();
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;

    /// Processes with a compute context on the GPU at a PCI address ("0000:17:00.0"), ours too. In
    /// MIG mode those of the whole card.
    [[nodiscard]] Result<std::vector<GpuProcess>> processes(const std::string& pci) const;
    /// 0 for what the GPU does not tell.
    [[nodiscard]] DeviceState state(const std::string& pci) const;

  private:
    struct Functions;
    explicit Nvml(std::unique_ptr<Functions>);
    [[nodiscard]] Error error(const std::string& doing, int code) const;
    std::unique_ptr<Functions> f_;
};

/// The sentence for a GPU that others use.
Error busy_error(const std::string& gpu, const std::vector<GpuProcess>&);
/// An error when anybody uses the GPU, or when nobody can tell. Before this process uses it.
Status refuse_busy_gpu(const std::string& pci);

}  // namespace arena
