// SPDX-License-Identifier: GPL-2.0-or-later
// Flash attention and convolutions by cuDNN's fused engines, as graphs. Attention: q, o [heads,
// seq, d], k, v [kv_heads, seq, d], dense; query heads that share a key/value head lie together.
// Convolution: channels last.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "profiler/cuda/cuda_gemm.h"
#include "profiler/cuda/cudnn_graph.h"

namespace arena::cuda {

struct AttentionShape {
    Index heads = 1, kv_heads = 1, seq = 1, d = 1;
    bool is_causal = false;
    Precision precision = Precision::bf16;
    /// As a layer's GEMMs leave and take them, with that many heads in each of `samples`: q, k and
    /// v side by side in rows [samples, seq, (heads + 2 kv_heads) d], o in rows [samples, seq,
    /// heads d], their gradients alike; Tensors::q, k, v point at the first row's parts.
    bool is_in_rows = false;
    Index samples = 1;
    [[nodiscard]] Index query_count() const { return samples * heads * seq * d; }
};

/// Both directions of one shape. Throws Unsupported where cuDNN has no fused engine: fp32, head
/// sizes that are no multiple of 8 or above 128.
class FlashAttention {
  public:
    FlashAttention(cudnnHandle_t, const AttentionShape&, bool with_backward);
    ~FlashAttention();
    FlashAttention(const FlashAttention&) = delete;
    FlashAttention& operator=(const FlashAttention&) = delete;
    [[nodiscard]] std::size_t workspace_bytes() const;
    /// fp32 numbers that the backward pass sums dq in.
    [[nodiscard]] Index accumulator_count() const;

    struct Tensors {
        void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
        float* stats = nullptr;  ///< [heads, seq]: log of the sum of exponentials
        void *d_o = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
        float* dq_sum = nullptr;  ///< [heads, seq, d]
    };
    /// What one set of buffers needs to run; made once.
    class Bound {
      public:
        void forward(cudaStream_t) const;
        void backward(cudaStream_t) const;

      private:
        friend class FlashAttention;
        const FlashAttention* owner_ = nullptr;
        Tensors tensors_;
        std::shared_ptr<Descriptor> forward_, backward_;
    };
    [[nodiscard]] Bound bind(const Tensors&, void* workspace) const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

struct ConvolutionProblem {
    GraphBuilder::Convolution direction = GraphBuilder::Convolution::forward;
    Index images = 1, in_channels = 1, out_channels = 1, edge = 1, kernel = 1, stride = 1;
    Precision precision = Precision::bf16;
    [[nodiscard]] Index edge_in() const { return edge * stride; }
    /// The same on all sides, and as much as gives `edge`.
    [[nodiscard]] Index padding() const { return kernel > stride ? (kernel - stride + 1) / 2 : 0; }
};

class ImageConvolution {
  public:
    /// Throws Unsupported where cuDNN has no engine.
    ImageConvolution(cudnnHandle_t, const ConvolutionProblem&, std::size_t workspace_bytes);
    /// x: input or its gradient, w: filters or theirs, y: output or its gradient.
    [[nodiscard]] std::shared_ptr<Descriptor> bind(void* x, void* w, void* y,
                                                   void* workspace) const;
    void run(const Descriptor& bound) const;

  private:
    cudnnHandle_t handle_;
    std::int64_t x_ = 0, w_ = 0, y_ = 0;
    std::unique_ptr<GraphPlan> plan_;
};

}  // namespace arena::cuda
