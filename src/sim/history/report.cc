// SPDX-License-Identifier: GPL-2.0-or-later
// A recorded month in numbers: see report.h.
#include "sim/history/report.h"

#include <algorithm>
#include <cmath>

namespace arena::sim {
namespace {

const Offer& asked_of(const Workload& workload, const SimJob& job) {
    return workload.profiles[job.profile].offers[job.asked];
}

}  // namespace

Metrics metrics_as_recorded(const Workload& workload) {
    Metrics m;
    m.policy = "as it was";
    m.jobs = m.finished = m.restarts = std::ssize(workload.jobs);
    m.dropped = workload.dropped;
    std::vector<double> jct, queuing;
    double held_gpu_s = 0;
    for (const SimJob& job : workload.jobs) {
        const Offer& asked = asked_of(workload, job);
        const double run_s = job.iterations * asked.estimate.iteration_s;
        JobOutcome& out = m.outcomes.emplace_back();
        out.finished = true;
        out.restarts = 1;
        out.queuing_s = std::max(0.0, job.started_s - job.submit_s);
        out.jct_s = out.queuing_s + run_s;
        jct.push_back(out.jct_s);
        queuing.push_back(out.queuing_s);
        held_gpu_s += run_s * static_cast<double>(asked.grid.gpus());
        m.makespan_s = std::max(m.makespan_s, job.started_s + run_s);
    }
    m.jct_s = spread_of(std::move(jct));
    m.queuing_s = spread_of(std::move(queuing));
    if (m.makespan_s > 0)
        m.gpu_utilization = held_gpu_s / (static_cast<double>(workload.gpus()) * m.makespan_s);
    return m;
}

Sides sides_of(const Workload& workload, const Metrics& run, const Metrics& other) {
    Sides out;
    double models = 0, ordinary = 0;
    const std::size_t count = std::min(run.outcomes.size(), other.outcomes.size());
    for (std::size_t i = 0; i < count; ++i) {
        const JobOutcome& outcome = run.outcomes[i];
        const bool rigid = workload.jobs[i].rigid;
        (rigid ? ordinary : models) += 1;
        (rigid ? out.ordinary_jct_s : out.model_jct_s) += outcome.jct_s;
        if (!rigid) continue;
        out.ordinary_wait_s += outcome.queuing_s;
        out.ordinary_later += outcome.jct_s > 1.1 * other.outcomes[i].jct_s ? 1 : 0;
    }
    out.model_jct_s /= std::max(models, 1.0);
    for (double* sum : {&out.ordinary_jct_s, &out.ordinary_wait_s, &out.ordinary_later})
        *sum /= std::max(ordinary, 1.0);
    return out;
}

ReplayError replay_error(const Workload& workload, const Metrics& replay, double within_s) {
    ReplayError out;
    out.within_s = within_s;
    std::vector<double> off_s;
    std::int64_t earlier = 0, later = 0;
    const std::size_t count = std::min(workload.jobs.size(), replay.outcomes.size());
    for (std::size_t i = 0; i < count; ++i) {
        const SimJob& job = workload.jobs[i];
        if (job.started_s < 0) continue;
        const double off = job.submit_s + replay.outcomes[i].queuing_s - job.started_s;
        earlier += off < -within_s ? 1 : 0;
        later += off > within_s ? 1 : 0;
        off_s.push_back(std::abs(off));
    }
    out.jobs = std::ssize(off_s);
    const auto all = static_cast<double>(std::max<std::int64_t>(1, out.jobs));
    out.earlier = static_cast<double>(earlier) / all;
    out.later = static_cast<double>(later) / all;
    out.met = 1 - out.earlier - out.later;
    out.off_s = spread_of(std::move(off_s));
    return out;
}

}  // namespace arena::sim
