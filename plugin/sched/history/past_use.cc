// SPDX-License-Identifier: GPL-2.0-or-later
// See past_use.h.
#include "plugin/sched/history/past_use.h"

#include <algorithm>
#include <vector>

namespace arena {
namespace {

/// Of an even number the larger one of the two in the middle: who is believed too little gains.
double median(const std::deque<double>& values) {
    std::vector<double> sorted(values.begin(), values.end());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
}

}  // namespace

template <typename Key>
void PastUses::add(std::map<Key, Last>& pasts, const Key& key, double used) {
    if (pasts.size() >= most && !pasts.contains(key))
        pasts.erase(std::min_element(pasts.begin(), pasts.end(), [](const auto& a, const auto& b) {
            return a.second.touched < b.second.touched;
        }));
    Last& last = pasts[key];
    last.touched = ++touches_;
    last.used.push_back(used);
    if (last.used.size() > last_jobs) last.used.pop_front();
}

void PastUses::note(std::uint32_t uid, const std::string& account, double used) {
    used = std::clamp(used, least, 1.0);
    add(users_, uid, used);
    if (!account.empty()) add(accounts_, account, used);
}

PastUse PastUses::of(std::uint32_t uid, const std::string& account) const {
    if (const auto at = users_.find(uid); at != users_.end() && at->second.used.size() >= few_jobs)
        return {median(at->second.used), at->second.used.size(), false};
    if (const auto at = accounts_.find(account);
        at != accounts_.end() && at->second.used.size() >= few_jobs)
        return {median(at->second.used), at->second.used.size(), true};
    return {};
}

}  // namespace arena
