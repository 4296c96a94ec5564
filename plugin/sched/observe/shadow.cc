// SPDX-License-Identifier: GPL-2.0-or-later
// See shadow.h: what the round does, and what becomes of jobs with time.
#include "plugin/sched/observe/shadow.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace arena {

Shadow::Job* Shadow::find(JobId id) {
    const auto at = jobs_.find(id);
    return at == jobs_.end() ? nullptr : &at->second;
}

bool Shadow::is_planned(JobId id) const {
    const auto at = jobs_.find(id);
    return at != jobs_.end() && at->second.planned != Planned::as_it_is;
}

// ---- what the round does ----

Shadow::Held Shadow::part_of(const Shape& shape, const std::string& node, std::size_t n) {
    const Grid& grid = shape.offer.grid;
    Held held{.node = node,
              .gpu_type = grid.gpu_type,
              .gpus = grid.gpus_on(n),
              .cpus = 0,
              .memory_mb = shape.memory_mb_per_node};
    const bool task_per_gpu = grid.is_uneven() && shape.tasks_per_node != 1;
    const std::int64_t tasks = task_per_gpu ? held.gpus : shape.tasks_per_node;
    held.cpus =
        shape.cpus_per_gpu > 0 ? shape.cpus_per_gpu * held.gpus : shape.cpus_per_task * tasks;
    if (shape.memory_mb_per_cpu > 0) held.memory_mb = shape.memory_mb_per_cpu * held.cpus;
    if (shape.memory_mb_per_gpu > 0) held.memory_mb = shape.memory_mb_per_gpu * held.gpus;
    return held;
}

ApplyResult Shadow::start(const Shape& shape, const std::vector<std::string>& nodes) {
    Job* job = find(shape.job);
    const bool waits =
        job != nullptr && (job->planned == Planned::waits || job->planned == Planned::released);
    if (!waits) return {ApplyOutcome::stale, "it does not wait"};
    run(*job, shape, nodes);
    return {};
}

void Shadow::run(Job& job, const Shape& shape, const std::vector<std::string>& nodes) {
    job.held.clear();
    for (std::size_t n = 0; n < nodes.size(); ++n) job.held.push_back(part_of(shape, nodes[n], n));
    job.planned = Planned::runs;
    job.shape = shape;
    job.since_s = time_.clock_s;
    job.done = job.mark.done;
    job.mark.phase = Phase::started;
    job.mark.since = static_cast<std::int64_t>(time_.clock_s);
    DiaryRun& run = job.line.planned;
    if (run.start_s == 0) run.start_s = time_.clock_s;
    run.grid = short_form(shape.offer.grid);
    job.believed_s = job.view.time_limit_s > 0 ? job.since_s + job.view.time_limit_s : INFINITY;
    news_.starts.push_back(
        time_.now_s - time_.clock_s < 1
            ? fmt::format("observing: JobId={} would start now on {}", job.line.job, run.grid)
            : fmt::format("observing: JobId={} would have started {} ago on {}", job.line.job,
                          human_seconds(time_.now_s - time_.clock_s), run.grid));
}

ApplyResult Shadow::release(const Shape& shape) {
    Job* job = find(shape.job);
    if (job == nullptr) return {ApplyOutcome::stale, "it does not wait"};
    job->planned = Planned::released;
    job->shape = shape;
    job->mark.phase = Phase::released;
    return {};
}

void Shadow::hold_again(JobId id) {
    Job* job = find(id);
    if (job == nullptr || job->planned != Planned::released) return;
    job->planned = Planned::waits;
    job->mark.phase = Phase::held;
}

void Shadow::leave(JobId id, std::int64_t done, bool counts) {
    Job* job = find(id);
    if (job == nullptr) return;
    if (job->planned == Planned::as_it_is) {  // the same in both worlds until now
        DiaryRun& planned = job->line.planned;
        planned = job->line.actual;
        planned.gpu_s =
            static_cast<double>(job->grid.gpus()) * std::max(time_.clock_s - planned.start_s, 0.0);
        job->since_s = time_.clock_s;
        others_.forget(id);
    }
    stop(*job, time_.clock_s);
    job->planned = Planned::waits;
    const std::uint32_t life = job->mark.restart + 1;
    job->mark = next_mark(job->mark, Phase::checkpointing, job->mark.restart, OtherHold::none,
                          static_cast<std::int64_t>(time_.clock_s));
    job->mark.leaves_at = 0;  // nothing is learnt of a move that costs nothing here
    if (counts) add_move(job->mark, static_cast<std::int64_t>(time_.clock_s));
    job->mark = left_saved(job->mark, life, static_cast<std::int64_t>(time_.clock_s));
    job->mark.phase = Phase::held;
    job->mark.done = done;
    ++job->line.moves;
}

void Shadow::opt_out(JobId id) {
    if (Job* job = find(id)) job->planned = Planned::as_it_is;
}

/// Gives its nodes back.
void Shadow::stop(Job& job, double at_s) {
    if (job.planned == Planned::runs)
        job.line.planned.gpu_s +=
            static_cast<double>(job.shape.offer.grid.gpus()) * std::max(at_s - job.since_s, 0.0);
    job.held.clear();
}

void Shadow::end(Job& job, double at_s) {
    stop(job, at_s);
    job.planned = Planned::over;
    job.line.planned.end_s = at_s;
}

bool Shadow::has_jobs() const {
    return std::any_of(jobs_.begin(), jobs_.end(), [](const auto& entry) {
        return entry.second.actual != Actual::over || entry.second.planned != Planned::over;
    });
}

// ---- the diary ----

std::optional<DiaryLine> Shadow::line(JobId id) const {
    const auto at = jobs_.find(id);
    if (at != jobs_.end() && at->second.planned != Planned::as_it_is) return at->second.line;
    const auto& past = diary_.lines();
    const auto old = std::find_if(past.rbegin(), past.rend(),
                                  [&](const DiaryLine& line) { return line.job == id; });
    return old == past.rend() ? std::nullopt : std::optional(*old);
}

void Shadow::visit(const std::function<void(const DiaryLine&)>& visit) const {
    for (const auto& [id, job] : jobs_)
        if (job.planned != Planned::as_it_is) visit(job.line);
}

void Shadow::tell() {
    for (auto& [id, job] : jobs_) {
        const bool both = job.line.actual.start_s > 0 && job.line.planned.start_s > 0;
        if (!both || std::exchange(job.told, true)) continue;
        news_.both.push_back(job.line);
    }
}

/// What is over in both worlds is written; one that never ran in one of them says nothing.
void Shadow::close() {
    for (auto at = jobs_.begin(); at != jobs_.end();) {
        Job& job = at->second;
        const bool over = job.actual == Actual::over && job.cleared_s &&
                          (job.planned == Planned::over || job.planned == Planned::as_it_is);
        if (!over) {
            ++at;
            continue;
        }
        const DiaryLine& line = job.line;
        if (job.planned == Planned::over && line.actual.start_s > 0 && line.planned.start_s > 0)
            write(line);
        at = jobs_.erase(at);
    }
    leave_out();
}

void Shadow::write(const DiaryLine& line) {
    const Status kept = diary_.write(line);
    if (!kept && !write_failed_)
        news_.problem = kept.error().message() + ": it is forgotten when slurmctld ends";
    write_failed_ = !kept;
}

/// Who is over in reality waits in the plan for its turn, but not for ever.
void Shadow::leave_out() {
    std::vector<std::pair<double, JobId>> behind;  // by their ends
    for (const auto& [id, job] : jobs_) {
        if (job.actual != Actual::over || job.line.actual.end_s > time_.clock_s) continue;
        if (job.planned == Planned::waits || job.planned == Planned::released)
            behind.emplace_back(job.line.actual.end_s, id);
    }
    std::sort(behind.begin(), behind.end());
    const std::size_t over = behind.size() - std::min(behind.size(), most_behind);
    for (std::size_t i = 0; i < behind.size(); ++i) {
        const double known_s = std::max(behind[i].first, jobs_.at(behind[i].second).considered_s);
        if (i >= over && time_.clock_s - known_s < gives_up_s) continue;
        jobs_.erase(behind[i].second);
        ++counts_.left_out;
    }
}

}  // namespace arena
