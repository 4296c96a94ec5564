// SPDX-License-Identifier: GPL-2.0-or-later
// See node_span.h.
#include "profiler/comm/node_span.h"

#include <algorithm>
#include <string_view>

#include "base/hash.h"

namespace arena {
namespace {

constexpr std::string_view switch_word = "switch", block_word = "block";

/// A double holds it; never 0.
std::int64_t sum_of(std::string_view path) {
    Fnv1a sum;
    sum.bytes(path);
    return static_cast<std::int64_t>(sum.value() >> 12) | 1;
}

/// Without its last part; "" where it has but one.
std::string_view above(std::string_view path) {
    const std::size_t dot = path.rfind('.');
    return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

}  // namespace

NodePlace place_of_node(const Lookup& lookup) {
    const char* address = lookup("SLURM_TOPOLOGY_ADDR");
    const char* pattern = lookup("SLURM_TOPOLOGY_ADDR_PATTERN");
    if (address == nullptr || pattern == nullptr) return {};
    const std::string_view leaf = above(address), words = pattern;
    const bool is_block = words.starts_with(block_word);
    if (leaf.empty() || (!is_block && !words.starts_with(switch_word))) return {};
    if (is_block) return {sum_of(leaf), sum_of(""), true};
    return {sum_of(leaf), sum_of(above(leaf).empty() ? leaf : above(leaf)), false};
}

std::vector<NodePlace> places_of_nodes(const CommWorld& world, const NodePlace& own,
                                       Communicator& all) {
    const auto nodes = static_cast<std::size_t>(world.nodes);
    std::vector<double> numbers(3 * nodes, 0);
    const auto at = 3 * static_cast<std::size_t>(world.node());
    numbers[at] = static_cast<double>(own.leaf);
    numbers[at + 1] = static_cast<double>(own.pod);
    numbers[at + 2] = own.is_block ? 1 : 0;
    const std::vector<double> told = all.largest(numbers);
    std::vector<NodePlace> places(nodes);
    for (std::size_t n = 0; n < nodes; ++n)
        places[n] = {static_cast<std::int64_t>(told[3 * n]),
                     static_cast<std::int64_t>(told[3 * n + 1]), told[3 * n + 2] > 0};
    return places;
}

std::vector<CommSpan> spans_of_nodes(const std::vector<NodePlace>& places, bool has_domains) {
    if (std::ranges::any_of(places, [](const NodePlace& place) { return place.leaf == 0; }))
        return {};
    std::vector<CommSpan> spans;
    CommSpan farthest = has_domains && places[0].is_block ? CommSpan::domain : CommSpan::leaf;
    for (const NodePlace& place : places) {
        if (place.pod != places[0].pod)
            farthest = CommSpan::pods;
        else if (place.leaf != places[0].leaf && farthest != CommSpan::pods)
            farthest = CommSpan::pod;
        spans.push_back(farthest);
    }
    return spans;
}

}  // namespace arena
