// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: whatever stands in a node's Extra, what a sound text says survives its text
// form, and a broken one says no fact.
// also: plugin/sched/nodes/node_extra.cc plugin/sched/nodes/slow_fact.cc
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plugin/sched/nodes/slow_fact.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const arena::NodeExtra extra = arena::parse_node_extra(text);
    if (!extra.broken.empty()) return extra.facts.empty() ? 0 : (std::abort(), 0);
    const std::string again = arena::format_node_extra(extra);
    if (!extra.facts.empty() && arena::parse_node_extra(again) != extra) std::abort();
    for (const arena::Fact& fact : extra.facts) {
        std::string why;
        const auto slow = arena::slow_fact(fact, &why);
        if (slow && arena::slow_fact(arena::fact_of(*slow), &why)->by != slow->by) std::abort();
    }
    return 0;
}
