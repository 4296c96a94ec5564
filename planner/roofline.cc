// SPDX-License-Identifier: GPL-2.0-or-later
// The roofline: what a device should need for an operator nobody measured. Constants are for
// tensor-core GPUs (planner.md section 1: fitted on A100); a profile corrects them per class of
// operators.
#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/cost.h"

namespace arena {

namespace {

constexpr double gemm_efficiency = 0.85;  ///< of peak inside a full wave
constexpr double gemm_ramp = 261;         ///< elements of k that fill and drain a tile's pipeline
constexpr double bandwidth_efficiency = 0.85;
constexpr double attention_forward_efficiency = 0.50, attention_backward_efficiency = 0.40;
constexpr double launch_s = 4e-6;
constexpr double misaligned_8 = 2.2, misaligned_64 = 1.12;

struct Tile {
    double m, n, efficiency;
};
constexpr Tile tiles[] = {{256, 128, 1.0}, {128, 128, 0.93}, {128, 64, 0.80}, {64, 64, 0.62}};

double real(std::int64_t value) { return static_cast<double>(value); }

double peak_flops(const GpuType& type, Precision precision) {
    const auto it = type.flops.find(precision);
    if (it != type.flops.end()) return it->second;
    const auto plain = type.flops.find(Precision::fp32);
    return plain != type.flops.end() ? plain->second : type.flops.begin()->second;
}

double alignment_penalty(const OpShape& shape) {
    const auto multiple = [&](std::int64_t unit) {
        return shape.dims[0] % unit == 0 && shape.dims[1] % unit == 0 && shape.dims[2] % unit == 0;
    };
    if (!multiple(8)) return misaligned_8;
    return multiple(64) ? 1 : misaligned_64;
}

/// Tiles run in waves over the multiprocessors; a partly filled last wave costs a whole one.
double gemm_seconds(const GpuType& type, const OpShape& shape) {
    const double m = real(shape.dims[0]), n = real(shape.dims[1]), k = real(shape.dims[2]);
    const double sms = real(type.sm_count);
    const double rate = peak_flops(type, shape.precision) / sms * gemm_efficiency;
    double best = std::numeric_limits<double>::infinity();
    for (const Tile& tile : tiles) {
        const double blocks = std::ceil(m / tile.m) * std::ceil(n / tile.n) * real(shape.dims[3]);
        const double waves = std::ceil(blocks / sms);
        best = std::min(best,
                        waves * 2 * tile.m * tile.n * (k + gemm_ramp) / (rate * tile.efficiency));
    }
    return best * (type.emulated ? 1 : alignment_penalty(shape));
}

/// The implicit GEMM of a convolution: pixels of the output x out channels x (kernel x in
/// channels); the gradients permute the three.
OpShape conv_gemm(const OpShape& shape) {
    const ConvVariant v = parse_conv_variant(shape.variant).value_or(ConvVariant{1, 1});
    const std::int64_t pixels = shape.dims[0] * shape.dims[3] * shape.dims[3];
    const std::int64_t taps = shape.dims[1] * v.kernel * v.kernel, out = shape.dims[2];
    OpShape gemm{OpKind::gemm, shape.pass, shape.precision, {pixels, out, taps, 1}, ""};
    if (v.is_data_gradient) gemm.dims = {pixels, taps, out, 1};
    if (v.is_weight_gradient) gemm.dims = {out, taps, pixels, 1};
    return gemm;
}

double compute_seconds(const GpuType& type, const OpShape& shape) {
    if (shape.kind == OpKind::gemm) return gemm_seconds(type, shape);
    if (shape.kind == OpKind::conv) return gemm_seconds(type, conv_gemm(shape));
    if (shape.kind == OpKind::custom)
        return op_flops(shape) / (peak_flops(type, shape.precision) * gemm_efficiency);
    if (shape.kind != OpKind::attention) return 0;
    const double share =
        shape.pass == Pass::forward ? attention_forward_efficiency : attention_backward_efficiency;
    return op_flops(shape) / (peak_flops(type, shape.precision) * share);
}

}  // namespace

double analytic_seconds(const GpuType& type, const OpShape& shape) {
    const double bytes = op_bytes(shape) / (type.memory_bytes_per_s * bandwidth_efficiency);
    return std::max(compute_seconds(type, shape), bytes) + launch_s;
}

}  // namespace arena
