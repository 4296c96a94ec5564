// SPDX-License-Identifier: GPL-2.0-or-later
// GEMMs by cuBLASLt, attention and convolutions by cuDNN (attention unfused, as batched GEMM,
// softmax, batched GEMM, where cuDNN has no engine), everything else by cuda_kernels.cu.
#include "profiler/cuda/cuda_recipes.h"

#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "profiler/cuda/cuda_gemm.h"
#include "profiler/cuda/cuda_kernels.h"
#include "profiler/cuda/cuda_layer.h"

namespace arena::cuda {
namespace {

class Recipes {
  public:
    Recipes(Handles& handles, const OpShape& shape)
        : handles_(handles),
          shape_(shape),
          stream_{handles.stream, element_type(shape.precision)} {}

    Result<Recipe> make() const {
        switch (shape_.kind) {
            case OpKind::gemm:
                return gemm();
            case OpKind::attention:
                return attention();
            case OpKind::norm:
                return norm();
            case OpKind::elementwise:
                return elementwise();
            case OpKind::embedding:
                return embedding();
            case OpKind::cross_entropy:
                return cross_entropy();
            case OpKind::optimizer:
                return optimizer();
            case OpKind::conv:
                return handles_.dnn->convolution(shape_);
            case OpKind::layer:
                return layer();
            case OpKind::custom:
                break;  // refused by check_shape()
        }
        return no_error("the CUDA back-end has no such operator", op_key(shape_));
    }

  private:
    bool forward() const { return shape_.pass == Pass::forward; }
    std::shared_ptr<Gemm> problem(Layout layout, Index m, Index n, Index k, Index batch,
                                  Precision p) const {
        return std::make_shared<Gemm>(handles_.blas, Problem{layout, m, n, k, batch, p},
                                      handles_.workspace, workspace_bytes);
    }

    Recipe gemm() const {
        const auto [m, n, k, batch] = shape_.dims;
        const auto layout = has_variant(shape_, Gradient::data)      ? Layout::nn
                            : has_variant(shape_, Gradient::weights) ? Layout::tn
                                                                     : Layout::nt;
        const auto g = problem(layout, m, n, k, batch, shape_.precision);
        const Stream s = stream_;
        const auto operand = shape_.precision == Precision::fp8 ? fp8 : element;
        return {{operand(m * k * batch), operand(k * n * batch), element(m * n * batch)},
                [=](const Buffers& b) {
                    g->tune(s.handle, b[0], b[1], b[2]);  // by the first set; then it stays
                    return [=] { g->run(s.handle, b[0], b[1], b[2]); };
                }};
    }

    /// Fused where cuDNN has an engine, which is what frameworks run then; unfused where it has
    /// none.
    Recipe attention() const {
        auto fused = handles_.dnn->attention(shape_, attention_precision());
        if (fused) return std::move(fused).value();
        if (!std::exchange(handles_.has_told_unfused, true))
            std::fprintf(stderr, "arena-profiler: attention is measured unfused, first for %s\n",
                         fused.error().message().c_str());
        return forward() ? attention_forward() : attention_backward();
    }

    /// Query heads that share a key/value head lie together: one problem of group * seq rows for
    /// each.
    Recipe attention_forward() const {
        const Index heads = shape_.dims[0], kv = shape_.dims[1], seq = shape_.dims[2],
                    d = shape_.dims[3];
        const Index rows = heads / kv * seq;
        const auto type = attention_precision();
        const auto scores = problem(Layout::nt, rows, seq, d, kv, type),
                   values = problem(Layout::nn, rows, d, seq, kv, type);
        const Stream s = stream_;
        const float scale = 1 / std::sqrt(static_cast<float>(d));
        const bool causal = variant_as<AttentionVariant>(shape_).is_causal;
        return {{element(heads * seq * d), element(kv * seq * d), element(kv * seq * d),
                 element(heads * seq * seq), element(heads * seq * d)},
                [=](const Buffers& b) {
                    return [=] {
                        scores->run(s.handle, b[0], b[1], b[3]);
                        softmax_forward(s, heads * seq, seq, scale, causal, b[3]);
                        values->run(s.handle, b[3], b[2], b[4]);
                    };
                }};
    }

    /// From saved probabilities: dV = P' dO, dP = dO V', dS, dQ = dS K, dK = dS' Q.
    Recipe attention_backward() const {
        const Index heads = shape_.dims[0], kv = shape_.dims[1], seq = shape_.dims[2],
                    d = shape_.dims[3];
        const Index rows = heads / kv * seq, q = heads * seq * d, k = kv * seq * d,
                    p = heads * seq * seq;
        const auto type = attention_precision();
        const auto scores = problem(Layout::nt, rows, seq, d, kv, type),
                   dv = problem(Layout::tn, seq, d, rows, kv, type);
        const auto dq = problem(Layout::nn, rows, d, seq, kv, type);
        const Stream s = stream_;
        const float scale = 1 / std::sqrt(static_cast<float>(d));
        const bool causal = variant_as<AttentionVariant>(shape_).is_causal;
        // 0 q, 1 k, 2 v, 3 p, 4 dO, 5 dp, 6 dq, 7 dk, 8 dv
        return {{element(q), element(k), element(k), element(p), element(q), element(p), element(q),
                 element(k), element(k)},
                [=](const Buffers& b) {
                    scores->run(s.handle, b[0], b[1], b[3]);
                    softmax_forward(s, heads * seq, seq, scale, causal, b[3]);
                    return [=] {
                        dv->run(s.handle, b[3], b[4], b[8]);
                        scores->run(s.handle, b[4], b[2], b[5]);
                        softmax_backward(s, heads * seq, seq, scale, b[3], b[5]);
                        dq->run(s.handle, b[5], b[1], b[6]);
                        dv->run(s.handle, b[5], b[0], b[7]);
                    };
                }};
    }

    /// Its operators one after the other; of each its own recipe.
    Result<Recipe> layer() const {
        const auto unfused = [this](const OpShape& op) {
            const Recipes recipes(handles_, op);
            return op.pass == Pass::forward ? recipes.attention_forward()
                                            : recipes.attention_backward();
        };
        return layer_recipe(
            shape_,
            {stream_, [this](const OpShape& op) { return Recipes(handles_, op).make().value(); },
             unfused, [this](const OpShape& op) { return handles_.dnn->attention_in_rows(op); },
             [this](const OpShape& op) { return handles_.dnn->attention(op, op.precision).ok(); }});
    }

    Precision attention_precision() const {
        return shape_.precision == Precision::fp8 ? Precision::bf16 : shape_.precision;
    }

    Recipe norm() const {
        const Index rows = shape_.dims[0], cols = shape_.dims[1], n = rows * cols;
        const Norm norm{.rows = rows, .cols = cols, .rms = has_variant(shape_, NormKind::rms)};
        const Stream s = stream_;
        const auto tensors = [](const Buffers& b, const void* beta) {
            return NormTensors{
                .x = b[0], .gamma = b[1], .beta = beta, .y = b[3], .saved = f32(b[4])};
        };
        if (forward())
            return {
                {element(n), element(cols), element(cols), element(n), number(2 * rows)},
                [=](const Buffers& b) { return [=] { norm_forward(s, norm, tensors(b, b[2])); }; }};
        return {{element(n), element(cols), element(n), element(n), number(2 * rows), number(cols),
                 number(cols)},
                [=](const Buffers& b) {
                    norm_forward(s, norm, tensors(b, b[1]));
                    return [=] {
                        norm_backward(s, norm, {.x = b[0], .gamma = b[1], .saved = f32(b[4])}, b[2],
                                      {.x = b[3], .gamma = f32(b[5]), .beta = f32(b[6])});
                    };
                }};
    }

    Recipe elementwise() const {
        const Index rows = shape_.dims[0], cols = shape_.dims[1], n = rows * cols;
        const Stream s = stream_;
        const auto all = [n](std::size_t count) { return std::vector<Need>(count, element(n)); };
        const auto v = variant_as<ElementwiseKind>(shape_);
        if (v == ElementwiseKind::gelu && forward())
            return {all(2),
                    [=](const Buffers& b) { return [=] { gelu_forward(s, n, b[0], b[1]); }; }};
        if (v == ElementwiseKind::gelu)
            return {all(3), [=](const Buffers& b) {
                        return [=] { gelu_backward(s, n, b[0], b[1], b[2]); };
                    }};
        if (v == ElementwiseKind::swiglu && forward())
            return {all(3), [=](const Buffers& b) {
                        return [=] { swiglu_forward(s, n, b[0], b[1], b[2]); };
                    }};
        if (v == ElementwiseKind::swiglu)
            return {all(5), [=](const Buffers& b) {
                        return [=] { swiglu_backward(s, n, b[0], b[1], b[2], b[3], b[4]); };
                    }};
        if (v == ElementwiseKind::add)
            return {all(3), [=](const Buffers& b) { return [=] { add(s, n, b[0], b[1], b[2]); }; }};
        if (forward())
            return {{element(n), element(cols), element(n), element(n)}, [=](const Buffers& b) {
                        return
                            [=] { bias_residual_forward(s, rows, cols, b[0], b[1], b[2], b[3]); };
                    }};
        return {{element(n), element(n), number(cols)}, [=](const Buffers& b) {
                    return [=] { bias_residual_backward(s, rows, cols, b[0], b[1], f32(b[2])); };
                }};
    }

    Recipe embedding() const {
        const Index tokens = shape_.dims[0], hidden = shape_.dims[1], vocab = shape_.dims[2];
        const Stream s = stream_;
        if (forward())
            return {{element(vocab * hidden), element(tokens * hidden), ids(tokens, vocab)},
                    [=](const Buffers& b) {
                        return [=] { embedding_forward(s, tokens, hidden, i32(b[2]), b[0], b[1]); };
                    }};
        return {{element(tokens * hidden), number(vocab * hidden, 0), ids(tokens, vocab)},
                [=](const Buffers& b) {
                    return
                        [=] { embedding_backward(s, tokens, hidden, i32(b[2]), b[0], f32(b[1])); };
                }};
    }

    Recipe cross_entropy() const {
        const Index rows = shape_.dims[0], cols = shape_.dims[1];
        const Stream s = stream_;
        if (forward())
            return {{element(rows * cols), ids(rows, cols), number(rows), number(rows)},
                    [=](const Buffers& b) {
                        return [=] {
                            cross_entropy_forward(s, rows, cols, b[0], i32(b[1]), f32(b[2]),
                                                  f32(b[3]));
                        };
                    }};
        return {{element(rows * cols), ids(rows, cols), number(rows), number(rows),
                 element(rows * cols)},
                [=](const Buffers& b) {
                    cross_entropy_forward(s, rows, cols, b[0], i32(b[1]), f32(b[2]), f32(b[3]));
                    return [=] {
                        cross_entropy_backward(s, rows, cols,
                                               {.x = b[0], .label = i32(b[1]), .lse = f32(b[3])},
                                               1.0F / static_cast<float>(rows), b[4]);
                    };
                }};
    }

    Recipe optimizer() const {
        const Index n = shape_.dims[0];
        const bool copy = stream_.type != Type::f32;
        const Stream s = stream_;
        return {{number(n), element(n), number(n, 0.01F), number(n, 0.01F), element(copy ? n : 1)},
                [=](const Buffers& b) {
                    return [=] {
                        adamw(s, n, 1,
                              {.p = f32(b[0]),
                               .m = f32(b[2]),
                               .v = f32(b[3]),
                               .copy = copy ? b[4] : nullptr},
                              b[1]);
                    };
                }};
    }

    Handles& handles_;
    const OpShape& shape_;
    Stream stream_;
};

}  // namespace

Type element_type(Precision p) {
    switch (p) {
        case Precision::fp32:
        case Precision::tf32:
            return Type::f32;
        case Precision::fp16:
            return Type::f16;
        case Precision::bf16:
        case Precision::fp8:
        case Precision::mxfp8:
        case Precision::nvfp4:
            return Type::bf16;
    }
    return Type::f32;
}

Result<Recipe> make_recipe(Handles& handles, const OpShape& shape) {
    return Recipes(handles, shape).make();
}

}  // namespace arena::cuda
