// SPDX-License-Identifier: GPL-2.0-or-later
// Choices on nodes: see packing.h.
#include "policy/packing.h"

#include <algorithm>
#include <bit>

namespace arena {
Packing::Packing(const Problem& problem, Ties ties)
    : problem_(&problem),
      ties_(ties),
      groups_(std::size_t{problem.fabric().leaves()} * problem.fabric().classes()),
      rooms_(problem.types()),
      free_of_type_(problem.types(), 0) {
    const Snapshot& snapshot = problem.snapshot();
    free_.reserve(snapshot.nodes.size());
    std::vector<std::size_t> strides(problem.types(), 0);
    bool any_sleeps = false;
    for (NodeIndex i = 0; i < snapshot.nodes.size(); ++i) {
        const NodeState& node = snapshot.nodes[i];
        any_sleeps = any_sleeps || node.boot_s > 0;
        // else no CPU, so that nothing fits there
        const bool stays = node.returning_s == 0 && !fabric().is_outside(i);
        free_.push_back({.gpus = stays ? node.free_gpus : 0,
                         .cpus = stays ? node.free_cpus : INT64_MIN / 2,
                         .memory_mb = node.free_memory_mb,
                         .type = problem.type_of_node(i),
                         .same_node = node.same_node});
        if (free_.back().type < 0) continue;
        std::size_t& stride = strides[static_cast<std::size_t>(free_.back().type)];
        stride = std::max(stride,
                          static_cast<std::size_t>(std::max(node.total_gpus, node.free_gpus)) + 1);
    }
    for (std::size_t t = 0; t < rooms_.size(); ++t) {
        widen(rooms_[t], strides[t]);
        if (!fabric().is_flat()) rooms_[t].free_of_leaf.resize(fabric().leaves());
    }
    if (any_sleeps) asleep_.resize(problem.types());
    for (NodeIndex i = 0; i < free_.size(); ++i) {
        if (free_[i].type < 0) continue;
        if (any_boots() && free_[i].gpus > 0) {
            double& longest_s = asleep_[static_cast<std::size_t>(free_[i].type)].longest_s;
            longest_s = std::max(longest_s, snapshot.nodes[i].boot_s);
        }
        count(i, free_[i].gpus);
        enter(i);
    }
    auto sets = std::make_shared<Sets>();
    for (const auto& set : snapshot.node_sets) {
        auto& in = sets->emplace_back();
        if (set.size() == snapshot.nodes.size()) continue;
        in.resize(snapshot.nodes.size());
        for (const NodeIndex i : set) in[i] = true;
    }
    in_set_ = std::move(sets);
    if (!fabric().is_flat()) find_leaves_of_sets();
}

void Packing::find_leaves_of_sets() {
    const Snapshot& snapshot = problem_->snapshot();
    auto leaves = std::make_shared<Sets>();
    for (const auto& set : snapshot.node_sets) {
        auto& in = leaves->emplace_back();
        if (fabric().leaves() == 1 || set.size() == snapshot.nodes.size()) continue;
        in.resize(fabric().leaves());
        for (const NodeIndex i : set) in[fabric().leaf_of(i)] = true;
    }
    leaves_ = std::move(leaves);
}

void Packing::widen(Room& room, std::size_t stride) const {
    room.buckets.resize(groups_ * stride);
    room.stride = stride;
}

void Packing::count(NodeIndex index, std::int64_t gpus) {
    const auto type = static_cast<std::size_t>(free_[index].type);
    free_of_type_[type] += gpus;
    if (any_boots() && problem_->snapshot().nodes[index].boot_s > 0) asleep_[type].gpus += gpus;
    if (!rooms_[type].free_of_leaf.empty())
        rooms_[type].free_of_leaf[fabric().leaf_of(index)] += gpus;
}

Packing::Boots Packing::count_boots(const Task& task, const Choice& choice) const {
    const Asleep& asleep = asleep_[static_cast<std::size_t>(choice.type)];
    std::int64_t short_by = choice.gpus - (free_gpus(choice.type) - asleep.gpus);
    if (task.runs()) {
        const Choice& own = problem_->choice(task.current);
        if (own.type == choice.type) short_by -= own.gpus;
    }
    short_by = std::min(short_by, asleep.gpus);  // more come from other jobs
    if (short_by <= 0) return {};
    const std::int64_t of_node = std::max<std::int64_t>(1, widest(choice.type));
    const auto nodes = static_cast<double>((short_by + of_node - 1) / of_node);
    return {asleep.longest_s, nodes * asleep.longest_s};
}

Packing::Boots Packing::sum_boots(const Task& task, std::span<const NodeIndex> nodes) const {
    Boots boots;
    for (const NodeIndex n : nodes) {
        const double boot_s = problem_->snapshot().nodes[n].boot_s;
        if (boot_s <= 0 || std::ranges::find(task.job->nodes, n) != task.job->nodes.end()) continue;
        boots.longest_s = std::max(boots.longest_s, boot_s);
        boots.node_s += boot_s;
    }
    return boots;
}

void Packing::enter(NodeIndex index) {
    Bucket& list = bucket(index);
    if (ties_ == Ties::first)
        return void(list.insert(std::upper_bound(list.begin(), list.end(), index), index));
    free_[index].slot = static_cast<std::uint32_t>(list.size());
    list.push_back(index);
}

void Packing::leave(NodeIndex index) {
    Bucket& list = bucket(index);
    if (ties_ == Ties::first) return void(std::erase(list, index));
    const std::uint32_t slot = free_[index].slot;
    list[slot] = list.back();
    free_[list[slot]].slot = slot;
    list.pop_back();
}

/// Adds GPUs, and the CPUs and memory that go with them, to the node; negative takes.
void Packing::change(const JobState& job, NodeIndex index, std::int64_t gpus) {
    Free& node = free_[index];
    leave(index);
    node.gpus += gpus;
    change_shared(index, gpus * job.cpus_per_gpu, gpus * job.memory_mb_per_gpu);
    Room& room = rooms_[static_cast<std::size_t>(node.type)];
    const auto left = static_cast<std::size_t>(node.gpus);
    if (room.stride <= left) widen(room, left + 1);
    count(index, gpus);
    enter(index);
}

/// A node's GPU types have its CPUs and memory together.
void Packing::change_shared(NodeIndex index, std::int64_t cpus, std::int64_t memory_mb) {
    while (free_[index].same_node) --index;
    do {
        free_[index].cpus += cpus;
        free_[index].memory_mb += memory_mb;
    } while (++index < free_.size() && free_[index].same_node);
}

void Packing::keep(const Holds* holds) {
    if (holds->empty()) return;
    holds_ = holds;
    spares_ = holds->spares;
    first_spare_.assign(free_.size() + 1, 0);
    for (const Spare& spare : spares_) ++first_spare_[spare.node + 1];
    for (std::size_t n = 1; n < first_spare_.size(); ++n) first_spare_[n] += first_spare_[n - 1];
}

/// What is held for the job itself is its own; who has been placed needs nothing held any more.
bool Packing::is_left_over(const JobState& job, NodeIndex index, std::int64_t per_node,
                           std::uint32_t outlasts, std::uint32_t own) const {
    outlasts &= ~placed_;
    if (outlasts == 0) return true;
    for (std::uint32_t s = first_spare_[index]; s < first_spare_[index + 1]; ++s) {
        if ((outlasts >> spares_[s].hold & 1) == 0) continue;
        Resources left = spares_[s].left;
        if ((spares_[s].beside & own) != 0)
            left += holds_->all[static_cast<std::size_t>(std::countr_zero(own))].on(index);
        if (left.gpus < per_node || left.cpus < per_node * job.cpus_per_gpu ||
            left.memory_mb < per_node * job.memory_mb_per_gpu)
            return false;
    }
    return true;
}

/// Who has been placed needs what is held for it no more, or again.
void Packing::change_own(std::uint32_t own, bool held) {
    if (own == 0) return;
    placed_ = held ? placed_ & ~own : placed_ | own;
    const Hold& hold = holds_->all[static_cast<std::size_t>(std::countr_zero(own))];
    for (Spare& spare : spares_)
        if ((spare.beside & own) != 0) {
            if (held)
                spare.left -= hold.on(spare.node);
            else
                spare.left += hold.on(spare.node);
        }
}

void Packing::change_spares(const JobState& job, NodeIndex index, std::int64_t gpus,
                            std::uint32_t outlasts) {
    if (outlasts == 0) return;
    for (std::uint32_t s = first_spare_[index]; s < first_spare_[index + 1]; ++s) {
        if ((outlasts >> spares_[s].hold & 1) == 0) continue;
        spares_[s].left += resources_of(job, gpus);
    }
}

std::vector<NodeIndex> Packing::kept_from(const Task& task, const Offer& offer,
                                          std::span<const NodeIndex> nodes, double later_s) const {
    std::vector<NodeIndex> kept;
    const std::uint32_t own = own_hold(*task.job);
    const std::uint32_t outlasts = outlasted_by(task, problem_->run_s(task, offer), later_s);
    for (const NodeIndex n : nodes)
        if (!is_left_over(*task.job, n, offer.grid.gpus_per_node, outlasts, own)) kept.push_back(n);
    return kept;
}

void Packing::leave_open(const Task& task, const Offer& offer, std::span<const NodeIndex> nodes,
                         double later_s) {
    const std::uint32_t outlasts = outlasted_by(task, problem_->run_s(task, offer), later_s);
    for (const NodeIndex n : nodes)
        change_spares(*task.job, n, -offer.grid.gpus_per_node, outlasts);
}

void Packing::close(NodeIndex index) {
    Free& node = free_[index];
    leave(index);
    count(index, -node.gpus);
    node.gpus = 0;
    enter(index);
}

bool Packing::is_in_set(std::uint32_t node_set, NodeIndex index) const {
    if (node_set >= in_set_->size()) return false;
    const auto& set = (*in_set_)[node_set];
    return set.empty() || set[index];
}

/// What goes with the GPUs.
bool Packing::has_resources(const Task& task, NodeIndex index, std::int64_t per_node) const {
    const Free& node = free_[index];
    const JobState& job = *task.job;
    if (node.cpus < per_node * job.cpus_per_gpu) return false;
    return node.memory_mb >= per_node * job.memory_mb_per_gpu;
}

void Packing::remove(const Task& task, const Placement& placement) {
    change_own(placement.own, true);
    for (std::size_t n = 0; n < placement.nodes.size(); ++n) {
        change(*task.job, placement.nodes[n], placement.gpus_on(n));
        change_spares(*task.job, placement.nodes[n], placement.gpus_on(n), placement.outlasts);
    }
}

void Packing::put(const Task& task, const Placement& placement) {
    change_own(placement.own, false);
    for (std::size_t n = 0; n < placement.nodes.size(); ++n) {
        change(*task.job, placement.nodes[n], -placement.gpus_on(n));
        change_spares(*task.job, placement.nodes[n], -placement.gpus_on(n), placement.outlasts);
    }
}

void Packing::release_current(const Task& task) {
    const JobState& job = *task.job;
    for (std::size_t n = 0; n < job.nodes.size(); ++n)
        change(job, job.nodes[n], job.current->grid.gpus_on(n));
}

void Packing::take_current(const Task& task) {
    const JobState& job = *task.job;
    for (std::size_t n = 0; n < job.nodes.size(); ++n)
        change(job, job.nodes[n], -job.current->grid.gpus_on(n));
}

bool Packing::can_take_current(const Task& task) const {
    const JobState& job = *task.job;
    for (std::size_t n = 0; n < job.nodes.size(); ++n)
        if (!fits_on(task, job.nodes[n], job.current->grid.gpus_on(n))) return false;
    return true;
}

Action action_for(const Task& task, const Placement& placement, std::string reason) {
    Action action;
    action.kind = task.runs() ? ActionKind::resize : ActionKind::start;
    action.job = task.job->id;
    action.offer = at_span(*placement.offer, placement.span);
    action.offer.grid.nodes = static_cast<std::int64_t>(placement.nodes.size());
    action.offer.grid.gpus_per_node = placement.gpus_per_node;
    action.offer.grid.split = placement.split;
    action.nodes = placement.nodes;
    action.place = placement.place;
    action.reason = std::move(reason);
    return action;
}

}  // namespace arena
