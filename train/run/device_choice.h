// SPDX-License-Identifier: GPL-2.0-or-later
// Where arena-train trains: on the CPU, or on GPUs by a module that is opened then, so that it
// starts on a machine without CUDA's libraries.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "train/core/device.h"

namespace arena::train {

/// Value of an environment variable; nothing when it is not set.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

struct DeviceChoice {
    bool is_gpu = false;
    std::string why;  ///< of a CPU where GPUs were thought of; "" = they were not
};

/// What the choice depends on besides --device.
struct DeviceFacts {
    bool has_module = false;               ///< cuda_module() is there
    std::function<Result<int>()> gpus;     ///< that this process sees; asked only where it matters
    std::function<Index()> ranks_of_node;  ///< likewise; 0 = not known
};
/// `wanted`: cpu, cuda or auto. cuda is never turned into cpu: it is an error then. auto is cuda
/// where there is a GPU for each rank of this machine.
Result<DeviceChoice> choose_device(const std::string& wanted, const DeviceFacts&);

/// GPUs that CUDA's driver shows to this process, without CUDA's libraries.
Result<int> count_gpus();
/// Ranks that the launcher started on this machine: OMPI_COMM_WORLD_LOCAL_SIZE, else the most of
/// SLURM_STEP_TASKS_PER_NODE ("4(x2),3"); 0 = neither says.
Index launched_ranks(const Environment&);
/// arena-train-cuda.so beside this program (where libtool builds it, too), where `make install`
/// puts it below the program's prefix wherever that was staged, else where it was configured to be;
/// "" = nowhere.
std::string cuda_module();
/// Devices of a module, which stays open to the end of the process. Refused where somebody besides
/// root and the user could have changed it, or where it is of another version.
Result<DeviceMaker> open_module(const std::string& path);

/// bf16 FLOP/s of the entry of hardware.yaml that a device's name stands for; 0 = there is none.
double peak_flops(const std::string& device);

}  // namespace arena::train
