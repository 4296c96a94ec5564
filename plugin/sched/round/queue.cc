// SPDX-License-Identifier: GPL-2.0-or-later
// See queue.h.
#include "plugin/sched/round/queue.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace arena {
namespace {

using Clock = std::chrono::steady_clock;

/// Estimates are made this often at most, and for so long.
constexpr double look_forward_s = 5;
constexpr auto most_time = std::chrono::milliseconds(100);

/// Which node sets have a node in common.
class Neighbours {
  public:
    explicit Neighbours(const Snapshot& snapshot) : sets_(snapshot.node_sets.size()) {
        // So many different sets are those of a test or of an attack: then everybody is a
        // neighbour.
        if (sets_ > most_sets) return;
        std::vector<std::vector<std::size_t>> users(snapshot.nodes.size());
        for (std::size_t set = 0; set < sets_; ++set)
            for (const NodeIndex node : snapshot.node_sets[set]) users[node].push_back(set);
        meets_.assign(sets_ * sets_, false);
        for (const auto& list : users)
            for (const std::size_t a : list)
                for (const std::size_t b : list) meets_[a * sets_ + b] = true;
    }
    [[nodiscard]] bool meet(std::size_t a, std::size_t b) const {
        return meets_.empty() || a == b || meets_[a * sets_ + b];
    }
    [[nodiscard]] std::size_t kinds() const { return meets_.empty() ? 1 : sets_; }
    [[nodiscard]] std::size_t kind(std::size_t set) const { return meets_.empty() ? 0 : set; }

  private:
    static constexpr std::size_t most_sets = 256;
    std::size_t sets_;
    std::vector<bool> meets_;
};

}  // namespace

/// In the order of Slurm's priorities, as the view's jobs are.
void Queue::note_positions(const Round& round, const std::function<bool(JobId)>& runs) {
    positions_.clear();
    const Neighbours neighbours(round.snapshot);
    std::vector<std::size_t> count(neighbours.kinds());
    std::vector<JobId> newest(neighbours.kinds());
    for (const JobView& job : round.view.jobs) {
        const auto at = round.planned.find(job.id);
        if (at == round.planned.end() || at->second.role == Role::runs || runs(job.id)) continue;
        QueuePosition& position = positions_[job.id];
        position.ordinary_ahead = job.ordinary_ahead();
        std::pair<std::size_t, JobId> before{0, 0};
        const std::size_t kind = neighbours.kind(job.node_set);
        for (std::size_t other = 0; other < count.size(); ++other) {
            if (count[other] == 0 || !neighbours.meet(kind, other)) continue;
            position.number += count[other];
            // The one of all of them that was counted last.
            if (const QueuePosition* known = find(newest[other]))
                before = std::max(before, {known->number, newest[other]});
        }
        position.ahead = before.second;
        ++count[kind];
        newest[kind] = job.id;
        if (const auto expected = expected_.find(job.id); expected != expected_.end())
            position.expected = expected->second;
    }
}

const QueuePosition* Queue::find(JobId job) const {
    const auto at = positions_.find(job);
    return at == positions_.end() ? nullptr : &at->second;
}

/// The forecast moves nobody, but who gives way for a promised job does so when that needs the
/// nodes.
void Queue::expect_promises(const Round& round, const PromiseBook& promises) {
    for (const auto& [id, planned] : round.planned) {
        const Promise* promise = planned.role == Role::runs ? nullptr : promises.find(id);
        if (promise == nullptr || promise->started) continue;
        const MovesTook& took_s = round.snapshot.jobs[planned.state].moves_took_s;
        const auto ends_s = [&](double start_s, const Offer& offer) {
            return start_s + round.options.restart.seconds(offer.grid.gpus(), took_s) +
                   promise->iterations * offer.estimate.iteration_s;
        };
        const auto known = expected_.find(id);
        const Offer* promised = nullptr;
        bool in_time = false;
        for (const Offer& offer : *planned.offers) {
            if (promise->grid.is_of(offer) && promised == nullptr) promised = &offer;
            if (known != expected_.end() && known->second.grid.is_of(offer) &&
                offer.plan == known->second.plan)
                in_time = ends_s(known->second.start_s, offer) <= promise->due_s + 1;
        }
        if (in_time || promised == nullptr) continue;
        const double latest_s = promise->due_s - ends_s(0, *promised);
        expected_[id] = {std::max(latest_s, round.snapshot.time_s), *promised, promised->plan};
    }
}

std::optional<std::vector<Host::Expected>> Queue::look_forward(
    const Round& round, const Policy& policy, const PromiseBook& promises,
    const std::function<bool()>& stopping) {
    const double now_s = round.view.snapshot.time_s;
    if (stopping() || std::abs(now_s - looked_forward_s_) < look_forward_s) return std::nullopt;
    looked_forward_s_ = now_s;
    ForecastLimits limits;
    limits.go_on = [&stopping, end = Clock::now() + most_time] {
        return Clock::now() < end && !stopping();
    };
    expected_ = forecast_starts(policy, round.snapshot, round.offers, round.options, limits);
    expect_promises(round, promises);
    std::vector<Host::Expected> shown;
    for (const auto& [id, planned] : round.planned) {
        if (planned.role == Role::runs) continue;
        const auto at = expected_.find(id);
        const double behind_s = planned.view->ordinary_ahead() ? planned.view->ordinary_start_s : 0;
        // Behind an ordinary job of which Slurm says nothing, nobody knows.
        if (at != expected_.end() && planned.view->ordinary_ahead() && behind_s == 0)
            expected_.erase(at);
        const auto known = expected_.find(id);
        if (known != expected_.end())
            known->second.start_s = std::max(known->second.start_s, behind_s);
        if (planned.view->facts.held)
            shown.push_back({id, known == expected_.end() ? 0 : known->second.start_s});
    }
    return shown;
}

}  // namespace arena
