// SPDX-License-Identifier: GPL-2.0-or-later
// Which nodes lie close together, and from which leaves of the network a job takes how many: as few
// leaves as can be, and those that it leaves the least room in, so that whole ones stay free. Also
// which nodes Slurm takes first (classes of weight, and nodes that are up before nodes that boot).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/cluster.h"

namespace arena {

/// A leaf is a switch with nodes, or a block. Where nothing is known of the network all nodes are
/// on one leaf.
class Fabric {
  public:
    explicit Fabric(const Snapshot&);
    /// One leaf and one class: nothing to choose by.
    [[nodiscard]] bool is_flat() const { return leaves_ == 1 && classes_ == 1; }
    /// Some sets of nodes are no job's: below two topmost switches, in more blocks than need be, or
    /// in a block and in none.
    [[nodiscard]] bool has_limits() const { return has_limits_; }
    [[nodiscard]] std::uint32_t leaves() const { return leaves_; }
    [[nodiscard]] std::uint32_t leaf_of(NodeIndex n) const { return leaf_of_[n]; }
    /// The lower is taken first; at most most_classes.
    [[nodiscard]] std::uint32_t classes() const { return classes_; }
    [[nodiscard]] std::uint32_t class_of(NodeIndex n) const { return class_of_[n]; }
    /// How far apart the nodes lie. Blocks are the leaves of one pod.
    [[nodiscard]] Span span_of(std::span<const NodeIndex> nodes) const;
    /// The farthest that nodes of this network can.
    [[nodiscard]] Span widest() const {
        return leaves_ == 1 ? Span::leaf : pods_ == 1 ? Span::pod : Span::pods;
    }
    [[nodiscard]] std::uint32_t pods() const { return pods_; }
    [[nodiscard]] std::uint32_t pod_of(std::uint32_t leaf) const { return pod_of_leaf_[leaf]; }
    /// Whether the nodes of each block are a multiple of `segment`; 1: always.
    [[nodiscard]] bool keeps_segments(std::span<const NodeIndex> nodes, std::int64_t segment) const;
    /// Slurm gives it to no job: it is below no switch of a tree.
    [[nodiscard]] bool is_outside(NodeIndex n) const { return outside_[n]; }

    static constexpr std::uint32_t most_classes = 16;

    struct Share {
        std::uint32_t leaf = 0;
        std::int64_t nodes = 0;
    };
    /// How many of `wanted` >= 1 nodes come from which leaf, where room[leaf] could be taken there.
    /// One leaf if one holds them: the one with the least room. Else below as deep a switch as can
    /// be, from as few of those under it as hold them, and from as few leaves. False: no set of
    /// nodes that a job may have is as large.
    [[nodiscard]] bool choose(std::span<const std::int64_t> room, std::int64_t wanted,
                              std::vector<Share>& out) const;
    /// The same of the first nodes of a list: so many of them, at least, must be taken into account
    /// until a job may have `wanted` of these together, no farther apart than the span, and of each
    /// block a multiple of `segment`. 0: all of them do not suffice.
    [[nodiscard]] std::size_t first_within(std::span<const NodeIndex> nodes, std::int64_t wanted,
                                           Span, std::int64_t segment,
                                           std::vector<Share>& out) const;
    /// How far apart the shares lie.
    [[nodiscard]] Span span_of(std::span<const Share>) const;
    /// Takes nodes one after the other, as long as the share of their leaf lasts.
    class Taking {
      public:
        Taking(const Fabric&, std::span<const Share>);
        bool take(NodeIndex n) { return left_[fabric_->leaf_of(n)]-- > 0; }

      private:
        const Fabric* fabric_;
        std::vector<std::int64_t> left_;  ///< by leaf
    };
    /// Whether a job may have these nodes together.
    [[nodiscard]] bool allows(std::span<const NodeIndex> nodes) const {
        return has_room(nodes, std::ssize(nodes));
    }
    /// Whether a job may have so many of them.
    [[nodiscard]] bool has_room(std::span<const NodeIndex> nodes, std::int64_t wanted) const;

  private:
    /// What is below a switch that has switches below it: leaves of each of these.
    struct Group {
        int height = 0;  ///< levels of switches below it
        std::vector<std::vector<std::uint32_t>> parts;
    };
    void find_leaves(const Snapshot&);
    std::uint32_t leaf_of_node(const NodeState&, bool blocks, std::vector<std::int32_t>& known);
    void find_groups(const Snapshot&, const std::vector<std::int32_t>& leaf_of_switch);
    void find_pods(const std::vector<Switch>&, const std::vector<std::int32_t>& leaf_of_switch);
    void find_classes(const Snapshot&);
    void join_blocks(const Snapshot&);
    [[nodiscard]] bool is_too_wide(std::size_t leaves, std::int64_t wanted) const {
        return block_nodes_ > 0 &&
               static_cast<std::int64_t>(leaves) > (wanted + block_nodes_ - 1) / block_nodes_;
    }

    template <typename LeafOf, typename Items>
    [[nodiscard]] Span span_over(const Items&, LeafOf) const;

    std::uint32_t leaves_ = 1, pods_ = 1, classes_ = 1;
    bool has_limits_ = false;
    std::int64_t block_nodes_ = 0;  ///< of the smallest block; 0: they are none
    std::vector<std::uint32_t> pod_of_leaf_, leaf_of_, class_of_;
    std::vector<bool> outside_;
    std::vector<Group> groups_;  ///< the lowest first
};

/// "in one leaf", "over 3 leaves of one pod", "over 4 leaves of 2 pods", of blocks "in one block",
/// "over 2 blocks"; "" of one node, or where nothing is known of the network.
std::string words_of_span(const Snapshot&, std::span<const NodeIndex> nodes);
/// As Fabric::span_of(), for who asks of few jobs. O(nodes of the job).
Span span_of(const Snapshot&, std::span<const NodeIndex> nodes);

}  // namespace arena
