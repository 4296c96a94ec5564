// SPDX-License-Identifier: GPL-2.0-or-later
// Choices on nodes: see packing.h.
#include "policy/packing.h"

#include <algorithm>
#include <bit>

#include "policy/places.h"

namespace arena {
namespace {

/// The largest number that works, from this one down; 0: none does.
template <typename Works>
std::int64_t largest(std::int64_t number, Works works) {
    while (number > 0 && !works(number)) --number;
    return number;
}

}  // namespace

Packing::Packing(const Problem& problem, Ties ties)
    : problem_(&problem),
      ties_(ties),
      buckets_(problem.types()),
      free_of_type_(problem.types(), 0) {
    const Snapshot& snapshot = problem.snapshot();
    free_.reserve(snapshot.nodes.size());
    for (NodeIndex i = 0; i < snapshot.nodes.size(); ++i) {
        const NodeState& node = snapshot.nodes[i];
        const bool stays = node.returning_s == 0;  // else no CPU, so that nothing fits there
        free_.push_back({.gpus = stays ? node.free_gpus : 0,
                         .cpus = stays ? node.free_cpus : INT64_MIN / 2,
                         .memory_mb = node.free_memory_mb,
                         .type = problem.type_of_node(i),
                         .same_node = node.same_node});
        if (free_.back().type < 0) continue;
        auto& by_free = buckets_[static_cast<std::size_t>(free_.back().type)];
        const auto most = static_cast<std::size_t>(std::max(node.total_gpus, node.free_gpus));
        if (by_free.size() <= most) by_free.resize(most + 1);
        free_of_type_[static_cast<std::size_t>(free_.back().type)] += free_.back().gpus;
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
}

void Packing::enter(NodeIndex index) {
    Free& node = free_[index];
    auto& list = bucket(node);
    if (ties_ == Ties::first)
        return void(list.insert(std::upper_bound(list.begin(), list.end(), index), index));
    node.slot = static_cast<std::uint32_t>(list.size());
    list.push_back(index);
}

void Packing::leave(NodeIndex index) {
    auto& list = bucket(free_[index]);
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
    auto& by_free = buckets_[static_cast<std::size_t>(node.type)];
    if (by_free.size() <= static_cast<std::size_t>(node.gpus)) {
        by_free.resize(static_cast<std::size_t>(node.gpus) + 1);
    }
    free_of_type_[static_cast<std::size_t>(node.type)] += gpus;
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

/// What is held for the job itself is its own.
bool Packing::is_left_over(const JobState& job, NodeIndex index, std::int64_t per_node,
                           std::uint32_t outlasts, std::uint32_t own) const {
    if (outlasts == 0) return true;
    for (std::uint32_t s = first_spare_[index]; s < first_spare_[index + 1]; ++s) {
        if ((outlasts >> spares_[s].hold & 1) == 0) continue;
        Resources left = spares_[s].left;
        if ((spares_[s].beside & own) != 0)
            left += holds_->all[static_cast<std::size_t>(std::countr_zero(own))].on_node;
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
    const Resources& on_node = holds_->all[static_cast<std::size_t>(std::countr_zero(own))].on_node;
    for (Spare& spare : spares_)
        if ((spare.beside & own) != 0) {
            if (held)
                spare.left -= on_node;
            else
                spare.left += on_node;
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
    const std::uint32_t outlasts =
        outlasted_by(task, problem_->run_s(task, offer), later_s) & ~placed_;
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
    free_of_type_[static_cast<std::size_t>(node.type)] -= node.gpus;
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

/// Adds nodes of that owner, the fullest first, that are not taken yet, until there are so many.
void Packing::collect(const Task& task, const Choice& choice, const Place& place, Owner owner,
                      std::size_t wanted, Placement& out) const {
    const auto& by_free = buckets_[static_cast<std::size_t>(choice.type)];
    const std::size_t before = out.nodes.size();
    for (auto left = static_cast<std::size_t>(out.gpus_per_node); left < by_free.size(); ++left) {
        for (const NodeIndex index : by_free[left]) {
            if (out.nodes.size() >= wanted) return;
            if (owner != Owner::any && (*lent_)[index] != (owner == Owner::lent)) continue;
            if (!is_in_set(place.node_set, index) ||
                !has_resources(task, index, out.gpus_per_node) ||
                !is_left_over(*task.job, index, out.gpus_per_node, out.outlasts, out.own))
                continue;
            const auto end = out.nodes.begin() + static_cast<std::ptrdiff_t>(before);
            if (std::find(out.nodes.begin(), end, index) == end) out.nodes.push_back(index);
        }
    }
}

bool Packing::take(const Task& task, const Choice& choice, const Place& place,
                   std::int64_t per_node, Placement& out) {
    const auto wanted = static_cast<std::size_t>(choice.gpus / per_node);
    if (!allows(place, *task.job, choice.gpus / per_node, per_node)) return false;
    out.nodes.clear();
    out.split.clear();
    out.gpus_per_node = per_node;
    out.outlasts = outlasted_by(task, problem_->run_s(task, *out.offer));
    out.own = own_hold(*task.job);
    if (lent_ != nullptr) {
        const auto own = static_cast<std::size_t>((own_gpus_ + per_node - 1) / per_node);
        collect(task, choice, place, Owner::own, std::min(own, wanted), out);
        collect(task, choice, place, Owner::lent, wanted, out);
    }
    collect(task, choice, place, Owner::any, wanted, out);
    if (out.nodes.size() < wanted) return false;
    put(task, out);
    std::sort(out.nodes.begin(), out.nodes.end());
    return true;
}

/// The fewest nodes that have the GPUs together, the largest pieces first, in the order of the
/// nodes; lent ones aside.
/// gpus_of(node, most): how many of so many the task may have there.
template <typename GpusOf>
std::vector<Packing::Piece> Packing::pieces(const Task& task, const Choice& choice,
                                            const Place& place, GpusOf gpus_of) const {
    const JobState& job = *task.job;
    const auto& by_free = buckets_[static_cast<std::size_t>(choice.type)];
    std::vector<Piece> found;
    std::int64_t whole = 0;  // GPUs of those that are all that is free: no node behind has more
    for (std::size_t left = by_free.size(); left-- > 1 && whole < choice.gpus;) {
        for (const NodeIndex index : by_free[left]) {
            if (!is_in_set(place.node_set, index) ||
                !problem_->snapshot().nodes[index].lent.empty())
                continue;
            const std::int64_t gpus =
                gpus_of(index, largest(static_cast<std::int64_t>(left), [&](std::int64_t some) {
                            return allows_on_node(place, job, some);
                        }));
            if (gpus == 0) continue;
            found.push_back({gpus, index});
            if (gpus == static_cast<std::int64_t>(left)) whole += gpus;
        }
    }
    std::sort(found.begin(), found.end(), [](const Piece& a, const Piece& b) {
        return std::pair(-a.gpus, a.node) < std::pair(-b.gpus, b.node);
    });
    std::int64_t sum = 0;
    std::size_t wanted = 0;
    while (wanted < found.size() && sum < choice.gpus) sum += found[wanted++].gpus;
    const auto nodes = static_cast<std::int64_t>(wanted);
    if (sum < choice.gpus || nodes < place.min_nodes || nodes > place.max_nodes) return {};
    found.resize(wanted);
    std::sort(found.begin(), found.end(),
              [](const Piece& a, const Piece& b) { return a.node < b.node; });
    return found;
}

/// As Slurm shares out a job's tasks among its nodes: each node in its order is filled as far as
/// one is left for each of those behind it.
bool Packing::take_pieces(const Task& task, const Choice& choice, const Place& place,
                          Placement& out) {
    out.outlasts = outlasted_by(task, problem_->run_s(task, *out.offer));
    out.own = own_hold(*task.job);
    // Slurm, which knows of no holds, might fill a node that is kept in part.
    const auto all = pieces(task, choice, place, [&](NodeIndex index, std::int64_t most) {
        const std::int64_t gpus =
            largest(most, [&](std::int64_t some) { return has_resources(task, index, some); });
        return is_left_over(*task.job, index, gpus, out.outlasts, out.own) ? gpus : 0;
    });
    if (all.empty()) return false;
    out.nodes.clear();
    std::vector<std::int64_t> split;
    std::int64_t wanted = choice.gpus;
    for (std::size_t n = 0; n < all.size(); ++n) {
        const auto behind = static_cast<std::int64_t>(all.size() - n - 1);
        split.push_back(std::min(all[n].gpus, wanted - behind));
        wanted -= split.back();
        out.nodes.push_back(all[n].node);
    }
    Grid grid;
    set_split(grid, std::move(split));
    out.gpus_per_node = grid.gpus_per_node;
    out.split = std::move(grid.split);
    put(task, out);
    return true;
}

bool Packing::place(const Task& task, const Choice& choice, Placement& out) {
    if (!could_fit(choice)) return false;
    return any_layout(choice, [&](const Offer& offer, std::int64_t per_node) {
        return place_as(task, choice, offer, per_node, out);
    });
}

bool Packing::place_as(const Task& task, const Choice& choice, const Offer& offer,
                       std::int64_t per_node, Placement& out) {
    if (is_late(task, offer)) return false;
    out.offer = &offer;
    return any_place(*task.job, [&](const Place& at, std::uint32_t index) {
        out.place = index;
        return offer.grid.is_uneven() ? take_pieces(task, choice, at, out)
                                      : take(task, choice, at, per_node, out);
    });
}

/// The first layout that finds as many nodes for which usable(node, GPUs on it) is true; or null.
template <typename Usable>
const Offer* Packing::stands(const Task& task, const Choice& choice, Usable usable) const {
    const auto& by_free = buckets_[static_cast<std::size_t>(choice.type)];
    const auto in_place = [&](const Place& place, std::int64_t per_node) {
        std::int64_t wanted = choice.gpus / per_node;
        if (!allows(place, *task.job, wanted, per_node)) return false;
        for (auto left = static_cast<std::size_t>(per_node); left < by_free.size(); ++left) {
            for (const NodeIndex index : by_free[left]) {
                if (is_in_set(place.node_set, index) && usable(index, per_node) && --wanted <= 0)
                    return true;
            }
        }
        return false;
    };
    const auto in_pieces = [&](const Place& place) {
        const auto gpus_of = [&](NodeIndex index, std::int64_t most) {
            return largest(most, [&](std::int64_t some) { return usable(index, some); });
        };
        return !pieces(task, choice, place, gpus_of).empty();
    };
    const Offer* found = nullptr;
    const bool any = any_layout(choice, [&](const Offer& offer, std::int64_t per_node) {
        found = &offer;
        return any_place(*task.job, [&](const Place& place, std::uint32_t) {
            return offer.grid.is_uneven() ? in_pieces(place) : in_place(place, per_node);
        });
    });
    return any ? found : nullptr;
}

bool Packing::could_stand(const Task& task, const Choice& choice) const {
    const std::uint32_t outlasts = outlasted_by(task, choice), own = own_hold(*task.job);
    return stands(task, choice, [&](NodeIndex index, std::int64_t per_node) {
               return is_left_over(*task.job, index, per_node, outlasts, own);
           }) != nullptr;
}

const Offer* Packing::layout_with_room(const Task& task, const Choice& choice) const {
    const std::uint32_t outlasts = outlasted_by(task, choice), own = own_hold(*task.job);
    return stands(task, choice, [&](NodeIndex index, std::int64_t per_node) {
        return has_resources(task, index, per_node) &&
               is_left_over(*task.job, index, per_node, outlasts, own);
    });
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
    action.offer = *placement.offer;
    action.offer.grid.nodes = static_cast<std::int64_t>(placement.nodes.size());
    action.offer.grid.gpus_per_node = placement.gpus_per_node;
    action.offer.grid.split = placement.split;
    action.nodes = placement.nodes;
    action.place = placement.place;
    action.reason = std::move(reason);
    return action;
}

}  // namespace arena
