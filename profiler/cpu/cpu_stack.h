// SPDX-License-Identifier: GPL-2.0-or-later
// One rank's layers of a dense transformer as a training step runs them: every operator reads what
// the one before it wrote, forward and backward. It is what predictions from single operators are
// held against, and the "one whole layer" of a profile. Communication, dropout and the biases that
// GEMMs add on the fly are left out, as in the planner's operator list.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "profiler/cpu/cpu_kernels.h"

namespace arena::cpu {

/// Widths are one tensor-parallel rank's.
struct StackShape {
    Index layers = 1, samples = 1, seq = 1, hidden = 1;
    Index heads = 1, kv_heads = 1, head_dim = 1, ffn = 1;
    bool causal = true;
    bool rms = false;          ///< RMSNorm, else LayerNorm
    bool gated = false;        ///< SwiGLU, else GELU
    bool bias = true;          ///< residual sums add a bias
    Index sequence_ranks = 1;  ///< norms and residual sums see one in so many of the tokens
    [[nodiscard]] Index tokens() const { return samples * seq; }
    [[nodiscard]] Index qkv_width() const { return head_dim * (heads + 2 * kv_heads); }
    [[nodiscard]] Index up_width() const { return gated ? 2 * ffn : ffn; }
    /// Bytes that a LayerStack of this shape allocates, about.
    [[nodiscard]] double bytes() const;
};

/// Weights of one layer, or their gradients: the same list of matrices and vectors.
struct LayerWeights {
    using Floats = std::vector<float>;
    Floats gamma1, beta1, qkv, out, out_bias, gamma2, beta2, up, down, down_bias;
    explicit LayerWeights(const StackShape&);
    /// All of them, in one order.
    std::vector<Floats*> all();
};

class LayerStack {
  public:
    /// Random weights and input; the same for the same shape.
    LayerStack(const StackShape&, int threads);
    ~LayerStack();
    LayerStack(const LayerStack&) = delete;
    LayerStack& operator=(const LayerStack&) = delete;

    /// Reads input() and writes output().
    void forward();
    /// One layer: reads what the one before it wrote, and the last one's result is output().
    void forward_layer(Index layer);
    /// After forward_layer() of the same: the last layer reads output_gradient(), each other one
    /// what the layer after it wrote.
    void backward_layer(Index layer);
    /// After forward(): reads output_gradient(), writes input_gradient() and all gradients of
    /// weights.
    void backward();

    /// Called after each operator of both passes, always the same number of times; {} = nobody.
    void on_operator(std::function<void()> tick);

    [[nodiscard]] std::vector<float>& input();
    [[nodiscard]] const std::vector<float>& output() const;
    [[nodiscard]] std::vector<float>& output_gradient();
    [[nodiscard]] const std::vector<float>& input_gradient() const;
    [[nodiscard]] LayerWeights& weights(Index layer);
    [[nodiscard]] LayerWeights& gradients(Index layer);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace arena::cpu
