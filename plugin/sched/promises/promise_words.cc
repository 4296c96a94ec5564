// SPDX-License-Identifier: GPL-2.0-or-later
// See promise_words.h.
#include "plugin/sched/promises/promise_words.h"

#include <fmt/format.h>

#include <cmath>

#include "base/count_text.h"
#include "base/text.h"
#include "policy/order/steps.h"

namespace arena {
namespace {

Json passings_json(const std::vector<Passing>& passings, const SeesJob& sees) {
    Json list = Json::array();
    for (const Passing& passing : passings) {
        list.push_back({{"job", nullptr},
                        {"at_s", passing.at_s},
                        {"grid", short_form(passing.grid)},
                        {"why", passing.why}});
        if (sees(passing.job)) list.back()["job"] = passing.job;
    }
    return list;
}

std::string behind_words(const BehindPromise& behind, const std::string& name) {
    return behind.same_step
               ? fmt::format(
                     "nothing: {} stands first of its step of priority, and has the "
                     "promise",
                     name)
               : fmt::format("nothing: it stands behind {}, which has a promise", name);
}

std::string_view why_left(Departure by) {
    return by == Departure::slow_node ? ", for it has left a slow node"
           : by == Departure::reclaim ? ", for it gave lent nodes back"
                                      : "";
}

}  // namespace

std::string due_text(const Promise& promise) { return utc_time(std::ceil(promise.due_s)); }

std::string promise_words(const Promise& promise, double now_s) {
    const double latest_s = promise.latest_start_s();
    if (promise.broken)
        return fmt::format("was to end by {} UTC, and started too late for that{}",
                           due_text(promise), why_left(promise.left_by));
    if (!promise.started && now_s > latest_s + 1)
        return fmt::format(
            "was to end by {} UTC, for which {} had to start by {} UTC: it starts as soon as it "
            "can",
            due_text(promise), short_form(promise.grid), utc_time(std::ceil(latest_s)));
    return fmt::format(
        "ends by {} UTC at the latest; in Slurm's own order it would start at {} UTC with {} and "
        "run for {}, as is believed",
        due_text(promise), utc_time(promise.start_s), short_form(promise.grid),
        human_seconds(promise.end_s - promise.start_s));
}

BehindPromise behind_promise(const Snapshot& snapshot, const PromiseBook& book,
                             double priority_step, JobId id) {
    const SlurmOrder order = order_of(snapshot, priority_step);
    std::size_t own = snapshot.jobs.size(), last = own;
    for (std::size_t j = 0; j < snapshot.jobs.size(); ++j)
        if (snapshot.jobs[j].id == id) own = j;
    if (own == snapshot.jobs.size() || snapshot.jobs[own].phase != JobPhase::pending) return {};
    for (std::size_t j = 0; j < snapshot.jobs.size(); ++j) {
        const JobState& job = snapshot.jobs[j];
        if (job.phase != JobPhase::pending || job.ordinary) continue;
        if (order.place[j] >= order.place[own]) continue;
        if (book.find(job.id) == nullptr) continue;
        if (last == snapshot.jobs.size() || order.place[j] > order.place[last]) last = j;
    }
    if (last == snapshot.jobs.size()) return {};
    return {snapshot.jobs[last].id, order.step[last] == order.step[own]};
}

Json promise_json(const Promises& promises, JobId job, const SeesJob& sees) {
    if (const Promise* promise = promises.book.find(job))
        return {{"words", promise_words(*promise, promises.snapshot.time_s)},
                {"ends_by_s", promise->due_s},
                {"slurm_start_s", promise->start_s},
                {"slurm_end_s", promise->end_s},
                {"grid", short_form(promise->grid)},
                {"given_s", promise->given_s},
                {"passed", passings_json(promises.watch.passings(job), sees)}};
    const BehindPromise behind =
        behind_promise(promises.snapshot, promises.book, promises.priority_step, job);
    if (behind.job == 0) return nullptr;
    const bool known = sees(behind.job);
    const std::string name = known ? fmt::format("JobId={}", behind.job) : "another job";
    Json json{{"words", behind_words(behind, name)},
              {"behind", nullptr},
              {"same_step", behind.same_step}};
    if (known) json["behind"] = behind.job;
    return json;
}

Json promise_counts_json(const PromiseBook& book, const PromiseWatch& watch) {
    const PromiseCounts& counts = book.counts();
    const PromiseWatch::Broken& broken = watch.broken();
    return {{"given", counts.given},
            {"kept", counts.kept},
            {"broken", counts.broken},
            {"broken_by",
             {{"nodes_down", broken.nodes_down},
              {"nodes_returned", broken.nodes_returned},
              {"slow_nodes", broken.slow_nodes},
              {"limits_raised", broken.limits_raised},
              {"away", broken.away},
              {"others", broken.others}}}};
}

}  // namespace arena
