// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugin/sched/plans/plan_turns.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace arena {

std::vector<std::string> PlanTurns::begin_round() {
    ++round_;
    std::vector<std::string> gone;
    for (const auto& [key, last] : asked_)
        if (last + rounds_kept < round_) gone.push_back(key);
    for (const std::string& key : gone) remove(key);
    const double least_s = least_used_s();  // who is behind it has no debt to remember
    std::erase_if(users_, [&](const auto& user) {
        return user.second.keys.empty() && user.second.used_s <= least_s;
    });
    return gone;
}

bool PlanTurns::ask(User user, const std::string& key) {
    const double least_s = least_used_s();
    Queue& queue = users_[user];
    const bool is_there = std::find(queue.keys.begin(), queue.keys.end(), key) != queue.keys.end();
    if (!is_there) {
        const std::size_t most = asked_.size() < max_queued ? max_of_user : 1;
        if (queue.keys.size() >= most) return asked_.contains(key);
        // Time that others had while this one asked for nothing is not owed to it.
        if (queue.keys.empty() && least_s < std::numeric_limits<double>::infinity())
            queue.used_s = std::max(queue.used_s, least_s);
        queue.keys.push_back(key);
    }
    asked_[key] = round_;
    return true;
}

std::optional<PlanTurns::Turn> PlanTurns::next() {
    const std::pair<const User, Queue>* first = nullptr;
    for (const auto& user : users_)
        if (!user.second.keys.empty() && (!first || user.second.used_s < first->second.used_s))
            first = &user;
    if (!first) return std::nullopt;
    Turn turn{first->first, first->second.keys.front()};
    remove(turn.key);
    return turn;
}

void PlanTurns::charge(User user, double seconds) { users_[user].used_s += seconds; }

/// Of users who wait for something; infinite without any.
double PlanTurns::least_used_s() const {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [user, queue] : users_)
        if (!queue.keys.empty()) least = std::min(least, queue.used_s);
    return least;
}

/// Another user may wait for the same plan.
void PlanTurns::remove(const std::string& key) {
    for (auto& [user, queue] : users_) std::erase(queue.keys, key);
    asked_.erase(key);
}

}  // namespace arena
