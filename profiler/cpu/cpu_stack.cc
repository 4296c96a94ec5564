// SPDX-License-Identifier: GPL-2.0-or-later
// See cpu_stack.h. One function per direction and half of a layer; buffers that backward needs are
// kept per layer, the others are shared by all layers.
#include "profiler/cpu/cpu_stack.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace arena::cpu {
namespace {

using Floats = std::vector<float>;

Floats floats(Index n) { return Floats(static_cast<std::size_t>(n)); }

/// Uniform in [-width / 2, width / 2): xorshift64*, no zeros in a row, no denormals.
void fill(Floats& v, float width, std::uint64_t seed) {
    std::uint64_t s = (seed + 1) * 0x9e3779b97f4a7c15ULL | 1;
    for (float& x : v) {
        s ^= s >> 12;
        s ^= s << 25;
        s ^= s >> 27;
        const auto bits = static_cast<std::uint32_t>((s * 0x2545f4914f6cdd1dULL) >> 41);
        x = (static_cast<float>(bits) * 0x1p-23F - 0.5F + 0x1p-25F) * width;
    }
}

/// What backward of one layer reads.
struct Kept {
    Floats x, norm1, saved1, q, k, v, o, lse, context;  // attention's half
    Floats x1, norm2, saved2, up, act;                  // the MLP's half
    explicit Kept(const StackShape& s)
        : x(floats(s.tokens() * s.hidden)),
          norm1(x.size()),
          saved1(floats(2 * s.tokens())),
          q(floats(s.tokens() * s.heads * s.head_dim)),
          k(floats(s.tokens() * s.kv_heads * s.head_dim)),
          v(k.size()),
          o(q.size()),
          lse(floats(s.tokens() * s.heads)),
          context(q.size()),
          x1(x.size()),
          norm2(x.size()),
          saved2(saved1.size()),
          up(floats(s.tokens() * s.up_width())),
          act(floats(s.tokens() * s.ffn)) {}
};

/// Scratch of one operator, reused by all layers.
struct Shared {
    Floats qkv, branch, d_branch, d_norm, d_qkv, d_q, d_k, d_v, d_o, d_context, d_up, d_act, d_x1,
        partial;
    Shared(const StackShape& s, int threads)
        : qkv(floats(s.tokens() * s.qkv_width())),
          branch(floats(s.tokens() * s.hidden)),
          d_branch(branch.size()),
          d_norm(branch.size()),
          d_qkv(qkv.size()),
          d_q(floats(s.tokens() * s.heads * s.head_dim)),
          d_k(floats(s.tokens() * s.kv_heads * s.head_dim)),
          d_v(d_k.size()),
          d_o(d_q.size()),
          d_context(d_q.size()),
          d_up(floats(s.tokens() * s.up_width())),
          d_act(floats(s.tokens() * s.ffn)),
          d_x1(branch.size()),
          partial(floats(2 * threads * s.hidden)) {}
};

/// Rows [tokens, stride] and heads [samples, heads, seq, head_dim] of one third of them.
struct HeadView {
    Index samples, heads, seq, head_dim, stride, offset;
};

void split_heads(const HeadView& h, const float* rows, float* heads, int threads) {
    parallel_for(h.samples * h.heads, threads, [&](int, Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
            const float* from =
                rows + i / h.heads * h.seq * h.stride + h.offset + i % h.heads * h.head_dim;
            float* to = heads + i * h.seq * h.head_dim;
            for (Index t = 0; t < h.seq; ++t)
                std::copy_n(from + t * h.stride, h.head_dim, to + t * h.head_dim);
        }
    });
}

void merge_heads(const HeadView& h, const float* heads, float* rows, int threads) {
    parallel_for(h.samples * h.heads, threads, [&](int, Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
            float* to = rows + i / h.heads * h.seq * h.stride + h.offset + i % h.heads * h.head_dim;
            const float* from = heads + i * h.seq * h.head_dim;
            for (Index t = 0; t < h.seq; ++t)
                std::copy_n(from + t * h.head_dim, h.head_dim, to + t * h.stride);
        }
    });
}

}  // namespace

double StackShape::bytes() const {
    const auto h = static_cast<double>(hidden), t = static_cast<double>(tokens());
    const auto q = static_cast<double>(heads * head_dim),
               kv = static_cast<double>(kv_heads * head_dim);
    const auto f = static_cast<double>(ffn), up = static_cast<double>(up_width());
    const double weights = h * (2 * q + 2 * kv + up + f) + 6 * h;
    const double kept = t * (4 * h + 3 * q + 2 * kv + up + f + static_cast<double>(heads) + 4);
    const double shared = t * (6 * h + 5 * q + 6 * kv + up + f);
    return sizeof(float) * (static_cast<double>(layers) * (2 * weights + kept) + shared);
}

LayerWeights::LayerWeights(const StackShape& s)
    : gamma1(floats(s.hidden)),
      beta1(gamma1.size()),
      qkv(floats(s.qkv_width() * s.hidden)),
      out(floats(s.hidden * s.heads * s.head_dim)),
      out_bias(gamma1.size()),
      gamma2(gamma1.size()),
      beta2(gamma1.size()),
      up(floats(s.up_width() * s.hidden)),
      down(floats(s.hidden * s.ffn)),
      down_bias(gamma1.size()) {}

std::vector<Floats*> LayerWeights::all() {
    return {&gamma1, &beta1, &qkv, &out, &out_bias, &gamma2, &beta2, &up, &down, &down_bias};
}

struct LayerStack::State {
    StackShape shape;
    int threads;
    std::vector<LayerWeights> weights, gradients;
    std::vector<Kept> kept;
    Shared shared;
    Floats output, d_output, d_input;
    Norm norm;
    Attention attention;
    std::function<void()> tick;
    void mark() const {
        if (tick) tick();
    }

    State(const StackShape& s, int thread_count)
        : shape(s),
          threads(thread_count),
          weights(static_cast<std::size_t>(s.layers), LayerWeights(s)),
          gradients(weights),
          kept(static_cast<std::size_t>(s.layers), Kept(s)),
          shared(s, thread_count),
          output(floats(s.tokens() * s.hidden)),
          d_output(output.size()),
          d_input(output.size()),
          norm{s.tokens() / s.sequence_ranks, s.hidden, s.rms},
          attention{s.samples * s.heads, s.samples * s.kv_heads, s.seq, s.head_dim, s.causal} {
        std::uint64_t seed = 1;
        for (LayerWeights& w : weights) draw(w, seed);
        fill(kept.front().x, 2, 1000);
        fill(d_output, 2, 1001);
        if (s.sequence_ranks > 1) draw_gathered();
    }
    /// What a rank has from others before a GEMM: the rows that its own norms and sums do not
    /// write.
    void draw_gathered() {
        std::uint64_t seed = 2000;
        for (Kept& a : kept)
            for (Floats* rows : {&a.norm1, &a.norm2}) fill(*rows, 2, seed++);
        fill(shared.d_branch, 2, seed);
    }
    /// Of a size that keeps activations near one through any number of layers.
    void draw(LayerWeights& w, std::uint64_t& seed) const {
        const auto scale = [](Index fan_in) { return 2 / std::sqrt(static_cast<float>(fan_in)); };
        for (Floats* v : w.all()) fill(*v, 0.5F, seed++);
        for (Floats* gamma : {&w.gamma1, &w.gamma2})
            for (float& x : *gamma) x += 1;
        fill(w.qkv, scale(shape.hidden), seed++);
        fill(w.out, scale(shape.heads * shape.head_dim), seed++);
        fill(w.up, scale(shape.hidden), seed++);
        fill(w.down, scale(shape.ffn), seed++);
    }

    HeadView view(int part) const {  // queries, keys, values in a row of the first GEMM's result
        const Index d = shape.head_dim;
        const Index offset = part == 0 ? 0 : d * (shape.heads + (part - 1) * shape.kv_heads);
        return {.samples = shape.samples,
                .heads = part == 0 ? shape.heads : shape.kv_heads,
                .seq = shape.seq,
                .head_dim = d,
                .stride = shape.qkv_width(),
                .offset = offset};
    }
    HeadView context_view() const {
        return {.samples = shape.samples,
                .heads = shape.heads,
                .seq = shape.seq,
                .head_dim = shape.head_dim,
                .stride = shape.heads * shape.head_dim,
                .offset = 0};
    }
    /// Y = X W^T.
    void product(const Floats& x, const Floats& w, Floats& y, Index n, Index k) const {
        gemm({Layout::nt, shape.tokens(), n, k}, {x.data(), k}, {w.data(), k}, 0, {y.data(), n});
    }
    /// dX = dY W and dW = dY^T X of the same.
    void product_gradients(const Floats& dy, const Floats& x, const Floats& w, Floats& dx,
                           Floats& dw, Index n, Index k) const {
        gemm({Layout::nn, shape.tokens(), k, n}, {dy.data(), n}, {w.data(), k}, 0, {dx.data(), k});
        gemm({Layout::tn, n, k, shape.tokens()}, {dy.data(), n}, {x.data(), k}, 0, {dw.data(), k});
    }
    void residual(const Floats& branch, const Floats& bias, const Floats& x, Floats& y) const {
        if (!shape.bias)
            return add(norm.rows * norm.cols, branch.data(), x.data(), y.data(), threads);
        bias_residual_forward(norm.rows, norm.cols, branch.data(), bias.data(), x.data(), y.data(),
                              threads);
    }
    /// The gradient that enters the branch: a copy, with the bias's sums, or the sum's own.
    const Floats& branch_gradient(const Floats& dy, Floats& d_bias) {
        if (!shape.bias) return dy;
        bias_residual_backward(norm.rows, norm.cols, dy.data(), shared.d_branch.data(),
                               d_bias.data(), shared.partial.data(), threads);
        return shared.d_branch;
    }

    void attention_half(const LayerWeights& w, Kept& a) {
        norm_forward(norm,
                     {.x = a.x.data(),
                      .gamma = w.gamma1.data(),
                      .beta = w.beta1.data(),
                      .y = a.norm1.data(),
                      .saved = a.saved1.data()},
                     threads);
        mark();
        product(a.norm1, w.qkv, shared.qkv, shape.qkv_width(), shape.hidden);
        mark();
        split_heads(view(0), shared.qkv.data(), a.q.data(), threads);
        mark();
        split_heads(view(1), shared.qkv.data(), a.k.data(), threads);
        mark();
        split_heads(view(2), shared.qkv.data(), a.v.data(), threads);
        mark();
        attention_forward(attention, a.q.data(), a.k.data(), a.v.data(), a.o.data(), a.lse.data(),
                          threads);
        mark();
        merge_heads(context_view(), a.o.data(), a.context.data(), threads);
        mark();
        product(a.context, w.out, shared.branch, shape.hidden, shape.heads * shape.head_dim);
        mark();
        residual(shared.branch, w.out_bias, a.x, a.x1);
        mark();
    }

    void mlp_half(const LayerWeights& w, Kept& a, Floats& y) {
        norm_forward(norm,
                     {.x = a.x1.data(),
                      .gamma = w.gamma2.data(),
                      .beta = w.beta2.data(),
                      .y = a.norm2.data(),
                      .saved = a.saved2.data()},
                     threads);
        mark();
        product(a.norm2, w.up, a.up, shape.up_width(), shape.hidden);
        mark();
        activation(a.up, a.act);
        mark();
        product(a.act, w.down, shared.branch, shape.hidden, shape.ffn);
        mark();
        residual(shared.branch, w.down_bias, a.x1, y);
        mark();
    }

    /// A row of the gated form is all gates, then all values.
    void activation(const Floats& up, Floats& act) const {
        const Index f = shape.ffn;
        if (!shape.gated) return gelu_forward(shape.tokens() * f, up.data(), act.data(), threads);
        parallel_for(shape.tokens(), threads, [&](int, Index begin, Index end) {
            for (Index t = begin; t < end; ++t)
                swiglu_forward(f, up.data() + 2 * t * f, up.data() + (2 * t + 1) * f,
                               act.data() + t * f, 1);
        });
    }
    void activation_backward(const Floats& up, const Floats& d_act, Floats& d_up) const {
        const Index f = shape.ffn;
        if (!shape.gated)
            return gelu_backward(shape.tokens() * f, up.data(), d_act.data(), d_up.data(), threads);
        parallel_for(shape.tokens(), threads, [&](int, Index begin, Index end) {
            for (Index t = begin; t < end; ++t)
                swiglu_backward(f, up.data() + 2 * t * f, up.data() + (2 * t + 1) * f,
                                d_act.data() + t * f, d_up.data() + 2 * t * f,
                                d_up.data() + (2 * t + 1) * f, 1);
        });
    }

    /// dy of the layer to d_x1.
    void mlp_half_backward(const LayerWeights& w, LayerWeights& g, const Kept& a,
                           const Floats& dy) {
        const Floats& d_branch = branch_gradient(dy, g.down_bias);
        mark();
        product_gradients(d_branch, a.act, w.down, shared.d_act, g.down, shape.hidden, shape.ffn);
        mark();
        activation_backward(a.up, shared.d_act, shared.d_up);
        mark();
        product_gradients(shared.d_up, a.norm2, w.up, shared.branch, g.up, shape.up_width(),
                          shape.hidden);
        mark();
        norm_backward(norm, {.x = a.x1.data(), .gamma = w.gamma2.data(), .saved = a.saved2.data()},
                      shared.branch.data(),
                      {.x = shared.d_norm.data(), .gamma = g.gamma2.data(), .beta = g.beta2.data()},
                      shared.partial.data(), threads);
        mark();
        add(norm.rows * norm.cols, dy.data(), shared.d_norm.data(), shared.d_x1.data(), threads);
        mark();
    }

    /// d_x1 to dx.
    void attention_half_backward(const LayerWeights& w, LayerWeights& g, const Kept& a,
                                 Floats& dx) {
        const Floats& d_branch = branch_gradient(shared.d_x1, g.out_bias);
        mark();
        product_gradients(d_branch, a.context, w.out, shared.d_context, g.out, shape.hidden,
                          shape.heads * shape.head_dim);
        mark();
        split_heads(context_view(), shared.d_context.data(), shared.d_o.data(), threads);
        mark();
        attention_backward(attention,
                           {.q = a.q.data(),
                            .k = a.k.data(),
                            .v = a.v.data(),
                            .o = a.o.data(),
                            .lse = a.lse.data()},
                           shared.d_o.data(),
                           {.q = shared.d_q.data(), .k = shared.d_k.data(), .v = shared.d_v.data()},
                           threads);
        mark();
        merge_heads(view(0), shared.d_q.data(), shared.d_qkv.data(), threads);
        mark();
        merge_heads(view(1), shared.d_k.data(), shared.d_qkv.data(), threads);
        mark();
        merge_heads(view(2), shared.d_v.data(), shared.d_qkv.data(), threads);
        mark();
        product_gradients(shared.d_qkv, a.norm1, w.qkv, shared.branch, g.qkv, shape.qkv_width(),
                          shape.hidden);
        mark();
        norm_backward(norm, {.x = a.x.data(), .gamma = w.gamma1.data(), .saved = a.saved1.data()},
                      shared.branch.data(),
                      {.x = shared.d_norm.data(), .gamma = g.gamma1.data(), .beta = g.beta1.data()},
                      shared.partial.data(), threads);
        mark();
        add(norm.rows * norm.cols, shared.d_x1.data(), shared.d_norm.data(), dx.data(), threads);
        mark();
    }
};

LayerStack::LayerStack(const StackShape& shape, int threads)
    : state_(std::make_unique<State>(shape, threads)) {}
LayerStack::~LayerStack() = default;

void LayerStack::on_operator(std::function<void()> tick) { state_->tick = std::move(tick); }

void LayerStack::forward_layer(Index layer) {
    State& s = *state_;
    const auto l = static_cast<std::size_t>(layer);
    s.attention_half(s.weights[l], s.kept[l]);
    s.mlp_half(s.weights[l], s.kept[l], l + 1 < s.kept.size() ? s.kept[l + 1].x : s.output);
}

void LayerStack::backward_layer(Index layer) {
    State& s = *state_;
    const auto l = static_cast<std::size_t>(layer);
    const bool last = l + 1 == s.kept.size();
    s.mlp_half_backward(s.weights[l], s.gradients[l], s.kept[l], last ? s.d_output : s.d_input);
    s.attention_half_backward(s.weights[l], s.gradients[l], s.kept[l], s.d_input);
}

void LayerStack::forward() {
    for (Index l = 0; l < state_->shape.layers; ++l) forward_layer(l);
}

void LayerStack::backward() {
    for (Index l = state_->shape.layers; l-- > 0;) backward_layer(l);
}

std::vector<float>& LayerStack::input() { return state_->kept.front().x; }
const std::vector<float>& LayerStack::output() const { return state_->output; }
std::vector<float>& LayerStack::output_gradient() { return state_->d_output; }
const std::vector<float>& LayerStack::input_gradient() const { return state_->d_input; }
LayerWeights& LayerStack::weights(Index layer) {
    return state_->weights[static_cast<std::size_t>(layer)];
}
LayerWeights& LayerStack::gradients(Index layer) {
    return state_->gradients[static_cast<std::size_t>(layer)];
}

}  // namespace arena::cpu
