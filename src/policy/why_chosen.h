// SPDX-License-Identifier: GPL-2.0-or-later
// Why a job was given the shape that it gets: what it could have had in its place, and what was in
// the way of that. For people who ask of one job.
#pragma once

#include <string>

#include "policy/reservation.h"

namespace arena {

/// " in one leaf", " in one pod", " in one block", ", 2 nodes of a block at a time": how near its
/// nodes lie together, where the choice asks for that.
std::string near_words(const Problem&, const Choice&, const Offer&);

/// Of a start: "its fastest shape", "its only shape", or the fastest one and why it is not that:
/// "8xa100 would be 1.6 times as fast: not enough free now". Of a resize: what the job gains by it.
/// left: what the decision leaves, all its actions included. Costs a copy of that packing.
std::string why_chosen(const Problem&, const Task&, const Action&, const Leftover& left);

}  // namespace arena
