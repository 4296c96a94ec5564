// SPDX-License-Identifier: GPL-2.0-or-later
// The nodes that parse_nodes() finds have GPUs, and make a cluster.
// also: src/sim/history/sacct.cc
#include "fuzz.h"
#include "sim/history/sacct.h"

FUZZ(text) {
    const auto nodes = arena::sim::parse_nodes(text, "nodes");
    if (!nodes) return;
    for (const auto& [name, node] : *nodes)
        if (name.empty() || node.gpus < 1) std::abort();
}
