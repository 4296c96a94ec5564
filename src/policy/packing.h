// SPDX-License-Identifier: GPL-2.0-or-later
// Puts choices on nodes: the same number of GPUs on each node of a job, close together in the
// network (fabric.h), fullest nodes first, so that idle nodes stay whole. Keeps the nodes of a type
// in buckets by leaf, class and free GPUs, so that a placement costs time in the nodes it takes and
// the leaves there are, not in the nodes there are.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/decision.h"
#include "policy/fabric.h"
#include "policy/holds.h"
#include "policy/problem.h"

namespace arena {

/// Where a choice stands: `offer` is the layout taken, with its grid's nodes and GPUs per node.
struct Placement {
    const Offer* offer = nullptr;
    std::int64_t gpus_per_node = 0;
    std::vector<NodeIndex> nodes;          ///< ascending
    std::vector<std::int64_t> split = {};  ///< as Grid::split
    [[nodiscard]] std::int64_t gpus_on(std::size_t node) const {
        return split.empty() ? gpus_per_node : split[node];
    }
    Span span = Span::leaf;      ///< how far apart the nodes lie
    std::uint32_t place = 0;     ///< of the job's places, the one that they are of
    std::uint32_t outlasts = 0;  ///< Holds::outlasted_by()
    std::uint32_t own = 0;       ///< Holds::own(): it is held no more
};

/// A copy costs time in the nodes.
class Packing {
  public:
    /// Of nodes with as many GPUs free any may be taken, or the first, which costs time in them.
    enum class Ties { any, first };
    explicit Packing(const Problem&, Ties = Ties::any);
    /// Finds nodes for the choice and takes their GPUs; false (and nothing taken) when there are
    /// none.
    [[nodiscard]] bool place(const Task&, const Choice&, Placement&);
    /// The same in one layout: so many GPUs on each node; of an uneven offer in the split that
    /// takes the fewest nodes.
    [[nodiscard]] bool place_as(const Task&, const Choice&, const Offer&, std::int64_t per_node,
                                Placement&);
    /// Asks `works(offer, GPUs per node)` of each layout that the choice may have, until one does.
    /// Uneven offers, which stand for every split, come last.
    template <typename Works>
    bool any_layout(const Choice& choice, Works works) const {
        const auto offers = problem_->offers(choice);
        bool any_uneven = false;
        for (const Offer* offer : offers) {
            const bool is_uneven = offer->grid.is_uneven();
            any_uneven = any_uneven || is_uneven;
            if (!is_uneven && works(*offer, offer->grid.gpus_per_node)) return true;
        }
        const Offer* any = any_split(*problem_, choice);
        const std::int64_t most = std::min<std::int64_t>(choice.gpus, widest(choice.type));
        for (std::int64_t g = any != nullptr ? most : 0; g >= 1; --g) {
            if (choice.gpus % g == 0 && works(*any, g)) return true;
        }
        if (!any_uneven) return false;
        for (const Offer* offer : offers) {
            if (offer->grid.is_uneven() && works(*offer, offer->grid.gpus_per_node)) return true;
        }
        return false;
    }
    /// Gives back what a placement took; put() takes it, and needs it free.
    void remove(const Task&, const Placement&);
    void put(const Task&, const Placement&);
    /// Frees the nodes of a running task; take_current() is its undoing and needs them still free.
    void release_current(const Task&);
    void take_current(const Task&);
    [[nodiscard]] bool can_take_current(const Task&) const;
    /// From now on a placement takes its first `own_gpus` GPUs, in whole nodes, where `lent` (by
    /// node) is false, the others where it is true, and what is still missing where it finds it.
    /// Keeps the pointer; nullptr: any node.
    void prefer(const std::vector<bool>* lent, std::int64_t own_gpus) {
        lent_ = lent;
        own_gpus_ = own_gpus;
    }
    /// From now on who stands beyond a hold's time has no more of its nodes than they have left
    /// over then. Keeps the pointer; before anything is placed, once.
    void keep(const Holds*);
    [[nodiscard]] bool keeps_any() const { return holds_ != nullptr; }
    /// Holds::outlasted_by(); none where nothing is kept.
    [[nodiscard]] std::uint32_t outlasted_by(const Task& task, const Choice& choice) const {
        return outlasted_by(task, problem_->run_s(task, choice));
    }
    [[nodiscard]] std::uint32_t outlasted_by(const Task& task, double run_s,
                                             double later_s = 0) const {
        return holds_ == nullptr ? 0 : holds_->outlasted_by(*problem_, task, run_s, later_s);
    }
    /// Those of the nodes on which the layout, were it started within later_s, would take what is
    /// kept for promised jobs.
    [[nodiscard]] std::vector<NodeIndex> kept_from(const Task&, const Offer&,
                                                   std::span<const NodeIndex> nodes,
                                                   double later_s) const;
    /// It may be started on any of these nodes, by somebody else: what others may have there
    /// beside what is kept is less by that.
    void leave_open(const Task&, const Offer&, std::span<const NodeIndex> nodes, double later_s);
    [[nodiscard]] bool is_late(const Task& task, const Offer& offer) const {
        return holds_ != nullptr && holds_->is_late(*problem_, task, offer);
    }
    /// Nothing is placed on the node any more.
    void close(NodeIndex);
    [[nodiscard]] std::int64_t free_gpus(std::int32_t type) const {
        return free_of_type_[static_cast<std::size_t>(type)];
    }
    /// Whether all GPUs of the type could be given to the choice by count alone.
    [[nodiscard]] bool could_fit(const Choice& c) const { return free_gpus(c.type) >= c.gpus; }
    /// Nodes that boot, each with its seconds.
    struct Boots {
        double longest_s = 0;  ///< until the last is up
        double node_s = 0;     ///< of all of them together
    };
    /// What the choice needs where fewer GPUs are free on nodes that are up, those counted that the
    /// task holds. By count alone: no less may be needed where these are in pieces.
    [[nodiscard]] Boots boots_for(const Task& task, const Choice& choice) const {
        return any_boots() ? count_boots(task, choice) : Boots{};
    }
    /// Of these nodes, but those that the task holds.
    [[nodiscard]] Boots boots_of(const Task& task, std::span<const NodeIndex> nodes) const {
        return any_boots() ? sum_boots(task, nodes) : Boots{};
    }
    /// Any node sleeps.
    [[nodiscard]] bool any_boots() const { return !asleep_.empty(); }

    [[nodiscard]] bool is_in_set(std::uint32_t node_set, NodeIndex) const;
    [[nodiscard]] bool has_all_nodes(std::uint32_t node_set) const {
        return node_set < in_set_->size() && (*in_set_)[node_set].empty();
    }
    /// Whether the task may use the node, and so many GPUs, and what goes with them, are free
    /// there.
    [[nodiscard]] bool fits_on(const Task& task, NodeIndex index, std::int64_t per_node) const {
        return free_[index].gpus >= per_node && has_resources(task, index, per_node) &&
               is_in_set(task.job->node_set, index);
    }
    /// Whether nodes could be found if nothing but what is taken now stood there; CPUs and memory
    /// aside.
    [[nodiscard]] bool could_stand(const Task&, const Choice&) const;
    /// The layout in which place() would find nodes; nullptr: none.
    [[nodiscard]] const Offer* layout_with_room(const Task&, const Choice&) const;
    [[nodiscard]] bool has_room(const Task& task, const Choice& choice) const {
        return layout_with_room(task, choice) != nullptr;
    }
    struct Left {
        std::int64_t gpus, cpus, memory_mb;
    };
    [[nodiscard]] Left left_on(NodeIndex node) const {
        return {free_[node].gpus, free_[node].cpus, free_[node].memory_mb};
    }
    /// GPUs that the widest node of the type may have free.
    [[nodiscard]] std::int64_t widest(std::int32_t type) const {
        return static_cast<std::int64_t>(rooms_[static_cast<std::size_t>(type)].stride) - 1;
    }
    [[nodiscard]] const Fabric& fabric() const { return problem_->fabric(); }

  private:
    [[nodiscard]] Boots count_boots(const Task&, const Choice&) const;
    [[nodiscard]] Boots sum_boots(const Task&, std::span<const NodeIndex> nodes) const;
    struct Free {
        std::int64_t gpus, cpus, memory_mb;
        std::int32_t type;
        bool same_node;          ///< as NodeState has it
        std::uint32_t slot = 0;  ///< position in its bucket
    };
    [[nodiscard]] bool take(const Task&, const Choice&, const Place&, std::int64_t per_node,
                            Placement&);
    [[nodiscard]] std::uint32_t own_hold(const JobState& job) const {
        return holds_ == nullptr ? 0 : holds_->own(job);
    }
    [[nodiscard]] bool is_left_over(const JobState&, NodeIndex, std::int64_t per_node,
                                    std::uint32_t outlasts, std::uint32_t own) const;
    void change_spares(const JobState&, NodeIndex, std::int64_t gpus, std::uint32_t outlasts);
    void change_own(std::uint32_t own, bool held);
    /// GPUs that an uneven layout may have of a node.
    struct Piece {
        std::int64_t gpus;
        NodeIndex node;
    };
    [[nodiscard]] static std::vector<std::int64_t> split_of(std::span<const Piece>,
                                                            std::int64_t gpus);
    [[nodiscard]] static std::vector<Piece> first_of(std::span<const Piece>, std::int64_t gpus);
    [[nodiscard]] std::vector<Piece> fewest_of_one_leaf(std::vector<Piece>,
                                                        std::int64_t gpus) const;
    template <typename GpusOf>
    [[nodiscard]] std::vector<Piece> pieces(const Task&, const Choice&, const Place&, GpusOf) const;
    [[nodiscard]] bool take_pieces(const Task&, const Choice&, const Place&, Placement&);
    enum class Owner { own, lent, any };
    /// Who asks for how many nodes of whose.
    struct Search {
        const Task& task;
        const Choice& choice;
        const Place& place;
        Owner owner;
        std::size_t wanted;
        Span widest;           ///< how far apart they may lie
        std::int64_t segment;  ///< as Offer has it
    };
    [[nodiscard]] bool is_together(const Placement&) const;
    void collect_all(const Task&, const Choice&, const Place&, Placement&) const;
    void collect(const Search&, Placement&) const;
    void collect_any(const Search&, Placement&) const;
    void collect_one(const Search&, Placement&) const;
    void collect_near(const Search&, Placement&) const;
    [[nodiscard]] static bool is_near_enough(const Search&, std::span<const std::int64_t> rooms,
                                             std::int64_t wanted);
    [[nodiscard]] bool take_shares(const Search&, std::uint32_t classes,
                                   std::vector<std::int64_t> rooms, Placement&) const;
    void count_room(const Search&, std::uint32_t of_class, std::int64_t per_node,
                    std::vector<std::int64_t>& rooms) const;
    [[nodiscard]] std::vector<NodeIndex> usable_on(const Search&, std::uint32_t leaf,
                                                   std::uint32_t classes, const Placement&) const;
    [[nodiscard]] bool is_usable(const Search&, NodeIndex, const Placement&) const;
    [[nodiscard]] bool has_resources(const Task&, NodeIndex, std::int64_t per_node) const;
    template <typename IsFound>
    [[nodiscard]] bool is_near(const Choice&, const Offer&, std::int64_t wanted,
                               std::int64_t per_node, IsFound) const;
    template <typename Usable>
    [[nodiscard]] const Offer* stands(const Task&, const Choice&, bool all_usable, Usable) const;
    void change(const JobState&, NodeIndex, std::int64_t gpus);
    void change_shared(NodeIndex, std::int64_t cpus, std::int64_t memory_mb);
    using Bucket = std::vector<NodeIndex>;
    /// Nodes of one type. `buckets`: by free GPUs, then by group, that is leaf and class.
    struct Room {
        std::size_t stride = 0;  ///< one more than a node may have free
        std::vector<Bucket> buckets;
        std::vector<std::int64_t> free_of_leaf;  ///< GPUs; empty where nothing is chosen by leaf
    };
    [[nodiscard]] const Bucket& bucket(const Room& room, std::size_t group,
                                       std::size_t gpus) const {
        return room.buckets[gpus * groups_ + group];
    }
    /// Asks `works(node)` of each node with at least so many GPUs free, the fullest first, until
    /// one does.
    template <typename Works>
    [[nodiscard]] bool any_node(const Room& room, std::int64_t least_gpus, Works works) const {
        for (std::size_t b = static_cast<std::size_t>(least_gpus) * groups_;
             b < room.buckets.size(); ++b)
            for (const NodeIndex n : room.buckets[b])
                if (works(n)) return true;
        return false;
    }
    /// Nodes with at least so many free.
    [[nodiscard]] std::int64_t count_nodes(const Room&, std::int64_t least_gpus) const;
    [[nodiscard]] std::size_t group_of(NodeIndex n) const {
        return groups_ == 1
                   ? 0
                   : std::size_t{fabric().leaf_of(n)} * fabric().classes() + fabric().class_of(n);
    }
    [[nodiscard]] const Room& room_of(const Choice& c) const {
        return rooms_[static_cast<std::size_t>(c.type)];
    }
    [[nodiscard]] Bucket& bucket(NodeIndex n) {
        Room& room = rooms_[static_cast<std::size_t>(free_[n].type)];
        return room.buckets[static_cast<std::size_t>(free_[n].gpus) * groups_ + group_of(n)];
    }
    void find_leaves_of_sets();
    void widen(Room&, std::size_t stride) const;
    void count(NodeIndex, std::int64_t gpus);
    void enter(NodeIndex);
    void leave(NodeIndex);

    const Problem* problem_;
    Ties ties_;
    std::size_t groups_;  ///< leaves x classes
    const std::vector<bool>* lent_ = nullptr;
    std::int64_t own_gpus_ = 0;
    const Holds* holds_ = nullptr;
    std::uint32_t placed_ = 0;   ///< holds of those that have been placed: they need none any more
    std::vector<Spare> spares_;  ///< by node
    std::vector<std::uint32_t> first_spare_;  ///< by node and one more; empty without holds
    std::vector<Free> free_;
    std::vector<Room> rooms_;  ///< by type
    std::vector<std::int64_t> free_of_type_;
    /// By type; empty: no node sleeps.
    struct Asleep {
        double longest_s = 0;   ///< of the nodes that had any free at first
        std::int64_t gpus = 0;  ///< free on all that sleep
    };
    std::vector<Asleep> asleep_;
    using Sets = std::vector<std::vector<bool>>;
    std::shared_ptr<const Sets> in_set_;  ///< [node set][node]; empty when the set has every node
    std::shared_ptr<const Sets> leaves_;  ///< [node set][leaf] likewise; null where all is flat
};

/// The action that gives the task its placement: start when it waits, else resize.
Action action_for(const Task&, const Placement&, std::string reason);

}  // namespace arena
