// SPDX-License-Identifier: GPL-2.0-or-later
// See books.h.
#include "plugin/sched/round/books.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "plugin/sched/host/move_end.h"
#include "policy/arena/slurm_policies.h"

namespace arena {
namespace {

/// A batch launch in the second of the last kill is refused by slurmd: wait for a later one.
constexpr double launch_pause_s = 2;

}  // namespace

void JobClocks::new_round(const ClusterView& view) {
    now_s_ = view.steady_s;
    wall_s_ = view.snapshot.time_s;
    for (const JobView& job : view.jobs) {
        if (job.facts.state == HostJobState::pending) {
            const Pending now{job.facts.restart, now_s_};
            Pending& known = pending_since_.try_emplace(job.id, now).first->second;
            if (known.restart != now.restart) known = now;
        } else {
            pending_since_.erase(job.id);
            profile_wait_since_.erase(job.id);
        }
    }
}

bool JobClocks::may_launch(const JobView& job) const {
    if (job.facts.restart == 0) return true;
    const auto at = pending_since_.find(job.id);
    return at != pending_since_.end() && now_s_ >= at->second.since_s + launch_pause_s;
}

double JobClocks::age_s(JobId job, double since_s) {
    const double first_s = now_s_ - std::max(wall_s_ - since_s, 0.0);
    return now_s_ - ages_.try_emplace({job, since_s}, first_s).first->second;
}

Books::Books(Host& host, Config config, std::vector<GpuType> hardware, Calibration calibration,
             PlanLimits limits)
    : site{std::move(config), std::move(hardware)},
      keeps_segments(host.keeps_segments()),
      policy(find_slurm_policy(site.config.policy)),
      measurements(host, site.config, site.hardware),
      profiles(host, site.config, measurements),
      offers(site.config, site.hardware, std::move(calibration), measurements, std::move(limits)),
      nodes(slowdown_rules(site.config)),
      boots(site.config.profile_backoff_s),
      loans(host, site.config, nodes),
      checks(host, site.config, measurements, nodes, profiles.user()),
      arrays(host, site.config),
      promises({.depth = site.config.promise_depth, .slack = site.config.promise_slack}) {
    assert(policy && "an unknown policy is refused when arena.yaml is loaded");
    options.reserve_depth = site.config.reserve_depth;
    options.objective = parse_objective(site.config.objective).value_or(Objective::jct);
    // The others keep Slurm's order by themselves, or none.
    options.order = policy->name == "arena"
                        ? parse_queue_order(site.config.order).value_or(QueueOrder::priority)
                        : QueueOrder::value;
    options.priority_step = site.config.priority_step;
    options.restart = {site.config.restart_checkpoint_s, site.config.restart_per_gpu_s,
                       site.config.restart_launch_cap_s};
    recall_observed();
}

void Books::recall_observed() {
    if (!site.config.use_reports) return;
    for (ObservedRun& run : measurements.observed()) (void)offers.recall(std::move(run));
}

std::string Books::with_refused_update(JobId job, const std::string& reason) const {
    const auto at = refused_updates.find(job);
    if (at == refused_updates.end()) return reason;
    return "update refused: " + at->second + (reason.empty() ? "" : "; " + reason);
}

void Books::note_unsaved(double at_s, JobId job, std::uint32_t uid) {
    history.add({.at_s = at_s, .job = job, .uid = uid, .state = "left", .text = unsaved_words(1)});
}

std::map<JobId, LastRun> Books::ends_of(const std::vector<EndedJob>& ended) {
    std::map<JobId, LastRun> ends;
    for (const EndedJob& job : ended) ends[job.job.id] = {job.job.start_s, job.end_s, use_of(job)};
    return ends;
}

/// Nothing where it is not known what it had to do.
std::optional<JobUse> Books::use_of(const EndedJob& end) {
    const auto at = statuses.find(end.job.id);
    const auto& plan = requests.plan(end.job.id, end.job.offer_json);
    if (at == statuses.end() || !at->second.work || !plan || !end.job.facts.mark) return {};
    const Belief& work = *at->second.work;
    if (work.from == Belief::From::nothing) return {};
    const double run_s = std::max(end.end_s - end.job.start_s, 0.0);
    const double used = end.by_limit ? 1
                                     : used_of(work, static_cast<double>(end.job.facts.mark->done),
                                               run_s, plan->estimate.iteration_s);
    return JobUse{.used = used,
                  .account = end.job.account,
                  .text = fmt::format("used {:.2g}{} of its {}", used,
                                      used <= PastUses::least ? " or less" : "",
                                      work.from == Belief::From::steps ? "steps" : "time limit")};
}

void Books::note_departure(JobId job, Departure by, double now_s) {
    promises.note_departure(job, by, now_s);
    promise_watch.note_departure(job, by);
}

void Books::forget_gone(const ClusterView& view) {
    std::vector<JobId> alive;
    for (const JobView& job : view.jobs) alive.push_back(job.id);
    std::sort(alive.begin(), alive.end());
    const auto gone = [&](const auto& entry) {
        return !std::binary_search(alive.begin(), alive.end(), entry.first);
    };
    const std::map<JobId, LastRun> ends = ends_of(view.ended);
    requests.forget(gone);
    clocks.forget(gone);
    blocked.forget(gone);
    queue.forget(gone);
    slowdown.forget(gone);
    promise_watch.forget(gone);
    for (const JobView& job : view.jobs) slowdown.begin_life(job.id, job.facts.restart);
    history.end([&](JobId job) { return !std::binary_search(alive.begin(), alive.end(), job); },
                view.snapshot.time_s, ends);
    std::erase_if(statuses, gone);
    std::erase_if(patience, gone);
    std::erase_if(imposed, gone);
    std::erase_if(leaving, gone);
    std::erase_if(refused_updates, gone);
}

}  // namespace arena
