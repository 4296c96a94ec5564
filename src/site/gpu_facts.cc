// SPDX-License-Identifier: GPL-2.0-or-later
// See gpu_facts.h.
#include "site/gpu_facts.h"

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "core/limits.h"

namespace arena {
namespace {

/// "(S:0,1)" says which sockets a GRES is near; its comma separates nothing.
std::string without_brackets(std::string_view text) {
    std::string out;
    int depth = 0;
    for (const char c : text) {
        if (c == '(') ++depth;
        if (depth == 0) out += c;
        if (c == ')' && depth > 0) --depth;
    }
    return out;
}

}  // namespace

std::vector<NodeGpus> parse_gres_config(std::string_view text) {
    std::vector<NodeGpus> found;
    const std::string plain = without_brackets(text);
    for (std::string_view entry : split(plain, ',')) {
        const std::vector<std::string_view> parts = split(trim(entry), ':');
        if (parts.front() != "gpu" || parts.size() > 3) continue;
        // "gpu" alone is one GPU; of two parts the last is a number or a type.
        const auto count = parts.size() == 1
                               ? 1
                               : parse_integer(parts.back(), 0, limits::gpus_per_node).value_or(-1);
        if (parts.size() == 3 && count > 0)
            found.push_back({std::string(parts[1]), count});
        else if (parts.size() == 2 && count < 0)
            found.push_back({std::string(parts[1]), 1});
        else if (parts.size() < 3 && count > 0)
            found.push_back({"", count});
    }
    return found;
}

void TypePool::add_node(std::int64_t gpus) {
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(gpus, 0)) + 1;
    if (nodes_with_.size() < size) nodes_with_.resize(size, 0);
    for (std::size_t g = 1; g < size; ++g) ++nodes_with_[g];
}

std::int64_t TypePool::largest() const {
    std::int64_t best = 0;
    for (std::size_t g = 1; g < nodes_with_.size(); ++g)
        best = std::max(best, static_cast<std::int64_t>(g) * nodes_with_[g]);
    return best;
}

std::int64_t TypePool::total() const {
    return std::accumulate(nodes_with_.begin(), nodes_with_.end(), std::int64_t{0});
}

std::int64_t TypePool::per_node() const {
    return nodes_with_.empty() ? 0 : static_cast<std::int64_t>(nodes_with_.size()) - 1;
}

bool TypePool::can_place(std::int64_t gpus, std::int64_t group) const {
    for (std::size_t g = 1; g < nodes_with_.size(); ++g) {
        const auto per_node = static_cast<std::int64_t>(g);
        if (per_node % group == 0 && gpus % per_node == 0 && gpus / per_node <= nodes_with_[g])
            return true;
    }
    return false;
}

std::int64_t TypePool::fewest_nodes(std::int64_t gpus, std::int64_t group,
                                    std::int64_t most_each) const {
    for (std::int64_t each = std::min(per_node(), most_each); each >= 1; --each)
        if (each % group == 0 && gpus % each == 0 &&
            gpus / each <= nodes_with_[static_cast<std::size_t>(each)])
            return gpus / each;
    return 0;
}

std::int64_t TypePool::fewest_in_pieces(std::int64_t gpus, std::int64_t most_each) const {
    std::int64_t counted = 0;  // nodes with more than `each`, whose GPUs are taken off
    for (std::int64_t each = std::min(per_node(), most_each); each >= 1; --each) {
        const std::int64_t nodes = nodes_with_[static_cast<std::size_t>(each)] - counted;
        if (nodes * each >= gpus) return counted + (gpus + each - 1) / each;
        counted += nodes;
        gpus -= nodes * each;
    }
    return 0;
}

bool TypePool::can_place_any(std::int64_t min, std::int64_t max, std::int64_t step,
                             std::int64_t group) const {
    const std::int64_t last = std::min(max, largest());
    for (std::int64_t n = (min + step - 1) / step * step; n <= last; n += step)
        if (can_place(n, group)) return true;
    return false;
}

std::int64_t usable_gpus(const NodeFacts& node, std::int64_t gpus, const NodeNeeds& needs) {
    if (node.tmp_mb < needs.tmp_mb || node.memory_mb < needs.memory_per_node_mb) return 0;
    const auto cap = [&](std::int64_t has, std::int64_t each) {
        if (each > 0) gpus = std::min(gpus, has / each);
    };
    cap(node.cpus, needs.cpus_per_gpu);
    cap(node.memory_mb, needs.memory_per_gpu_mb);
    cap(node.memory_mb, needs.memory_per_cpu_mb * std::max<std::int64_t>(needs.cpus_per_gpu, 1));
    return gpus;
}

std::vector<TypePool> make_pools(const std::vector<NodeFacts>& nodes, const NodeNeeds& needs) {
    std::vector<TypePool> pools;
    for (const NodeFacts& node : nodes)
        for (const NodeGpus& gpus : node.gpus) {
            const auto same = [&](const TypePool& p) { return p.type() == gpus.type; };
            auto it = std::find_if(pools.begin(), pools.end(), same);
            if (it == pools.end()) it = pools.insert(pools.end(), TypePool(gpus.type));
            it->add_node(usable_gpus(node, gpus.count, needs));
        }
    return pools;
}

}  // namespace arena
