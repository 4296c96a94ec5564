// SPDX-License-Identifier: GPL-2.0-or-later
// See slow_links.h.
#include "plugin/sched/nodes/slow_links.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace arena {
namespace {

/// Of the excess of a node's slowest link another one has to have to be a witness beside it.
constexpr double of_excess = 0.25;

bool touches(const SlowNodeLink& link, NodeIndex node) {
    return link.ends.first == node || link.ends.second == node;
}

NodeIndex other_end(const SlowNodeLink& link, NodeIndex node) {
    return link.ends.first == node ? link.ends.second : link.ends.first;
}

/// A node's links that are about as slow as its slowest.
std::vector<SlowNodeLink> witnesses(const std::vector<SlowNodeLink>& links, NodeIndex node) {
    std::vector<SlowNodeLink> own;
    double most = 0;
    for (const SlowNodeLink& link : links) {
        if (!touches(link, node)) continue;
        own.push_back(link);
        most = std::max(most, link.factor - 1);
    }
    std::erase_if(own, [&](const SlowNodeLink& l) { return l.factor - 1 < of_excess * most; });
    return own;
}

/// 0: it is none.
double evidence_of(const std::vector<SlowNodeLink>& links, NodeIndex node) {
    const auto own = witnesses(links, node);
    if (own.size() < 2) return 0;
    double evidence = 0;
    for (const SlowNodeLink& link : own) {
        if (witnesses(links, other_end(link, node)).size() >= own.size()) return 0;
        evidence += std::log(link.factor);
    }
    return evidence;
}

}  // namespace

LinkCulprits find_link_culprits(std::vector<SlowNodeLink> links) {
    LinkCulprits found;
    for (;;) {
        std::map<NodeIndex, double> evidence;
        for (const SlowNodeLink& link : links)
            for (const NodeIndex node : {link.ends.first, link.ends.second})
                if (!evidence.contains(node)) evidence[node] = evidence_of(links, node);
        const auto most =
            std::max_element(evidence.begin(), evidence.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; });
        if (most == evidence.end() || !(most->second > 0)) break;
        found.nodes.push_back(most->first);
        std::erase_if(links, [&](const SlowNodeLink& l) { return touches(l, most->first); });
    }
    for (const SlowNodeLink& link : links) found.open.push_back(link.ends);
    std::sort(found.nodes.begin(), found.nodes.end());
    std::sort(found.open.begin(), found.open.end());
    return found;
}

}  // namespace arena
