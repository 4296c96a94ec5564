// SPDX-License-Identifier: GPL-2.0-or-later
// Which GPU counts a set of nodes can give to one job: one GPU type, the same number on every node.
// Counts what is configured, not what is free; plain values, no Slurm.
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
    /// Whether some nodes give exactly this many, the same number each.
    [[nodiscard]] bool can_place(std::int64_t gpus) const;
    /// Whether a multiple of `step` in [min, max] can be placed; O(max/step * GPUs per node).
    [[nodiscard]] bool can_place_any(std::int64_t min, std::int64_t max, std::int64_t step) const;

  private:
    std::string type_;
    std::vector<std::int64_t> nodes_with_;  ///< [g] = nodes of at least g GPUs; [0] unused
};

/// One pool per type, in order of first appearance.
std::vector<TypePool> make_pools(const std::vector<NodeGpus>& nodes);

}  // namespace arena
