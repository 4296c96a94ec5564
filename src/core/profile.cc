// SPDX-License-Identifier: GPL-2.0-or-later
// Operator shapes: their keys, FLOPs and bytes moved. The formulas count what a fused kernel must
// compute and move at least; measured seconds replace them wherever there are any.
#include "core/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace arena {
namespace {

double at(const OpShape& shape, std::size_t i) { return static_cast<double>(shape.dims[i]); }

bool is_backward(const OpShape& shape) { return shape.pass == Pass::backward; }

/// FLOP per output element, forward; backward counts twice.
double elementwise_flops(std::string_view variant) {
    if (variant == "gelu") return 10;   // tanh form
    if (variant == "swiglu") return 6;  // sigmoid, two products
    if (variant == "bias_residual") return 2;
    return 1;  // add, relu
}

/// Elements read and written per output element.
double elementwise_moves(std::string_view variant, bool backward) {
    if (variant == "gelu" || variant == "relu") return backward ? 3 : 2;  // x, dy -> dx
    if (variant == "swiglu") return backward ? 5 : 3;  // gate, up, dy -> dgate, dup
    if (variant == "bias_residual") return backward ? 2 : 3;
    return 3;
}

AttentionVariant attention_of(const OpShape& shape) {
    return parse_attention_variant(shape.variant).value_or(AttentionVariant{});
}

double value_dim(const OpShape& shape) {
    const AttentionVariant variant = attention_of(shape);
    return variant.value_dim > 0 ? static_cast<double>(variant.value_dim) : at(shape, 3);
}

/// Share of the seq x seq scores that are computed: a window of w < s leaves a band.
double attention_share(const OpShape& shape) {
    const AttentionVariant variant = attention_of(shape);
    const double seen = static_cast<double>(variant.window) / at(shape, 2);
    const double unseen = variant.window > 0 && seen < 1 ? 1 - seen : 0;
    if (variant.is_causal) return 0.5 * (1 - unseen * unseen);
    return variant.window > 0 ? std::min(1.0, seen) : 1;
}

double attention_flops(const OpShape& shape) {
    const double full =
        2 * at(shape, 0) * at(shape, 2) * at(shape, 2) * (at(shape, 3) + value_dim(shape));
    return attention_share(shape) * (is_backward(shape) ? 2 : 1) * full;
}

double attention_bytes(const OpShape& shape) {
    const double passes = is_backward(shape) ? 2 : 1;  // q, o (, dq, do) and k, v (, dk, dv)
    return passes * (at(shape, 0) + at(shape, 1)) * at(shape, 2) *
           (at(shape, 3) + value_dim(shape)) * element_bytes(shape.precision);
}

double conv_flops(const OpShape& shape) {
    const double kernel =
        static_cast<double>(parse_conv_variant(shape.variant).value_or(ConvVariant{}).kernel);
    return 2 * at(shape, 0) * at(shape, 1) * at(shape, 2) * at(shape, 3) * at(shape, 3) * kernel *
           kernel;
}

/// Input, filters and output, once each.
double conv_bytes(const OpShape& shape) {
    const ConvVariant variant = parse_conv_variant(shape.variant).value_or(ConvVariant{});
    const double kernel = static_cast<double>(variant.kernel);
    const double edge_in = at(shape, 3) * static_cast<double>(variant.stride);
    const double in = at(shape, 0) * at(shape, 1) * edge_in * edge_in;
    const double out = at(shape, 0) * at(shape, 2) * at(shape, 3) * at(shape, 3);
    return (in + out + at(shape, 1) * at(shape, 2) * kernel * kernel) *
           element_bytes(shape.precision);
}

/// The number behind `letter` at the start of text, which is then removed; 0 when it is not there.
std::int64_t take_number(std::string_view& text, std::string_view letter) {
    if (!text.starts_with(letter)) return 0;
    std::size_t end = letter.size();
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    const auto value =
        parse_integer(text.substr(letter.size(), end - letter.size()), 1, std::int64_t{1} << 40);
    if (value) text.remove_prefix(end);
    return value.value_or(0);
}

double gemm_bytes(const OpShape& shape) {
    const double m = at(shape, 0), n = at(shape, 1), k = at(shape, 2);
    return (m * k + k * n + m * n) * at(shape, 3) * element_bytes(shape.precision);
}

/// Elements of a layer's four matrices, and of all their results for one token.
struct LayerElements {
    double weights = 0, results = 0;
};

LayerElements layer_elements(const OpShape& shape, const LayerVariant& v) {
    const double h = at(shape, 2), ffn = at(shape, 3), up = (v.is_gated ? 2 : 1) * ffn;
    const double q = static_cast<double>(v.heads * v.head_dim);
    const double qkv = q + 2 * static_cast<double>(v.kv_heads * v.head_dim);
    return {h * (qkv + q + up + ffn), qkv + q + 4 * h + up + ffn};
}

OpShape attention_of_layer(const OpShape& shape, const LayerVariant& v) {
    return {OpKind::attention,
            shape.pass,
            shape.precision,
            {shape.dims[0] * v.heads, shape.dims[0] * v.kv_heads, shape.dims[1], v.head_dim},
            v.is_causal ? "causal" : "full"};
}

/// Its GEMMs and its attention.
double layer_flops(const OpShape& shape) {
    const LayerVariant v = parse_layer_variant(shape.variant).value_or(LayerVariant{});
    const double tokens = at(shape, 0) * at(shape, 1), twice = is_backward(shape) ? 2 : 1;
    return twice * 2 * tokens * layer_elements(shape, v).weights +
           op_flops(attention_of_layer(shape, v));
}

/// Weights read (and their gradients written), results written and read.
double layer_bytes(const OpShape& shape) {
    const LayerVariant v = parse_layer_variant(shape.variant).value_or(LayerVariant{});
    const LayerElements e = layer_elements(shape, v);
    const double tokens = at(shape, 0) * at(shape, 1), twice = is_backward(shape) ? 2 : 1;
    return twice * (e.weights + 2 * tokens * e.results) * element_bytes(shape.precision);
}

}  // namespace

std::string_view to_string(OpKind kind) {
    switch (kind) {
        case OpKind::gemm:
            return "gemm";
        case OpKind::attention:
            return "attention";
        case OpKind::norm:
            return "norm";
        case OpKind::elementwise:
            return "elementwise";
        case OpKind::embedding:
            return "embedding";
        case OpKind::cross_entropy:
            return "cross_entropy";
        case OpKind::optimizer:
            return "optimizer";
        case OpKind::conv:
            return "conv";
        case OpKind::custom:
            return "custom";
        case OpKind::layer:
            return "layer";
    }
    return "?";
}

std::string_view to_string(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

std::string_view to_string(ProfileStatus status) {
    switch (status) {
        case ProfileStatus::complete:
            return "complete";
        case ProfileStatus::partial:
            return "partial";
        case ProfileStatus::failed:
            return "failed";
    }
    return "?";
}

std::optional<OpKind> parse_op_kind(std::string_view text) {
    for (const OpKind kind :
         {OpKind::gemm, OpKind::attention, OpKind::norm, OpKind::elementwise, OpKind::embedding,
          OpKind::cross_entropy, OpKind::optimizer, OpKind::conv, OpKind::custom, OpKind::layer}) {
        if (text == to_string(kind)) return kind;
    }
    return std::nullopt;
}

std::optional<Pass> parse_pass(std::string_view text) {
    if (text == "forward") return Pass::forward;
    if (text == "backward") return Pass::backward;
    return std::nullopt;
}

std::optional<ProfileStatus> parse_profile_status(std::string_view text) {
    for (const ProfileStatus status :
         {ProfileStatus::complete, ProfileStatus::partial, ProfileStatus::failed}) {
        if (text == to_string(status)) return status;
    }
    return std::nullopt;
}

std::size_t dim_count(OpKind kind) {
    switch (kind) {
        case OpKind::gemm:
        case OpKind::attention:
        case OpKind::conv:
        case OpKind::layer:
            return 4;
        case OpKind::embedding:
            return 3;
        case OpKind::norm:
        case OpKind::elementwise:
        case OpKind::cross_entropy:
        case OpKind::custom:
            return 2;
        case OpKind::optimizer:
            return 1;
    }
    return 4;
}

std::span<const std::string_view> variants_of(OpKind kind) {
    static constexpr std::string_view plain[] = {""};
    static constexpr std::string_view gemm[] = {"", "dgrad", "wgrad"};
    static constexpr std::string_view attention[] = {"causal", "full"};
    static constexpr std::string_view norm[] = {"layer", "rms"};
    static constexpr std::string_view elementwise[] = {"gelu", "swiglu", "bias_residual", "add"};
    static constexpr std::string_view optimizer[] = {"adamw"};
    switch (kind) {
        case OpKind::gemm:
            return gemm;
        case OpKind::attention:
            return attention;
        case OpKind::norm:
            return norm;
        case OpKind::elementwise:
            return elementwise;
        case OpKind::optimizer:
            return optimizer;
        case OpKind::embedding:
        case OpKind::cross_entropy:
        case OpKind::conv:
        case OpKind::custom:
        case OpKind::layer:
            return plain;
    }
    return plain;
}

double element_bytes(Precision precision) {
    switch (precision) {
        case Precision::fp32:
        case Precision::tf32:
            return 4;
        case Precision::fp16:
        case Precision::bf16:
            return 2;
        case Precision::fp8:
        case Precision::mxfp8:
            return 1;
        case Precision::nvfp4:
            return 0.5;
    }
    return 4;
}

std::optional<AttentionVariant> parse_attention_variant(std::string_view text) {
    AttentionVariant variant;
    variant.is_causal = text.starts_with("causal");
    if (!variant.is_causal && !text.starts_with("full")) return std::nullopt;
    text.remove_prefix(variant.is_causal ? 6 : 4);
    variant.value_dim = take_number(text, "_v");
    variant.window = take_number(text, "_w");
    if (!text.empty()) return std::nullopt;
    return variant;
}

std::optional<ConvVariant> parse_conv_variant(std::string_view text) {
    ConvVariant variant;
    variant.kernel = take_number(text, "r");
    variant.stride = take_number(text, "s");
    variant.is_data_gradient = text == "_dgrad";
    variant.is_weight_gradient = text == "_wgrad";
    const bool complete = text.empty() || variant.is_data_gradient || variant.is_weight_gradient;
    if (variant.kernel == 0 || variant.stride == 0 || !complete) return std::nullopt;
    return variant;
}

std::string to_string(const LayerVariant& v) {
    std::string text = fmt::format("{}_{}_{}_{}{}_a{}_k{}_d{}", v.is_graph ? "graph" : "plain",
                                   v.is_causal ? "causal" : "full", v.is_rms ? "rms" : "layer",
                                   v.is_gated ? "swiglu" : "gelu", v.has_bias ? "_bias" : "",
                                   v.heads, v.kv_heads, v.head_dim);
    if (v.sequence_ranks > 1) text += fmt::format("_p{}", v.sequence_ranks);
    return text;
}

std::optional<LayerVariant> parse_layer_variant(std::string_view text) {
    const std::string_view whole = text;
    const auto take = [&](std::string_view word) {
        if (!text.starts_with(word)) return false;
        text.remove_prefix(word.size());
        return true;
    };
    LayerVariant v;
    v.is_graph = take("graph");
    if (!v.is_graph && !take("plain")) return std::nullopt;
    v.is_causal = take("_causal");
    if (!v.is_causal && !take("_full")) return std::nullopt;
    v.is_rms = take("_rms");
    if (!v.is_rms && !take("_layer")) return std::nullopt;
    v.is_gated = take("_swiglu");
    if (!v.is_gated && !take("_gelu")) return std::nullopt;
    v.has_bias = take("_bias");
    v.heads = take_number(text, "_a");
    v.kv_heads = take_number(text, "_k");
    v.head_dim = take_number(text, "_d");
    v.sequence_ranks = std::max<std::int64_t>(1, take_number(text, "_p"));
    constexpr std::int64_t max_width = std::int64_t{1} << 20;  // products of three stay in range
    for (const std::int64_t width : {v.heads, v.kv_heads, v.head_dim, v.sequence_ranks})
        if (width < 1 || width > max_width) return std::nullopt;
    if (v.heads % v.kv_heads != 0 || to_string(v) != whole) return std::nullopt;
    return v;
}

bool is_nonce(std::string_view text) {
    return text.size() >= 16 && text.size() <= 64 &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
           });
}

std::string op_key(const OpShape& shape) {
    const auto* first = shape.dims.data();
    std::string key = fmt::format("{}/{}/{}/{}", to_string(shape.kind), to_string(shape.pass),
                                  to_string(shape.precision),
                                  fmt::join(first, first + dim_count(shape.kind), "x"));
    if (!shape.variant.empty()) key += "/" + shape.variant;
    return key;
}

double op_flops(const OpShape& shape) {
    const double twice = is_backward(shape) ? 2 : 1;
    const double elements = at(shape, 0) * at(shape, 1);
    switch (shape.kind) {
        case OpKind::gemm:
            return 2 * elements * at(shape, 2) * at(shape, 3);
        case OpKind::attention:
            return attention_flops(shape);
        case OpKind::norm:
            return twice * (shape.variant == "rms" ? 4 : 7) * elements;
        case OpKind::elementwise:
            return twice * elementwise_flops(shape.variant) * elements;
        case OpKind::embedding:
            return is_backward(shape) ? elements : 0;
        case OpKind::cross_entropy:
            return (is_backward(shape) ? 2 : 5) * elements;
        case OpKind::optimizer:
            return 14 * at(shape, 0);
        case OpKind::conv:
            return conv_flops(shape);
        case OpKind::custom:
            return twice * 1e6 * at(shape, 0);
        case OpKind::layer:
            return layer_flops(shape);
    }
    return 0;
}

double op_bytes(const OpShape& shape) {
    const double width = element_bytes(shape.precision);
    const double elements = at(shape, 0) * at(shape, 1);
    const bool backward = is_backward(shape);
    switch (shape.kind) {
        case OpKind::gemm:
            return gemm_bytes(shape);
        case OpKind::attention:
            return attention_bytes(shape);
        case OpKind::norm:  // along a column nothing stays in registers: one more pass
            return ((backward ? 3 : 2) + (shape.variant == "batch" ? (backward ? 2 : 1) : 0)) *
                   elements * width;
        case OpKind::elementwise:
            return elementwise_moves(shape.variant, backward) * elements * width;
        case OpKind::embedding:
            return (backward ? 3 : 2) * elements * width + 8 * at(shape, 0);
        case OpKind::cross_entropy:
            return elements * (width + (backward ? 4 : 8));  // fp32 inside
        case OpKind::optimizer:
            return 28 * at(shape, 0);  // p, g, two moments read; three written
        case OpKind::conv:
            return conv_bytes(shape);
        case OpKind::custom:
            return (backward ? 2 : 1) * 1e3 * at(shape, 1);
        case OpKind::layer:
            return layer_bytes(shape);
    }
    return 0;
}

std::string Device::identity() const {
    return fmt::format("{}|{}|{}|{}|{}", kind, name, driver, library, threads);
}

std::string to_text(const ProfileProgress& p) {
    return fmt::format("arena-progress 1 {} {} {:.1f} {:.1f}\n", p.done, p.total, p.spent_s,
                       p.left_s);
}

Result<ProfileProgress> parse_progress(std::string_view text) {
    constexpr std::size_t max_progress = 128;
    constexpr std::int64_t max_operators = std::int64_t{1} << 20;
    const auto bad = usage_error("is not the progress of a profile run");
    if (text.size() > max_progress || !text.ends_with('\n')) return bad;
    text.remove_suffix(1);
    const auto words = split(text, ' ');
    if (words.size() != 6 || words[0] != "arena-progress" || words[1] != "1") return bad;
    const auto done = parse_integer(words[2], 0, max_operators),
               total = parse_integer(words[3], 0, max_operators);
    const auto spent = parse_number(words[4], 0, 1e6), left = parse_number(words[5], 0, 1e6);
    if (!done || !total || !spent || !left || *done > *total) return bad;
    return ProfileProgress{*done, *total, *spent, *left};
}

std::string short_form(const ProfileProgress& p) {
    const std::string left = p.left_s >= 45
                                 ? fmt::format("{:.0f} min", std::max(1.0, p.left_s / 60))
                                 : fmt::format("{:.0f} s", p.left_s);
    return fmt::format("{}/{}, about {}", p.done, p.total, left);
}

}  // namespace arena
