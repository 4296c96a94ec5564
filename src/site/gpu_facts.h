// SPDX-License-Identifier: GPL-2.0-or-later
// Which GPU counts a set of nodes can give to one job: one GPU type, the same number on every node,
// with the CPUs, memory and disk that the job asks for. Counts what is configured, not what is
// free; plain values, no Slurm.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace arena {

/// The GPUs of one type in one node.
struct NodeGpus {
    std::string type;  ///< "" = the site gave no type
    std::int64_t count = 0;
    bool operator==(const NodeGpus&) const = default;
};

/// What one node has in all.
struct NodeFacts {
    std::vector<NodeGpus> gpus;
    std::int64_t cpus = 0, memory_mb = 0, tmp_mb = 0;
};

/// What a job needs beside GPUs; 0 = nothing of the kind. memory_per_cpu_mb without cpus_per_gpu:
/// of one CPU for each GPU.
struct NodeNeeds {
    std::int64_t cpus_per_gpu = 0;
    std::int64_t memory_per_gpu_mb = 0, memory_per_cpu_mb = 0, memory_per_node_mb = 0;
    std::int64_t tmp_mb = 0;
    bool operator==(const NodeNeeds&) const = default;
};

/// Of `gpus` GPUs in the node, those that one job can have with all it needs beside them.
std::int64_t usable_gpus(const NodeFacts&, std::int64_t gpus, const NodeNeeds&);

/// A node's Gres configuration, "gpu:a40:4(S:0,1),nic:1" -> {a40, 4}. Other GRES are left out.
std::vector<NodeGpus> parse_gres_config(std::string_view text);

/// The GPUs of one type in a set of nodes.
class TypePool {
  public:
    explicit TypePool(std::string type) : type_(std::move(type)) {}
    void add_node(std::int64_t gpus);
    [[nodiscard]] const std::string& type() const { return type_; }
    /// Most GPUs that one job can have.
    [[nodiscard]] std::int64_t largest() const;
    /// Of all nodes together.
    [[nodiscard]] std::int64_t total() const;
    /// Whether some nodes give exactly this many, the same number each and that a multiple of
    /// `group`.
    [[nodiscard]] bool can_place(std::int64_t gpus, std::int64_t group = 1) const;
    /// The fewest nodes that give exactly this many, the same number each, a multiple of `group`
    /// and at most `most_each`; 0: none do.
    [[nodiscard]] std::int64_t fewest_nodes(std::int64_t gpus, std::int64_t group,
                                            std::int64_t most_each) const;
    /// The fewest nodes that have so many together, at most `most_each` of each; 0: none do.
    [[nodiscard]] std::int64_t fewest_in_pieces(std::int64_t gpus, std::int64_t most_each) const;
    /// Most GPUs of one node.
    [[nodiscard]] std::int64_t per_node() const;
    /// Whether a multiple of `step` in [min, max] can be placed, a multiple of `group` on each
    /// node; O(max/step * GPUs per node).
    [[nodiscard]] bool can_place_any(std::int64_t min, std::int64_t max, std::int64_t step,
                                     std::int64_t group = 1) const;

  private:
    std::string type_;
    std::vector<std::int64_t> nodes_with_;  ///< [g] = nodes of at least g GPUs; [0] unused
};

/// One pool per type, in order of first appearance.
std::vector<TypePool> make_pools(const std::vector<NodeFacts>& nodes, const NodeNeeds& = {});

}  // namespace arena
