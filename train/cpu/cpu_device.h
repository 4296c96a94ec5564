// SPDX-License-Identifier: GPL-2.0-or-later
// A CPU as a device: fp32 in the host's memory, by the kernels that the profiler measures
// (profiler/cpu/cpu_kernels.h).
#pragma once

#include <memory>
#include <vector>

#include "train/core/device.h"

namespace arena::train {

std::unique_ptr<Device> make_cpu_device(int threads);

/// Values of the host as this device, and no other one, may be given them.
inline Pointer<const Element> cpu_elements(const std::vector<float>& v) {
    return Pointer(reinterpret_cast<const Element*>(v.data()));
}
inline Pointer<Element> cpu_elements(std::vector<float>& v) {
    return Pointer(reinterpret_cast<Element*>(v.data()));
}
inline Pointer<const float> cpu_numbers(const std::vector<float>& v) { return Pointer(v.data()); }
inline Pointer<float> cpu_numbers(std::vector<float>& v) { return Pointer(v.data()); }
inline Tokens cpu_tokens(const std::vector<std::int32_t>& v) {
    return {Pointer(v.data()), v.size()};
}

}  // namespace arena::train
