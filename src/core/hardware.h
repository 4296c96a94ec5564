// SPDX-License-Identifier: GPL-2.0-or-later
// What it runs on: GPU types and the links between GPUs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/model.h"

namespace arena {

/// A link class: time of moving n bytes = alpha_s + n / bytes_per_s (one direction, per GPU).
struct Link {
    std::string name;  ///< "nvlink3", "pcie4", "ib-hdr"
    double bytes_per_s = 0;
    double alpha_s = 0;
    /// Between nodes: how much slower each doubling of a job's nodes beyond two makes its rings
    /// that change rails (collectives.h); 1 = as much again as they take on two nodes. [0, 10]
    double cross_rail_cost = 0;
    bool operator==(const Link&) const = default;
};

/// What crossing a level of the network costs beside `inter`.
struct Uplink {
    double oversubscription = 1;  ///< the rate below it over what is left above; [1, 1000]
    double alpha_s = 0;           ///< that it adds to the start-up; [0, 1]
    bool operator==(const Uplink&) const = default;
};

/// A hardware entry: what one GPU can do and how GPUs are wired.
struct GpuType {
    std::string name;  ///< hardware entry, for example "A100-SXM-80GB"
    std::int64_t memory_bytes = 0;
    std::map<Precision, double> flops;  ///< dense peak FLOP/s per precision; absent = unsupported
    double memory_bytes_per_s = 0;      ///< HBM/GDDR bandwidth
    std::int64_t sm_count = 0;
    std::int64_t gpus_per_node = 0;  ///< default when the site does not say
    std::int64_t domain_gpus =
        0;       ///< GPUs that `intra` joins, over nodes too (NVL72); 0 = a node's
    Link intra;  ///< between GPUs of one node, per GPU
    Link inter;  ///< between nodes of one leaf, per node
    std::array<Uplink, 2> uplinks = {};  ///< of a leaf, and of a pod
    double reserved_bytes = 0;           ///< framework + context per GPU
    bool emulated = false;               ///< timings are a CPU's: never to be read as a GPU's
    std::vector<std::string> aliases;    ///< other names of the entry that find_hardware() accepts
    bool operator==(const GpuType&) const = default;
};

/// One line of JSON, and its reader: at most 64 MiB, depth 32; unknown keys are ignored, a missing
/// or mistyped key is an error that names it.
std::string to_json(const GpuType&);
Result<GpuType> parse_gpu_type_json(std::string_view);

}  // namespace arena
