// SPDX-License-Identifier: GPL-2.0-or-later
#include "slowdown/passes.h"

#include <algorithm>
#include <cstddef>
#include <string>

namespace arena::slowdown {

std::vector<Pass> ring_passes(std::span<const int> order) {
    const std::size_t n = order.size();
    if (n < 2) return {};
    const std::size_t paired = n - n % 2;
    std::vector<Pass> passes(n % 2 ? 3 : 2);
    for (std::size_t i = 0; i < n; ++i) {
        // Of an odd ring the link that closes it has no colour left of the two.
        const std::size_t pass = i < paired ? i % 2 : 2;
        passes[pass].push_back({order[i], order[(i + 1) % n]});
    }
    return passes;
}

namespace {

using Children = std::vector<std::vector<int>>;

/// Fills `children`; answers the root.
Result<int> read_tree(std::span<const int> parent, Children& children) {
    const int ranks = static_cast<int>(parent.size());
    children.resize(parent.size());
    int root = -1;
    for (int r = 0; r < ranks; ++r) {
        const int up = parent[static_cast<std::size_t>(r)];
        const std::string where = "rank " + std::to_string(r);
        if (up < -1 || up >= ranks) return usage_error("its parent is no rank of the tree", where);
        if (up == -1 && root >= 0) return usage_error("a second root: a tree has one", where);
        if (up == -1) {
            root = r;
            continue;
        }
        auto& siblings = children[static_cast<std::size_t>(up)];
        if (siblings.size() == most_children)
            return usage_error("a fourth child: a rank has at most 3", where);
        siblings.push_back(r);
    }
    if (root < 0) return usage_error("no root: one rank has the parent -1");
    return root;
}

}  // namespace

Result<std::vector<Pass>> tree_passes(std::span<const int> parent) {
    Children children;
    const auto root = read_tree(parent, children);
    if (!root) return root.error();
    std::vector<Pass> passes(2 * most_children);
    std::vector<int> level{*root}, below;
    std::size_t reached = 1;
    for (std::size_t depth = 0; !level.empty(); ++depth, level.swap(below)) {
        below.clear();
        for (const int r : level) {
            const auto& mine = children[static_cast<std::size_t>(r)];
            for (std::size_t c = 0; c < mine.size(); ++c)
                passes[2 * c + depth % 2].push_back({r, mine[c]});
            below.insert(below.end(), mine.begin(), mine.end());
        }
        reached += below.size();
    }
    if (reached != parent.size())
        return usage_error("ranks that the root does not reach: a circle");
    std::erase_if(passes, [](const Pass& pass) { return pass.empty(); });
    return passes;
}

}  // namespace arena::slowdown
