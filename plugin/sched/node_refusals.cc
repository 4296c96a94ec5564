// SPDX-License-Identifier: GPL-2.0-or-later
// See node_refusals.h.
#include "plugin/sched/node_refusals.h"

#include <algorithm>

namespace arena {
namespace {

/// How long a node is left alone after its first refusal; twice as long after each further one.
constexpr double first_rest_s = 2;
/// At most so long: shorter than a model waits for its profile run before it counts as failed.
constexpr double longest_rest_s = 8;
/// A streak is over when the node was not asked for so long after it could have been.
constexpr double forget_s = 20;

}  // namespace

void NodeRefusals::forget_old(double now_s,
                              const std::function<bool(const std::string&)>& shown_free) {
    std::erase_if(refusals_, [&](const auto& entry) {
        return now_s > entry.second.until_s + forget_s || !shown_free(entry.first);
    });
}

bool NodeRefusals::note(const std::string& node, double now_s) {
    const auto [at, first] = refusals_.try_emplace(node);
    Refusal& refusal = at->second;
    refusal.rest_s = first ? first_rest_s : std::min(2 * refusal.rest_s, longest_rest_s);
    refusal.until_s = now_s + refusal.rest_s;
    return first;
}

bool NodeRefusals::rests(const std::string& node, double now_s) const {
    const auto at = refusals_.find(node);
    return at != refusals_.end() && now_s < at->second.until_s;
}

}  // namespace arena
