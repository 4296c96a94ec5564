// SPDX-License-Identifier: GPL-2.0-or-later
// Which nodes a choice finds, whole or in pieces: see packing.h.
#include <algorithm>
#include <functional>
#include <map>

#include "policy/packing.h"
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
    if (out.nodes.size() + 1 == search.wanted &&
        (out.nodes.empty() || !problem_->is_limited(search.place)))
        return collect_one(search, out);
    collect_near(search, out);
}

/// The fullest first.
void Packing::collect_any(const Search& search, Placement& out) const {
    (void)any_node(room_of(search.choice), out.gpus_per_node, [&](NodeIndex index) {
        if (is_usable(search, index, out)) out.nodes.push_back(index);
        return out.nodes.size() >= search.wanted;
    });
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
                if (!bucket(room, std::size_t{leaf} * classes + c, left).empty())
                    leaves.emplace_back(room.free_of_leaf[leaf], leaf);
            std::sort(leaves.begin(), leaves.end());
            for (const auto& [free, leaf] : leaves)
                for (const NodeIndex index : bucket(room, std::size_t{leaf} * classes + c, left)) {
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
            for (const NodeIndex n : bucket(room, std::size_t{leaf} * fabric().classes() + c, left))
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
            rooms[leaf] += std::ssize(bucket(room, group, left));
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
    if (!problem_->is_limited(search.place)) collect_any(search, out);
}

/// Where loans are, what is preferred of the job's own nodes and of lent ones first.
void Packing::collect_all(const Task& task, const Choice& choice, const Place& place,
                          Placement& out) const {
    const auto wanted = static_cast<std::size_t>(choice.gpus / out.gpus_per_node);
    const Span widest = problem_->widest(choice, *out.offer);
    const auto collect_of = [&](Owner owner, std::size_t most) {
        collect({task, choice, place, owner, most, widest, out.offer->segment}, out);
    };
    if (lent_ != nullptr) {
        const auto own =
            static_cast<std::size_t>((own_gpus_ + out.gpus_per_node - 1) / out.gpus_per_node);
        collect_of(Owner::own, std::min(own, wanted));
        collect_of(Owner::lent, wanted);
    }
    collect_of(Owner::any, wanted);
    if (lent_ == nullptr || problem_->may_lie_anywhere(place, choice, *out.offer)) return;
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
        for (std::size_t group = 0; group < groups_; ++group)
            for (const NodeIndex index : bucket(room, group, left)) {
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

/// Whether a job may have so many of the nodes together, as near as the offer needs them.
template <typename IsFound>
bool Packing::is_near(const Choice& choice, const Offer& offer, std::int64_t wanted,
                      std::int64_t per_node, IsFound is_found) const {
    std::vector<std::int64_t> found(fabric().leaves(), 0);
    const bool in_one_leaf = any_node(room_of(choice), per_node, [&](NodeIndex n) {
        return is_found(n) && ++found[fabric().leaf_of(n)] >= wanted;
    });
    if (in_one_leaf) return true;
    for (std::int64_t& nodes : found) nodes -= nodes % offer.segment;
    std::vector<Fabric::Share> shares;
    return fabric().choose(found, wanted, shares) &&
           fabric().span_of(shares) <= problem_->widest(choice, offer);
}

std::int64_t Packing::count_nodes(const Room& room, std::int64_t least_gpus) const {
    std::int64_t nodes = 0;
    for (std::size_t b = static_cast<std::size_t>(least_gpus) * groups_; b < room.buckets.size();
         ++b)
        nodes += std::ssize(room.buckets[b]);
    return nodes;
}

/// The first layout that finds as many nodes for which usable(node, GPUs on it) is true; or null.
/// all_usable: it is of every node.
template <typename Usable>
const Offer* Packing::stands(const Task& task, const Choice& choice, bool all_usable,
                             Usable usable) const {
    const auto in_place = [&](const Place& place, const Offer& offer, std::int64_t per_node) {
        const std::int64_t wanted = choice.gpus / per_node;
        if (!allows(place, *task.job, wanted, per_node)) return false;
        if (wanted % offer.segment != 0 || !fabric().keeps_segments({}, offer.segment))
            return false;
        const auto is_found = [&](NodeIndex n) {
            return is_in_set(place.node_set, n) && usable(n, per_node);
        };
        if (wanted > 1 && !problem_->may_lie_anywhere(place, choice, offer))
            return is_near(choice, offer, wanted, per_node, is_found);
        if (all_usable && has_all_nodes(place.node_set))
            return count_nodes(room_of(choice), per_node) >= wanted;
        std::int64_t found = 0;
        return any_node(room_of(choice), per_node,
                        [&](NodeIndex n) { return is_found(n) && ++found >= wanted; });
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
    return stands(task, choice, (outlasts & ~placed_) == 0,
                  [&](NodeIndex index, std::int64_t per_node) {
                      return is_left_over(*task.job, index, per_node, outlasts, own);
                  }) != nullptr;
}

const Offer* Packing::layout_with_room(const Task& task, const Choice& choice) const {
    const std::uint32_t outlasts = outlasted_by(task, choice), own = own_hold(*task.job);
    return stands(task, choice, false, [&](NodeIndex index, std::int64_t per_node) {
        return has_resources(task, index, per_node) &&
               is_left_over(*task.job, index, per_node, outlasts, own);
    });
}

}  // namespace arena
