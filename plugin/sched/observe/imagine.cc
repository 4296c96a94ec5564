// SPDX-License-Identifier: GPL-2.0-or-later
// See shadow.h: from Slurm's cluster to the one that the round sees.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "plugin/sched/observe/shadow.h"

namespace arena {
namespace {

/// The wall's clock was set.
constexpr double clock_jump_s = 60;
/// Between two looks a run ends and gives its nodes back: how long that takes at most.
constexpr double unseen_clearing_s = 30;

/// As Slurm runs it: GPUs by node, of its first type.
Grid grid_held(const Occupied& held, const Snapshot& snapshot) {
    Grid grid;
    std::vector<std::int64_t> split;
    for (const Occupied::Part& part : held.parts) {
        if (part.gpus <= 0) continue;
        const std::string& type = snapshot.nodes[part.node].gpu_type;
        if (grid.gpu_type.empty()) grid.gpu_type = type;
        if (grid.gpu_type == type) split.push_back(part.gpus);
    }
    grid.nodes = static_cast<std::int64_t>(split.size());
    grid.gpus_per_node = 0;
    if (!split.empty()) set_split(grid, std::move(split));
    return grid;
}

const Occupied* find_held(const ClusterView& view, JobId id) {
    const auto at = std::find_if(view.running.begin(), view.running.end(),
                                 [&](const Occupied& held) { return held.job == id; });
    return at == view.running.end() ? nullptr : &*at;
}

bool has_nodes(const JobView& view) {
    return view.facts.state == HostJobState::running ||
           view.facts.state == HostJobState::suspended ||
           view.facts.state == HostJobState::completing;
}

}  // namespace

void Shadow::see(ClusterView real) {
    follow_clock(real);
    nodes_.clear();
    for (NodeIndex n = 0; n < real.snapshot.nodes.size(); ++n)
        nodes_.emplace(std::pair(real.snapshot.nodes[n].name, real.snapshot.nodes[n].gpu_type), n);
    notice_gone(real);
    notice_ends(real);
    take_in(real);
    share_sets(real.snapshot.node_sets);
    others_.see(real, [this](JobId id) { return is_planned(id); });
    std::erase_if(real.ended, [this](const EndedJob& end) { return is_planned(end.job.id); });
    real_ = std::move(real);
}

/// What is to come stays as far away where the wall's clock is set.
void Shadow::follow_clock(const ClusterView& real) {
    const double before_s = time_.now_s, ahead_s = real.snapshot.time_s - real.steady_s;
    const double jump_s = ahead_s - std::exchange(time_.ahead_s, ahead_s);
    time_.now_s = real.snapshot.time_s;
    if (time_.since_s == 0) time_.since_s = time_.clock_s = time_.now_s;
    if (before_s > 0 && std::abs(jump_s) > clock_jump_s)
        time_.clock_s = std::min(time_.clock_s + jump_s, time_.now_s);
}

/// Of equal ones there is one, over all looks.
void Shadow::share_sets(const std::vector<std::vector<NodeIndex>>& sets) {
    sets_.resize(sets.size());
    for (std::size_t i = 0; i < sets.size(); ++i)
        if (!sets_[i] || *sets_[i] != sets[i])
            sets_[i] = std::make_shared<const std::vector<NodeIndex>>(sets[i]);
}

ClusterView Shadow::imagine(double interval_s) {
    const double before_s = time_.clock_s;
    const Ahead ahead = look_ahead();
    time_.clock_s = std::max(before_s, std::min(next_time(ahead, interval_s), ahead.horizon_s));
    ClusterView view = real_;
    real_.ended.clear();  // told once
    view.snapshot.time_s = time_.clock_s;
    view.steady_s -= time_.now_s - time_.clock_s;
    end_due(view);
    tell();
    close();
    others_.put_at(view);
    for (const auto& [id, job] : jobs_)
        if (job.planned == Planned::runs) occupy(job, view);
    start_released(view);
    for (NodeState& node : view.snapshot.nodes) {
        if (node.free_gpus < 0)
            counts_.overlap_gpu_s +=
                static_cast<double>(-node.free_gpus) * (time_.clock_s - before_s);
        node.free_gpus = node.up ? std::max<std::int64_t>(node.free_gpus, 0) : 0;
        node.free_cpus = std::max<std::int64_t>(node.free_cpus, 0);
        node.free_memory_mb = std::max<std::int64_t>(node.free_memory_mb, 0);
    }
    show_jobs(view);
    return view;
}

void Shadow::take_in(const ClusterView& real) {
    for (const JobView& view : real.jobs) {
        if (!view.changing) take_in(view, real);
        // What was read of it last has the numbers of another view.
        if (Job* known = view.changing ? find(view.id) : nullptr) keep_sets(*known);
    }
}

/// What ran before somebody watched, or runs by a plan of Arena's; what opted out; and the record
/// of an array, whose tasks have records of their own once Slurm starts them.
bool Shadow::stays_as_it_is(const JobView& view) const {
    const auto& mark = view.facts.mark;
    if (view.array.left > 0 || (mark && (mark->newer || mark->phase == Phase::off))) return true;
    const bool by_plan = mark && mark->phase != Phase::observed;
    return has_nodes(view) && (by_plan || view.start_s < time_.since_s);
}

void Shadow::take_in(const JobView& view, const ClusterView& real) {
    const auto [at, is_new] = jobs_.try_emplace(view.id);
    Job& job = at->second;
    const bool runs = has_nodes(view);
    if (is_new) {
        job.line.job = view.id;
        job.line.uid = view.user_id;
        job.line.name = view.name.substr(0, 64);
        job.line.account = view.account;
        job.line.partition = view.partition;
        job.line.as_if = view.as_if;
        job.line.eligible_s = view.eligible_s;
        job.seen_s = time_.now_s;
        job.mark.restart = view.facts.restart;
        if (stays_as_it_is(view)) job.planned = Planned::as_it_is;
        if (runs && view.facts.mark) job.mark = *view.facts.mark;
    }
    // Its place in the queue is that of its waiting.
    const double priority = job.view.priority, rank = job.view.rank;
    RecordText record = std::move(job.view.record);
    job.view = view;
    if (!view.record.text && record.tag == view.record.tag) job.view.record = std::move(record);
    if (runs && !is_new) {
        job.view.priority = priority;
        job.view.rank = rank;
    }
    job.sets.reset();
    if (!runs && job.line.actual.start_s == 0 && view.eligible)
        job.line.eligible_s = view.eligible_s;
    job.actual = runs ? Actual::runs : Actual::waits;
    job.was_clearing = view.facts.state == HostJobState::completing;
    if (runs && !job.was_clearing) {
        job.running_s = time_.now_s;
        job.life_s = view.start_s;
    }
    if (!runs || job.line.actual.start_s > 0) return;
    job.line.actual.start_s = view.start_s;
    if (const Occupied* held = find_held(real, view.id)) {
        job.grid = grid_held(*held, real.snapshot);
        job.line.actual.grid = short_form(job.grid);
    }
}

/// Of jobs that Slurm shows no more.
void Shadow::notice_gone(const ClusterView& real) {
    std::vector<JobId> shown;
    for (const JobView& view : real.jobs) shown.push_back(view.id);
    std::sort(shown.begin(), shown.end());
    for (auto& [id, job] : jobs_) {
        if (job.actual == Actual::over || std::binary_search(shown.begin(), shown.end(), id))
            continue;
        job.actual = Actual::over;
        keep_sets(job);
        DiaryRun& run = job.line.actual;
        run.end_s = time_.now_s;
        for (const OverJob& over : real.over) {
            if (over.id != id) continue;
            run.end_s = over.end_s;
            if (run.start_s == 0) run.start_s = over.start_s;
        }
        if (run.start_s > 0)
            run.gpu_s =
                static_cast<double>(job.grid.gpus()) * std::max(run.end_s - run.start_s, 0.0);
    }
}

/// How those that are over ended, and which of them have given their nodes back.
void Shadow::notice_ends(const ClusterView& real) {
    for (const EndedJob& end : real.ended)
        if (Job* job = find(end.job.id)) job->ended_well = true;
    for (auto& [id, job] : jobs_) {
        if (job.actual != Actual::over || job.cleared_s) continue;
        if (find_held(real, id) != nullptr) {
            job.was_clearing = true;
            continue;
        }
        const double since_s = std::max(time_.now_s - job.line.actual.end_s, 0.0);
        job.cleared_s = job.was_clearing ? since_s : std::min(since_s, unseen_clearing_s);
    }
}

void Shadow::keep_sets(Job& job) {
    if (job.sets) return;
    auto& kept = job.sets.emplace();
    const auto set_of = [&](std::uint32_t index) {
        return index < sets_.size() ? sets_[index]
                                    : std::make_shared<const std::vector<NodeIndex>>();
    };
    kept.push_back(set_of(job.view.node_set));
    for (const PartitionSlot& slot : job.view.slots) kept.push_back(set_of(slot.place.node_set));
}

void Shadow::occupy(const Job& job, ClusterView& view) const {
    Occupied held{.job = job.line.job, .end_s = INFINITY, .parts = {}};
    if (job.view.time_limit_s > 0) held.end_s = job.since_s + job.view.time_limit_s;
    for (const Held& on : job.held) {
        const auto at = nodes_.find({on.node, on.gpu_type});
        if (at == nodes_.end()) continue;
        held.parts.push_back({at->second, on.gpus, on.cpus, on.memory_mb});
        give_to_node(view.snapshot.nodes, at->second, -on.gpus, -on.cpus, -on.memory_mb);
    }
    view.running.push_back(std::move(held));
}

/// As Slurm's backfill would: on whichever nodes are free, once that delays nobody who stands
/// before.
void Shadow::start_released(ClusterView& view) {
    for (auto& [id, job] : jobs_) {
        if (job.planned != Planned::released) continue;
        const double limit_s = job.view.time_limit_s > 0 ? job.view.time_limit_s : INFINITY;
        const bool waits = job.actual == Actual::waits;
        if (waits && time_.clock_s + limit_s > job.view.ordinary_start_s) continue;
        const Grid& grid = job.shape.offer.grid;
        std::vector<std::string> nodes;
        const auto& possible =
            job.sets ? *job.sets->front() : view.snapshot.node_sets[job.view.node_set];
        for (const NodeIndex n : possible) {
            if (n >= view.snapshot.nodes.size()) continue;
            const NodeState& node = view.snapshot.nodes[n];
            if (static_cast<std::int64_t>(nodes.size()) == grid.nodes) break;
            if (node.gpu_type != grid.gpu_type || !node.up || node.free_gpus < grid.gpus_per_node)
                continue;
            nodes.push_back(node.name);
        }
        if (static_cast<std::int64_t>(nodes.size()) < grid.nodes) continue;
        run(job, Shape(job.shape), nodes);
        occupy(job, view);
    }
}

JobView Shadow::shown(const Job& job, ClusterView& view) const {
    JobView shown = job.view;
    if (job.sets) {
        shown.node_set = put_set(view, *job.sets->front());
        for (std::size_t i = 0; i < shown.slots.size(); ++i)
            shown.slots[i].place.node_set = put_set(view, *(*job.sets)[i + 1]);
    }
    const bool runs = job.planned == Planned::runs;
    shown.facts = {.state = runs ? HostJobState::running : HostJobState::pending,
                   .held = job.planned == Planned::waits,
                   .special_exit = false,
                   .asked_to_hold = false,
                   .restart = job.mark.restart,
                   .mark = job.mark};
    const bool is_held = job.actual == Actual::waits && job.view.facts.held;
    if (is_held && !runs) shown.facts.mark->hold = OtherHold::user;
    shown.basis = 0;
    shown.configuring = false;
    shown.nodes.clear();
    shown.offer_json = job.planned == Planned::waits ? "" : to_json(job.shape.offer);
    shown.start_s = runs ? job.since_s : 0;
    shown.nodes_open = runs;
    if (job.actual != Actual::waits) {  // whatever kept it waiting does so no more
        shown.eligible = true;
        shown.no_place.clear();
        shown.no_nodes.clear();
        shown.ordinary_start_s = INFINITY;
    }
    if (job.line.eligible_s > time_.clock_s) shown.eligible = false;
    for (const Held& on : job.held)
        if (const auto at = nodes_.find({on.node, on.gpu_type}); at != nodes_.end())
            shown.nodes.push_back(at->second);
    return shown;
}

void Shadow::show_jobs(ClusterView& view) {
    std::erase_if(view.jobs,
                  [&](const JobView& job) { return is_planned(job.id) || job.changing; });
    for (const auto& [id, job] : jobs_)
        if (is_shown(job)) view.jobs.push_back(shown(job, view));
    view.since_recovery_s = INFINITY;  // nothing is launched
}

}  // namespace arena
