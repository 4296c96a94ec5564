// SPDX-License-Identifier: GPL-2.0-or-later
// See slowdowns.h.
#include "sim/slow/slowdowns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace arena::sim {

std::string place_of(const Slowdown& slow, const std::vector<NodeState>& nodes) {
    std::string text = nodes[slow.node].name;
    if (!slow.gpus.empty()) text += fmt::format("/{}", fmt::join(slow.gpus, ","));
    if (slow.cause == slowdown::Cause::compute) return text;
    text += " + " + nodes[slow.peer].name;
    if (slow.peer_gpu != every_gpu) text += fmt::format("/{}", slow.peer_gpu);
    return text;
}

}  // namespace arena::sim
