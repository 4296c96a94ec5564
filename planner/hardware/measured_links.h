// SPDX-License-Identifier: GPL-2.0-or-later
// Measured collectives as link constants: what `arena-profiler comm` measured on a site's nodes
// takes the place of what the hardware entry says of its links.
#pragma once

#include <vector>

#include "core/comm_table.h"
#include "core/hardware.h"

namespace arena {

/// The type with the start-up and the rate of `intra` and `inter` at which the formulas of
/// collectives.h give the measured times: of each op, group size and placement the smallest and the
/// largest message, the median over them. Groups inside a node and between nodes are fitted apart;
/// what nobody measured stays as it is. Between nodes, those rows count that keep the most ranks of
/// a node busy: they share its network. Groups are taken to share their nodes, as `arena-profiler
/// comm` places them; where all of them together are the ranks of the table's largest single group,
/// on more nodes than one of them, they lie on different nodes.
/// `inter` is that of groups in one leaf, or, without any, of those whose span nobody said. Groups
/// over leaves of a pod, and over pods, give `uplinks`, each beside the level below; groups in one
/// domain count for `intra`.
GpuType with_measured_links(GpuType, const std::vector<CommTime>&);

}  // namespace arena
