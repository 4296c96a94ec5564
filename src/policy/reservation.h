// SPDX-License-Identifier: GPL-2.0-or-later
// Waiting jobs that a policy leaves out wait for what frees up. In Slurm some of them must stand in
// the queue with a shape, for backfill to reserve for: else ordinary jobs behind them take every
// GPU first.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "policy/packing.h"

namespace arena {

/// Nodes, ascending, of all the places of the task that could hold the offer, or a piece of an
/// uneven one, were they empty; none: no place could.
std::vector<NodeIndex> hosts_of(const Problem&, const Task&, const Offer&);

/// Whether no nodes of the task, were they empty, could hold an offer with the same number of GPUs
/// on each, but one whose pieces differ. O(its offers x nodes); 0 where it has no such offer.
bool only_in_pieces(const Problem&, const Task&);

/// What a decision leaves, for whoever is told why it waits.
struct Leftover {
    const Packing* packing;        ///< what is free then
    std::vector<NodeIndex> given;  ///< nodes that the decision gives to others, or leaves them
    /// Ascending: nodes on which Slurm is to start ordinary jobs, and nobody else.
    std::vector<NodeIndex> slurms = {};
    /// Those of the actions, and of the tasks that keep what they run with.
    Leftover(const Problem&, const Packing&, std::span<const Action>,
             const std::vector<bool>& keeps = {});
};

/// Of a choice that finds no nodes in what is free, though nobody else has them: too few GPUs, or
/// in pieces.
std::string_view why_not_free(const Problem&, const Task&, const Choice&, const Packing&);

/// "waits for 4xa40: " and what is in its way: others, too few free GPUs, or free GPUs in pieces.
std::string waits_for(const Problem&, const Task&, const Offer&, const Leftover&);

/// One reshape_and_wait for each of the first waiting tasks in Slurm's order, at most
/// options.reserve_depth for each GPU type: with the choice of the highest value that the nodes
/// which the job may use could hold were they empty. `values`: by choice, of all tasks one after
/// the other; `given`: by task, those that have what they will have, and afterwards those with a
/// reservation, too. What is kept for promised and ordinary jobs Slurm is to leave to them
/// (Action::kept): where that leaves a job no nodes it has none.
std::vector<Action> reservations(const Problem&, std::span<const double> values, const Leftover&,
                                 std::vector<bool>& given);

/// Fills Action::kept of starts: Slurm may be the one to start them. Only where something is kept
/// for somebody. slurms: as of Leftover.
void keep_from_slurm(const Problem&, const Packing&, std::span<const NodeIndex> slurms,
                     std::span<Action>);

/// Of a job whose offers no nodes could hold, were they empty.
inline constexpr const char* nowhere_words =
    "no nodes that this job may use, and that are up, can hold its grids";

/// Jobs without any choice take no part in a round, but have to be told so.
void say_what_is_impossible(const Problem&, Decision&);

/// What a waiting task that gets neither GPUs nor a reservation is told: the shape that it would be
/// reserved for.
std::string waiting_words(const Problem&, const Task&, std::span<const double> values,
                          const Leftover&);

}  // namespace arena
