// SPDX-License-Identifier: GPL-2.0-or-later
// Place and time: what waiting jobs want to know. A held job has no priority in Slurm's eyes, and
// its backfill makes no estimate for it; here is where it stands and when it will start, with what,
// as far as anybody can say. Outside slurmctld's locks, and never for long.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "plugin/sched/round/scheduler.h"
#include "policy/forecast.h"

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

/// What its owner, or an operator, reads of a job in the queue.
Json place_json(const auto& place, bool ahead_is_known) {
    Json json{
        {"place", place.number}, {"behind", nullptr}, {"ordinary_ahead", place.ordinary_ahead}};
    if (ahead_is_known) json["behind"] = place.ahead;
    if (!place.expected) return json;
    json["expected_start_s"] = place.expected->start_s;
    json["expected_grid"] = short_form(place.expected->grid);
    json["expected_plan"] = short_form(place.expected->plan);
    return json;
}

}  // namespace

/// In the order of Slurm's priorities, as view_.jobs is.
void Scheduler::note_places() {
    places_.clear();
    const Neighbours neighbours(snapshot_);
    std::vector<std::size_t> count(neighbours.kinds());
    std::vector<JobId> newest(neighbours.kinds());
    for (const JobView& job : view_.jobs) {
        const auto at = planned_.find(job.id);
        if (at == planned_.end() || at->second.role == Role::runs) continue;
        const auto told = last_.find(job.id);
        if (told != last_.end() && told->second.state == "running") continue;
        Place& place = places_[job.id];
        place.ordinary_ahead = job.ordinary_ahead();
        std::pair<std::size_t, JobId> before{0, 0};
        const std::size_t kind = neighbours.kind(job.node_set);
        for (std::size_t other = 0; other < count.size(); ++other) {
            if (count[other] == 0 || !neighbours.meet(kind, other)) continue;
            place.number += count[other];
            // The one of all of them that was counted last.
            if (const auto known = places_.find(newest[other]); known != places_.end())
                before = std::max(before, {known->second.number, newest[other]});
        }
        place.ahead = before.second;
        ++count[kind];
        newest[kind] = job.id;
        if (const auto expected = expected_.find(job.id); expected != expected_.end())
            place.expected = expected->second;
    }
}

void Scheduler::look_forward() {
    const double now_s = view_.snapshot.time_s;
    if (host_.stopping() || std::abs(now_s - looked_forward_s_) < look_forward_s) return;
    looked_forward_s_ = now_s;
    std::vector<Occupied> others;
    for (const Occupied& held : view_.running) {
        const auto at = planned_.find(held.job);
        if (at == planned_.end() || at->second.role != Role::runs) others.push_back(held);
    }
    ForecastLimits limits;
    limits.go_on = [this, end = Clock::now() + most_time] {
        return Clock::now() < end && !host_.stopping();
    };
    expected_ = forecast_starts(*policy_, snapshot_, offers_, policy_options_, others, limits);
    std::vector<Host::Expected> shown;
    for (const auto& [id, planned] : planned_) {
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
    host_.set_expected_starts(shown);
}

std::string Scheduler::queue_json(bool privileged, std::uint32_t uid, bool sees_others) const {
    std::vector<std::pair<std::size_t, Json>> jobs;
    for (const auto& [id, last] : last_) {
        const auto at = places_.find(id);
        const bool own = privileged || last.uid == uid;
        const bool waits = last.state != "running" && last.state != "checkpointing";
        if (at == places_.end() && !(own && waits)) continue;
        Json job{{"place", nullptr}};
        if (at != places_.end() && own) {
            const auto next = last_.find(at->second.ahead);
            const bool known =
                next != last_.end() && (privileged || sees_others || next->second.uid == uid);
            job = place_json(at->second, known);
        }
        if (at != places_.end()) job["place"] = at->second.number;
        if (own || sees_others) job["job"] = id;
        if (own) job.update({{"state", last.state}, {"reason", last.reason}});
        jobs.emplace_back(at != places_.end() ? at->second.number : SIZE_MAX, std::move(job));
    }
    std::stable_sort(jobs.begin(), jobs.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    Json list = Json::array();
    for (auto& [place, job] : jobs) list.push_back(std::move(job));
    const Json json{{"schema_version", 1},
                    {"policy", policy_->name},
                    {"time_s", view_.snapshot.time_s},
                    {"waiting", places_.size()},
                    {"jobs", std::move(list)}};
    return dump_json(json) + "\n";
}

}  // namespace arena
