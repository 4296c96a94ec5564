// SPDX-License-Identifier: GPL-2.0-or-later
// Graphs of cuDNN's operations, one operation after the other in fp32; what lies inside the engine
// is rounded to its tensor's type. Shapes as the operations' sections of the cuDNN 9 reference say.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/cuda/cudnn.h"
#include "tests/cuda/numbers.h"

namespace soft {
namespace {

using Size = std::int64_t;
using Name = cudnnBackendAttributeName_t;

Sizes sizes_of(const Backend& t) { return t.all<Size>(CUDNN_ATTR_TENSOR_DIMENSIONS); }
Sizes strides_of(const Backend& t) { return t.all<Size>(CUDNN_ATTR_TENSOR_STRIDES); }
Size count_of(const Sizes& sizes) {
    Size n = 1;
    for (const Size s : sizes) n *= s;
    return n;
}
bool is_inner(const Backend& t) { return t.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL); }
bool is_scalar(const Backend& t) { return t.one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE); }
Size id_of(const Backend& t) { return t.one<Size>(CUDNN_ATTR_TENSOR_UNIQUE_ID); }
bool is_float(const Backend& t) {
    const auto type = t.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}
Number number_of(const Backend& t) {
    switch (t.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)) {
        case CUDNN_DATA_HALF:
            return Number::f16;
        case CUDNN_DATA_BFLOAT16:
            return Number::bf16;
        default:
            return Number::f32;  // integers and booleans inside an engine are exact in it
    }
}

/// f(index of the dense order, offset by these strides) over all elements.
template <typename F>
void each(const Sizes& sizes, const Sizes& strides, const F& f) {
    Sizes at(sizes.size(), 0);
    const Size all = count_of(sizes);
    Size offset = 0;
    for (Size i = 0; i < all; ++i) {
        f(i, offset);
        for (std::size_t d = sizes.size(); d-- > 0;) {
            offset += strides[d];
            if (++at[d] < sizes[d]) break;
            offset -= strides[d] * sizes[d];
            at[d] = 0;
        }
    }
}

/// The element of a smaller tensor at a place of a larger one: sizes of 1 are repeated, and heads
/// that share one are grouped.
Sizes broadcast_divisors(const Sizes& large, const Sizes& small) {
    Sizes by(large.size());
    for (std::size_t d = 0; d < large.size(); ++d) by[d] = large[d] / small[d];
    return by;
}
template <typename F>
void each_broadcast(const Sizes& large, const Sizes& small, const F& f) {
    const Sizes by = broadcast_divisors(large, small);
    Sizes at(large.size(), 0);
    const Size all = count_of(large);
    for (Size i = 0; i < all; ++i) {
        Size j = 0;
        for (std::size_t d = 0; d < large.size(); ++d) j = j * small[d] + at[d] / by[d];
        f(i, j);
        for (std::size_t d = large.size(); d-- > 0;) {
            if (++at[d] < large[d]) break;
            at[d] = 0;
        }
    }
}

bool fits(const Sizes& large, const Sizes& small) {
    if (large.size() != small.size()) return false;
    for (std::size_t d = 0; d < large.size(); ++d)
        if (large[d] % small[d] != 0) return false;
    return true;
}

struct Run {
    const Bindings& bound;
    bool is_rounding;
    std::map<Size, Floats> inner;

    Floats get(const Backend& t) {
        if (is_scalar(t)) return {bound.scalars.at(id_of(t))};
        if (is_inner(t)) return inner.at(id_of(t));
        Floats out(static_cast<std::size_t>(count_of(sizes_of(t))));
        const void* const p = bound.pointers.at(id_of(t));
        const Number type = number_of(t);
        each(sizes_of(t), strides_of(t),
             [&](Size i, Size at) { out[static_cast<std::size_t>(i)] = load(type, p, at); });
        return out;
    }
    /// What several blocks add to is not overwritten.
    void put(const Backend& t, const Floats& values) {
        const Number type = number_of(t);
        if (is_inner(t)) {
            Floats& kept = inner[id_of(t)];
            kept = values;
            for (float& x : kept) x = rounded(type, x);
            return;
        }
        void* const p = bound.pointers.at(id_of(t));
        const bool adds = t.one<cudnnBackendTensorReordering_t>(
                              CUDNN_ATTR_TENSOR_REORDERING_MODE) == CUDNN_TENSOR_REORDERING_F16x16;
        each(sizes_of(t), strides_of(t), [&](Size i, Size at) {
            const float x = values[static_cast<std::size_t>(i)];
            store(type, p, at, adds ? load(type, p, at) + x : x);
        });
    }
};

float pointwise(cudnnPointwiseMode_t mode, float x, float b, float t) {
    switch (mode) {
        case CUDNN_POINTWISE_ADD:
            return x + b;
        case CUDNN_POINTWISE_SUB:
            return x - b;
        case CUDNN_POINTWISE_MUL:
            return x * b;
        case CUDNN_POINTWISE_DIV:
            return x / b;
        case CUDNN_POINTWISE_EXP:
            return std::exp(x);
        case CUDNN_POINTWISE_LOG:
            return std::log(x);
        case CUDNN_POINTWISE_CMP_GE:
            return x >= b ? 1 : 0;
        case CUDNN_POINTWISE_BINARY_SELECT:
            return t != 0 ? x : b;
        case CUDNN_POINTWISE_IDENTITY:
            return x;
        default:
            fault("cuDNN: a pointwise mode not known here");
    }
}

void run_pointwise(Run& run, const Backend& op) {
    const Backend& how = op.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = how.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    const Backend& y = op.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    const Sizes sizes = sizes_of(y);
    Floats out(static_cast<std::size_t>(count_of(sizes)));
    if (mode == CUDNN_POINTWISE_GEN_INDEX) {
        Sizes strides(sizes.size(), 0);
        strides[static_cast<std::size_t>(how.one<Size>(CUDNN_ATTR_POINTWISE_AXIS, -1))] = 1;
        each(sizes, strides,
             [&](Size i, Size at) { out[static_cast<std::size_t>(i)] = static_cast<float>(at); });
        return run.put(y, out);
    }
    const auto operand = [&](Name name) {
        Floats wide(out.size());
        if (!op.has(name)) return wide;
        const Floats given = run.get(op.part(name));
        each_broadcast(sizes, sizes_of(op.part(name)), [&](Size i, Size j) {
            wide[static_cast<std::size_t>(i)] = given[static_cast<std::size_t>(j)];
        });
        return wide;
    };
    const Floats x = operand(CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
                 b = operand(CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
                 t = operand(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = pointwise(mode, x[i], b[i], t[i]);
    run.put(y, out);
}

/// Batch sizes of B may divide A's: heads that share keys and values.
void run_matmul(Run& run, const Backend& op) {
    const Backend &a = op.part(CUDNN_ATTR_OPERATION_MATMUL_ADESC),
                  &b = op.part(CUDNN_ATTR_OPERATION_MATMUL_BDESC),
                  &c = op.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const Sizes as = sizes_of(a), bs = sizes_of(b), cs = sizes_of(c);
    const Size m = cs[2], n = cs[3], k = as[3];
    const Floats left = run.get(a), right = run.get(b);
    Floats out;
    for (Size i = 0; i < cs[0]; ++i)
        for (Size h = 0; h < cs[1]; ++h) {
            const Size at_a = (i / (cs[0] / as[0]) * as[1] + h / (cs[1] / as[1])) * m * k,
                       at_b = (i / (cs[0] / bs[0]) * bs[1] + h / (cs[1] / bs[1])) * k * n;
            const Floats product_of =
                product({left.begin() + at_a, left.begin() + at_a + m * k},
                        {right.begin() + at_b, right.begin() + at_b + k * n}, m, n, k);
            out.insert(out.end(), product_of.begin(), product_of.end());
        }
    run.put(c, out);
}

void run_reduction(Run& run, const Backend& op) {
    const Backend &x = op.part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
                  &y = op.part(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    const auto what = op.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                          .one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    const bool is_max = what == CUDNN_REDUCE_TENSOR_MAX;
    if (!is_max && what != CUDNN_REDUCE_TENSOR_ADD) fault("cuDNN: a reduction not known here");
    Floats out(static_cast<std::size_t>(count_of(sizes_of(y))),
               is_max ? -std::numeric_limits<float>::infinity() : 0);
    const Floats in = run.get(x);
    each_broadcast(sizes_of(x), sizes_of(y), [&](Size i, Size j) {
        float& to = out[static_cast<std::size_t>(j)];
        const float from = in[static_cast<std::size_t>(i)];
        to = is_max ? std::max(to, from) : to + from;
    });
    run.put(y, out);
}

/// A transposition of the last two dimensions, which is what NVIDIA's front-end uses it for.
void run_reshape(Run& run, const Backend& op) {
    const Backend &x = op.part(CUDNN_ATTR_OPERATION_RESHAPE_XDESC),
                  &y = op.part(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    const Sizes s = sizes_of(x);
    const Floats in = run.get(x);
    Floats out(in.size());
    each({s[0], s[1], s[3], s[2]}, {s[1] * s[2] * s[3], s[2] * s[3], 1, s[3]},
         [&](Size i, Size at) {
             out[static_cast<std::size_t>(i)] = in[static_cast<std::size_t>(at)];
         });
    run.put(y, out);
}

struct Convolution {
    const Backend *how, *x, *w, *y;
    cudnnBackendDescriptorType_t direction;
};
bool convolution_of(const Backend& op, Convolution* c) {
    c->direction = op.type;
    const auto take = [&](Name how, Name x, Name w, Name y) {
        c->how = &op.part(how), c->x = &op.part(x), c->w = &op.part(w), c->y = &op.part(y);
        return true;
    };
    switch (op.type) {
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
            return take(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
            return take(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
            return take(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
        default:
            return false;
    }
}

/// f(element of x, of w, of y) for each product.
template <typename F>
void each_tap(const Convolution& c, const F& f) {
    const Sizes x = sizes_of(*c.x), w = sizes_of(*c.w), y = sizes_of(*c.y);
    const Size stride = c.how->one<Size>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
               pad = c.how->one<Size>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    for (Size n = 0; n < y[0]; ++n)
        for (Size o = 0; o < y[1]; ++o)
            for (Size i = 0; i < x[1]; ++i)
                for (Size ky = 0; ky < w[2]; ++ky)
                    for (Size kx = 0; kx < w[3]; ++kx)
                        for (Size p = 0; p < y[2]; ++p) {
                            const Size row = p * stride + ky - pad;
                            if (row < 0 || row >= x[2]) continue;
                            for (Size q = 0; q < y[3]; ++q) {
                                const Size col = q * stride + kx - pad;
                                if (col < 0 || col >= x[3]) continue;
                                f(((n * x[1] + i) * x[2] + row) * x[3] + col,
                                  ((o * w[1] + i) * w[2] + ky) * w[3] + kx,
                                  ((n * y[1] + o) * y[2] + p) * y[3] + q);
                            }
                        }
}

/// tf32 keeps 10 bits of the fraction.
void to_tf32(Floats& values) {
    for (float& x : values) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &x, sizeof bits);
        bits = (bits + 0x1000) & ~0x1fffU;
        std::memcpy(&x, &bits, sizeof bits);
    }
}

void run_convolution(Run& run, const Convolution& c) {
    const auto input = [&](const Backend& t) {
        Floats values = run.get(t);
        if (run.is_rounding && number_of(t) == Number::f32) to_tf32(values);
        return values;
    };
    const auto at = [](Size i) { return static_cast<std::size_t>(i); };
    const auto result = [](const Backend& t) {
        return Floats(static_cast<std::size_t>(count_of(sizes_of(t))));
    };
    if (c.direction == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
        const Floats x = input(*c.x), w = input(*c.w);
        Floats y = result(*c.y);
        each_tap(c, [&](Size i, Size j, Size k) { y[at(k)] += x[at(i)] * w[at(j)]; });
        return run.put(*c.y, y);
    }
    const Floats dy = input(*c.y);
    if (c.direction == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
        const Floats w = input(*c.w);
        Floats dx = result(*c.x);
        each_tap(c, [&](Size i, Size j, Size k) { dx[at(i)] += dy[at(k)] * w[at(j)]; });
        return run.put(*c.x, dx);
    }
    const Floats x = input(*c.x);
    Floats dw = result(*c.w);
    each_tap(c, [&](Size i, Size j, Size k) { dw[at(j)] += dy[at(k)] * x[at(i)]; });
    run.put(*c.w, dw);
}

/// Section "Convolution forward": y = 1 + (x + padding - (1 + (w - 1) dilation)) / stride.
bool is_right_convolution(const Convolution& c) {
    const Sizes x = sizes_of(*c.x), w = sizes_of(*c.w), y = sizes_of(*c.y);
    const auto strides = c.how->all<Size>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
               dilations = c.how->all<Size>(CUDNN_ATTR_CONVOLUTION_DILATIONS),
               pre = c.how->all<Size>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
               post = c.how->all<Size>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
    if (x.size() != 4 || w.size() != 4 || y.size() != 4 || strides.size() != 2) return false;
    if (c.how->one<Size>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) != 2 || dilations != Sizes{1, 1})
        return false;
    if (strides[0] != strides[1] || pre[0] != pre[1] || pre != post) return false;
    for (std::size_t d = 0; d < 2; ++d)
        if (y[d + 2] != 1 + (x[d + 2] + pre[d] + post[d] - w[d + 2]) / strides[d]) return false;
    return x[0] == y[0] && x[1] == w[1] && w[0] == y[1];
}

cudnnStatus_t check_operation(const Backend& op) {
    const auto shape = [](bool good) {
        return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    };
    Convolution c{};
    if (convolution_of(op, &c)) return shape(is_right_convolution(c));
    switch (op.type) {
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
            const Sizes y = sizes_of(op.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
            for (const Name n :
                 {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                  CUDNN_ATTR_OPERATION_POINTWISE_TDESC})
                if (op.has(n) && !fits(y, sizes_of(op.part(n)))) return shape(false);
            return CUDNN_STATUS_SUCCESS;
        }
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
            const Sizes a = sizes_of(op.part(CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
                        b = sizes_of(op.part(CUDNN_ATTR_OPERATION_MATMUL_BDESC)),
                        y = sizes_of(op.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
            if (a.size() != 4 || b.size() != 4 || y.size() != 4) return shape(false);
            for (const auto* in : {&a, &b})
                if (y[0] % (*in)[0] != 0 || y[1] % (*in)[1] != 0) return shape(false);
            return shape(a[2] == y[2] && a[3] == b[2] && b[3] == y[3]);
        }
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
            return shape(fits(sizes_of(op.part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC)),
                              sizes_of(op.part(CUDNN_ATTR_OPERATION_REDUCTION_YDESC))));
        case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: {
            Sizes x = sizes_of(op.part(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
            if (x.size() != 4) return shape(false);
            std::swap(x[2], x[3]);
            return shape(x == sizes_of(op.part(CUDNN_ATTR_OPERATION_RESHAPE_YDESC)));
        }
        default:
            fault("cuDNN: an operation not known here");
    }
}

}  // namespace

std::vector<const Backend*> tensors_of(const Backend& graph) {
    std::map<Size, const Backend*> all;
    for (const auto& op : graph.parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS))
        for (const auto& [name, parts] : op->parts)
            for (const auto& part : parts)
                if (part->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR && !is_inner(*part))
                    all[id_of(*part)] = part.get();
    std::vector<const Backend*> list;
    for (const auto& [id, tensor] : all) list.push_back(tensor);
    return list;
}

Size bytes_of_tensor(const Backend& t) {
    const Sizes sizes = sizes_of(t), strides = strides_of(t);
    Size last = 1;
    for (std::size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
    return last * static_cast<Size>(width_of(number_of(t)));
}

cudnnStatus_t check_graph(const Backend& graph) {
    for (const auto& op : graph.parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS))
        if (const auto s = check_operation(*op); s != CUDNN_STATUS_SUCCESS) return s;
    for (const Backend* t : tensors_of(graph))
        if (!is_float(*t)) return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
    return CUDNN_STATUS_SUCCESS;
}

double flops_of(const Backend& graph) {
    double flops = 0;
    for (const auto& op : graph.parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
        Convolution c{};
        if (convolution_of(*op, &c)) {
            const Sizes w = sizes_of(*c.w);
            flops += 2.0 * static_cast<double>(count_of(sizes_of(*c.y))) *
                     static_cast<double>(w[1] * w[2] * w[3]);
        } else if (op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
            const auto out = sizes_of(op->part(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
            const auto in = sizes_of(op->part(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
            flops += 2.0 * static_cast<double>(count_of(out)) * static_cast<double>(in[3]);
        }
    }
    return flops;
}

void run_graph(const Backend& graph, const Bindings& bound, bool is_rounding) {
    Run run{bound, is_rounding, {}};
    for (const auto& op : graph.parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
        Convolution c{};
        if (convolution_of(*op, &c))
            run_convolution(run, c);
        else if (op->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
            run_pointwise(run, *op);
        else if (op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
            run_matmul(run, *op);
        else if (op->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
            run_reduction(run, *op);
        else
            run_reshape(run, *op);
    }
}

}  // namespace soft
