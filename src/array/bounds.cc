// SPDX-License-Identifier: GPL-2.0-or-later
#include "array/bounds.h"

#include <algorithm>

namespace arena::array {

namespace {

/// The block of the same state before it in its chain; `block` itself: there is none.
std::size_t partner(const Instance& instance, std::size_t block) {
    std::size_t b = instance.first[static_cast<std::size_t>(instance.blocks[block].job)];
    while (instance.blocks[b].state != instance.blocks[block].state) ++b;
    return b;
}

Ticks gap_before(const Instance& instance, std::size_t block) {
    const std::size_t forward = partner(instance, block);
    if (forward == block) return instance.blocks[block].setup;
    std::int64_t between = 0;
    for (std::size_t b = forward; b < block; ++b)
        between += instance.blocks[b].work + instance.blocks[b].transfer;
    return static_cast<Ticks>(std::max<std::int64_t>(0, between - instance.blocks[forward].hold));
}

}  // namespace

Ticks one_machine_bound(std::vector<Window>& windows) {
    const auto later = [](const Window& a, const Window& b) { return a.head < b.head; };
    std::sort(windows.begin(), windows.end(), later);
    // Those that may run lie in front as a heap with the longest tail on top.
    const auto less_urgent = [](const Window& a, const Window& b) { return a.tail < b.tail; };
    auto heap_end = windows.begin();
    auto coming = windows.begin();
    Ticks bound = 0;
    Ticks now = windows.empty() ? 0 : windows.front().head;
    while (coming != windows.end() || heap_end != windows.begin()) {
        if (heap_end == windows.begin()) now = std::max(now, coming->head);
        while (coming != windows.end() && coming->head <= now) {
            std::iter_swap(heap_end, coming);  // heap_end <= coming: what lies between is done
            ++coming;
            std::push_heap(windows.begin(), ++heap_end, less_urgent);
        }
        Window& top = windows.front();
        const Ticks until = now + top.hold;
        if (coming != windows.end() && coming->head < until) {
            top.hold = until - coming->head;
            now = coming->head;
            continue;
        }
        now = until;
        bound = std::max(bound, now + top.tail);
        std::pop_heap(windows.begin(), heap_end--, less_urgent);
    }
    return bound;
}

ChainFacts chain_facts(const Instance& instance) {
    ChainFacts facts;
    facts.tail.resize(instance.blocks.size());
    facts.gap.resize(instance.blocks.size());
    for (int j = 0; j < instance.jobs; ++j) {
        const auto begin = instance.first[static_cast<std::size_t>(j)];
        Ticks after = 0;
        for (std::size_t b = instance.first[static_cast<std::size_t>(j) + 1]; b-- > begin;) {
            const Block& block = instance.blocks[b];
            facts.tail[b] = after = std::max(block.hold, block.work + block.transfer + after);
            facts.gap[b] = std::min(block.setup, gap_before(instance, b));
        }
    }
    return facts;
}

Ticks lower_bound(const Instance& instance) {
    const ChainFacts facts = chain_facts(instance);
    std::vector<std::vector<Window>> windows(static_cast<std::size_t>(instance.devices));
    Ticks bound = 0;
    for (int j = 0; j < instance.jobs; ++j) {
        Ticks head = 0;
        const auto begin = instance.first[static_cast<std::size_t>(j)];
        bound = std::max(bound, facts.tail[begin]);
        for (std::size_t b = begin; b < instance.first[static_cast<std::size_t>(j) + 1]; ++b) {
            const Block& block = instance.blocks[b];
            const Ticks setup = facts.gap[b];
            windows[static_cast<std::size_t>(block.device)].push_back(
                {head - setup, block.hold + setup, facts.tail[b] - block.hold});
            head += block.work + block.transfer;
        }
    }
    for (auto& device : windows) bound = std::max(bound, one_machine_bound(device));
    return bound;
}

}  // namespace arena::array
