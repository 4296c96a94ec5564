// SPDX-License-Identifier: GPL-2.0-or-later
// See promise_watch.h.
#include "plugin/sched/promises/promise_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/count_text.h"
#include "plugin/sched/promises/promise_words.h"
#include "policy/order/availability.h"
#include "policy/order/steps.h"

namespace arena {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
/// Slurm's limits are of minutes: less is no change of one.
constexpr double raised_s = 30;
/// Of a job that runs on when its limit is over (OverTimeLimit).
constexpr double over_limit_s = 1;

bool is_waiting(const JobState& job) { return job.phase == JobPhase::pending; }

/// Why a job may start while a promised one waits: policy `arena` lets no other.
std::string why_free(const JobState& started, const Promise& promise, double now_s) {
    const double needed_s = promise.latest_start_s();
    const double end_s = now_s + lasts_at_most_s(started);
    if (started.time_limit_s > 0 && end_s <= needed_s)
        return fmt::format("ends by {} UTC by its limit, before the promised job needs the nodes",
                           utc_time(end_s));
    if (started.elastic) return "elastic: gives way";
    return "on GPUs that are not kept for the promised job";
}

bool may_use(const Snapshot& now, const JobState& job, NodeIndex node) {
    if (job.node_set >= now.node_sets.size()) return false;
    const auto& set = now.node_sets[job.node_set];
    return std::binary_search(set.begin(), set.end(), node);
}

/// Whether the one that waits could have any of the other's GPUs.
bool could_have(const Snapshot& now, const JobState& waiting, const JobState& started) {
    const auto& types = waiting.gpu_types;
    const bool has_type = types.empty() || std::find(types.begin(), types.end(),
                                                     started.current->grid.gpu_type) != types.end();
    return has_type && std::any_of(started.nodes.begin(), started.nodes.end(),
                                   [&](NodeIndex n) { return may_use(now, waiting, n); });
}

/// Of a promise that moves later.
std::string others_before(const Promise& promise, const std::map<JobId, Departure>& departed) {
    const auto any = [&](Departure by) {
        return std::any_of(promise.ahead.begin(), promise.ahead.end(), [&](JobId job) {
            const auto at = departed.find(job);
            return at != departed.end() && at->second == by;
        });
    };
    std::string words = "others stand before it now";
    if (any(Departure::slow_node)) words += ", one of which has left a slow node";
    if (any(Departure::reclaim)) words += ", one of which has given lent nodes back";
    return words;
}

/// Those of the nodes that are so and were not at the last look.
template <typename Is>
std::vector<NodeIndex> newly(const Snapshot& now, std::set<std::string>& known, Is is) {
    std::vector<NodeIndex> list;
    std::set<std::string> names;
    for (NodeIndex n = 0; n < now.nodes.size(); ++n) {
        if (!is(now.nodes[n])) continue;
        if (!known.contains(now.nodes[n].name)) list.push_back(n);
        names.insert(now.nodes[n].name);
    }
    known = std::move(names);
    return list;
}

}  // namespace

const std::vector<Passing>& PromiseWatch::passings(JobId job) const {
    static const std::vector<Passing> none;
    const auto at = seen_.find(job);
    return at == seen_.end() ? none : at->second.passings;
}

PromiseWatch::Changes PromiseWatch::take_changes(const Snapshot& now) {
    Changes changes;
    changes.down = newly(now, down_, [](const NodeState& node) { return !node.up; });
    changes.returned =
        newly(now, returning_, [](const NodeState& node) { return node.returning_s > 0; });
    std::map<JobId, std::pair<double, double>> ends;
    for (const JobState& job : now.jobs)
        if (!is_waiting(job) && job.time_limit_s != over_limit_s)
            ends[job.id] = {job.start_s,
                            job.time_limit_s > 0 ? now.time_s + job.time_limit_s : never};
    for (const Occupied& other : now.others) ends[other.job] = {0, other.end_s};
    for (const auto& [job, run] : ends) {
        const auto at = ends_.find(job);
        if (at != ends_.end() && std::abs(at->second.first - run.first) < 1 &&
            run.second > at->second.second + raised_s)
            changes.latest_raised_s = std::max(changes.latest_raised_s, run.second);
    }
    ends_ = std::move(ends);
    return changes;
}

void PromiseWatch::recall(const PromiseBook::Kept& kept) {
    for (const auto& [job, promise] : kept.promises) {
        Seen& seen = seen_[job];
        seen.judged = promise.started;
        seen.told_broken = promise.broken;
        if (promise.started) continue;
        seen.told_due_s = promise.due_s;
        seen.told_at_s = promise.given_s;
        seen.recalled_s = kept.looked_s;
    }
}

void PromiseWatch::note_changes(const JobState& job, const Promise& promise, const Changes& changes,
                                const Snapshot& now, Seen& seen) {
    const auto touches = [&](const std::vector<NodeIndex>& nodes) {
        return std::any_of(nodes.begin(), nodes.end(),
                           [&](NodeIndex n) { return may_use(now, job, n); });
    };
    seen.nodes_down = seen.nodes_down || touches(changes.down);
    seen.nodes_returned = seen.nodes_returned || touches(changes.returned);
    seen.limit_raised = seen.limit_raised || changes.latest_raised_s > promise.start_s;
}

void PromiseWatch::note_passings(const Look& look, News& news) {
    const Snapshot& now = look.now;
    std::vector<std::size_t> started, promised;
    for (std::size_t j = 0; j < now.jobs.size(); ++j) {
        const JobState& job = now.jobs[j];
        const bool is_new = waiting_.contains(job.id) || job.start_s >= now.time_s;
        if (!is_waiting(job) && job.current && is_new && !ends_.contains(job.id))
            started.push_back(j);
        if (is_waiting(job) && !job.ordinary && look.book.find(job.id) != nullptr)
            promised.push_back(j);
    }
    if (started.empty() || promised.empty()) return;
    const SlurmOrder order = order_of(now, look.priority_step);
    for (const std::size_t s : started)
        for (const std::size_t p : promised) {
            if (order.place[s] < order.place[p]) continue;
            const JobState& job = now.jobs[s];
            if (!could_have(now, now.jobs[p], job)) continue;
            std::string why = why_free(job, *look.book.find(now.jobs[p].id), now.time_s);
            news.passed.try_emplace(job.id, "started before a promised job: " + why);
            std::vector<Passing>& list = seen_[now.jobs[p].id].passings;
            list.push_back({job.id, now.time_s, job.current->grid, std::move(why)});
            if (list.size() > most_passings) list.erase(list.begin());
        }
}

/// Those that have started again.
void PromiseWatch::forget_returned(const Snapshot& now) {
    for (const JobState& job : now.jobs)
        if (!is_waiting(job) && !ends_.contains(job.id)) departed_.erase(job.id);
}

void PromiseWatch::judge(JobId job, const Promise& promise, Seen& seen, News& news) {
    const bool again = seen.judged;
    if (!again) seen.passings.clear();
    seen.judged = true;
    if (!promise.broken || seen.told_broken) return;
    seen.told_broken = true;
    const auto [count, why] =
        promise.left_by == Departure::slow_node
            ? std::pair(&Broken::slow_nodes, "it has left a slow node")
        : promise.left_by == Departure::reclaim
            ? std::pair(&Broken::nodes_returned, "it gave lent nodes back")
        : seen.nodes_down     ? std::pair(&Broken::nodes_down, "nodes went down")
        : seen.nodes_returned ? std::pair(&Broken::nodes_returned, "lent nodes went back")
        : seen.limit_raised   ? std::pair(&Broken::limits_raised, "a limit was raised")
        : seen.away           ? std::pair(&Broken::away, "slurmctld was away")
                              : std::pair(&Broken::others, "its nodes were not free in time");
    ++(broken_.*count);
    news.events.push_back({job, "promise broken",
                           fmt::format("started {}too late to end by {} UTC: {}",
                                       again ? "again " : "", due_text(promise), why)});
}

/// What has changed since it was told something; what is too soon stays to be told.
void PromiseWatch::tell(JobId job, const Promise* promise, const Look& look, Seen& seen,
                        News& news) {
    const bool told = seen.told_due_s > 0;
    if (promise != nullptr && told && promise->due_s <= seen.told_due_s + quiet_s) {
        seen.told_due_s = std::min(seen.told_due_s, promise->due_s);
        return;
    }
    if (std::abs(look.now.time_s - seen.told_at_s) < quiet_s) return;
    if (promise == nullptr)
        news.events.push_back(
            {job, "promise taken back",
             behind_promise(look.now, look.book, look.priority_step, job).same_step
                 ? "others stand before it now"
                 : "it waits for something else than GPUs now, or too many stand "
                   "before it"});
    else if (told)
        news.events.push_back({job, "promise moved",
                               others_before(*promise, look.departed) + ": " +
                                   promise_words(*promise, look.now.time_s)});
    else
        news.events.push_back({job, "promised", promise_words(*promise, look.now.time_s)});
    seen.told_due_s = promise == nullptr ? 0 : promise->due_s;
    seen.told_at_s = look.now.time_s;
}

PromiseWatch::News PromiseWatch::look(const Snapshot& now, const PromiseBook& book,
                                      double priority_step) {
    News news;
    forget_returned(now);
    const Look look{now, book, priority_step, departed_};
    note_passings(look, news);
    const Changes changes = take_changes(now);
    std::map<JobId, Seen> before = std::exchange(seen_, {});
    waiting_.clear();
    for (const JobState& job : now.jobs) {
        if (job.ordinary) continue;
        if (is_waiting(job)) waiting_.insert(job.id);
        const Promise* promise = book.find(job.id);
        const auto known = before.find(job.id);
        const bool lost = promise == nullptr && is_waiting(job) && known != before.end() &&
                          known->second.told_due_s > 0;
        if (promise == nullptr && !lost) continue;
        Seen& seen = seen_[job.id];
        if (known != before.end()) seen = std::move(known->second);
        if (promise != nullptr && seen.recalled_s > 0) {
            const double latest_s = promise->latest_start_s();
            seen.away = seen.recalled_s <= latest_s && latest_s < now.time_s;
            seen.recalled_s = 0;
        }
        // What came before a promise was given cannot break it.
        if (promise != nullptr && promise->given_s < now.time_s)
            note_changes(job, *promise, changes, now, seen);
        if (promise != nullptr && promise->started)
            judge(job.id, *promise, seen, news);
        else if (is_waiting(job))
            tell(job.id, promise, look, seen, news);
    }
    // It waits to be planned again, and its promise stands.
    for (auto& [job, seen] : before)
        if (!seen_.contains(job) && book.find(job) != nullptr) seen_[job] = std::move(seen);
    return news;
}

}  // namespace arena
