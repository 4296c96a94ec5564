// SPDX-License-Identifier: GPL-2.0-or-later
// Tables of slow GPUs and links: of our own, or the injection plans that Greyhound's authors
// (ATC'25) published.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/slow/slowdowns.h"

namespace arena::sim {

/// Three forms, told apart by their columns; others are ignored. Nodes are those of the cluster, by
/// number from 0, in our own form by name, too.
/// - time_s, duration_s, node, factor, kind (compute, communication), and where known gpu (empty:
///   all; several with spaces), peer, peer_gpu.
/// - start_s, duration_s, node_a, gpu_a, node_b, gpu_b, kind_0comp_1comm: as slow as
/// `usual_factor`.
/// - start_s, duration_s, node, gpus, delay_s_per_hook_or_peer_node, kind_0comp_1comm: a delay of
///   each iteration, or a link as slow as `usual_factor`.
/// By start. Errors: file:line and column; more than 100,000 rows.
Result<std::vector<Slowdown>> parse_slowdowns(std::string_view text, const std::string& name,
                                              const std::vector<NodeState>& nodes,
                                              double usual_factor);

}  // namespace arena::sim
