// SPDX-License-Identifier: GPL-2.0-or-later
// The layers of a model, in order and run-length encoded: a pipeline shares out layers, and layers
// of one kind cost the same. A dense transformer has one kind; a mixture of experts, alternating
// attention windows, a residual network or a user's own list have several. Parameters and FLOPs of
// a kind are here; its operators are in operators.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/model.h"

namespace arena {

struct LayerKind {
    enum class Body {
        dense,       ///< attention and an MLP
        moe,         ///< attention and experts
        bottleneck,  ///< convolutions 1x1, 3x3, 1x1 around a shortcut
        custom,      ///< an entry of Model::custom_layers
    } body = Body::dense;
    std::int64_t window = 0;  ///< dense and moe: keys that a query sees; 0 = all
    std::size_t index = 0;    ///< bottleneck: stage of the network; custom: entry
    bool is_first = false;  ///< bottleneck: first of its stage, with stride and projected shortcut
    bool operator==(const LayerKind&) const = default;
};

/// `count` layers of kinds[kind], one after the other.
struct LayerRun {
    std::size_t kind = 0;
    std::int64_t count = 0;
    bool operator==(const LayerRun&) const = default;
};

/// Every kind occurs in some run; counts are at least 1 and sum to Model::layers.
struct LayerList {
    std::vector<LayerKind> kinds;
    std::vector<LayerRun> runs;
    [[nodiscard]] std::int64_t count_of(std::size_t kind) const;
};

/// The layers of a model that check_model() accepts; O(layers) at worst.
LayerList layer_list(const Model&);
/// Elements of one sample that reach the first layer; of a custom model, of whose input nothing is
/// said, as much as that layer writes.
double first_input_elements(const Model&, const LayerList&);

/// Trainable parameters of one layer. `dense`: outside experts, of which tensor parallelism divides
/// `split`: those in matrices; of a bottleneck block, all. `expert`: in routed experts. `active`:
/// used by one token (all, but top_k of the experts).
struct LayerParameters {
    double dense = 0, split = 0, expert = 0, active = 0;
    [[nodiscard]] double total() const { return dense + expert; }
};
LayerParameters layer_parameters(const Model&, const LayerKind&);
/// Forward FLOPs of one sample: GEMMs and convolutions 2mnk, attention over all keys in sight
/// without causal halving (4 s^2 h per full layer), top_k experts per token, no padding.
double layer_forward_flops(const Model&, const LayerKind&);
/// Elements of a layer's output, per sample: what crosses a pipeline boundary after it. For a
/// custom layer its output bytes over the element size.
double layer_output_elements(const Model&, const LayerKind&);

// ---- dimensions that follow from the model's fields
// ------------------------------------------------

std::int64_t head_dim(const Model&);        ///< of queries and keys
std::int64_t value_head_dim(const Model&);  ///< of values; differs under latent attention
/// Bits of lora_target that have adapters; 0 = all weights are trained.
std::int64_t adapted_matrices(const Model&);
bool is_latent(const Model&);  ///< multi-head latent attention (kv_lora_rank > 0)
/// Share of the causal triangle that a sliding window leaves: 1 - (1 - w/s)^2.
double window_share(std::int64_t seq_length, std::int64_t window);

/// Each `every`-th layer after the first `before` ones.
struct LayerStep {
    std::int64_t before = 0, every = 1;
};
/// The step of the layers marked 1, one mark per layer, where it is regular up to the last; marks
/// that come first in their group of `every` count as those that come last, which costs the same.
/// Nothing where it is not, no layer is marked, or marks and layers differ in number.
std::optional<LayerStep> regular_layers(const std::vector<int>& marks, std::int64_t layers);

/// Channels and image edges of a bottleneck block.
struct Bottleneck {
    std::int64_t in, first, inner,
        out;                         ///< channels: of the input, after 1x1, after 3x3, after 1x1
    std::int64_t edge_in, edge_out;  ///< height = width; the 3x3 and the shortcut have the stride
    std::int64_t stride;
};
Bottleneck bottleneck(const Model&, const LayerKind&);
/// Edge of the image after a stage; the stem (7x7 stride 2, 3x3 pool stride 2) halves it twice,
/// each stage after the first once, all rounded up.
std::int64_t stage_edge(const Model&, std::size_t stage);
/// Channels that reach the classifier.
std::int64_t final_channels(const Model&);

}  // namespace arena
