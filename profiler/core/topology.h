// SPDX-License-Identifier: GPL-2.0-or-later
// Where the GPUs of a node sit, from hwloc: PCI switches, NUMA node, the network adapters beside
// them. Measured collectives mean little to a reader who cannot see this. GPUs are found by their
// PCI class, or by the CUDA or NVML device that hwloc's own parts add, so that a topology written
// by `lstopo` on another machine is read as well.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "core/profile.h"

namespace arena {

struct TopologyGpu {
    std::string name;  ///< "cuda0", "nvml0", or the PCI device's; "" = unknown
    GpuPlace place;
};

/// In the order of their PCI addresses.
struct NodeTopology {
    std::vector<TopologyGpu> gpus;
};

/// What two GPUs share: the nearest of "switch", "numa_node" and "machine".
std::string_view shared_by(const GpuPlace&, const GpuPlace&);

/// This machine's. ErrorCode::environment where hwloc is missing or fails.
Result<NodeTopology> read_topology();
/// hwloc's XML, of at most 16 MiB.
Result<NodeTopology> parse_topology_xml(std::string_view);
/// Of the file, or of this machine when there is none.
Result<NodeTopology> read_topology_of(const std::string& xml_file);
/// The place of one GPU, by "0000:17:00.0"; an empty one when the topology has no such GPU.
GpuPlace place_of(const NodeTopology&, std::string_view pci);

/// {"gpus": [{"name","pci","numa_node","switches","nics"}], "shared": [["switch", ...], ...]}
Json json_of(const NodeTopology&);
/// One line per GPU, for people.
std::string to_text(const NodeTopology&);

}  // namespace arena
