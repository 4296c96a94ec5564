// SPDX-License-Identifier: GPL-2.0-or-later
// See topology.h. Walks hwloc's tree upwards from each GPU: every bridge whose upper side is PCI
// too is part of a switch, the one at the host's side ends the walk.
#include "profiler/core/topology.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "config.h"
#include "core/values_json.h"
#include "request/request.h"

#ifdef HAVE_HWLOC
#include <hwloc.h>

#include <cstdio>
#include <memory>
#endif

namespace arena {
namespace {

constexpr std::size_t max_xml_bytes = 16 << 20;

}  // namespace

std::string_view shared_by(const GpuPlace& a, const GpuPlace& b) {
    const bool is_one_switch =
        std::any_of(a.switches.begin(), a.switches.end(), [&](const auto& s) {
            return std::find(b.switches.begin(), b.switches.end(), s) != b.switches.end();
        });
    if (is_one_switch) return "switch";
    return a.numa_node >= 0 && a.numa_node == b.numa_node ? "numa_node" : "machine";
}

GpuPlace place_of(const NodeTopology& topology, std::string_view pci) {
    for (const TopologyGpu& gpu : topology.gpus)
        if (gpu.place.pci == pci) return gpu.place;
    return {};
}

Json json_of(const NodeTopology& topology) {
    Json gpus = Json::array(), shared = Json::array();
    for (const TopologyGpu& gpu : topology.gpus) {
        Json entry = json_of(gpu.place);
        entry["name"] = gpu.name;
        gpus.push_back(entry);
        Json row = Json::array();
        for (const TopologyGpu& other : topology.gpus)
            row.push_back(&gpu == &other ? "self" : shared_by(gpu.place, other.place));
        shared.push_back(row);
    }
    return {{"gpus", gpus}, {"shared", shared}};
}

std::string to_text(const NodeTopology& topology) {
    if (topology.gpus.empty()) return "no GPU here\n";
    std::string text;
    for (const TopologyGpu& gpu : topology.gpus) {
        const GpuPlace& place = gpu.place;
        text += place.pci + "  " + printable(gpu.name.empty() ? "GPU" : gpu.name, 40);
        if (place.numa_node >= 0) text += ", NUMA node " + std::to_string(place.numa_node);
        if (!place.switches.empty()) text += ", below PCI bridge " + place.switches.front();
        for (const std::string& nic : place.nics)
            text += (&nic == place.nics.data() ? ", beside " : " ") + printable(nic, 40);
        for (const TopologyGpu& other : topology.gpus)
            if (&other != &gpu && shared_by(place, other.place) == "switch")
                text += ", shares a switch with " + other.place.pci;
        text += '\n';
    }
    return text;
}

Result<NodeTopology> read_topology_of(const std::string& xml_file) {
    if (xml_file.empty()) return read_topology();
    const auto text = read_regular_file(xml_file, max_xml_bytes);
    if (!text) return text.error();
    auto topology = parse_topology_xml(*text);
    if (!topology) return Error{topology.error().code, topology.error().text, xml_file};
    return topology;
}

#ifdef HAVE_HWLOC
namespace {

struct Destroy {
    void operator()(hwloc_topology* t) const { hwloc_topology_destroy(t); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

std::string address_of(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
    char text[32];
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.%01x", static_cast<unsigned>(pci.domain),
                  static_cast<unsigned>(pci.bus), static_cast<unsigned>(pci.dev),
                  static_cast<unsigned>(pci.func));
    return text;
}

bool is_pci_bridge(hwloc_obj_t object) {
    return object->type == HWLOC_OBJ_BRIDGE &&
           object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
}

/// Bridges above a PCI device, the nearest first.
std::vector<hwloc_obj_t> bridges_above(hwloc_obj_t device) {
    std::vector<hwloc_obj_t> bridges;
    for (hwloc_obj_t at = device->parent; at != nullptr && is_pci_bridge(at); at = at->parent)
        bridges.push_back(at);
    return bridges;
}

/// The name of the device's CUDA or NVML part, where hwloc has that.
std::string compute_name(hwloc_obj_t device) {
    std::string name;
    for (hwloc_obj_t part = device->io_first_child; part != nullptr; part = part->next_sibling) {
        if (part->type != HWLOC_OBJ_OS_DEVICE || part->name == nullptr) continue;
        const std::string subtype = part->subtype == nullptr ? "" : part->subtype;
        const bool is_cuda = subtype == "CUDA" || std::strncmp(part->name, "cuda", 4) == 0;
        const bool is_nvml = subtype == "NVML" || std::strncmp(part->name, "nvml", 4) == 0;
        if (is_cuda || (is_nvml && name.empty())) name = part->name;
    }
    return name;
}

/// A display or 3D controller of Nvidia's, or whatever has a compute part. A server's own display
/// chip is none.
bool is_gpu(hwloc_obj_t device) {
    const auto& pci = device->attr->pcidev;
    const bool is_display = pci.class_id >> 8 == 0x03;
    return (is_display && pci.vendor_id == 0x10de) || !compute_name(device).empty();
}

/// The adapter's RDMA device when it has one, else its network interface; "" when it is none.
std::string adapter_name(hwloc_obj_t device) {
    std::string name;
    for (hwloc_obj_t part = device->io_first_child; part != nullptr; part = part->next_sibling) {
        if (part->type != HWLOC_OBJ_OS_DEVICE || part->name == nullptr) continue;
        if (part->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) return part->name;
        if (part->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && name.empty()) name = part->name;
    }
    return name;
}

std::vector<hwloc_obj_t> pci_devices(hwloc_topology_t topology) {
    std::vector<hwloc_obj_t> all;
    for (hwloc_obj_t at = nullptr; (at = hwloc_get_next_pcidev(topology, at)) != nullptr;)
        all.push_back(at);
    return all;
}

/// The one NUMA node that the device is near to; -1 when it is near to several or to none.
std::int64_t numa_of(hwloc_topology_t topology, hwloc_obj_t device) {
    const hwloc_obj_t host = hwloc_get_non_io_ancestor_obj(topology, device);
    if (host == nullptr || host->nodeset == nullptr || hwloc_bitmap_weight(host->nodeset) != 1)
        return -1;
    return hwloc_bitmap_first(host->nodeset);
}

/// Adapters below the GPU's nearest switch that has any; else those of its NUMA node.
std::vector<std::string> adapters_of(hwloc_topology_t topology, hwloc_obj_t gpu) {
    const auto collect = [&](const auto& is_near) {
        std::vector<std::string> names;
        for (hwloc_obj_t device : pci_devices(topology))
            if (const std::string name = adapter_name(device); !name.empty() && is_near(device))
                names.push_back(name);
        std::sort(names.begin(), names.end());
        return names;
    };
    for (const hwloc_obj_t bridge : bridges_above(gpu)) {
        const auto beside = collect([&](hwloc_obj_t device) {
            const auto above = bridges_above(device);
            return std::find(above.begin(), above.end(), bridge) != above.end();
        });
        if (!beside.empty()) return beside;
    }
    const std::int64_t numa = numa_of(topology, gpu);
    if (numa < 0) return {};
    return collect([&](hwloc_obj_t device) { return numa_of(topology, device) == numa; });
}

TopologyGpu topology_gpu(hwloc_topology_t topology, hwloc_obj_t device) {
    TopologyGpu gpu;
    gpu.name = compute_name(device);
    if (gpu.name.empty() && device->name != nullptr) gpu.name = device->name;
    gpu.place.pci = address_of(device->attr->pcidev);
    gpu.place.numa_node = numa_of(topology, device);
    for (const hwloc_obj_t bridge : bridges_above(device))
        gpu.place.switches.push_back(address_of(bridge->attr->bridge.upstream.pci));
    gpu.place.nics = adapters_of(topology, device);
    return gpu;
}

Result<NodeTopology> load(Topology topology) {
    hwloc_topology_set_all_types_filter(topology.get(), HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc_topology_set_io_types_filter(topology.get(), HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(topology.get()) != 0)
        return environment_error("hwloc cannot load the topology");
    NodeTopology found;
    for (hwloc_obj_t device : pci_devices(topology.get()))
        if (is_gpu(device)) found.gpus.push_back(topology_gpu(topology.get(), device));
    std::sort(found.gpus.begin(), found.gpus.end(),
              [](const TopologyGpu& a, const TopologyGpu& b) { return a.place.pci < b.place.pci; });
    return found;
}

Topology new_topology() {
    hwloc_topology_t topology = nullptr;
    if (hwloc_topology_init(&topology) != 0) topology = nullptr;
    return Topology(topology);
}

}  // namespace

Result<NodeTopology> read_topology() {
    Topology topology = new_topology();
    if (!topology) return environment_error("hwloc cannot be used: out of memory");
    return load(std::move(topology));
}

Result<NodeTopology> parse_topology_xml(std::string_view text) {
    if (text.size() >= max_xml_bytes) return usage_error("is larger than 16 MiB");
    Topology topology = new_topology();
    if (!topology) return environment_error("hwloc cannot be used: out of memory");
    const std::string copy(text);  // hwloc wants the terminating zero counted
    if (hwloc_topology_set_xmlbuffer(topology.get(), copy.c_str(),
                                     static_cast<int>(copy.size()) + 1) != 0)
        return usage_error("is not hwloc's XML");
    auto loaded = load(std::move(topology));
    if (!loaded) return usage_error("is not hwloc's XML");
    return loaded;
}
#else
Result<NodeTopology> read_topology() {
    return environment_error("this build has no hwloc (configure found none)");
}
Result<NodeTopology> parse_topology_xml(std::string_view) { return read_topology(); }
#endif

}  // namespace arena
