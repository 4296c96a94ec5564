// SPDX-License-Identifier: GPL-2.0-or-later
// Choices on nodes: see packing.h.
#include "policy/packing.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>

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
    : problem_(&problem), ties_(ties), rooms_(problem.types()), free_of_type_(problem.types(), 0) {
    const Snapshot& snapshot = problem.snapshot();
    free_.reserve(snapshot.nodes.size());
    std::vector<std::size_t> strides(problem.types(), 0);
    for (NodeIndex i = 0; i < snapshot.nodes.size(); ++i) {
        const NodeState& node = snapshot.nodes[i];
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
    if (std::ranges::any_of(snapshot.nodes, [](const NodeState& n) { return n.boot_s > 0; }))
        asleep_.resize(problem.types());
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
    std::vector<Bucket> wider(groups() * stride);
    for (std::size_t b = 0; b < room.buckets.size(); ++b)
        wider[b / room.stride * stride + b % room.stride] = std::move(room.buckets[b]);
    room.buckets = std::move(wider);
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
    if (room.stride <= static_cast<std::size_t>(node.gpus))
        widen(room, static_cast<std::size_t>(node.gpus) + 1);
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

bool Packing::is_usable(const Search& search, NodeIndex index, const Placement& out) const {
    if (search.owner != Owner::any && (*lent_)[index] != (search.owner == Owner::lent))
        return false;
    if (!is_in_set(search.place.node_set, index) ||
        !has_resources(search.task, index, out.gpus_per_node) ||
        !is_left_over(*search.task.job, index, out.gpus_per_node, out.outlasts, out.own))
        return false;
    // Only loans ask more than once.
    return lent_ == nullptr ||
           std::find(out.nodes.begin(), out.nodes.end(), index) == out.nodes.end();
}

/// Adds nodes of that owner that are not taken yet, until there are so many.
void Packing::collect(const Search& search, Placement& out) const {
    if (out.nodes.size() >= search.wanted) return;
    if (fabric().is_flat()) return collect_any(search, out);
    if (out.nodes.size() + 1 == search.wanted && (out.nodes.empty() || !fabric().has_limits()))
        return collect_one(search, out);
    collect_near(search, out);
}

/// The fullest first.
void Packing::collect_any(const Search& search, Placement& out) const {
    const Room& room = room_of(search.choice);
    for (auto left = static_cast<std::size_t>(out.gpus_per_node); left < room.stride; ++left)
        for (std::size_t group = 0; group < groups(); ++group)
            for (const NodeIndex index : room.bucket(group, left)) {
                if (out.nodes.size() >= search.wanted) return;
                if (is_usable(search, index, out)) out.nodes.push_back(index);
            }
}

/// Of the lowest class the fullest, of these one of the leaf with the least room.
void Packing::collect_one(const Search& search, Placement& out) const {
    const Room& room = room_of(search.choice);
    const std::uint32_t classes = fabric().classes();
    std::vector<std::pair<std::int64_t, std::uint32_t>> leaves;
    for (std::uint32_t c = 0; c < classes; ++c)
        for (auto left = static_cast<std::size_t>(out.gpus_per_node); left < room.stride; ++left) {
            leaves.clear();
            for (std::uint32_t leaf = 0; leaf < fabric().leaves(); ++leaf)
                if (!room.bucket(std::size_t{leaf} * classes + c, left).empty())
                    leaves.emplace_back(room.free_of_leaf[leaf], leaf);
            std::sort(leaves.begin(), leaves.end());
            for (const auto& [free, leaf] : leaves)
                for (const NodeIndex index : room.bucket(std::size_t{leaf} * classes + c, left)) {
                    if (!is_usable(search, index, out)) continue;
                    out.nodes.push_back(index);
                    return;
                }
        }
}

/// Those that the task may have of a leaf, the lowest classes and the fullest first.
std::vector<NodeIndex> Packing::usable_on(const Search& search, std::uint32_t leaf,
                                          std::uint32_t classes, const Placement& out) const {
    const Room& room = room_of(search.choice);
    std::vector<NodeIndex> nodes;
    for (std::uint32_t c = 0; c < classes; ++c)
        for (auto left = static_cast<std::size_t>(out.gpus_per_node); left < room.stride; ++left)
            for (const NodeIndex n : room.bucket(std::size_t{leaf} * fabric().classes() + c, left))
                if (is_usable(search, n, out)) nodes.push_back(n);
    return nodes;
}

/// By free GPUs alone: who may be taken is looked at only where the leaf is chosen.
void Packing::count_room(const Search& search, std::uint32_t of_class, std::int64_t per_node,
                         std::vector<std::int64_t>& rooms) const {
    const Room& room = room_of(search.choice);
    if (search.place.node_set >= leaves_->size()) return;
    const auto& in_set = (*leaves_)[search.place.node_set];
    for (std::uint32_t leaf = 0; leaf < rooms.size(); ++leaf) {
        if (!in_set.empty() && !in_set[leaf]) continue;
        const std::size_t group = std::size_t{leaf} * fabric().classes() + of_class;
        for (auto left = static_cast<std::size_t>(per_node); left < room.stride; ++left)
            rooms[leaf] += std::ssize(room.bucket(group, left));
    }
}

/// Where nodes of one leaf are wanted, whether one has as many: which others have is no matter.
bool Packing::is_near_enough(const Search& search, std::span<const std::int64_t> rooms,
                             std::int64_t wanted) {
    return search.widest > Span::leaf || *std::max_element(rooms.begin(), rooms.end()) >= wanted;
}

/// Takes nodes of the first so many classes, from the leaves that Fabric::choose() says. rooms: at
/// least as many nodes as the task may have of each leaf.
bool Packing::take_shares(const Search& search, std::uint32_t classes,
                          std::vector<std::int64_t> rooms, Placement& out) const {
    std::map<std::uint32_t, std::vector<NodeIndex>> usable;
    std::vector<Fabric::Share> shares;
    const auto wanted = static_cast<std::int64_t>(search.wanted - out.nodes.size());
    const auto whole = [&](std::int64_t nodes) { return nodes - nodes % search.segment; };
    for (std::int64_t& room : rooms) room = whole(room);
    while (is_near_enough(search, rooms, wanted) && fabric().choose(rooms, wanted, shares)) {
        if (fabric().span_of(shares) > search.widest) return false;
        bool is_known = true;
        for (const Fabric::Share& share : shares) {
            const auto [at, is_new] = usable.try_emplace(share.leaf);
            if (!is_new) continue;
            at->second = usable_on(search, share.leaf, classes, out);
            const std::int64_t room = whole(std::ssize(at->second));
            is_known = is_known && room == rooms[share.leaf];
            rooms[share.leaf] = room;
        }
        if (!is_known) continue;
        for (const Fabric::Share& share : shares) {
            const auto& nodes = usable.at(share.leaf);
            out.nodes.insert(out.nodes.end(), nodes.begin(), nodes.begin() + share.nodes);
        }
        return true;
    }
    return false;
}

/// Of as few classes as have enough. Without limits, what there is where there are too few.
void Packing::collect_near(const Search& search, Placement& out) const {
    std::vector<std::int64_t> rooms(fabric().leaves(), 0);
    for (std::uint32_t c = 0; c < fabric().classes(); ++c) {
        count_room(search, c, out.gpus_per_node, rooms);
        if (take_shares(search, c + 1, rooms, out)) return;
    }
    if (!fabric().has_limits()) collect_any(search, out);
}

/// Where loans are, what is preferred of the job's own nodes and of lent ones first.
void Packing::collect_all(const Task& task, const Choice& choice, const Place& place,
                          Placement& out) const {
    const auto wanted = static_cast<std::size_t>(choice.gpus / out.gpus_per_node);
    const Span widest = problem_->widest(choice, *out.offer);
    const std::int64_t segment = out.offer->segment;
    const auto collect_of = [&](Owner owner, std::size_t most) {
        collect({task, choice, place, owner, most, widest, segment}, out);
    };
    if (lent_ != nullptr) {
        const auto own =
            static_cast<std::size_t>((own_gpus_ + out.gpus_per_node - 1) / out.gpus_per_node);
        collect_of(Owner::own, std::min(own, wanted));
        collect_of(Owner::lent, wanted);
    }
    collect_of(Owner::any, wanted);
    const bool is_limited = fabric().has_limits() || widest < fabric().widest() || segment > 1;
    if (lent_ == nullptr || !is_limited) return;
    if (out.nodes.size() == wanted && is_together(out) && fabric().span_of(out.nodes) <= widest)
        return;
    out.nodes.clear();
    collect_of(Owner::any, wanted);
}

/// Whether a job may have the nodes, and they lie as near as the offer needs; the choice aside.
bool Packing::is_together(const Placement& out) const {
    return fabric().allows(out.nodes) && fabric().keeps_segments(out.nodes, out.offer->segment);
}

bool Packing::take(const Task& task, const Choice& choice, const Place& place,
                   std::int64_t per_node, Placement& out) {
    const auto wanted = static_cast<std::size_t>(choice.gpus / per_node);
    if (!allows(place, *task.job, choice.gpus / per_node, per_node)) return false;
    out.nodes.clear();
    out.split.clear();
    out.gpus_per_node = per_node;
    const Span widest = problem_->widest(choice, *out.offer);
    out.outlasts = outlasted_by(task, problem_->run_s(task, *out.offer, widest));
    out.own = own_hold(*task.job);
    collect_all(task, choice, place, out);
    if (out.nodes.size() < wanted) return false;
    out.span = fabric().span_of(out.nodes);
    if (out.span > widest || !fabric().keeps_segments(out.nodes, out.offer->segment)) return false;
    put(task, out);
    std::sort(out.nodes.begin(), out.nodes.end());
    return true;
}

/// As Slurm shares out a job's tasks among its nodes: each node in its order is filled as far as
/// one is left for each of those behind it.
std::vector<std::int64_t> Packing::split_of(std::span<const Piece> pieces, std::int64_t gpus) {
    std::vector<std::int64_t> split;
    for (std::size_t n = 0; n < pieces.size(); ++n) {
        const auto behind = static_cast<std::int64_t>(pieces.size() - n - 1);
        split.push_back(std::min(pieces[n].gpus, gpus - behind));
        gpus -= split.back();
    }
    return split;
}

/// The first of the pieces that have so many GPUs together; empty: they have fewer.
std::vector<Packing::Piece> Packing::first_of(std::span<const Piece> pieces, std::int64_t gpus) {
    std::vector<Piece> taken;
    for (const Piece& piece : pieces) {
        if (gpus <= 0) break;
        gpus -= piece.gpus;
        taken.push_back(piece);
    }
    if (gpus > 0) taken.clear();
    return taken;
}

/// Of the leaf that needs the fewest nodes for it. Where no leaf has so many GPUs, of all pieces,
/// if a job may have nodes of any leaves.
std::vector<Packing::Piece> Packing::fewest_of_one_leaf(std::vector<Piece> pieces,
                                                        std::int64_t gpus) const {
    if (fabric().leaves() == 1) return first_of(pieces, gpus);
    std::map<std::uint32_t, std::vector<Piece>> of_leaf;
    for (const Piece& piece : pieces) of_leaf[fabric().leaf_of(piece.node)].push_back(piece);
    std::vector<Piece> best;
    for (const auto& [leaf, here] : of_leaf) {
        std::vector<Piece> taken = first_of(here, gpus);
        if (!taken.empty() && (best.empty() || taken.size() < best.size())) best = std::move(taken);
    }
    if (best.empty() && !fabric().has_limits()) best = first_of(pieces, gpus);
    return best;
}

/// The fewest nodes that have the GPUs together, the largest pieces first, in the order of the
/// nodes; lent ones aside.
/// gpus_of(node, most): how many of so many the task may have there.
template <typename GpusOf>
std::vector<Packing::Piece> Packing::pieces(const Task& task, const Choice& choice,
                                            const Place& place, GpusOf gpus_of) const {
    const JobState& job = *task.job;
    const Room& room = room_of(choice);
    std::vector<Piece> found;
    std::int64_t whole = 0;  // GPUs of those that are all that is free: no node behind has more
    const bool any_leaf = fabric().is_flat();
    for (std::size_t left = room.stride; left-- > 1 && !(any_leaf && whole >= choice.gpus);)
        for (std::size_t group = 0; group < groups(); ++group)
            for (const NodeIndex index : room.bucket(group, left)) {
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
    std::sort(found.begin(), found.end(), [](const Piece& a, const Piece& b) {
        return std::pair(-a.gpus, a.node) < std::pair(-b.gpus, b.node);
    });
    found = fewest_of_one_leaf(std::move(found), choice.gpus);
    const auto nodes = static_cast<std::int64_t>(found.size());
    if (found.empty() || nodes < place.min_nodes || nodes > place.max_nodes) return {};
    std::sort(found.begin(), found.end(),
              [](const Piece& a, const Piece& b) { return a.node < b.node; });
    // As equal ones they are another layout, which is there to be taken, or is not to be.
    const std::vector<std::int64_t> split = split_of(found, choice.gpus);
    const bool differ =
        std::adjacent_find(split.begin(), split.end(), std::not_equal_to<>()) != split.end();
    return differ ? found : std::vector<Piece>();
}

bool Packing::take_pieces(const Task& task, const Choice& choice, const Place& place,
                          Placement& out) {
    const Span widest = problem_->widest(choice, *out.offer);
    out.outlasts = outlasted_by(task, problem_->run_s(task, *out.offer, widest));
    out.own = own_hold(*task.job);
    // Slurm, which knows of no holds, might fill a node that is kept in part.
    const auto all = pieces(task, choice, place, [&](NodeIndex index, std::int64_t most) {
        const std::int64_t gpus =
            largest(most, [&](std::int64_t some) { return has_resources(task, index, some); });
        return is_left_over(*task.job, index, gpus, out.outlasts, out.own) ? gpus : 0;
    });
    if (all.empty()) return false;
    out.nodes.clear();
    for (const Piece& piece : all) out.nodes.push_back(piece.node);
    out.span = fabric().span_of(out.nodes);
    if (out.span > widest) return false;
    Grid grid;
    set_split(grid, split_of(all, choice.gpus));
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
    const Room& room = room_of(choice);
    const auto in_place = [&](const Place& place, const Offer& offer, std::int64_t per_node) {
        const std::int64_t wanted = choice.gpus / per_node;
        if (!allows(place, *task.job, wanted, per_node)) return false;
        if (wanted % offer.segment != 0 || !fabric().keeps_segments({}, offer.segment))
            return false;
        const Span widest = problem_->widest(choice, offer);
        const bool counts_leaves =
            wanted > 1 && (fabric().has_limits() || widest < fabric().widest());
        std::vector<std::int64_t> found(counts_leaves ? fabric().leaves() : 1, 0);
        for (auto left = static_cast<std::size_t>(per_node); left < room.stride; ++left)
            for (std::size_t group = 0; group < groups(); ++group)
                for (const NodeIndex index : room.bucket(group, left)) {
                    if (!is_in_set(place.node_set, index) || !usable(index, per_node)) continue;
                    if (++found[counts_leaves ? fabric().leaf_of(index) : 0] >= wanted) return true;
                }
        std::vector<Fabric::Share> shares;
        for (std::int64_t& nodes : found) nodes -= nodes % offer.segment;
        return counts_leaves && fabric().choose(found, wanted, shares) &&
               fabric().span_of(shares) <= widest;
    };
    const auto in_pieces = [&](const Place& place, const Offer& offer) {
        const auto gpus_of = [&](NodeIndex index, std::int64_t most) {
            return largest(most, [&](std::int64_t some) { return usable(index, some); });
        };
        std::vector<NodeIndex> nodes;
        for (const Piece& piece : pieces(task, choice, place, gpus_of)) nodes.push_back(piece.node);
        return !nodes.empty() && fabric().span_of(nodes) <= problem_->widest(choice, offer);
    };
    const Offer* found = nullptr;
    const bool any = any_layout(choice, [&](const Offer& offer, std::int64_t per_node) {
        found = &offer;
        return any_place(*task.job, [&](const Place& place, std::uint32_t) {
            return offer.grid.is_uneven() ? in_pieces(place, offer)
                                          : in_place(place, offer, per_node);
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
