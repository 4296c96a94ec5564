// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: a table of slowdowns, in any of its forms; what is accepted names nodes and
// GPUs that are there.
// also: src/sim/slow/slowdowns.cc tests/lab/simulation/slowdowns_file.cc
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tests/lab/simulation/slowdowns_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace arena;
    const std::vector<NodeState> nodes{{.name = "a1", .total_gpus = 4},
                                       {.name = "a2", .total_gpus = 8}};
    const auto read =
        sim::parse_slowdowns({reinterpret_cast<const char*>(data), size}, "s.csv", nodes, 2);
    if (!read) return 0;
    double last_s = 0;
    for (const sim::Slowdown& slow : *read) {
        if (slow.node >= nodes.size() || slow.peer >= nodes.size()) std::abort();
        for (const std::int64_t gpu : slow.gpus)
            if (gpu < 0 || gpu >= nodes[slow.node].total_gpus) std::abort();
        if (slow.peer_gpu >= nodes[slow.peer].total_gpus || !(slow.factor >= 1)) std::abort();
        if (!(slow.start_s >= last_s) || !(slow.duration_s > 0)) std::abort();
        last_s = slow.start_s;
        if (sim::place_of(slow, nodes).empty()) std::abort();
    }
    return 0;
}
