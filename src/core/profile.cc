// SPDX-License-Identifier: GPL-2.0-or-later
// Operators: FLOPs and bytes moved; how far a run is. The formulas count what a fused kernel must
// compute and move at least; measured seconds replace them wherever there are any.
#include "core/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/names.h"
#include "base/text.h"

namespace arena {
namespace {

double at(const OpShape& shape, std::size_t i) { return static_cast<double>(shape.dims[i]); }

bool is_backward(const OpShape& shape) { return shape.pass == Pass::backward; }

/// FLOP per output element, forward; backward counts twice.
double elementwise_flops(ElementwiseKind kind) {
    if (kind == ElementwiseKind::gelu) return 10;   // tanh form
    if (kind == ElementwiseKind::swiglu) return 6;  // sigmoid, two products
    if (kind == ElementwiseKind::bias_residual) return 2;
    return 1;  // add, relu
}

/// Elements read and written per output element.
double elementwise_moves(ElementwiseKind kind, bool backward) {
    if (kind == ElementwiseKind::gelu || kind == ElementwiseKind::relu)
        return backward ? 3 : 2;                                   // x, dy -> dx
    if (kind == ElementwiseKind::swiglu) return backward ? 5 : 3;  // gate, up, dy -> dgate, dup
    if (kind == ElementwiseKind::bias_residual) return backward ? 2 : 3;
    return 3;
}

double value_dim(const OpShape& shape) {
    const auto variant = variant_as<AttentionVariant>(shape);
    return variant.value_dim > 0 ? static_cast<double>(variant.value_dim) : at(shape, 3);
}

/// Share of the seq x seq scores that are computed: a window of w < s leaves a band.
double attention_share(const OpShape& shape) {
    const auto variant = variant_as<AttentionVariant>(shape);
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
    const double kernel = static_cast<double>(variant_as<ConvVariant>(shape).kernel);
    return 2 * at(shape, 0) * at(shape, 1) * at(shape, 2) * at(shape, 3) * at(shape, 3) * kernel *
           kernel;
}

/// Input, filters and output, once each.
double conv_bytes(const OpShape& shape) {
    const auto variant = variant_as<ConvVariant>(shape);
    const double kernel = static_cast<double>(variant.kernel);
    const double edge_in = at(shape, 3) * static_cast<double>(variant.stride);
    const double in = at(shape, 0) * at(shape, 1) * edge_in * edge_in;
    const double out = at(shape, 0) * at(shape, 2) * at(shape, 3) * at(shape, 3);
    return (in + out + at(shape, 1) * at(shape, 2) * kernel * kernel) *
           element_bytes(shape.precision);
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
            AttentionVariant{.is_causal = v.is_causal}};
}

/// Its GEMMs and its attention.
double layer_flops(const OpShape& shape) {
    const auto v = variant_as<LayerVariant>(shape);
    const double tokens = at(shape, 0) * at(shape, 1), twice = is_backward(shape) ? 2 : 1;
    return twice * 2 * tokens * layer_elements(shape, v).weights +
           op_flops(attention_of_layer(shape, v));
}

/// Weights read (and their gradients written), results written and read.
double layer_bytes(const OpShape& shape) {
    const auto v = variant_as<LayerVariant>(shape);
    const LayerElements e = layer_elements(shape, v);
    const double tokens = at(shape, 0) * at(shape, 1), twice = is_backward(shape) ? 2 : 1;
    return twice * (e.weights + 2 * tokens * e.results) * element_bytes(shape.precision);
}

constexpr std::array<Name<ProfileStatus>, 3> statuses{{{ProfileStatus::complete, "complete"},
                                                       {ProfileStatus::partial, "partial"},
                                                       {ProfileStatus::failed, "failed"}}};

}  // namespace

std::string_view to_string(ProfileStatus status) { return name_of(statuses, status); }

std::optional<ProfileStatus> parse_profile_status(std::string_view text) {
    return value_of(statuses, text);
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

bool is_nonce(std::string_view text) {
    return text.size() >= 16 && text.size() <= 64 &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
           });
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
            return twice * (has_variant(shape, NormKind::rms) ? 4 : 7) * elements;
        case OpKind::elementwise:
            return twice * elementwise_flops(variant_as<ElementwiseKind>(shape)) * elements;
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
            return ((backward ? 3 : 2) +
                    (has_variant(shape, NormKind::batch) ? (backward ? 2 : 1) : 0)) *
                   elements * width;
        case OpKind::elementwise:
            return elementwise_moves(variant_as<ElementwiseKind>(shape), backward) * elements *
                   width;
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

void add_entries(const Profile& profile, OpSeconds& seconds) {
    for (const ProfileEntry& e : profile.entries) seconds[e.shape] = e.seconds;
}

ProfileTable::ProfileTable(const Profile& profile)
    : ProfileTable([&] {
          OpSeconds seconds;
          add_entries(profile, seconds);
          return seconds;
      }()) {}

ProfileTable::ProfileTable(const OpSeconds& seconds) {
    std::vector<Row> rows;
    rows.reserve(seconds.size());
    std::copy_if(seconds.begin(), seconds.end(), std::back_inserter(rows),
                 [](const auto& row) { return row.second > 0 && std::isfinite(row.second); });
    rows_ = std::make_shared<const std::vector<Row>>(std::move(rows));
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
