// SPDX-License-Identifier: GPL-2.0-or-later
// See shadow.h: from Slurm's cluster to the one that the round sees.
#include <algorithm>
#include <cmath>

#include "plugin/sched/observe/shadow.h"

namespace arena {
namespace {

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

/// The place of these nodes among a view's sets.
std::uint32_t put_set(ClusterView& view, std::vector<NodeIndex> nodes) {
    auto& sets = view.snapshot.node_sets;
    std::erase_if(nodes, [&](NodeIndex n) { return n >= view.snapshot.nodes.size(); });
    const auto at = std::find(sets.begin(), sets.end(), nodes);
    if (at != sets.end()) return static_cast<std::uint32_t>(at - sets.begin());
    sets.push_back(std::move(nodes));
    return static_cast<std::uint32_t>(sets.size() - 1);
}

}  // namespace

ClusterView Shadow::imagine(ClusterView real) {
    const double past_s = now_s_ > 0 ? std::max(real.snapshot.time_s - now_s_, 0.0) : 0;
    now_s_ = real.snapshot.time_s;
    if (since_s_ == 0) since_s_ = now_s_;
    nodes_.clear();
    for (NodeIndex n = 0; n < real.snapshot.nodes.size(); ++n)
        nodes_.emplace(std::pair(real.snapshot.nodes[n].name, real.snapshot.nodes[n].gpu_type), n);
    notice_gone(real);
    take_in(real);
    end_due(now_s_);
    tell();
    close();
    sets_ = real.snapshot.node_sets;
    put_back(real);
    occupy(real);
    start_released(real);
    for (NodeState& node : real.snapshot.nodes) {
        if (node.free_gpus < 0)
            counts_.overlap_gpu_s += static_cast<double>(-node.free_gpus) * past_s;
        node.free_gpus = node.up ? std::max<std::int64_t>(node.free_gpus, 0) : 0;
        node.free_cpus = std::max<std::int64_t>(node.free_cpus, 0);
        node.free_memory_mb = std::max<std::int64_t>(node.free_memory_mb, 0);
    }
    show_jobs(real);
    return real;
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
    return has_nodes(view) && (by_plan || view.start_s < since_s_);
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
        run.end_s = now_s_;
        for (const OverJob& over : real.over) {
            if (over.id != id) continue;
            run.end_s = over.end_s;
            if (run.start_s == 0) run.start_s = over.start_s;
        }
        if (run.start_s > 0)
            run.gpu_s =
                static_cast<double>(job.grid.gpus()) * std::max(run.end_s - run.start_s, 0.0);
        else if (job.planned != Planned::as_it_is)
            end(job, now_s_);  // cancelled while it waited
    }
}

void Shadow::keep_sets(Job& job) {
    if (job.sets) return;
    auto& kept = job.sets.emplace();
    const auto set_of = [&](std::uint32_t index) {
        return index < sets_.size() ? sets_[index] : std::vector<NodeIndex>();
    };
    kept.push_back(set_of(job.view.node_set));
    for (const PartitionSlot& slot : job.view.slots) kept.push_back(set_of(slot.place.node_set));
}

/// What Slurm gave to planned jobs is free, for all that the plan knows.
void Shadow::put_back(ClusterView& view) {
    for (const Occupied& held : view.running) {
        if (!is_planned(held.job)) continue;
        for (const Occupied::Part& part : held.parts)
            give_to_node(view.snapshot.nodes, part.node, part.gpus, part.cpus, part.memory_mb);
    }
    std::erase_if(view.running, [&](const Occupied& held) { return is_planned(held.job); });
}

void Shadow::occupy(ClusterView& view) {
    for (const auto& [id, job] : jobs_) {
        if (job.planned != Planned::runs) continue;
        Occupied held{.job = id, .end_s = INFINITY, .parts = {}};
        if (job.view.time_limit_s > 0) held.end_s = job.since_s + job.view.time_limit_s;
        for (const Held& on : job.held) {
            const auto at = nodes_.find({on.node, on.gpu_type});
            if (at == nodes_.end()) continue;
            held.parts.push_back({at->second, on.gpus, on.cpus, on.memory_mb});
            give_to_node(view.snapshot.nodes, at->second, -on.gpus, -on.cpus, -on.memory_mb);
        }
        view.running.push_back(std::move(held));
    }
}

/// As Slurm's backfill would: on whichever nodes are free, once that delays nobody who stands
/// before. Its nodes count from the next round on.
void Shadow::start_released(const ClusterView& view) {
    std::vector<std::int64_t> free;
    for (const NodeState& node : view.snapshot.nodes) free.push_back(node.free_gpus);
    for (auto& [id, job] : jobs_) {
        if (job.planned != Planned::released || job.sets) continue;
        const double limit_s = job.view.time_limit_s > 0 ? job.view.time_limit_s : INFINITY;
        if (now_s_ + limit_s > job.view.ordinary_start_s) continue;
        const Grid& grid = job.shape.offer.grid;
        std::vector<std::string> nodes;
        std::vector<NodeIndex> indices;
        for (const NodeIndex n : view.snapshot.node_sets[job.view.node_set]) {
            const NodeState& node = view.snapshot.nodes[n];
            if (static_cast<std::int64_t>(nodes.size()) == grid.nodes) break;
            if (node.gpu_type != grid.gpu_type || !node.up || free[n] < grid.gpus_per_node)
                continue;
            nodes.push_back(node.name);
            indices.push_back(n);
        }
        if (static_cast<std::int64_t>(nodes.size()) < grid.nodes) continue;
        for (const NodeIndex n : indices) free[n] -= grid.gpus_per_node;
        run(job, Shape(job.shape), nodes);
    }
}

JobView Shadow::shown(const Job& job, ClusterView& view) const {
    JobView shown = job.view;
    if (job.sets) {
        shown.node_set = put_set(view, job.sets->front());
        for (std::size_t i = 0; i < shown.slots.size(); ++i)
            shown.slots[i].place.node_set = put_set(view, (*job.sets)[i + 1]);
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
    for (const Held& on : job.held)
        if (const auto at = nodes_.find({on.node, on.gpu_type}); at != nodes_.end())
            shown.nodes.push_back(at->second);
    return shown;
}

void Shadow::show_jobs(ClusterView& view) {
    std::erase_if(view.jobs,
                  [&](const JobView& job) { return is_planned(job.id) || job.changing; });
    for (const auto& [id, job] : jobs_)
        if (job.planned != Planned::as_it_is && job.planned != Planned::over)
            view.jobs.push_back(shown(job, view));
    view.since_recovery_s = INFINITY;  // nothing is launched
}

}  // namespace arena
