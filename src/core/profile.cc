// SPDX-License-Identifier: GPL-2.0-or-later
// Operator shapes: their keys, FLOPs and bytes moved. The formulas count what a fused kernel must
// compute and move at least; measured seconds replace them wherever there are any.
#include "core/profile.h"

#include <algorithm>

#include <fmt/format.h>

namespace arena {
namespace {

double at(const OpShape& shape, std::size_t i) { return static_cast<double>(shape.dims[i]); }

bool is_backward(const OpShape& shape) { return shape.pass == Pass::backward; }

/// FLOP per output element, forward; backward counts twice.
double elementwise_flops(std::string_view variant) {
    if (variant == "gelu") return 10;   // tanh form
    if (variant == "swiglu") return 6;  // sigmoid, two products
    if (variant == "bias_residual") return 2;
    return 1;
}

/// Elements read and written per output element.
double elementwise_moves(std::string_view variant, bool backward) {
    if (variant == "gelu") return backward ? 3 : 2;     // x, dy -> dx
    if (variant == "swiglu") return backward ? 5 : 3;   // gate, up, dy -> dgate, dup
    if (variant == "bias_residual") return backward ? 2 : 3;
    return 3;
}

double attention_flops(const OpShape& shape) {
    const double full = 4 * at(shape, 0) * at(shape, 2) * at(shape, 2) * at(shape, 3);
    return (shape.variant == "causal" ? 0.5 : 1.0) * (is_backward(shape) ? 2 : 1) * full;
}

double attention_bytes(const OpShape& shape) {
    const double tensors = is_backward(shape) ? 4 : 2;  // q, o (, dq, do) and k, v (, dk, dv)
    return tensors * (at(shape, 0) + at(shape, 1)) * at(shape, 2) * at(shape, 3) *
           element_bytes(shape.precision);
}

double gemm_bytes(const OpShape& shape) {
    const double m = at(shape, 0), n = at(shape, 1), k = at(shape, 2);
    return (m * k + k * n + m * n) * at(shape, 3) * element_bytes(shape.precision);
}

}  // namespace

std::string_view to_string(OpKind kind) {
    switch (kind) {
        case OpKind::gemm: return "gemm";
        case OpKind::attention: return "attention";
        case OpKind::norm: return "norm";
        case OpKind::elementwise: return "elementwise";
        case OpKind::embedding: return "embedding";
        case OpKind::cross_entropy: return "cross_entropy";
        case OpKind::optimizer: return "optimizer";
    }
    return "?";
}

std::string_view to_string(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

std::string_view to_string(ProfileStatus status) {
    switch (status) {
        case ProfileStatus::complete: return "complete";
        case ProfileStatus::partial: return "partial";
        case ProfileStatus::failed: return "failed";
    }
    return "?";
}

std::optional<OpKind> parse_op_kind(std::string_view text) {
    for (const OpKind kind : {OpKind::gemm, OpKind::attention, OpKind::norm, OpKind::elementwise,
                              OpKind::embedding, OpKind::cross_entropy, OpKind::optimizer}) {
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
        case OpKind::attention: return 4;
        case OpKind::embedding: return 3;
        case OpKind::norm:
        case OpKind::elementwise:
        case OpKind::cross_entropy: return 2;
        case OpKind::optimizer: return 1;
    }
    return 4;
}

double element_bytes(Precision precision) {
    switch (precision) {
        case Precision::fp32:
        case Precision::tf32: return 4;
        case Precision::fp16:
        case Precision::bf16: return 2;
        case Precision::fp8:
        case Precision::mxfp8: return 1;
        case Precision::nvfp4: return 0.5;
    }
    return 4;
}

bool is_nonce(std::string_view text) {
    return text.size() >= 16 && text.size() <= 64 &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
           });
}

std::string op_key(const OpShape& shape) {
    const auto* first = shape.dims.data();
    std::string key =
        fmt::format("{}/{}/{}/{}", to_string(shape.kind), to_string(shape.pass),
                    to_string(shape.precision), fmt::join(first, first + dim_count(shape.kind), "x"));
    if (!shape.variant.empty()) key += "/" + shape.variant;
    return key;
}

double op_flops(const OpShape& shape) {
    const double twice = is_backward(shape) ? 2 : 1;
    const double elements = at(shape, 0) * at(shape, 1);
    switch (shape.kind) {
        case OpKind::gemm: return 2 * elements * at(shape, 2) * at(shape, 3);
        case OpKind::attention: return attention_flops(shape);
        case OpKind::norm: return twice * (shape.variant == "rms" ? 4 : 7) * elements;
        case OpKind::elementwise: return twice * elementwise_flops(shape.variant) * elements;
        case OpKind::embedding: return is_backward(shape) ? elements : 0;
        case OpKind::cross_entropy: return (is_backward(shape) ? 2 : 5) * elements;
        case OpKind::optimizer: return 14 * at(shape, 0);
    }
    return 0;
}

double op_bytes(const OpShape& shape) {
    const double width = element_bytes(shape.precision);
    const double elements = at(shape, 0) * at(shape, 1);
    const bool backward = is_backward(shape);
    switch (shape.kind) {
        case OpKind::gemm: return gemm_bytes(shape);
        case OpKind::attention: return attention_bytes(shape);
        case OpKind::norm: return (backward ? 3 : 2) * elements * width;
        case OpKind::elementwise:
            return elementwise_moves(shape.variant, backward) * elements * width;
        case OpKind::embedding: return (backward ? 3 : 2) * elements * width + 8 * at(shape, 0);
        case OpKind::cross_entropy: return elements * (width + (backward ? 4 : 8));  // fp32 inside
        case OpKind::optimizer: return 28 * at(shape, 0);  // p, g, two moments read; three written
    }
    return 0;
}

std::string Device::identity() const {
    return fmt::format("{}|{}|{}|{}|{}", kind, name, driver, library, threads);
}

}  // namespace arena
