// SPDX-License-Identifier: GPL-2.0-or-later
// What a plan is priced for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/hardware.h"
#include "core/profile.h"
#include "planner/hardware/calibration.h"

namespace arena {

/// One GPU type a job may take, with how many GPUs could be had.
struct GpuPool {
    std::string gpu_type;  ///< name used in grids (GRES type, or hardware entry in `arena plan`)
    GpuType hardware;
    std::int64_t gpus_per_node = 8;  ///< of the site's nodes
    std::int64_t max_gpus = 8;       ///< in the cluster (or asked)
    ProfileTable profile = {};       ///< measured operators of this type; empty = analytic
    std::string framework = {};      ///< of the calibration table; unknown = its default
    std::optional<CostConstants> constants = {};  ///< instead of the built-in table's
    /// Of the site, with GPUs of this type: a count is planned on more nodes than it needs, too, up
    /// to all of them; 0: on as few as it needs alone.
    std::int64_t nodes = 0;
    /// Nodes of an NVLink domain, as far as the site's network says that there are any: Slurm's
    /// blocks. 0: none; then `intra` joins the GPUs of a node alone.
    std::int64_t domain_nodes = 0;
    /// In the order of ranks nodes of two domains alternate: a job in several has no use of them.
    bool domains_alternate = false;
    /// Of its nodes, the most below one leaf switch, and in one pod; 0: all.
    std::int64_t leaf_nodes = 0, pod_nodes = 0;
};

}  // namespace arena
