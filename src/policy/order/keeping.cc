// SPDX-License-Identifier: GPL-2.0-or-later
// See keeping.h.
#include "policy/order/keeping.h"

#include <algorithm>

#include "policy/order/availability.h"

namespace arena {
namespace {

class Keeper {
  public:
    Keeper(const Problem& problem, const SlurmOrder& order) : problem_(problem), order_(order) {
        result_.now.assign(problem.tasks().size(), false);
        std::size_t choices = 0;
        for (const Task& task : problem.tasks())
            choices = std::max<std::size_t>(choices, task.first_choice + task.choice_count);
        result_.late.assign(choices, false);
    }
    Keeping run();

  private:
    struct Way {
        Availability::Start start;
        double run_s = 0, gpu_s = 0;
    };
    [[nodiscard]] std::size_t job_of(const Task& task) const {
        return static_cast<std::size_t>(task.job - problem_.snapshot().jobs.data());
    }
    [[nodiscard]] double left_s(const Task& task) const {
        return task.job->due_s - problem_.snapshot().time_s;
    }
    [[nodiscard]] double run_s(const Task& task, const Choice& choice, bool here) const {
        return Problem::time_left_s(task, choice) +
               (here ? problem_.restart_left_s(task)
                     : problem_.options().restart.seconds(choice.gpus));
    }
    void keep_running(std::size_t i);
    void hold_for(std::size_t i);
    void hold(const Task&, const Way&, const Availability&, std::vector<bool> gives_way);
    [[nodiscard]] std::vector<bool> who_gives_way(const Task&) const;

    const Problem& problem_;
    const SlurmOrder& order_;
    Keeping result_;
    std::vector<std::pair<const Task*, Way>> held_;
};

/// Elastic, and behind: on its feet again when the promised job has ended, or elsewhere.
std::vector<bool> Keeper::who_gives_way(const Task& task) const {
    const auto& jobs = problem_.snapshot().jobs;
    const std::uint32_t place = order_.place[job_of(task)];
    std::vector<bool> gives_way(jobs.size(), false);
    for (const Task& other : problem_.tasks()) {
        const std::size_t j = job_of(other);
        gives_way[j] = other.job->elastic && order_.place[j] > place;
    }
    return gives_way;
}

/// A job that runs has its promise, too: it may be stopped or changed as far as that stands.
void Keeper::keep_running(std::size_t i) {
    const Task& task = problem_.tasks()[i];
    const double window_s = problem_.options().window_s;
    double fastest_s = 0;
    bool in_time = false;
    for (std::size_t c = 0; c < task.choice_count; ++c) {
        const std::size_t at = task.first_choice + c;
        const Choice& choice = problem_.choices(task)[c];
        const bool here = static_cast<std::int32_t>(at) == task.current;
        const double time_s = run_s(task, choice, here);
        result_.late[at] = time_s > left_s(task) && !here;
        in_time = in_time || time_s <= left_s(task);
        if (fastest_s == 0 || time_s < fastest_s) fastest_s = time_s;
    }
    result_.now[i] = !in_time || fastest_s + window_s > left_s(task);
}

void Keeper::hold(const Task& task, const Way& way, const Availability& free,
                  std::vector<bool> gives_way) {
    if (result_.holds.all.size() == Holds::most) return;
    const double now_s = problem_.snapshot().time_s;
    const double from_s = std::max(task.job->due_s - way.run_s, now_s + way.start.in_s);
    const auto number = static_cast<std::uint32_t>(result_.holds.all.size());
    result_.holds.all.push_back({task.job->id, from_s, std::move(gives_way)});
    const JobState& job = *task.job;
    for (const NodeIndex n : way.start.nodes) {
        Resources left = free.free_at(n, from_s - now_s);
        left.gpus -= way.start.gpus_per_node;
        left.cpus -= way.start.gpus_per_node * job.cpus_per_gpu;
        left.memory_mb -= way.start.gpus_per_node * job.memory_mb_per_gpu;
        result_.holds.spares.push_back({n, number, left});
    }
}

void Keeper::hold_for(std::size_t i) {
    const Task& task = problem_.tasks()[i];
    std::vector<bool> gives_way = who_gives_way(task);
    Availability free(problem_, [&](std::size_t j) { return gives_way[j]; });
    for (const auto& [other, way] : held_) free.take(*other, way.start, way.run_s);
    Way best, first;
    for (std::size_t c = 0; c < task.choice_count; ++c) {
        const Choice& choice = problem_.choices(task)[c];
        const double time_s = run_s(task, choice, false);
        const bool late = time_s > left_s(task);
        result_.late[task.first_choice + c] = late;
        if (late && best.start.choice != nullptr) continue;
        Way way{free.earliest(task, choice, time_s), time_s,
                time_s * static_cast<double>(choice.gpus)};
        if (way.start.choice == nullptr) continue;
        const double end_s = way.start.in_s + time_s;
        if (end_s <= left_s(task) && (best.start.choice == nullptr || way.gpu_s < best.gpu_s))
            best = way;
        if (first.start.choice == nullptr || end_s < first.start.in_s + first.run_s)
            first = std::move(way);
    }
    const bool lost = best.start.choice == nullptr;
    if (lost) best = std::move(first);
    if (best.start.choice == nullptr) return;  // no nodes could hold it now
    if (lost)
        for (std::size_t c = 0; c < task.choice_count; ++c)
            result_.late[task.first_choice + c] = &problem_.choices(task)[c] != best.start.choice;
    hold(task, best, free, std::move(gives_way));
    const double in_s = result_.holds.all.back().from_s - problem_.snapshot().time_s;
    result_.now[i] = best.start.in_s <= 0 && in_s <= problem_.options().window_s;
    best.start.in_s = std::max(best.start.in_s, 0.0);
    held_.emplace_back(&task, std::move(best));
}

Keeping Keeper::run() {
    std::vector<std::pair<std::uint32_t, std::size_t>> waiting;
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        const Task& task = problem_.tasks()[i];
        if (task.job->due_s <= 0) continue;
        if (task.runs()) {
            keep_running(i);
        } else {
            waiting.emplace_back(order_.place[job_of(task)], i);
        }
    }
    std::sort(waiting.begin(), waiting.end());
    for (const auto& [place, i] : waiting) hold_for(i);
    auto& spares = result_.holds.spares;
    std::stable_sort(spares.begin(), spares.end(),
                     [](const Spare& a, const Spare& b) { return a.node < b.node; });
    return std::move(result_);
}

}  // namespace

Keeping keep_promises(const Problem& problem, const SlurmOrder& order) {
    return Keeper(problem, order).run();
}

}  // namespace arena
