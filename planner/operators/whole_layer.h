// SPDX-License-Identifier: GPL-2.0-or-later
// A layer as one operator: what a profile measures beside the layer's single operators, because
// their sum leaves out what lies between them (heads that are split and merged, sums of gradients,
// caches that are warm, launches that the device waits for). Dense transformers with plain
// attention and no communication inside only; others keep the sum.
#pragma once

#include <optional>
#include <vector>

#include "core/profile.h"
#include "planner/operators/cost.h"
#include "planner/operators/operators.h"

namespace arena {

/// The shard's layer of that kind in one pass, launched operator by operator; nothing where no
/// back-end runs such a layer whole.
std::optional<OpShape> whole_layer(const Model&, Precision, const ShardShape&, const LayerKind&,
                                   Pass);
/// The same, launched as one graph: what the device itself needs.
OpShape as_graph(OpShape plain);
/// What a layer consists of, as shard_operators() lists it: the inverse of whole_layer().
std::vector<OpCount> operators_of(const OpShape& layer);

/// One pass through a layer.
struct PassTime {
    double seconds = 0;  ///< of the device
    double issue_s = 0;  ///< plain launches take at least this; 0 = not known
    double exact_s = 0;  ///< of `seconds`, what rests on a layer that was measured itself
};
/// `sum_s`, the sum of the operators' prices, corrected by whole layers: measured seconds where
/// this very layer was (its graph; launched plainly where the device has no graphs), else the sum
/// times the ratio that the measured layers around it have to the sums of their own operators.
PassTime pass_time(const Pricer&, const std::optional<OpShape>& layer, double sum_s);

}  // namespace arena
