// SPDX-License-Identifier: GPL-2.0-or-later
// The stages of a round: intake -> decide -> apply -> explain. Each takes values and books and
// returns a value; jobs are changed by apply() alone. None is called with locks held.
#pragma once

#include <functional>

#include "core/decision.h"
#include "plugin/sched/round/books.h"
#include "plugin/sched/round/round.h"

namespace arena {

/// Asked between jobs: once true, the controller stops, and what is left of a round with it.
using Stopping = std::function<bool()>;

/// What Slurm did since the last round, what each job wants, which of them take part in the
/// decision and as what. Starts profile runs, which take their nodes out of the view.
Round intake(ClusterView view, Books& books, const Stopping& stopping);

/// Of intake(): which jobs that train members of arrays are to leave their nodes, and how. The view
/// is what it is once jobs avoid what they avoid.
void move_arrays(const ClusterView& view, Books& books);

/// Pure.
Decision decide(const Round& round, const Policy& policy);
/// Of intake(): what the jobs considered so far would start with, were they alone, so that profile
/// runs of those that stand behind them leave it to them.
void look_ahead(Round& round, const Policy& policy);
/// What is free, with what jobs that save their state give back.
std::vector<NodeState> free_nodes(const Round& round);

/// Carries the round's orders and the decision out, job by job, where they still hold.
Journal apply(const Round& round, const Decision& decision, Books& books, Host& host);

/// Keeps for who asks what there is to say of each job; returns what Slurm is to show.
std::vector<Host::Reason> explain(const Round& round, const Decision& decision,
                                  const Journal& journal, Books& books);

/// What is new of each job, for `arena history`.
void note_history(Books& books, double now_s);

}  // namespace arena
