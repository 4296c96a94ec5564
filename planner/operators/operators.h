// SPDX-License-Identifier: GPL-2.0-or-later
// The operators that one GPU executes for a shard of a model: one layer of each kind, the
// embedding, the head, the optimizer, as shapes that the profiler measures and the cost model
// prices. Sources: Narayanan et al. 2021 (which GEMMs a rank has), Lepikhin et al. 2020 (experts),
// He et al. 2015 (convolutions). A ShardShape and a LayerKind determine all of them. Communication
// is not here; the sizes that it moves are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/profile.h"
#include "planner/models/layers.h"

namespace arena {

struct ShardShape {
    std::int64_t tp = 1;
    std::int64_t micro_batch = 1;    ///< samples
    bool sequence_parallel = false;  ///< norms and residuals split over the tensor-parallel group
    std::int64_t cp = 1;             ///< ranks that share the tokens of a sample
    /// Ranks that share the experts of a layer. 1: each expert is split by tp as a dense MLP is.
    /// Above 1: a rank routes its tokens / tp, and etp neighbours of its tensor-parallel group,
    /// each with the rows of all of them, split an expert; 1: experts are whole.
    std::int64_t ep = 1, etp = 1;
    bool operator==(const ShardShape&) const = default;
};

/// `count` executions per micro-batch; a fraction where ranks share one (context parallelism).
struct OpCount {
    OpShape shape;
    double count = 1;
};

struct ShardOperators {
    std::vector<OpCount> layer_forward, layer_backward;
    std::vector<OpCount> embedding;  ///< forward and backward, first stage
    /// Final norm, logits, loss: forward and backward, last stage; multi-token prediction, whose
    /// layers' communication is left out.
    std::vector<OpCount> head;
    std::vector<OpCount> attention;  ///< what selective recompute repeats, per layer; may be empty
    OpShape optimizer;               ///< one step over one layer's shard; linear in parameters
};
/// Layer operators of `kind`; embedding, head are the model's. Under fp8, mxfp8, nvfp4 the GEMMs of
/// the blocks have that precision, everything else (router, logits too) is bf16.
ShardOperators shard_operators(const Model&, Precision, const ShardShape&, const LayerKind& kind);
/// Of the model's first kind of layer; the only one of a dense model without windows.
ShardOperators shard_operators(const Model&, Precision, const ShardShape&);
/// Forward of the MLP or the experts of a layer alone, per micro-batch; of other layers none.
std::vector<OpCount> mlp_operators(const Model&, Precision, const ShardShape&, const LayerKind&);

/// Parameters of one layer on one rank: matrices divided by tp, vectors replicated, experts divided
/// by ep and etp (by tp when ep is 1). Experts exchange gradients in a group of their own.
LayerParameters shard_parameters(const Model&, const LayerKind&, const ShardShape&);
/// What is trained of a layer on one rank: all of it, or its adapters.
double trained_parameters(const Model&, const LayerKind&, const ShardShape&);
/// That, over the layers' parameters; 1 where there are no adapters.
double trained_share(const Model&, const LayerList&, const ShardShape&);
/// Parameters of the token table on one rank.
double embedding_shard_parameters(const Model&, std::int64_t tp);  ///< padded table, positions
/// Output table (also when tied), norm, layers for multi-token prediction.
double head_shard_parameters(const Model&, const ShardShape&);
/// Vocabulary rows on one rank, the table padded to a multiple of 128 * tp.
std::int64_t shard_vocab(const Model&, std::int64_t tp);

/// Elements of one layer and one micro-batch that backward needs on one rank: the inputs of its
/// operators, counted as Korthikanti et al. do (GPT with f = 4h in 16 bit: 10h + 24h/t bytes per
/// token plus masks).
struct KeptElements {
    double replicated =
        0;               ///< the same on each tensor-parallel rank; 1/tp under sequence parallelism
    double split = 0;    ///< already a rank's share
    double scores = 0;   ///< softmax output, kept by unfused attention only
    double dropout = 0;  ///< elements of residual dropout masks, one byte each; as `replicated`
};
KeptElements kept_elements(const Model&, const LayerKind&, const ShardShape&);
/// Whose inputs backward needs: what a frozen matrix multiplies, where an adapter multiplies it
/// too.
struct KeptInputs {
    bool attention = true;  ///< query, key and value
    bool mlp = true, down = true;
};
KeptInputs kept_inputs(const Model&);
/// Of these, what the MLP, or experts and their rows, keep beyond their input.
KeptElements mlp_elements(const Model&, const LayerKind&, const ShardShape&);
/// Of these, outputs of norms and of activation functions, which are cheap to compute again.
KeptElements pointwise_elements(const Model&, const LayerKind&, const ShardShape&);

/// Elements of one micro-batch whose channels tensor parallelism splits in a bottleneck block: `in`
/// is gathered for the first 1x1 and the shortcut, `first` for the 3x3; `out` is reduced and
/// scattered behind the last 1x1. Backward does the reverse of each.
struct ChannelElements {
    double in = 0, first = 0, out = 0;
};
ChannelElements bottleneck_channel_elements(const Model&, const LayerKind&, const ShardShape&);
/// Rows that a rank's experts have per MoE layer and micro-batch (tokens * top_k, its share of the
/// tensor-parallel group's when ep > 1, which etp ranks have in common), padded to the capacity
/// where there is one; each row has `hidden` elements.
double routed_rows(const Model&, const ShardShape&);

/// Whether tp divides heads, key-value heads (or replicates them evenly) and the MLPs; of a
/// wide_resnet, the channels. Custom models are never split: tp 1.
bool tp_fits(const Model&, std::int64_t tp);
/// Why it does not, for messages; empty when it does.
std::string tp_obstacle(const Model&, std::int64_t tp);
/// Whether ep divides the experts (1 always does).
bool ep_fits(const Model&, std::int64_t ep);
/// Whether etp ranks of a tensor-parallel group of tp can split an expert; 1 always does.
bool etp_fits(const Model&, std::int64_t tp, std::int64_t ep, std::int64_t etp);
/// Whether cp splits the sequence into 2 cp equal pieces (the balanced causal split); 1 always
/// does.
bool cp_fits(const Model&, std::int64_t cp);
/// What plans use unless told otherwise: whenever tp > 1 divides a transformer's sequence.
bool default_sequence_parallel(const Model&, std::int64_t tp);

}  // namespace arena
