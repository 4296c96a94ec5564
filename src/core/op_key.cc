// SPDX-License-Identifier: GPL-2.0-or-later
// Operators as text, both ways: what stores and spools keep of them. One table of words per
// enumeration.
#include <fmt/format.h>

#include <algorithm>

#include "base/names.h"
#include "base/text.h"
#include "core/profile.h"

namespace arena {
namespace {

constexpr std::size_t max_key = 200;

constexpr std::array<Name<OpKind>, op_kind_count> kind_names{
    {{OpKind::gemm, "gemm"},
     {OpKind::attention, "attention"},
     {OpKind::norm, "norm"},
     {OpKind::elementwise, "elementwise"},
     {OpKind::embedding, "embedding"},
     {OpKind::cross_entropy, "cross_entropy"},
     {OpKind::optimizer, "optimizer"},
     {OpKind::conv, "conv"},
     {OpKind::custom, "custom"},
     {OpKind::layer, "layer"}}};
constexpr std::array<Name<Pass>, 2> pass_names{
    {{Pass::forward, "forward"}, {Pass::backward, "backward"}}};
constexpr std::array<Name<Gradient>, 2> gradient_names{
    {{Gradient::data, "dgrad"}, {Gradient::weights, "wgrad"}}};
constexpr std::array<Name<NormKind>, 3> norm_names{
    {{NormKind::batch, "batch"}, {NormKind::layer, "layer"}, {NormKind::rms, "rms"}}};
constexpr std::array<Name<ElementwiseKind>, 5> elementwise_names{
    {{ElementwiseKind::add, "add"},
     {ElementwiseKind::bias_residual, "bias_residual"},
     {ElementwiseKind::gelu, "gelu"},
     {ElementwiseKind::relu, "relu"},
     {ElementwiseKind::swiglu, "swiglu"}}};
constexpr std::array<Name<OptimizerKind>, 1> optimizer_names{{{OptimizerKind::adamw, "adamw"}}};

template <typename Names, typename E>
std::string word(const Names& names, E value) {
    return std::string(name_of(names, value));
}

struct VariantName {
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(Gradient v) const { return word(gradient_names, v); }
    std::string operator()(NormKind v) const { return word(norm_names, v); }
    std::string operator()(ElementwiseKind v) const { return word(elementwise_names, v); }
    std::string operator()(OptimizerKind v) const { return word(optimizer_names, v); }
    std::string operator()(const AttentionVariant& v) const {
        std::string text = v.is_causal ? "causal" : "full";
        if (v.value_dim > 0) text += fmt::format("_v{}", v.value_dim);
        if (v.window > 0) text += fmt::format("_w{}", v.window);
        return text;
    }
    std::string operator()(const ConvVariant& v) const {
        std::string text = fmt::format("r{}s{}", v.kernel, v.stride);
        if (v.gradient) text += fmt::format("_{}", name_of(gradient_names, *v.gradient));
        return text;
    }
    std::string operator()(const LayerVariant& v) const {
        std::string text = fmt::format("{}_{}_{}_{}{}_a{}_k{}_d{}", v.is_graph ? "graph" : "plain",
                                       v.is_causal ? "causal" : "full", v.is_rms ? "rms" : "layer",
                                       v.is_gated ? "swiglu" : "gelu", v.has_bias ? "_bias" : "",
                                       v.heads, v.kv_heads, v.head_dim);
        if (v.sequence_ranks > 1) text += fmt::format("_p{}", v.sequence_ranks);
        return text;
    }
};

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

bool take_word(std::string_view& text, std::string_view word) {
    if (!text.starts_with(word)) return false;
    text.remove_prefix(word.size());
    return true;
}

/// Whether text begins with the first word; else it may begin with the second. Removes it.
bool take_either(std::string_view& text, std::string_view word, std::string_view other) {
    return take_word(text, word) || (take_word(text, other), false);
}

// These read what they understand: parse_variant() holds the whole text against variant_name().

AttentionVariant read_attention(std::string_view text) {
    return {.is_causal = take_either(text, "causal", "full"),
            .value_dim = take_number(text, "_v"),
            .window = take_number(text, "_w")};
}

std::optional<OpVariant> read_conv(std::string_view text) {
    ConvVariant v{take_number(text, "r"), take_number(text, "s"), {}};
    if (take_word(text, "_")) v.gradient = value_of(gradient_names, text);
    if (v.kernel == 0 || v.stride == 0) return std::nullopt;
    return v;
}

std::optional<OpVariant> read_layer(std::string_view text) {
    const LayerVariant v{.is_graph = take_either(text, "graph", "plain"),
                         .is_causal = take_either(text, "_causal", "_full"),
                         .is_rms = take_either(text, "_rms", "_layer"),
                         .is_gated = take_either(text, "_swiglu", "_gelu"),
                         .has_bias = take_word(text, "_bias"),
                         .heads = take_number(text, "_a"),
                         .kv_heads = take_number(text, "_k"),
                         .head_dim = take_number(text, "_d"),
                         .sequence_ranks = std::max<std::int64_t>(1, take_number(text, "_p"))};
    constexpr std::int64_t widest = std::int64_t{1} << 20;  // products of three stay in range
    for (const std::int64_t width : {v.heads, v.kv_heads, v.head_dim, v.sequence_ranks})
        if (width < 1 || width > widest) return std::nullopt;
    if (v.heads % v.kv_heads != 0) return std::nullopt;
    return v;
}

std::optional<OpVariant> read_variant(OpKind kind, std::string_view text) {
    switch (kind) {
        case OpKind::gemm:
            if (text.empty()) return OpVariant();
            return value_of(gradient_names, text);
        case OpKind::attention:
            return read_attention(text);
        case OpKind::norm:
            return value_of(norm_names, text);
        case OpKind::elementwise:
            return value_of(elementwise_names, text);
        case OpKind::optimizer:
            return value_of(optimizer_names, text);
        case OpKind::conv:
            return read_conv(text);
        case OpKind::layer:
            return read_layer(text);
        default:
            return OpVariant();
    }
}

}  // namespace

std::string_view to_string(OpKind kind) { return name_of(kind_names, kind); }
std::string_view to_string(Pass pass) { return name_of(pass_names, pass); }
std::optional<OpKind> parse_op_kind(std::string_view text) { return value_of(kind_names, text); }
std::optional<Pass> parse_pass(std::string_view text) { return value_of(pass_names, text); }

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

std::span<const OpVariant> variants_of(OpKind kind) {
    static const OpVariant plain[] = {{}};
    static const OpVariant gemm[] = {{}, Gradient::data, Gradient::weights};
    static const OpVariant attention[] = {AttentionVariant{.is_causal = true}, AttentionVariant{}};
    static const OpVariant norm[] = {NormKind::layer, NormKind::rms};
    static const OpVariant elementwise[] = {ElementwiseKind::gelu, ElementwiseKind::swiglu,
                                            ElementwiseKind::bias_residual, ElementwiseKind::add};
    static const OpVariant optimizer[] = {OptimizerKind::adamw};
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
        default:
            return plain;
    }
}

std::string variant_name(const OpVariant& variant) { return std::visit(VariantName{}, variant); }

std::optional<OpVariant> parse_variant(OpKind kind, std::string_view text) {
    auto variant = read_variant(kind, text);
    if (variant && variant_name(*variant) != text) return std::nullopt;
    return variant;
}

std::string op_key(const OpShape& shape) {
    const auto* first = shape.dims.data();
    std::string key = fmt::format("{}/{}/{}/{}", to_string(shape.kind), to_string(shape.pass),
                                  to_string(shape.precision),
                                  fmt::join(first, first + dim_count(shape.kind), "x"));
    if (const std::string variant = variant_name(shape.variant); !variant.empty())
        key += "/" + variant;
    return key;
}

std::string op_hash(const OpShape& shape) {
    return sha256_hex(op_key(shape)).substr(0, op_hash_digits);
}

std::optional<OpShape> parse_op_key(std::string_view key) {
    if (key.size() > max_key) return std::nullopt;
    const std::vector<std::string_view> parts = split(key, '/');
    if (parts.size() != 4 && parts.size() != 5) return std::nullopt;
    const auto kind = parse_op_kind(parts[0]);
    const auto pass = parse_pass(parts[1]);
    const auto precision = parse_precision(parts[2]);
    const std::vector<std::string_view> dims = split(parts[3], 'x');
    if (!kind || !pass || !precision || dims.size() > 4) return std::nullopt;
    const auto variant = parse_variant(*kind, parts.size() == 5 ? parts[4] : "");
    if (!variant) return std::nullopt;
    OpShape shape{.kind = *kind, .pass = *pass, .precision = *precision, .variant = *variant};
    for (std::size_t i = 0; i < dims.size(); ++i) {
        const auto value = parse_integer(dims[i], 1, std::int64_t{1} << 50);
        if (!value) return std::nullopt;
        shape.dims[i] = *value;
    }
    if (op_key(shape) != key) return std::nullopt;
    return shape;
}

}  // namespace arena
