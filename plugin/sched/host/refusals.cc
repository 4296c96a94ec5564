// SPDX-License-Identifier: GPL-2.0-or-later
// See refusals.h.
#include "plugin/sched/host/refusals.h"

#include <algorithm>
#include <utility>

namespace arena {

void Refusals::forget_old(double now_s, const std::function<bool(const std::string&)>& remembered) {
    std::erase_if(refusals_, [&](const auto& entry) {
        return now_s > entry.second.until_s + pace_.forget_s || !remembered(entry.first);
    });
}

bool Refusals::note(const std::string& what, const std::string& why, double now_s) {
    const auto [at, first] = refusals_.try_emplace(what);
    Refusal& refusal = at->second;
    refusal.rest_s =
        first ? pace_.first_rest_s : std::min(2 * refusal.rest_s, pace_.longest_rest_s);
    refusal.until_s = now_s + refusal.rest_s;
    return std::exchange(refusal.why, why) != why || first;
}

bool Refusals::rests(const std::string& what, double now_s) const {
    const auto at = refusals_.find(what);
    return at != refusals_.end() && now_s < at->second.until_s;
}

}  // namespace arena
