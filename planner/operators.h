// SPDX-License-Identifier: GPL-2.0-or-later
// The operators that one GPU executes for a shard of a transformer: one layer, the embedding, the
// head, the optimizer, as shapes that the profiler measures and the cost model prices. Source:
// planner.md section 1. A (tp, micro_batch, sequence_parallel) triple determines all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/profile.h"
#include "core/values.h"

namespace arena {

struct ShardShape {
    std::int64_t tp = 1;
    std::int64_t micro_batch = 1;    ///< samples
    bool sequence_parallel = false;  ///< norms and residuals split over the tensor-parallel group
    bool operator==(const ShardShape&) const = default;
};

/// `count` executions per micro-batch.
struct OpCount {
    OpShape shape;
    double count = 1;
};

struct ShardOperators {
    std::vector<OpCount> layer_forward, layer_backward;
    std::vector<OpCount> embedding;  ///< forward and backward, first stage
    std::vector<OpCount> head;       ///< final norm, logits, loss: forward and backward, last stage
    OpShape attention;               ///< what selective recompute repeats, once per layer
    OpShape optimizer;               ///< one step over one layer's shard; linear in parameters
};
ShardOperators shard_operators(const Model&, Precision, const ShardShape&);

/// Parameters of one layer / of the token table on one rank: matrices divided by tp, vectors
/// replicated.
double layer_shard_parameters(const Model&, std::int64_t tp);
double embedding_shard_parameters(const Model&, std::int64_t tp);  ///< padded table, positions
double head_shard_parameters(const Model&,
                             std::int64_t tp);  ///< output table (also when tied), norm
/// Vocabulary rows on one rank, the table padded to a multiple of 128 * tp.
std::int64_t shard_vocab(const Model&, std::int64_t tp);

/// Whether tp divides heads, key-value heads (or replicates them evenly) and the MLP.
bool tp_fits(const Model&, std::int64_t tp);
/// What plans use unless told otherwise: whenever tp > 1 divides the sequence.
bool default_sequence_parallel(const Model&, std::int64_t tp);

}  // namespace arena
