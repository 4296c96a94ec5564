// SPDX-License-Identifier: GPL-2.0-or-later
// See shadow.h: how far the shadow's clock may go. What a job has to do is known when Slurm's run
// of it is over; until then the run shows that it has at least so much to do as it has done. So a
// run in the plan has an end that is known, or a time before which it cannot end, and the clock
// stands at the least of these: as a conservative parallel simulation does (Chandy, Misra, CACM
// 1981).
#include <algorithm>
#include <cmath>

#include "plugin/sched/observe/shadow.h"

namespace arena {
namespace {

/// Far behind, time goes on in larger steps: while nothing happens, and very far behind always, for
/// a round may take longer than what happens takes to happen.
constexpr double steps_behind = 1000, far_behind_s = 3600;

/// In the shape that Slurm gave it: of offers of as many GPUs of its type the fastest, those of its
/// layout first; 0 = there is none.
double iteration_s_on(const Grid& grid, const std::vector<Offer>& offers) {
    double same = 0, alike = 0;
    const auto take = [](double& least, double iteration_s) {
        if (least == 0 || iteration_s < least) least = iteration_s;
    };
    for (const Offer& offer : offers) {
        if (offer.grid.gpu_type != grid.gpu_type || offer.grid.gpus() != grid.gpus()) continue;
        take(alike, offer.estimate.iteration_s);
        if (offer.grid.nodes == grid.nodes) take(same, offer.estimate.iteration_s);
    }
    return same > 0 ? same : alike;
}

}  // namespace

void Shadow::note_work(JobId id, Work work, const std::vector<Offer>& offers) {
    Job* job = find(id);
    if (job == nullptr) return;
    const bool ran = job->line.actual.start_s > 0;
    work.actual_iteration_s = ran ? iteration_s_on(job->grid, offers) : 0;
    if (work.actual_iteration_s <= 0) work.actual_iteration_s = job->work.actual_iteration_s;
    job->work = work;
    job->considered_s = time_.clock_s;
    const double iteration_s = job->shape.offer.estimate.iteration_s;
    if (job->planned != Planned::runs || work.remaining_iterations <= 0 || iteration_s <= 0) return;
    const double again_s =
        job->mark.restart > 0 ? std::max(job->since_s + work.restart_s - time_.clock_s, 0.0) : 0;
    job->believed_s = time_.clock_s + again_s + work.remaining_iterations * iteration_s;
}

/// That its run in the plan takes at least, by what Slurm's run has shown.
double Shadow::run_s(const Job& job) const {
    const DiaryRun& theirs = job.line.actual;
    double ran_s = 0;
    // Of one that was requeued its last life counts.
    const double since_s = job.life_s > 0 ? job.life_s : theirs.start_s;
    if (job.actual == Actual::over)
        ran_s = theirs.end_s - since_s;
    else if (since_s > 0)
        ran_s = job.running_s - since_s;
    ran_s = std::max(ran_s, 0.0);
    const double iteration_s = job.shape.offer.estimate.iteration_s;
    const double actual_s = job.work.actual_iteration_s;
    const double again_s = job.mark.restart > 0 ? job.work.restart_s : 0;
    if (iteration_s <= 0 || actual_s <= 0) return again_s + ran_s;
    const double left = ran_s / actual_s - static_cast<double>(job.done);
    return again_s + std::max(left, 0.0) * iteration_s;
}

/// The clock is there at least.
double Shadow::least_s() const {
    return time_.now_s - (jobs_.size() > most_open ? 0 : most_behind_s);
}

Shadow::End Shadow::end_of(const Job& job) const {
    const bool ran = job.line.actual.start_s > 0;
    const double limit_s =
        job.view.time_limit_s > 0 ? job.since_s + job.view.time_limit_s : INFINITY;
    if (job.actual == Actual::over && !ran) {  // cancelled while it waited
        const double most_s =
            job.planned == Planned::runs ? std::min(limit_s, job.believed_s) : INFINITY;
        return {std::max(std::min(job.line.actual.end_s, most_s), job.since_s), true};
    }
    if (job.planned != Planned::runs) return {};
    const double at_s = job.since_s + run_s(job);
    if (at_s >= limit_s) return {limit_s, true};
    if (job.actual == Actual::over) return {at_s, job.cleared_s.has_value()};
    if (at_s >= least_s()) return {at_s, false};
    return {std::min(std::max(job.believed_s, at_s), limit_s), true};  // it could not wait so long
}

bool Shadow::is_shown(const Job& job) const {
    return job.planned != Planned::as_it_is && job.planned != Planned::over &&
           job.seen_s <= time_.clock_s;
}

void Shadow::look_at(const Job& job, Ahead& ahead) const {
    if (job.planned == Planned::as_it_is || job.planned == Planned::over) return;
    const auto happens = [&](double at_s) { ahead.event_s = std::min(ahead.event_s, at_s); };
    if (!is_shown(job)) return happens(job.seen_s);
    const double eligible_s = job.line.eligible_s;
    if (eligible_s > time_.clock_s && eligible_s <= time_.now_s) happens(eligible_s);
    const End end = end_of(job);
    if (end.is_known) happens(end.at_s + job.cleared_s.value_or(0));
    if (!end.is_known && end.at_s < ahead.horizon_s) {
        ahead.horizon_s = end.at_s;
        ahead.waits_for = job.line.job;
    }
    ahead.waits = ahead.waits || job.planned != Planned::runs;
}

Shadow::Ahead Shadow::look_ahead() const {
    Ahead ahead{.event_s = others_.next_change(time_.clock_s), .horizon_s = time_.now_s};
    for (const auto& [id, job] : jobs_) look_at(job, ahead);
    ahead.horizon_s = std::max(ahead.horizon_s, least_s());
    return ahead;
}

/// Infinite: nothing is known to happen.
double Shadow::next_time(const Ahead& ahead, double interval_s) const {
    const double behind_s = time_.now_s - time_.clock_s, together_s = behind_s / steps_behind;
    const double event_s = behind_s > far_behind_s
                               ? std::max(ahead.event_s, time_.clock_s + together_s)
                               : ahead.event_s;
    if (!ahead.waits) return event_s;
    return std::min(event_s, time_.clock_s + std::max(interval_s, together_s));
}

bool Shadow::is_due(double interval_s) const {
    const Ahead ahead = look_ahead();
    return next_time(ahead, interval_s) <= ahead.horizon_s;
}

void Shadow::end_due(ClusterView& view) {
    for (auto& [id, job] : jobs_) {
        if (job.planned == Planned::as_it_is || job.planned == Planned::over) continue;
        const End at = end_of(job);
        if (!at.is_known || at.at_s + job.cleared_s.value_or(0) > time_.clock_s) continue;
        if (job.planned == Planned::runs && job.ended_well) {
            EndedJob& ended = view.ended.emplace_back();
            ended.job = job.view;
            ended.job.facts.mark = job.mark;
            ended.job.offer_json = to_json(job.shape.offer);
            ended.job.start_s = job.since_s;
            ended.end_s = at.at_s;
            ended.by_limit =
                job.view.time_limit_s > 0 && at.at_s >= job.since_s + job.view.time_limit_s;
        }
        end(job, at.at_s);
    }
}

Shadow::Counts Shadow::counts() const {
    Counts counts = counts_;
    counts.now_s = time_.now_s;
    counts.behind_s = std::max(time_.now_s - time_.clock_s, 0.0);
    return counts;
}

}  // namespace arena
