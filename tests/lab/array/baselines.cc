// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/array/baselines.h"

namespace arena::array {

Order gpipe_order(const Instance& instance) {
    Order order;
    for (const Block& block : instance.blocks)
        if (!block.backward) order.push_back(block.job);
    for (std::size_t b = instance.blocks.size(); b-- > 0;)
        if (instance.blocks[b].backward) order.push_back(instance.blocks[b].job);
    return order;
}

Breakdown breakdown(const Instance& instance, const Schedule& schedule) {
    std::vector<int> state(static_cast<std::size_t>(instance.devices), -1);
    std::int64_t forward = 0, backward = 0, switching = 0;
    for (const std::size_t b : blocks_in_order(instance, schedule)) {
        const Block& block = instance.blocks[b];
        int& held = state[static_cast<std::size_t>(block.device)];
        if (held >= 0 && held != block.state) switching += block.setup;
        held = block.state;
        (block.backward ? backward : forward) += block.hold;
    }
    const double all = static_cast<double>(instance.devices) * schedule.makespan;
    if (all <= 0) return {.bubble = 1};
    Breakdown parts{.forward = static_cast<double>(forward) / all,
                    .backward = static_cast<double>(backward) / all,
                    .switching = static_cast<double>(switching) / all};
    parts.bubble = 1 - parts.forward - parts.backward - parts.switching;
    return parts;
}

}  // namespace arena::array
