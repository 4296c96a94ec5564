// SPDX-License-Identifier: GPL-2.0-or-later
// What is trained.
// Plain data, as all values of core: copyable, comparable, printable, JSON both ways. Jobs and
// nodes are ids, never host pointers; time is a field, never a call. No Slurm, CUDA or NCCL type
// appears here.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena {

enum class Family { gpt, llama, bert, moe, wide_resnet, custom };
/// fp8: per-tensor scales; mxfp8 and nvfp4: block scales. They are the operand type of the block's
/// GEMMs; everything else in such a model runs in bf16.
enum class Precision { fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4 };

std::string_view to_string(Family);
std::string_view to_string(Precision);
std::optional<Family> parse_family(std::string_view);
std::optional<Precision> parse_precision(std::string_view);
/// For messages of readers.
inline constexpr std::string_view one_of_precisions =
    "one of fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4";
inline constexpr std::string_view one_of_families =
    "one of gpt, llama, bert, moe, wide_resnet, custom";
inline constexpr std::string_view accepted_precisions = one_of_precisions.substr(7);
inline constexpr std::string_view accepted_families = one_of_families.substr(7);

/// One of the operators that a custom layer's FLOPs and bytes are of, forward, per sample; backward
/// follows from it. `sizes`, unused ones 0, by kind:
///   gemm              m, n, k          products with weights n x k, which all samples share: m
///   grows
///                                      with them
///   bmm               m, n, k, batch   products of activations: batch grows with them
///   attention         heads, key-value heads, tokens, head size; each token sees all
///   causal_attention  the same; each token sees those before it
///   conv              in and out channels, edge (height = width) of the output, kernel, stride
///   memory            bytes that one memory-bound kernel reads and writes
///   loss              rows, classes: softmax and cross-entropy
struct LayerOperator {
    enum class Kind { gemm, bmm, attention, causal_attention, conv, memory, loss };
    Kind kind = Kind::gemm;
    std::array<std::int64_t, 5> sizes{};
    std::int64_t count = 1;  ///< executions
    auto operator<=>(const LayerOperator&) const = default;
};
/// "gemm 1024x3072x1024", "2 memory 4194304": as files and records hold it.
std::string to_string(const LayerOperator&);
/// The inverse. Errors: an unknown kind, too few or many sizes, a size outside 1..2^40, a count
/// outside 1..10^6.
Result<LayerOperator> parse_layer_operator(std::string_view);
/// FLOP of all executions, forward, per sample; a causal attention's as attention's.
double operator_flops(const LayerOperator&);
inline constexpr std::size_t max_layer_operators = 64;

/// One entry of a `custom` model: `count` equal layers, per sample, forward only.
struct CustomLayer {
    std::string name;
    std::int64_t count = 1;
    double forward_flops = 0;     ///< FLOP per sample, forward
    double parameter_bytes = 0;   ///< at the model's precision
    double activation_bytes = 0;  ///< kept for backward, per sample
    double output_bytes = 0;      ///< handed to the next layer, per sample; 0 = activation_bytes
    /// What is known of the work, priced one after the other; FLOPs beyond theirs are priced as one
    /// more. Empty: the layer is priced as the longer of its FLOPs and its bytes.
    std::vector<LayerOperator> operators = {};
    auto operator<=>(const CustomLayer&) const = default;
};

/// A neural network and the facts that determine its cost. Zero means "not given / not applicable".
/// core/model_fields.h names every field once, with its range, for all readers and writers.
struct Model {
    std::string name;  ///< for people; not part of the fingerprint
    Family family = Family::gpt;
    std::int64_t layers = 0;  ///< what a pipeline partitions: transformer blocks; wide_resnet:
                              ///< bottleneck blocks; custom: the sum of counts
    std::int64_t hidden = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;    ///< grouped-query attention; equals heads for MHA
    std::int64_t head_dim = 0;    ///< 0 = hidden / heads (never given when equal to it)
    std::int64_t ffn_hidden = 0;  ///< of dense layers
    std::int64_t vocab = 0;
    std::int64_t seq_length = 0;  ///< tokens per sample as trained
    Precision precision = Precision::bf16;
    bool tied_embedding =
        true;                ///< input embedding and output head share one matrix; see ties_table
    bool gated_mlp = false;  ///< SwiGLU/GeGLU: two up projections; experts too
    bool learned_positions =
        true;                    ///< position table of seq_length rows; else rotary (no parameters)
    std::int64_t positions = 0;  ///< rows of that table; 0 = seq_length
    bool linear_bias = true;     ///< every matrix of a block has a bias (experts and router too)
    bool qkv_bias = false;       ///< the query-key-value projection alone has one (qwen2)
    bool rms_norm = false;       ///< norms without mean and bias
    bool qk_norm = false;        ///< norms over each query and key head (qwen3)
    std::int64_t window = 0;     ///< sliding-window attention: keys seen by one query; 0 = all
    std::int64_t full_attention_every =
        0;  ///< with window: each n-th layer sees all; 0 = no layer does

    /// Multi-token prediction: so many more layers behind the last one, of its kind, each with a
    /// projection of 2 hidden, two norms and a pass through the head.
    std::int64_t mtp_layers = 0;

    std::int64_t experts = 0;            ///< moe: experts per MoE layer
    std::int64_t top_k = 0;              ///< experts that one token visits
    std::int64_t moe_ffn_hidden = 0;     ///< width of one expert
    std::int64_t shared_ffn_hidden = 0;  ///< width of all shared experts together
    std::int64_t dense_layers = 0;       ///< the first ones have a dense MLP
    std::int64_t moe_every = 0;          ///< after them each n-th layer is MoE (0 and 1: all)
    double capacity_factor = 0;       ///< GShard: rows padded to it, one-hot dispatch; 0 = dropless
    std::int64_t moe_group_size = 0;  ///< GShard: tokens dispatched together; 0 = seq_length

    std::int64_t kv_lora_rank = 0;  ///< > 0: multi-head latent attention with the four sizes below
    std::int64_t q_lora_rank = 0;   ///< 0 = queries are not compressed
    std::int64_t qk_nope_head_dim = 0;
    std::int64_t qk_rope_head_dim = 0;
    std::int64_t v_head_dim = 0;

    /// Low-rank adapters: above 0 all weights are frozen, and each adapted matrix (those of
    /// attention; with lora_mlp 1 those of MLPs and experts too) trains two of this rank beside it.
    std::int64_t lora_rank = 0;
    std::int64_t lora_mlp = 0;
    std::int64_t lora_targets = 0;  ///< bits of lora_target (model_fields.h); 0 = as lora_mlp says
    std::int64_t base_bits = 0;     ///< of a frozen weight: 4 (QLoRA), 8, 16; 0 = 16

    std::int64_t depth = 0;  ///< wide_resnet: 50, 101, 152 or 200; 0 when only blocks are given
    std::vector<std::int64_t> blocks;  ///< wide_resnet: bottleneck blocks of each stage
    std::int64_t width_factor = 0;     ///< inner channels = width_factor * base_channels * 2^stage
    std::int64_t base_channels = 0;    ///< block outputs have 4 * base_channels * 2^stage
    std::int64_t image_size = 0;
    std::int64_t classes = 0;
    bool widen_first = true;  ///< wide_resnet: the first 1x1 is widened too (torchvision), not only
                              ///< the 3x3 (Alpa, Arena)
    std::vector<CustomLayer> custom_layers;
    bool operator==(const Model&) const = default;
};

/// Trains the model on samples of another length. A table of learned positions keeps its rows
/// unless the samples are longer.
void set_seq_length(Model&, std::int64_t seq_length);

/// Whether adapters are trained beside frozen weights.
inline bool is_adapted(const Model& model) { return model.lora_rank > 0; }

/// Trains adapters of this rank, 1 or more, on the matrices of attention. Errors: a family without
/// adapters, a model that itself says another rank.
Status add_adapters(Model&, std::int64_t rank);

/// First and last layer share a table of the vocabulary; image and custom models have none.
inline bool ties_table(const Model& model) { return model.tied_embedding && model.vocab > 0; }

/// SHA-256, 64 lower-case hex digits, over every field that changes the cost of an operator (not
/// the name): offers and profiles of all users are found by it, and models are strangers' texts.
std::string fingerprint(const Model&);
/// Of what is of no model: no model's fingerprint.
inline constexpr const char* no_fingerprint =
    "0000000000000000000000000000000000000000000000000000000000000000";

/// One line of JSON, and its reader: at most 64 MiB, depth 32; unknown keys are ignored, a missing
/// or mistyped key is an error that names it.
std::string to_json(const Model&);
Result<Model> parse_model_json(std::string_view);

}  // namespace arena
