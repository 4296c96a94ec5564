// SPDX-License-Identifier: GPL-2.0-or-later
// See promises.h.
#include "policy/order/promises.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "policy/order/availability.h"
#include "policy/order/steps.h"

namespace arena {
namespace {

/// Waiting jobs with offers, in Slurm's order.
std::vector<std::size_t> queue_of(const Snapshot& snapshot, const Offers& offers,
                                  const SlurmOrder& order) {
    std::vector<std::size_t> queue;
    for (std::size_t j = 0; j < snapshot.jobs.size(); ++j)
        if (snapshot.jobs[j].phase == JobPhase::pending) queue.push_back(j);
    std::erase_if(queue, [&](std::size_t j) {
        const auto at = offers.find(snapshot.jobs[j].id);
        return at == offers.end() || at->second.empty();
    });
    std::sort(queue.begin(), queue.end(),
              [&](std::size_t a, std::size_t b) { return order.place[a] < order.place[b]; });
    return queue;
}

/// By place in the queue, up to the last of them, for whom there is a promise: for the first
/// ordinary jobs, and for the first other one of each step.
std::vector<bool> heads_of(const Snapshot& snapshot, const std::vector<std::size_t>& queue,
                           const SlurmOrder& order, const PromiseRules& rules) {
    std::vector<bool> heads;
    std::set<std::uint32_t> steps;
    std::size_t seen = 0;
    for (std::size_t i = 0; i < std::min(queue.size(), rules.jobs); ++i) {
        const bool is_one = snapshot.jobs[queue[i]].ordinary;
        const bool ordinary = is_one && seen++ < most_ordinary;
        const bool first =
            !is_one && std::ssize(steps) < rules.depth && steps.insert(order.step[queue[i]]).second;
        heads.push_back(ordinary || first);
    }
    while (!heads.empty() && !heads.back()) heads.pop_back();
    return heads;
}

/// While an elastic job moved, Slurm would give its nodes to an ordinary one that stands before it.
void keep_behind_ordinary(Snapshot& snapshot, const SlurmOrder& order,
                          const std::vector<std::size_t>& ordinary) {
    const auto wants_some = [&](const JobState& waiting, const std::vector<NodeIndex>& nodes) {
        const std::vector<NodeIndex>& set = snapshot.node_sets[waiting.node_set];
        return std::any_of(nodes.begin(), nodes.end(), [&](NodeIndex n) {
            return std::binary_search(set.begin(), set.end(), n);
        });
    };
    for (std::size_t j = 0; j < snapshot.jobs.size(); ++j) {
        JobState& job = snapshot.jobs[j];
        if (job.phase != JobPhase::running) continue;
        job.behind_ordinary = std::any_of(ordinary.begin(), ordinary.end(), [&](std::size_t o) {
            return order.place[o] < order.place[j] && wants_some(snapshot.jobs[o], job.nodes);
        });
    }
}

/// Of a job that has just started. Where only its limit says how much work it has, that is what it
/// was when the promise was given: a faster plan does not make it more.
double planned_end_s(const JobState& job, const Promise& promise, const PolicyOptions& options) {
    const bool is_said = job.remaining_iterations > 0 && !job.overrun;
    const double left = is_said ? job.remaining_iterations : promise.iterations;
    return job.start_s + options.restart.seconds(job.current->grid.gpus(), job.moves_took_s) +
           left * job.current->estimate.iteration_s;
}

/// Of a job that was told to leave its nodes, and has just started again: with what it was promised
/// with, it needs its share of that time that is still to do.
double end_again_s(const JobState& job, const Promise& promise, const PolicyOptions& options) {
    const double restart_s = options.restart.seconds(promise.grid.gpus(), job.moves_took_s);
    const double work_s = std::max(promise.end_s - promise.start_s - restart_s, 0.0);
    const bool is_said = job.remaining_iterations > 0 && !job.overrun;
    const double left = is_said ? job.remaining_iterations
                                : promise.iterations - (job.done_iterations - promise.done);
    const double share =
        promise.iterations > 0 ? std::clamp(left / promise.iterations, 0.0, 1.0) : 1;
    return job.start_s + restart_s + share * work_s;
}

/// In the first round that sees the job run.
double start_ends_s(const JobState& job, const Promise& promise, const PolicyOptions& options) {
    if (promise.started) return end_again_s(job, promise, options);
    const double planned_s = planned_end_s(job, promise, options);
    // Who is elastic may begin with less, and grow: it is the time of the start that counts.
    const bool grows = job.elastic || job.settles_s > 0;
    return grows ? std::min(planned_s, job.start_s + promise.end_s - promise.start_s) : planned_s;
}

/// It was told to leave, and Slurm refused that: one that leaves does not run a moment later.
bool stays(const JobState& job, const Promise& promise, double now_s) {
    constexpr double moment_s = 30;
    return job.phase == JobPhase::running && job.start_s < promise.left_s &&
           now_s > promise.left_s + moment_s;
}

/// It runs, and nobody has said yet whether this start was in time.
bool is_new_start(const JobState& job, const Promise& promise) {
    if (job.phase != JobPhase::running || !job.current || promise.broken) return false;
    if (!promise.started) return true;
    return promise.left_by != Departure::none && job.start_s >= promise.left_s;
}

}  // namespace

const Promise* PromiseBook::find(JobId job) const {
    for (const auto* known : {&promises_, &unseen_})
        if (const auto at = known->find(job); at != known->end()) return &at->second;
    return nullptr;
}

PromiseBook::Kept PromiseBook::keep() const {
    Kept kept{promises_, counts_, looked_s_};
    kept.promises.insert(unseen_.begin(), unseen_.end());
    return kept;
}

void PromiseBook::take_over(Kept kept) {
    promises_.clear();
    unseen_ = std::move(kept.promises);
    counts_ = kept.counts;
    looked_s_ = kept.looked_s;
}

void PromiseBook::note_departure(JobId job, Departure by, double now_s) {
    const auto at = promises_.find(job);
    if (at == promises_.end() || !at->second.started || at->second.broken) return;
    at->second.left_by = by;
    at->second.left_s = now_s;
    changed_ = true;
}

void PromiseBook::drop_unseen(const std::function<bool(JobId)>& awaited) {
    const auto dropped =
        std::erase_if(unseen_, [&](const auto& entry) { return !awaited(entry.first); });
    changed_ = changed_ || dropped > 0;
    erase_if([&](const auto& entry) {
        return entry.second.left_by != Departure::none && !awaited(entry.first);
    });
}

bool PromiseBook::has_open() const {
    return std::any_of(promises_.begin(), promises_.end(),
                       [](const auto& entry) { return !entry.second.started; });
}

void PromiseBook::see(const Snapshot& snapshot) {
    if (unseen_.empty()) return;
    for (const JobState& job : snapshot.jobs) {
        const auto at = unseen_.find(job.id);
        if (at == unseen_.end()) continue;
        if (std::abs(at->second.submit_s - job.submit_s) < 1) {
            promises_.insert(unseen_.extract(at));
        } else {
            unseen_.erase(at);
            changed_ = true;
        }
    }
}

/// Who has started since, and who is gone. A start counts with the work that the job had then: it
/// is asked in the first round that sees it run. A decision comes a round late at most.
void PromiseBook::settle(const Snapshot& snapshot, const PolicyOptions& options) {
    std::set<JobId> here;
    for (const JobState& job : snapshot.jobs) {
        const auto at = promises_.find(job.id);
        if (at == promises_.end()) continue;
        here.insert(job.id);
        Promise& known = at->second;
        changed_ = changed_ || known.submit_s != job.submit_s;  // a requeue is a submission
        known.submit_s = job.submit_s;
        if (stays(job, known, snapshot.time_s)) known.left_by = Departure::none;
        if (!is_new_start(job, known)) continue;
        const double late_s = std::max(options.window_s, snapshot.time_s - looked_s_) + 1;
        known.broken = start_ends_s(job, known, options) > known.due_s + late_s;
        // One that started before slurmctld did was not counted.
        if (known.started && counts_.kept > 0) --counts_.kept;
        ++(known.broken ? counts_.broken : counts_.kept);
        known.started = changed_ = true;
        if (!known.broken) known.left_by = Departure::none;
    }
    erase_if([&](const auto& entry) {
        return !here.contains(entry.first) && entry.second.left_by == Departure::none;
    });
    looked_s_ = snapshot.time_s;
}

Promise PromiseBook::promise_of(const Task& task, const Availability::Start& start,
                                std::vector<JobId> ahead, double now_s) const {
    Promise made;
    made.submit_s = task.job->submit_s;
    made.given_s = now_s;
    made.start_s = now_s + start.in_s;
    made.end_s = made.start_s + start.run_s;
    // Without slack it is the very end that starts are held against: these are reckoned from now.
    constexpr double rounding_s = 1e-3;
    const double slack = task.job->ordinary ? 0 : rules_.slack;
    made.due_s =
        made.end_s + std::max(slack * (made.end_s - (now_s - task.job->age_s)), rounding_s);
    made.grid = *start.offer;
    made.iterations = task.remaining;
    made.done = task.job->done_iterations;
    made.ahead = std::move(ahead);
    std::sort(made.ahead.begin(), made.ahead.end());
    return made;
}

void PromiseBook::promise(const JobState& job, const Promise& made) {
    const auto [at, is_new] = promises_.try_emplace(job.id, made);
    Promise& known = at->second;
    if (is_new) {
        if (!job.ordinary) ++counts_.given;
        changed_ = true;
        return;
    }
    if (known.left_by != Departure::none) return;
    known.iterations = made.iterations;
    known.done = made.done;
    const bool others_before = !std::includes(known.ahead.begin(), known.ahead.end(),
                                              made.ahead.begin(), made.ahead.end());
    if (made.due_s > known.due_s && !others_before) return;
    changed_ = changed_ || std::abs(made.due_s - known.due_s) >= 1 || made.grid != known.grid ||
               made.ahead != known.ahead;
    const double given_s = known.given_s;
    const bool started = known.started, broken = known.broken;
    known = made;
    known.given_s = given_s;
    known.started = started;
    known.broken = broken;
}

bool PromiseBook::waits_in_vain(JobId ordinary, double now_s) const {
    const auto known = in_vain_.find(ordinary);
    return known != in_vain_.end() && now_s < known->second.until_s;
}

/// Slurm starts an ordinary job in a pass of its backfill. Where it has not long after it could
/// have, the job waits for something that is not seen here, and keeps nobody from anything: for a
/// while, and each time for twice as long.
void PromiseBook::drop_vain(const Snapshot& snapshot) {
    constexpr double passes_s = 120, first_s = 600, longest_s = 86400;
    std::set<JobId> here;
    for (const JobState& job : snapshot.jobs) {
        if (!job.ordinary) continue;
        here.insert(job.id);
        const auto at = promises_.find(job.id);
        if (at == promises_.end() || snapshot.time_s <= at->second.latest_start_s() + passes_s)
            continue;
        Vain& vain = in_vain_[job.id];
        vain.until_s = snapshot.time_s + std::min(std::ldexp(first_s, vain.times), longest_s);
        vain.times = std::min(vain.times + 1, 10);
        promises_.erase(at);
        changed_ = true;
    }
    std::erase_if(in_vain_, [&](const auto& entry) { return !here.contains(entry.first); });
}

/// Its nodes are not free as early as was reckoned: the next promise is a new one.
void PromiseBook::forget_missed(JobId ordinary, double now_s) {
    const auto at = promises_.find(ordinary);
    if (at == promises_.end() || now_s <= at->second.latest_start_s()) return;
    promises_.erase(at);
    changed_ = true;
}

void PromiseBook::give(Snapshot& snapshot, const Offers& offers, const PolicyOptions& options,
                       const std::function<bool(JobId)>& may_have) {
    for (JobState& job : snapshot.jobs) job.due_s = 0;
    if (options.order != QueueOrder::priority || rules_.depth <= 0) {
        changed_ = changed_ || !unseen_.empty();
        unseen_.clear();
        return erase_if([](const auto&) { return true; });
    }
    see(snapshot);
    settle(snapshot, options);
    const SlurmOrder order = order_of(snapshot, options.priority_step);
    std::vector<std::size_t> queue = queue_of(snapshot, offers, order);
    const auto waits = [&](const JobState& job) {
        return job.ordinary || !may_have || may_have(job.id);
    };
    std::erase_if(queue, [&](std::size_t j) { return !waits(snapshot.jobs[j]); });
    const std::vector<bool> heads = heads_of(snapshot, queue, order, rules_);
    queue.resize(heads.size());
    std::vector<bool> left_out(snapshot.jobs.size(), true);
    for (const std::size_t j : queue) left_out[j] = false;
    const Problem problem(snapshot, offers, options, Scope::layouts, left_out);
    std::vector<const Task*> task_of(snapshot.jobs.size());
    for (const Task& task : problem.tasks()) task_of[problem.job_of(task)] = &task;

    std::set<JobId> first;
    std::vector<JobId> ahead;
    std::vector<std::size_t> ordinary;  // that start once their nodes are free
    Availability free(problem);
    for (std::size_t i = 0; i < queue.size(); ++i) {
        const JobState& job = snapshot.jobs[queue[i]];
        if (heads[i]) first.insert(job.id);
        if (free.steps() > options.search_steps) continue;
        const Task* task = task_of[queue[i]];
        const Availability::Start start =
            task == nullptr ? Availability::Start{} : free.in_slurm(*task);
        if (start.choice != nullptr && job.ordinary) ordinary.push_back(queue[i]);
        const bool is_known = start.choice != nullptr && start.in_s < Availability::guessed_s;
        if (is_known) {
            free.take(*task, start);
            if (job.ordinary && start.in_s > 0) forget_missed(job.id, snapshot.time_s);
        }
        // Others give way for an ordinary one, however late it may be.
        const bool counts = is_known || (job.ordinary && start.choice != nullptr);
        if (heads[i] && counts && !waits_in_vain(job.id, snapshot.time_s))
            promise(job, promise_of(*task, start, ahead, snapshot.time_s));
        // Who stands behind one that wants its nodes has no promise, and others' are not moved.
        if (!job.ordinary) ahead.push_back(job.id);
    }
    erase_if(
        [&](const auto& entry) { return !entry.second.started && !first.contains(entry.first); });
    drop_vain(snapshot);
    for (JobState& job : snapshot.jobs) {
        if (job.phase != JobPhase::running && !waits(job)) continue;
        if (const Promise* known = find(job.id)) job.due_s = known->due_s;
    }
    std::erase_if(ordinary, [&](std::size_t j) {
        return waits_in_vain(snapshot.jobs[j].id, snapshot.time_s);
    });
    keep_behind_ordinary(snapshot, order, ordinary);
}

}  // namespace arena
