// SPDX-License-Identifier: GPL-2.0-or-later
// See profile_turns.h.
#include "plugin/sched/profiles/profile_turns.h"

#include <algorithm>
#include <set>
#include <utility>

namespace arena {
namespace {

constexpr double hour_s = 3600;

/// By Slurm's clock, which may have been set meanwhile: never negative.
double ran_so_far_s(const CarrierView& carrier, double now_s) {
    if (carrier.start_s <= 0) return 0;
    return std::max((carrier.finished ? carrier.end_s : now_s) - carrier.start_s, 0.0);
}

}  // namespace

void ProfileTurns::take_in(const CarrierView& carrier, const ClusterView& view) {
    const double now_s = view.snapshot.time_s;
    const auto [at, first] = runs_.try_emplace(carrier.id);
    Run& run = at->second;
    Account& account = accounts_[carrier.for_user];
    if (first) {  // of an earlier life of ours
        run.user = carrier.for_user;
        run.began_s = view.steady_s - std::max(now_s - carrier.start_s, 0.0);
        const auto after = [&](double start) { return start > run.began_s; };
        account.starts.insert(std::find_if(account.starts.begin(), account.starts.end(), after),
                              run.began_s);
    }
    const double ran_s = std::max(ran_so_far_s(carrier, now_s), run.ran_s);
    account.gpu_s += ran_s - std::exchange(run.ran_s, ran_s);
}

void ProfileTurns::new_round(const ClusterView& view) {
    waited_ = std::exchange(waiting_, {});
    std::set<JobId> seen;
    for (const CarrierView& carrier : view.carriers) {
        seen.insert(carrier.id);
        take_in(carrier, view);
    }
    std::erase_if(runs_, [&](const auto& run) { return !seen.contains(run.first); });
    for (auto& [user, account] : accounts_)
        while (!account.starts.empty() && account.starts.front() + hour_s <= view.steady_s)
            account.starts.pop_front();
}

void ProfileTurns::wants(std::uint32_t user, NodeIndex node) {
    std::vector<bool>& nodes = waiting_[user];
    if (node >= nodes.size()) nodes.resize(node + 1);
    nodes[node] = true;
}

double ProfileTurns::start_tag(std::uint32_t user) const {
    const auto at = accounts_.find(user);
    return std::max(virtual_time_, at == accounts_.end() ? 0 : at->second.finish);
}

std::optional<std::vector<bool>> ProfileTurns::kept_from(std::uint32_t user,
                                                         std::size_t slots) const {
    std::set<std::uint32_t> others;
    std::vector<bool> kept;
    const double mine = start_tag(user);
    for (const Waiting* round : {&waited_, &waiting_})
        for (const auto& [other, nodes] : *round) {
            if (other == user || start_tag(other) >= mine) continue;
            others.insert(other);
            if (kept.size() < nodes.size()) kept.resize(nodes.size());
            for (std::size_t i = 0; i < nodes.size(); ++i) kept[i] = kept[i] || nodes[i];
        }
    if (others.size() >= slots) return std::nullopt;
    return kept;
}

void ProfileTurns::started(std::uint32_t user, JobId carrier, double steady_s) {
    const double tag = start_tag(user);
    virtual_time_ = tag;
    Account& account = accounts_[user];
    account.finish = tag + 1;
    account.starts.push_back(steady_s);
    runs_[carrier] = {user, steady_s, 0};
}

bool ProfileTurns::has_had_enough(std::uint32_t user, double steady_s) const {
    const auto at = accounts_.find(user);
    if (runs_per_hour_ == 0 || at == accounts_.end()) return false;
    const auto recent = [&](double start) { return start + hour_s > steady_s; };
    return std::count_if(at->second.starts.begin(), at->second.starts.end(), recent) >=
           runs_per_hour_;
}

}  // namespace arena
