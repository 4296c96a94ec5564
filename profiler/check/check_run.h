// SPDX-License-Identifier: GPL-2.0-or-later
// Measures a check: the same matrix products on one device after the other, then copies around the
// ring of them. Knows no clock but the devices' own, no file, no reference.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checks/node_check.h"
#include "profiler/check/links.h"
#include "profiler/core/operator.h"

namespace arena {

struct CheckTools {
    std::function<Result<std::unique_ptr<Backend>>(std::int64_t device)> backend;
    std::function<Result<std::unique_ptr<Links>>(std::int64_t devices)> links;
};

/// What each device is measured with, beside what a request names: FP32, and BF16 and FP16 where it
/// has them; smaller ones of a CPU.
std::vector<OpShape> standard_products(const Device& device);

/// The GPUs' numbers in their node: CUDA_VISIBLE_DEVICES (may be null) of a job that has some of
/// them; all of the node's are counted. An error where it does not say which it has.
Result<std::vector<std::int64_t>> device_indices(const char* visible, std::int64_t devices,
                                                 std::int64_t node_devices);

/// Device i of `tools` has the number indices[i]. Where a device fails, so does the check: see
/// NodeCheck::failure.
NodeCheck run_check(const CheckRequest& request, const std::vector<std::int64_t>& indices,
                    const CheckTools& tools);

}  // namespace arena
