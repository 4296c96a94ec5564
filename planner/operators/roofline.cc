// SPDX-License-Identifier: GPL-2.0-or-later
// The roofline: what a device should need for an operator nobody measured. GEMMs by tiles, waves,
// alignment and K; attention fused or with its scores in memory; the rest by bytes (Williams et
// al. 2009). A GEMM takes waves = ceil(tiles / SMs) times 2 tm tn K / (peak / SMs), by the best of
// four tile shapes. The constants are the calibration table's; a profile corrects them per class of
// operators.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/statistics.h"
#include "planner/operators/cost.h"
#include "planner/operators/whole_layer.h"

namespace arena {

namespace {

struct Tile {
    double m, n, share;
};
constexpr Tile tiles[] = {{256, 128, 1.0}, {128, 128, 0.93}, {128, 64, 0.80}, {64, 64, 0.62}};
constexpr double wide_head = 128;          ///< size of a head that rates of attention are for
constexpr double unmasked_edges = 0.3;     ///< without a mask no block lies on its diagonal
constexpr double splits[] = {1, 2, 4, 8};  ///< of K, where a GEMM has fewer tiles than a device SMs

double rate_of(const GpuType& type, const CostConstants& c, Precision precision) {
    const auto own = type.flops.find(precision), plain = type.flops.find(Precision::fp32);
    const double peak = own != type.flops.end()     ? own->second
                        : plain != type.flops.end() ? plain->second
                                                    : type.flops.begin()->second;
    return peak * c.device.clock_share;
}

bool is_8bit(Precision p) { return p == Precision::fp8 || p == Precision::mxfp8; }
bool is_4bit(Precision p) { return p == Precision::nvfp4; }

/// Everything but GEMMs of 8- and 4-bit training runs in bf16.
Precision outside_gemms(Precision p) { return is_8bit(p) || is_4bit(p) ? Precision::bf16 : p; }

double gemm_share(const DeviceConstants& device, Precision precision) {
    const bool has_own = precision == Precision::fp32 && device.gemm_share_32bit > 0;
    return is_8bit(precision)   ? device.gemm_share_8bit
           : is_4bit(precision) ? device.gemm_share_4bit
           : has_own            ? device.gemm_share_32bit
                                : device.gemm_share;
}

/// Slowdown of a GEMM whose rows do not start on 16-byte borders, or do not fill 128 bytes.
double misalignment(const DeviceConstants& device, double m, double n, double k) {
    const auto whole = [](double size) { return static_cast<std::int64_t>(size); };
    const std::int64_t bits = whole(m) | whole(n) | whole(k);
    const auto multiple = [&](std::int64_t power_of_two) { return bits % power_of_two == 0; };
    if (!multiple(8)) return device.gemm_align_8;
    return multiple(64) ? 1 : device.gemm_align_64;
}

struct Gemm {
    double m, n, k, batch;
};

/// What a kind of matrix product reaches: of the peak, and what k loses at its ends.
struct Reach {
    double share, ramp;
};

/// Filling and draining take a time, in which a faster precision would have done more of k. GEMMs
/// of many experts at once reach a part of what one does.
Reach gemm_reach(const GpuType& type, const CostConstants& c, Precision precision,
                 bool is_grouped) {
    const double faster = is_8bit(precision) || is_4bit(precision)
                              ? rate_of(type, c, precision) / rate_of(type, c, Precision::bf16)
                              : 1;
    const double grouped = is_grouped ? c.device.grouped_share : 1;
    return {grouped * gemm_share(c.device, precision), faster * c.device.gemm_ramp};
}

/// Of convolutions, which share kernels with no GEMM of a language model; in fp32 without tensor
/// cores the same lanes bound both.
Reach conv_reach(const CostConstants& c, Precision precision) {
    const bool plain = precision == Precision::fp32 && c.device.gemm_share_32bit > 0;
    return {plain ? c.device.gemm_share_32bit : c.device.conv_share, c.device.conv_ramp};
}

/// std::ceil() of what is not negative, without the call that it is without SSE4.1.
double ceil_of(double value) {
    if (value >= 0x1p53) return value;
    const double whole = real(static_cast<std::int64_t>(value));
    return whole < value ? whole + 1 : whole;
}

/// Tiles run in waves over the multiprocessors; a partly filled last wave costs a whole one. A GEMM
/// with few tiles splits K over idle multiprocessors.
double gemm_compute_s(const GpuType& type, const CostConstants& c, Precision precision,
                      const Gemm& g, const Reach& reach) {
    const double sms = real(type.sm_count);
    const double rate = rate_of(type, c, precision) / sms * reach.share;
    double best = std::numeric_limits<double>::infinity();
    for (const Tile& tile : tiles) {
        const double blocks = ceil_of(g.m / tile.m) * ceil_of(g.n / tile.n) * g.batch;
        for (double split : splits) {
            if (split > 1 && blocks * split > sms) break;
            const double waves = ceil_of(blocks * split / sms);
            best = std::min(best, waves * 2 * tile.m * tile.n * (g.k / split + reach.ramp) /
                                      (rate * tile.share));
        }
    }
    return best * (type.emulated ? 1 : misalignment(c.device, g.m, g.n, g.k));
}

double bytes_s(const GpuType& type, const CostConstants& c, double bytes) {
    return bytes / (type.memory_bytes_per_s * c.device.memory_share);
}

/// 8- and 4-bit GEMMs first cast their inputs: each is read in 16 bit and written twice in the
/// small type, by rows for this GEMM and by columns for the backward one.
double cast_bytes(const CostConstants& c, const OpShape& shape) {
    if (!is_8bit(shape.precision) && !is_4bit(shape.precision)) return 0;
    if (shape.pass == Pass::backward && has_variant(shape, Gradient::weights))
        return 0;  // cast for dgrad
    const double width = 2 + 2 * element_bytes(shape.precision);
    return c.framework.cast_passes * width * real(shape.dims[0]) * real(shape.dims[2]) *
           real(shape.dims[3]);
}

double gemm_s(const GpuType& type, const CostConstants& c, const OpShape& shape) {
    const Gemm g{real(shape.dims[0]), real(shape.dims[1]), real(shape.dims[2]),
                 real(shape.dims[3])};
    const double compute = gemm_compute_s(type, c, shape.precision, g,
                                          gemm_reach(type, c, shape.precision, shape.dims[3] > 1));
    return std::max(compute, bytes_s(type, c, op_bytes(shape))) +
           bytes_s(type, c, cast_bytes(c, shape));
}

/// A convolution as an implicit GEMM: pixels of the output, (kernel x in channels), out channels.
struct Conv {
    ConvVariant variant;
    double pixels, taps, out;
};

Conv conv_of(const OpShape& shape) {
    const auto v = variant_as<ConvVariant>(shape);
    return {v, real(shape.dims[0]) * real(shape.dims[3]) * real(shape.dims[3]),
            real(shape.dims[1]) * real(v.kernel) * real(v.kernel), real(shape.dims[2])};
}

/// Forward pixels x out x taps; the gradients permute the three.
Gemm conv_gemm(const Conv& conv) {
    if (conv.variant.gradient == Gradient::data) return {conv.pixels, conv.taps, conv.out, 1};
    if (conv.variant.gradient == Gradient::weights) return {conv.out, conv.taps, conv.pixels, 1};
    return {conv.pixels, conv.out, conv.taps, 1};
}

/// Besides the implicit GEMM a framework moves the weights: into another layout, or transformed
/// for Winograd's algorithm, and back; where channels come first, images go into the layout that
/// tensor cores take, and back.
double conv_s(const GpuType& type, const CostConstants& c, const OpShape& shape) {
    const Conv conv = conv_of(shape);
    const double passes = type.emulated ? 0 : c.framework.conv_weight_passes;
    const double weight_bytes = conv.taps * conv.out * element_bytes(shape.precision);
    return std::max(gemm_compute_s(type, c, shape.precision, conv_gemm(conv),
                                   conv_reach(c, shape.precision)),
                    bytes_s(type, c, op_bytes(shape))) +
           bytes_s(type, c, passes * weight_bytes) +
           (type.emulated ? 0
                          : bytes_s(type, c, 2 * c.framework.conv_layout_passes * op_bytes(shape)));
}

/// Work that a user stated as FLOPs and bytes.
double custom_s(const GpuType& type, const CostConstants& c, const OpShape& shape) {
    return std::max(op_flops(shape) /
                        (rate_of(type, c, shape.precision) * gemm_share(c.device, shape.precision)),
                    bytes_s(type, c, op_bytes(shape)));
}

/// A score costs as many exponentials whatever the head's size, and fewer FLOPs in a smaller one.
double fused_attention_s(const GpuType& type, const CostConstants& c, const OpShape& shape) {
    const bool forward = shape.pass == Pass::forward;
    const double share = forward ? c.device.attention_forward : c.device.attention_backward;
    const double slower =
        std::min(1.0, gemm_share(c.device, shape.precision) / c.device.gemm_share);
    const double rate =
        rate_of(type, c, shape.precision) * share * slower * c.framework.attention_share;
    const bool is_causal = variant_as<AttentionVariant>(shape).is_causal;
    const double lost = (is_causal ? 1 : unmasked_edges) * c.device.attention_ramp;
    const double edges = 1 + lost / real(shape.dims[2]);
    const double narrow =
        1 + c.device.attention_softmax * std::max(0.0, wide_head / real(shape.dims[3]) - 1);
    return std::max(op_flops(shape) * edges * narrow / rate, bytes_s(type, c, op_bytes(shape)));
}

/// Two batched GEMMs forward, four backward, and passes over the whole matrix of scores, masked or
/// not.
double unfused_attention_s(const GpuType& type, const CostConstants& c, const OpShape& shape) {
    const double batch = real(shape.dims[0]), s = real(shape.dims[2]), d = real(shape.dims[3]);
    const bool forward = shape.pass == Pass::forward;
    const Reach reach = gemm_reach(type, c, shape.precision, false);
    const double scores = gemm_compute_s(type, c, shape.precision, {s, s, d, batch}, reach);
    const double context = gemm_compute_s(type, c, shape.precision, {s, d, s, batch}, reach);
    const bool fallback =
        c.framework.softmax_multiple > 1 && std::fmod(batch, c.framework.softmax_multiple) != 0;
    const double passes =
        forward ? c.framework.attention_passes : c.framework.attention_passes_backward;
    const double moved =
        batch * s * s * element_bytes(shape.precision) * passes * (fallback ? 2 : 1);
    return (forward ? 1 : 2) * (scores + context) + bytes_s(type, c, moved);
}

double attention_s(const GpuType& type, const CostConstants& c, const OpShape& shape) {
    const bool fused = type.emulated || c.framework.fused_attention >= 0.5;
    return fused ? fused_attention_s(type, c, shape) : unfused_attention_s(type, c, shape);
}

double moved_bytes(const CostConstants& c, const OpShape& shape, bool emulated) {
    const double elements = real(shape.dims[0]) * real(shape.dims[1]);
    switch (shape.kind) {
        case OpKind::norm:
        case OpKind::elementwise:
            return op_bytes(shape) * (emulated ? 1 : c.framework.elementwise_passes);
        case OpKind::cross_entropy:
            return emulated ? op_bytes(shape) : elements * c.framework.loss_bytes / 2;
        case OpKind::optimizer:
            return emulated ? op_bytes(shape) : real(shape.dims[0]) * c.framework.optimizer_bytes;
        default:
            return op_bytes(shape);
    }
}

double layer_s(const GpuType& type, const CostConstants& c, const OpShape& shape) {
    double sum = 0;
    for (const OpCount& op : operators_of(shape))
        sum += op.count * analytic_seconds(type, c, op.shape);
    return sum;
}

}  // namespace

double analytic_seconds(const GpuType& type, const CostConstants& constants, const OpShape& shape) {
    const double tail = constants.device.kernel_s;
    if (shape.kind == OpKind::layer) return layer_s(type, constants, shape);
    if (shape.kind == OpKind::gemm) return gemm_s(type, constants, shape) + tail;
    if (shape.kind == OpKind::conv) return conv_s(type, constants, shape) + tail;
    if (shape.kind == OpKind::custom) return custom_s(type, constants, shape) + tail;
    if (const Precision plain = outside_gemms(shape.precision); plain != shape.precision) {
        OpShape wide = shape;
        wide.precision = plain;
        return analytic_seconds(type, constants, wide);
    }
    if (shape.kind == OpKind::attention) return attention_s(type, constants, shape) + tail;
    return bytes_s(type, constants, moved_bytes(constants, shape, type.emulated)) + tail;
}

double analytic_seconds(const GpuType& type, const OpShape& shape) {
    return analytic_seconds(type, builtin_calibration().constants(type.name, "default"), shape);
}

}  // namespace arena
