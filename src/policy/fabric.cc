// SPDX-License-Identifier: GPL-2.0-or-later
// Leaves of the network: see fabric.h.
#include "policy/fabric.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace arena {
namespace {

using Room = std::span<const std::int64_t>;
using Leaves = std::vector<std::uint32_t>;

std::int64_t room_of(const Leaves& leaves, Room room) {
    return std::accumulate(leaves.begin(), leaves.end(), std::int64_t{0},
                           [&](std::int64_t sum, std::uint32_t leaf) { return sum + room[leaf]; });
}

/// From the fewest of the leaves, which hold them: the widest, and for the rest the one that it
/// leaves the least room in.
void fill(Leaves leaves, Room room, std::int64_t wanted, std::vector<Fabric::Share>& out) {
    out.clear();
    std::sort(leaves.begin(), leaves.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::pair(-room[a], a) < std::pair(-room[b], b);
    });
    std::size_t next = 0;
    while (room[leaves[next]] < wanted) {
        out.push_back({leaves[next], room[leaves[next]]});
        wanted -= room[leaves[next++]];
    }
    while (next + 1 < leaves.size() && room[leaves[next + 1]] >= wanted) ++next;
    out.push_back({leaves[next], wanted});
}

/// The parts to take leaves of, by index: as few as hold so many nodes, and of sets as small the
/// one that needs the fewest leaves; then the widest, and for the rest the one with the least room,
/// as Slurm takes leaves: of the set with the least room in all, wide leaves would go to pieces.
class Parts {
  public:
    Parts(const std::vector<Leaves>& parts, Room room, std::int64_t wanted)
        : parts_(parts), room_(room), wanted_(wanted) {
        for (const Leaves& part : parts) rooms_.push_back(room_of(part, room));
        order_.resize(parts.size());
        std::iota(order_.begin(), order_.end(), std::size_t{0});
        std::stable_sort(order_.begin(), order_.end(),
                         [&](std::size_t a, std::size_t b) { return rooms_[a] > rooms_[b]; });
        std::int64_t sum = 0;
        while (sum < wanted) sum += rooms_[order_[fewest_++]];
    }

    [[nodiscard]] std::size_t fewest() const { return fewest_; }
    void choose(std::vector<Fabric::Share>& out) {
        std::vector<std::size_t> taken;
        try_sets(0, 0, taken);
        out = std::move(best_);
    }

  private:
    /// The first set is that of the widest parts. Others are tried as long as they are few.
    void try_sets(std::size_t from, std::int64_t sum, std::vector<std::size_t>& taken) {
        if (taken.size() == fewest_) return look_at(taken, sum);
        const std::size_t missing = fewest_ - taken.size();
        for (std::size_t at = from; at + missing <= order_.size() && tries_ > 0; ++at) {
            std::int64_t most = sum;
            for (std::size_t i = at; i < at + missing; ++i) most += rooms_[order_[i]];
            if (most < wanted_) return;
            taken.push_back(order_[at]);
            try_sets(at + 1, sum + rooms_[order_[at]], taken);
            taken.pop_back();
        }
    }
    void look_at(const std::vector<std::size_t>& taken, std::int64_t sum) {
        --tries_;
        Leaves leaves;
        for (const std::size_t part : taken)
            leaves.insert(leaves.end(), parts_[part].begin(), parts_[part].end());
        std::vector<Fabric::Share> shares;
        fill(std::move(leaves), room_, wanted_, shares);
        const bool only_last_differs =
            !best_.empty() && std::equal(taken.begin(), taken.end() - 1, set_.begin());
        const bool is_closer = only_last_differs && sum < sum_;
        if (!best_.empty() && best_.size() <= shares.size() &&
            (best_.size() < shares.size() || !is_closer))
            return;
        best_ = std::move(shares);
        set_ = taken;
        sum_ = sum;
    }

    const std::vector<Leaves>& parts_;
    Room room_;
    std::int64_t wanted_;
    std::vector<std::int64_t> rooms_;
    std::vector<std::size_t> order_;  ///< parts, the widest first
    std::size_t fewest_ = 0;
    int tries_ = 500;
    std::vector<Fabric::Share> best_;
    std::vector<std::size_t> set_;  ///< its parts
    std::int64_t sum_ = 0;          ///< their room
};

}  // namespace

Fabric::Fabric(const Snapshot& snapshot)
    : pod_of_leaf_(1, 0),
      leaf_of_(snapshot.nodes.size(), 0),
      class_of_(snapshot.nodes.size(), 0),
      outside_(snapshot.nodes.size(), false) {
    find_leaves(snapshot);
    find_classes(snapshot);
}

/// Nodes in no block are a leaf of their own: Slurm gives them to jobs, but none beside a block's.
std::uint32_t Fabric::leaf_of_node(const NodeState& node, bool blocks,
                                   std::vector<std::int32_t>& known) {
    if (node.leaf < 0 && !blocks) return leaves_++;
    std::int32_t& leaf = node.leaf < 0 ? known.back() : known[static_cast<std::size_t>(node.leaf)];
    if (leaf < 0) leaf = static_cast<std::int32_t>(leaves_++);
    return static_cast<std::uint32_t>(leaf);
}

void Fabric::find_leaves(const Snapshot& snapshot) {
    if (snapshot.topology == NetworkKind::flat) return;
    const bool blocks = snapshot.topology == NetworkKind::block;
    leaves_ = 0;
    // by switch, and behind them that of the nodes in no block
    std::vector<std::int32_t> leaf_of_switch(snapshot.switches.size() + 1, -1);
    for (NodeIndex n = 0; n < snapshot.nodes.size(); ++n) {
        const NodeState& node = snapshot.nodes[n];
        leaf_of_[n] = node.same_node ? leaf_of_[n - 1] : leaf_of_node(node, blocks, leaf_of_switch);
        outside_[n] = node.leaf < 0 && !blocks;
    }
    if (leaves_ == 0) leaves_ = 1;
    pod_of_leaf_.assign(leaves_, 0);
    if (blocks)
        join_blocks(snapshot);
    else
        find_groups(snapshot, leaf_of_switch);
}

/// Slurm puts a job of several blocks into 2, 4, 8 ... that follow each other and begin at a
/// multiple of that number; where its BlockSizes have no such level, into any.
void Fabric::join_blocks(const Snapshot& snapshot) {
    std::vector<std::int64_t> nodes(leaves_, 0);
    std::vector<Leaves> blocks;
    for (NodeIndex n = 0; n < snapshot.nodes.size(); ++n)
        if (snapshot.nodes[n].leaf >= 0 && !snapshot.nodes[n].same_node &&
            nodes[leaf_of_[n]]++ == 0)
            blocks.push_back({leaf_of_[n]});
    for (const std::int64_t count : nodes)
        if (count > 0 && (block_nodes_ == 0 || count < block_nodes_)) block_nodes_ = count;
    has_limits_ = leaves_ > 1;
    int height = 1;
    for (std::size_t size = 2; size < blocks.size(); size *= 2, ++height)
        for (std::size_t first = 0; first < blocks.size(); first += size) {
            const auto begin = blocks.begin() + static_cast<std::ptrdiff_t>(first);
            const auto end =
                begin + static_cast<std::ptrdiff_t>(std::min(size, blocks.size() - first));
            groups_.push_back({.height = height, .parts = {begin, end}});
        }
    groups_.push_back({.height = height, .parts = std::move(blocks)});
}

void Fabric::find_groups(const Snapshot& snapshot,
                         const std::vector<std::int32_t>& leaf_of_switch) {
    const std::vector<Switch>& switches = snapshot.switches;
    std::vector<Leaves> below(switches.size());  // leaves
    std::vector<Group> groups(switches.size());
    std::vector<bool> has_gpus(switches.size(), false);
    for (const NodeState& node : snapshot.nodes)
        if (node.leaf >= 0 && node.total_gpus > 0)
            has_gpus[static_cast<std::size_t>(node.leaf)] = true;
    std::size_t tops = 0;
    for (std::size_t s = switches.size(); s-- > 0;) {  // each stands after the one above it
        if (leaf_of_switch[s] >= 0)
            below[s].push_back(static_cast<std::uint32_t>(leaf_of_switch[s]));
        if (switches[s].above < 0) {
            tops += has_gpus[s];
            continue;
        }
        const auto above = static_cast<std::size_t>(switches[s].above);
        has_gpus[above] = has_gpus[above] || has_gpus[s];
        below[above].insert(below[above].end(), below[s].begin(), below[s].end());
        groups[above].parts.push_back(below[s]);
        groups[above].height = std::max(groups[above].height, groups[s].height + 1);
    }
    has_limits_ = tops > 1;
    find_pods(switches, leaf_of_switch);
    for (std::size_t s = 0; s < groups.size(); ++s) {
        Group& group = groups[s];
        if (group.parts.empty()) continue;
        if (leaf_of_switch[s] >= 0)
            group.parts.push_back({static_cast<std::uint32_t>(leaf_of_switch[s])});
        std::reverse(group.parts.begin(), group.parts.end());
        groups_.push_back(std::move(group));
    }
    std::stable_sort(groups_.begin(), groups_.end(),
                     [](const Group& a, const Group& b) { return a.height < b.height; });
}

/// A pod is what is below the switch above a leaf; a leaf below none is one by itself.
void Fabric::find_pods(const std::vector<Switch>& switches,
                       const std::vector<std::int32_t>& leaf_of_switch) {
    std::vector<bool> known(leaves_, false);
    std::map<std::int32_t, std::uint32_t> pods;  // by the switch above
    pods_ = 0;
    for (std::size_t s = 0; s < switches.size(); ++s) {
        if (leaf_of_switch[s] < 0) continue;
        const auto leaf = static_cast<std::uint32_t>(leaf_of_switch[s]);
        const auto own = -1 - static_cast<std::int32_t>(s);
        const auto [at, is_new] =
            pods.try_emplace(switches[s].above < 0 ? own : switches[s].above, pods_);
        pods_ += is_new;
        pod_of_leaf_[leaf] = at->second;
        known[leaf] = true;
    }
    for (std::uint32_t leaf = 0; leaf < leaves_; ++leaf)
        if (!known[leaf]) pod_of_leaf_[leaf] = pods_++;
}

/// As Slurm orders nodes: by weight, and at the same weight those first that need not boot.
void Fabric::find_classes(const Snapshot& snapshot) {
    const auto key = [](const NodeState& node) { return std::pair(node.weight, node.boot_s > 0); };
    const auto is_first = [&](const NodeState& n) { return key(n) == key(snapshot.nodes.front()); };
    if (std::ranges::all_of(snapshot.nodes, is_first)) return;
    std::set<std::pair<std::int64_t, bool>> all;
    for (const NodeState& node : snapshot.nodes) all.insert(key(node));
    const std::vector keys(all.begin(), all.end());
    classes_ = std::min(static_cast<std::uint32_t>(keys.size()), most_classes);
    for (NodeIndex n = 0; n < snapshot.nodes.size(); ++n) {
        const auto rank =
            std::lower_bound(keys.begin(), keys.end(), key(snapshot.nodes[n])) - keys.begin();
        class_of_[n] =
            static_cast<std::uint32_t>(static_cast<std::size_t>(rank) * classes_ / keys.size());
    }
}

bool Fabric::choose(std::span<const std::int64_t> room, std::int64_t wanted,
                    std::vector<Share>& out) const {
    out.clear();
    std::uint32_t best = leaves_;
    for (std::uint32_t leaf = 0; leaf < leaves_; ++leaf)
        if (room[leaf] >= wanted && (best == leaves_ || room[leaf] < room[best])) best = leaf;
    if (best < leaves_) {
        out.push_back({best, wanted});
        return true;
    }
    std::vector<Share> shares;
    std::tuple<int, std::size_t, std::size_t, std::int64_t> least;
    for (const Group& group : groups_) {
        if (!out.empty() && group.height > std::get<0>(least)) break;
        std::int64_t sum = 0;
        for (const Leaves& part : group.parts) sum += room_of(part, room);
        if (sum < wanted) continue;
        Parts parts(group.parts, room, wanted);
        parts.choose(shares);
        const std::tuple found(group.height, parts.fewest(), shares.size(), sum);
        if (is_too_wide(shares.size(), wanted) || (!out.empty() && least <= found)) continue;
        least = found;
        out.swap(shares);
    }
    return !out.empty();
}

template <typename LeafOf, typename Items>
Span Fabric::span_over(const Items& items, LeafOf leaf_of) const {
    Span span = Span::leaf;
    if (items.empty() || leaves_ == 1) return span;
    const std::uint32_t first = leaf_of(items.front());
    for (const auto& item : items) {
        const std::uint32_t leaf = leaf_of(item);
        if (leaf == first) continue;
        if (pod_of_leaf_[leaf] != pod_of_leaf_[first]) return Span::pods;
        span = Span::pod;
    }
    return span;
}

Span Fabric::span_of(std::span<const NodeIndex> nodes) const {
    return span_over(nodes, [&](NodeIndex n) { return leaf_of_[n]; });
}

Span Fabric::span_of(std::span<const Share> shares) const {
    return span_over(shares, [](const Share& share) { return share.leaf; });
}

bool Fabric::keeps_segments(std::span<const NodeIndex> nodes, std::int64_t segment) const {
    if (segment == 1) return true;
    if (block_nodes_ == 0) return false;  // there is no domain
    std::map<std::uint32_t, std::int64_t> of_leaf;
    for (const NodeIndex n : nodes) ++of_leaf[leaf_of_[n]];
    return std::all_of(of_leaf.begin(), of_leaf.end(),
                       [&](const auto& leaf) { return leaf.second % segment == 0; });
}

std::size_t Fabric::first_within(std::span<const NodeIndex> nodes, std::int64_t wanted, Span span,
                                 std::int64_t segment, std::vector<Share>& out) const {
    out.clear();
    if (wanted % segment != 0 || !keeps_segments({}, segment)) return 0;
    std::vector<std::int64_t> in_leaf(leaves_, 0), room(leaves_, 0), in_pod(pods_, 0), near;
    std::int64_t in_all = 0;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
        const std::uint32_t leaf = leaf_of_[nodes[n]], pod = pod_of_leaf_[leaf];
        if (++in_leaf[leaf] % segment != 0) continue;  // of the last segment of it some are missing
        room[leaf] += segment, in_pod[pod] += segment, in_all += segment;
        const bool any_pod = span >= widest();
        const std::int64_t most = any_pod ? in_all : span == Span::pod ? in_pod[pod] : room[leaf];
        if (most < wanted) continue;
        near = room;
        for (std::uint32_t l = 0; l < leaves_ && !any_pod; ++l)
            if (pod_of_leaf_[l] != pod) near[l] = 0;
        if (choose(near, wanted, out)) return n + 1;
    }
    return 0;
}

namespace {

/// Leaves and pods of the nodes.
struct Lie {
    std::set<std::int32_t> leaves, pods;
};

/// Nodes below no switch, or in no block, are each for themselves.
Lie lie_of(const Snapshot& snapshot, std::span<const NodeIndex> nodes) {
    Lie lie;
    std::int32_t alone = -1;
    for (const NodeIndex n : nodes) {
        const std::int32_t leaf = snapshot.nodes[n].leaf;
        const std::int32_t above =
            leaf < 0 ? -1 : snapshot.switches[static_cast<std::size_t>(leaf)].above;
        lie.leaves.insert(leaf < 0 ? --alone : leaf);
        // a leaf below no switch is a pod of its own, whose number is no switch's
        lie.pods.insert(leaf < 0 ? alone : above < 0 ? -leaf - 1'000'000'000 : above);
    }
    return lie;
}

}  // namespace

Span span_of(const Snapshot& snapshot, std::span<const NodeIndex> nodes) {
    if (snapshot.topology == NetworkKind::flat || nodes.size() <= 1) return Span::leaf;
    const Lie lie = lie_of(snapshot, nodes);
    if (lie.leaves.size() == 1) return Span::leaf;
    return lie.pods.size() == 1 || snapshot.topology == NetworkKind::block ? Span::pod : Span::pods;
}

std::string words_of_span(const Snapshot& snapshot, std::span<const NodeIndex> nodes) {
    if (snapshot.topology == NetworkKind::flat || nodes.size() <= 1) return {};
    const Lie lie = lie_of(snapshot, nodes);
    const std::size_t leaves = lie.leaves.size();
    if (snapshot.topology == NetworkKind::block)
        return leaves == 1 ? "in one block" : "over " + std::to_string(leaves) + " blocks";
    if (leaves == 1) return "in one leaf";
    const std::string pods =
        lie.pods.size() == 1 ? "one pod" : std::to_string(lie.pods.size()) + " pods";
    return "over " + std::to_string(leaves) + " leaves of " + pods;
}

Fabric::Taking::Taking(const Fabric& fabric, std::span<const Share> shares)
    : fabric_(&fabric), left_(fabric.leaves(), 0) {
    for (const Share& share : shares) left_[share.leaf] = share.nodes;
}

bool Fabric::has_room(std::span<const NodeIndex> nodes, std::int64_t wanted) const {
    if (std::ssize(nodes) < wanted) return false;
    if (!has_limits_ || wanted <= 1) return true;
    std::vector<std::int64_t> room(leaves_, 0);
    for (const NodeIndex n : nodes) ++room[leaf_of_[n]];
    std::vector<Share> shares;
    return choose(room, wanted, shares);
}

}  // namespace arena
