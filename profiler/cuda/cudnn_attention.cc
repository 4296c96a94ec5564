// SPDX-License-Identifier: GPL-2.0-or-later
// The graphs that cuDNN's flash-attention engines recognise, as NVIDIA's front-end writes them for
// cuDNN 9 (scaled_dot_product_flash_attention.h): forward S = QK' scale, mask, softmax with its
// statistics, O = PV; backward from O, dO and the statistics.
#include "profiler/cuda/cudnn_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace arena::cuda {
namespace {

constexpr std::size_t most_workspace = std::size_t{4} << 30;

cudnnDataType_t data_type(Precision p) {
    if (p == Precision::fp16) return CUDNN_DATA_HALF;
    if (p == Precision::bf16) return CUDNN_DATA_BFLOAT16;
    return CUDNN_DATA_FLOAT;
}

Sizes transposed(Sizes sizes) {
    std::swap(sizes[2], sizes[3]);
    return sizes;
}

/// What forward and backward graphs have in common.
class AttentionGraph {
  public:
    explicit AttentionGraph(const AttentionShape& shape)
        : shape_(shape),
          type_(data_type(shape.precision)),
          queries_{shape.samples, shape.heads, shape.seq, shape.d},
          keys_{shape.samples, shape.kv_heads, shape.seq, shape.d},
          scores_{shape.samples, shape.heads, shape.seq, shape.seq},
          rows_{shape.samples, shape.heads, shape.seq, 1},
          query_strides_(dense(queries_)),
          key_strides_(dense(keys_)),
          output_strides_(dense(queries_)) {
        if (shape.is_in_rows) {
            query_strides_ = key_strides_ = in_rows((shape.heads + 2 * shape.kv_heads) * shape.d);
            output_strides_ = in_rows(shape.heads * shape.d);
        }
        q = query();
        k_transposed = graph.tensor(transposed(keys_), transposed(key_strides_), type_);
        scale = graph.scalar();
    }

    GraphTensor query() { return graph.tensor(queries_, query_strides_, type_); }
    GraphTensor key() { return graph.tensor(keys_, key_strides_, type_); }
    GraphTensor output() { return graph.tensor(queries_, output_strides_, type_); }
    GraphTensor numbers(const Sizes& sizes) {
        return graph.tensor(sizes, dense(sizes), CUDNN_DATA_FLOAT);
    }
    GraphTensor inside(const Sizes& sizes) {
        return graph.inner(sizes, dense(sizes), CUDNN_DATA_FLOAT);
    }
    GraphTensor two(cudnnPointwiseMode_t mode, const GraphTensor& x, const GraphTensor& b) {
        return graph.pointwise({mode}, x, &b);
    }
    GraphTensor one(cudnnPointwiseMode_t mode, const GraphTensor& x) {
        return graph.pointwise({mode}, x);
    }

    /// Q K' scale, and the lowest number where a key lies after its query.
    GraphTensor masked_scores() {
        const GraphTensor product = inside(scores_);
        graph.matmul(q, k_transposed, product);
        const GraphTensor scaled = two(CUDNN_POINTWISE_MUL, product, scale);
        if (!shape_.is_causal) return scaled;
        lowest = graph.scalar();
        const GraphTensor row = index(scaled, 2), column = index(scaled, 3);
        const GraphTensor sees = graph.pointwise(
            {CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, CUDNN_DATA_BOOLEAN}, row, &column);
        return graph.pointwise({CUDNN_POINTWISE_BINARY_SELECT}, scaled, &lowest, &sees);
    }

    GraphBuilder graph;
    GraphTensor q, k_transposed, scale, lowest;

  protected:
    GraphTensor index(const GraphTensor& like, std::int64_t axis) {
        return graph.pointwise(
            {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, CUDNN_DATA_INT32, axis}, like);
    }
    /// x' in the type of the inputs, for a product with it.
    GraphTensor turned(const GraphTensor& x) {
        const GraphTensor y = graph.inner(transposed(scores_), transposed(dense(scores_)), type_);
        graph.reshape(x, y);
        return y;
    }
    /// [sample, head, token, element] of heads that lie side by side in rows of this width.
    [[nodiscard]] Sizes in_rows(Index width) const {
        return {shape_.seq * width, shape_.d, width, 1};
    }
    AttentionShape shape_;
    cudnnDataType_t type_;
    Sizes queries_, keys_, scores_, rows_, query_strides_, key_strides_, output_strides_;
};

class ForwardGraph final : public AttentionGraph {
  public:
    explicit ForwardGraph(const AttentionShape& shape) : AttentionGraph(shape) {
        v = key();
        o = output();
        stats = numbers(rows_);
        const GraphTensor s = masked_scores();
        const GraphTensor largest = inside(rows_), sum = inside(rows_);
        graph.reduce(CUDNN_REDUCE_TENSOR_MAX, s, largest);
        const GraphTensor e = one(CUDNN_POINTWISE_EXP, two(CUDNN_POINTWISE_SUB, s, largest));
        graph.reduce(CUDNN_REDUCE_TENSOR_ADD, e, sum);
        const GraphTensor log_sum = one(CUDNN_POINTWISE_LOG, sum);
        graph.pointwise({CUDNN_POINTWISE_ADD}, largest, &log_sum, nullptr, stats);
        const GraphTensor p =
            graph.inner(scores_, dense(scores_), type_);  // the product takes the inputs' type
        graph.pointwise({CUDNN_POINTWISE_DIV}, e, &sum, nullptr, p);
        graph.matmul(p, v, o);
    }
    GraphTensor v, o, stats;
};

class BackwardGraph final : public AttentionGraph {
  public:
    explicit BackwardGraph(const AttentionShape& shape) : AttentionGraph(shape) {
        v_transposed = graph.tensor(transposed(keys_), transposed(key_strides_), type_);
        o = output(), d_o = output(), dq = query();
        dk = key(), dv = key();
        stats = numbers(rows_);
        unit = graph.scalar();
        dq_sum = graph.accumulator(queries_);
        const GraphTensor weighted = row_sums();
        const GraphTensor p =
            one(CUDNN_POINTWISE_EXP, two(CUDNN_POINTWISE_SUB, masked_scores(), stats));
        to_keys(turned(p), d_o, dv);
        const GraphTensor dp = inside(scores_);
        graph.matmul(d_o, v_transposed, dp);
        const GraphTensor centred =
            two(CUDNN_POINTWISE_SUB, two(CUDNN_POINTWISE_MUL, dp, unit), weighted);
        const GraphTensor ds =
            two(CUDNN_POINTWISE_MUL, two(CUDNN_POINTWISE_MUL, centred, p), scale);
        to_keys(turned(ds), q, dk);
        const GraphTensor k = graph.inner(keys_, dense(keys_), CUDNN_DATA_FLOAT);
        graph.reshape(k_transposed, k);
        graph.matmul(ds, k, dq_sum);
        graph.pointwise({CUDNN_POINTWISE_IDENTITY}, dq_sum, nullptr, nullptr, dq);
    }
    GraphTensor v_transposed, o, d_o, dq, dk, dv, stats, unit, dq_sum;

  private:
    /// Sums of dO * O over a row.
    GraphTensor row_sums() {
        const GraphTensor product = two(CUDNN_POINTWISE_MUL, d_o, o), sums = inside(rows_);
        graph.reduce(CUDNN_REDUCE_TENSOR_ADD, product, sums);
        return two(CUDNN_POINTWISE_MUL, sums, unit);
    }
    /// left' right, summed over the query heads that share a key/value head.
    void to_keys(const GraphTensor& left, const GraphTensor& right, const GraphTensor& result) {
        if (shape_.heads == shape_.kv_heads) return graph.matmul(left, right, result);
        const GraphTensor each = graph.inner(queries_, dense(queries_), type_);
        graph.matmul(left, right, each);
        graph.reduce(CUDNN_REDUCE_TENSOR_ADD, each, result);
    }
};

void require_support(const AttentionShape& s) {
    if (s.precision != Precision::fp16 && s.precision != Precision::bf16)
        throw Unsupported("cuDNN: flash attention takes fp16 and bf16 only");
    if (s.d % 8 != 0 || s.d > 128)
        throw Unsupported(
            "cuDNN: flash attention takes head sizes that are a multiple of 8, up to 128");
}

}  // namespace

struct FlashAttention::State {
    cudnnHandle_t handle;
    AttentionShape shape;
    // read by the engines from host memory at each execution
    float scale = 1, unit = 1, lowest = std::numeric_limits<float>::lowest();
    ForwardGraph forward_graph;
    GraphPlan forward;
    std::unique_ptr<BackwardGraph> backward_graph;
    std::unique_ptr<GraphPlan> backward;

    State(cudnnHandle_t h, const AttentionShape& s, bool with_backward)
        : handle(h),
          shape(s),
          scale(1 / std::sqrt(static_cast<float>(s.d))),
          forward_graph(s),
          forward(forward_graph.graph.build(h, most_workspace, false)) {
        if (!with_backward) return;
        backward_graph = std::make_unique<BackwardGraph>(s);
        backward =
            std::make_unique<GraphPlan>(backward_graph->graph.build(h, most_workspace, false));
    }
};

FlashAttention::FlashAttention(cudnnHandle_t handle, const AttentionShape& shape,
                               bool with_backward) {
    require_support(shape);
    state_ = std::make_unique<State>(handle, shape, with_backward);
}
FlashAttention::~FlashAttention() = default;

std::size_t FlashAttention::workspace_bytes() const {
    const std::size_t backward = state_->backward ? state_->backward->workspace_bytes() : 0;
    return std::max(state_->forward.workspace_bytes(), backward);
}

Index FlashAttention::accumulator_count() const {
    return state_->backward ? state_->shape.query_count() : 0;
}

FlashAttention::Bound FlashAttention::bind(const Tensors& t, void* workspace) const {
    State& s = *state_;
    Bound bound;
    bound.owner_ = this;
    bound.tensors_ = t;
    const ForwardGraph& f = s.forward_graph;
    GraphPlan::Pointers pointers{{f.q.id, t.q}, {f.k_transposed.id, t.k}, {f.v.id, t.v},
                                 {f.o.id, t.o}, {f.stats.id, t.stats},    {f.scale.id, &s.scale}};
    if (s.shape.is_causal) pointers.emplace_back(f.lowest.id, &s.lowest);
    bound.forward_ = s.forward.bind(pointers, workspace);
    if (!s.backward) return bound;
    const BackwardGraph& b = *s.backward_graph;
    pointers = {{b.q.id, t.q},           {b.k_transposed.id, t.k}, {b.v_transposed.id, t.v},
                {b.o.id, t.o},           {b.stats.id, t.stats},    {b.d_o.id, t.d_o},
                {b.dq.id, t.dq},         {b.dk.id, t.dk},          {b.dv.id, t.dv},
                {b.dq_sum.id, t.dq_sum}, {b.scale.id, &s.scale},   {b.unit.id, &s.unit}};
    if (s.shape.is_causal) pointers.emplace_back(b.lowest.id, &s.lowest);
    bound.backward_ = s.backward->bind(pointers, workspace);
    return bound;
}

void FlashAttention::Bound::forward(cudaStream_t stream) const {
    const State& s = *owner_->state_;
    check(cudnnSetStream(s.handle, stream), "stream");
    s.forward.run(s.handle, *forward_);
}

void FlashAttention::Bound::backward(cudaStream_t stream) const {
    const State& s = *owner_->state_;
    check(cudnnSetStream(s.handle, stream), "stream");
    const auto bytes = static_cast<std::size_t>(owner_->accumulator_count()) * sizeof(float);
    check(cudaMemsetAsync(tensors_.dq_sum, 0, bytes, stream), "clear the sums of dq");
    s.backward->run(s.handle, *backward_);
}

ImageConvolution::ImageConvolution(cudnnHandle_t handle, const ConvolutionProblem& p,
                                   std::size_t workspace_bytes)
    : handle_(handle) {
    // channels last: NCHW sizes with the strides of NHWC
    const auto channels_last = [](const Sizes& n) {
        return Sizes{n[1] * n[2] * n[3], 1, n[1] * n[3], n[1]};
    };
    const cudnnDataType_t type = data_type(p.precision);
    const Sizes in{p.images, p.in_channels, p.edge_in(), p.edge_in()},
        filters{p.out_channels, p.in_channels, p.kernel, p.kernel},
        out{p.images, p.out_channels, p.edge, p.edge};
    GraphBuilder graph;
    const GraphTensor x = graph.tensor(in, channels_last(in), type),
                      w = graph.tensor(filters, channels_last(filters), type),
                      y = graph.tensor(out, channels_last(out), type);
    graph.convolution(p.direction, {p.stride, p.padding()}, x, w, y);
    x_ = x.id, w_ = w.id, y_ = y.id;
    plan_ = std::make_unique<GraphPlan>(
        graph.build(handle, workspace_bytes, p.precision == Precision::fp32));
}

std::shared_ptr<Descriptor> ImageConvolution::bind(void* x, void* w, void* y,
                                                   void* workspace) const {
    return plan_->bind({{x_, x}, {w_, w}, {y_, y}}, workspace);
}

void ImageConvolution::run(const Descriptor& bound) const { plan_->run(handle_, bound); }

}  // namespace arena::cuda
