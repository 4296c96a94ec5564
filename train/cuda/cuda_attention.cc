// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/cuda/cuda_attention.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "train/cuda/cuda_device.h"
#ifdef ARENA_WITH_CUDNN
#include "profiler/cuda/cudnn_attention.h"
#endif

namespace arena::train {
namespace {

using Key = std::array<Index, 3>;  ///< heads, seq, head_dim
Key key_of(const AttentionShape& s) { return {s.samples * s.heads, s.seq, s.head_dim}; }
Index size_of(const Key& k) { return k[0] * k[1] * k[2]; }

/// Device memory that only grows.
class Room {
  public:
    void* of(std::size_t bytes, cudaStream_t stream) {
        if (bytes <= bytes_) return memory_.get();
        cuda::check(cudaStreamSynchronize(stream), "wait");
        memory_.reset();
        memory_ = cuda_memory(bytes);
        bytes_ = bytes;
        return memory_.get();
    }

  private:
    CudaMemory memory_;
    std::size_t bytes_ = 0;
};

/// The memory is the caller's; cuDNN and cuBLASLt take no const.
void* address(Device::In p) { return const_cast<Element*>(p.address()); }

#ifdef ARENA_WITH_CUDNN

/// One direction of one shape, and its sets of pointers.
class Fused {
  public:
    Fused(cudnnHandle_t handle, const Key& key, bool with_backward)
        : engine_(handle,
                  {.heads = key[0],
                   .kv_heads = key[0],
                   .seq = key[1],
                   .d = key[2],
                   .is_causal = true,
                   .precision = Precision::bf16},
                  with_backward),
          workspace_(cuda_memory(engine_.workspace_bytes())),
          sums_(cuda_memory(at(engine_.accumulator_count()) * sizeof(float))) {}

    const cuda::FlashAttention::Bound& bound(cuda::FlashAttention::Tensors t) {
        const std::array<void*, 9> pointers{t.q, t.k, t.v, t.o, t.stats, t.d_o, t.dq, t.dk, t.dv};
        const auto found = bounds_.find(pointers);
        if (found != bounds_.end()) return found->second;
        t.dq_sum = static_cast<float*>(sums_.get());
        return bounds_.emplace(pointers, engine_.bind(t, workspace_.get())).first->second;
    }

  private:
    cuda::FlashAttention engine_;
    CudaMemory workspace_, sums_;
    std::map<std::array<void*, 9>, cuda::FlashAttention::Bound> bounds_;
};

/// Engines by shape; null where cuDNN has none.
class FusedAttention {
  public:
    explicit FusedAttention(cudaStream_t stream) : FusedAttention() {
        cuda::check(cudnnCreate(&handle_), "start");
        cuda::check(cudnnSetStream(handle_, stream), "stream");
    }
    ~FusedAttention() {
        engines_.clear();
        if (handle_ != nullptr) cudnnDestroy(handle_);
    }
    FusedAttention(const FusedAttention&) = delete;
    FusedAttention& operator=(const FusedAttention&) = delete;

    Fused* find(const Key& key, bool with_backward) {
        const auto [at, is_new] = engines_.try_emplace({key, with_backward});
        if (!is_new) return at->second.get();
        try {
            at->second = std::make_unique<Fused>(handle_, key, with_backward);
        } catch (const cuda::Unsupported& error) {
            fmt::print(stderr, "arena-train: attention runs unfused: {}\n", error.what());
        }
        return at->second.get();
    }

  private:
    FusedAttention() = default;
    cudnnHandle_t handle_ = nullptr;
    std::map<std::pair<Key, bool>, std::unique_ptr<Fused>> engines_;
};

cuda::FlashAttention::Tensors inputs(const Device::AttentionTensors& t) {
    cuda::FlashAttention::Tensors tensors;
    tensors.q = address(t.q);
    tensors.k = address(t.k);
    tensors.v = address(t.v);
    tensors.o = t.out.address();
    tensors.stats = t.lse.address();
    return tensors;
}
#endif

}  // namespace

struct CudaAttention::State {
    State(cudaStream_t s, CudaGemms& g) : stream(s), gemms(g) {}
    cudaStream_t stream;
    CudaGemms& gemms;
    Room scores, d_scores;
#ifdef ARENA_WITH_CUDNN
    std::unique_ptr<FusedAttention> fused = std::make_unique<FusedAttention>(stream);
#endif

    void run(cuda::Layout layout, const std::array<Index, 3>& mnk, Index batch, const void* a,
             const void* b, void* c) {
        gemms.run({layout, mnk[0], mnk[1], mnk[2], batch, Precision::bf16}, a, b, c);
    }
    /// Probabilities of all heads in `scores`.
    void* probabilities(const Key& key, const Device::AttentionTensors& t) {
        const auto [heads, seq, d] = key;
        void* p = scores.of(at(heads * seq * seq) * sizeof(Bf16), stream);
        run(cuda::Layout::nt, {seq, seq, d}, heads, address(t.q), address(t.k), p);
        cuda::softmax_forward(kernels(), heads * seq, seq, scale(key), true, p);
        return p;
    }
    [[nodiscard]] cuda::Stream kernels() const { return {stream, cuda::Type::bf16}; }
    static float scale(const Key& key) { return 1 / std::sqrt(static_cast<float>(key[2])); }
};

CudaAttention::CudaAttention(cudaStream_t stream, CudaGemms& gemms)
    : state_(std::make_unique<State>(stream, gemms)) {}
CudaAttention::~CudaAttention() = default;

void CudaAttention::forward(const AttentionShape& shape, const Device::AttentionTensors& t) {
    State& s = *state_;
    const Key key = key_of(shape);
#ifdef ARENA_WITH_CUDNN
    if (Fused* fused = s.fused->find(key, false)) {
        fused->bound(inputs(t)).forward(s.stream);
        return;
    }
#endif
    const auto [heads, seq, d] = key;
    const void* p = s.probabilities(key, t);
    s.run(cuda::Layout::nn, {seq, d, seq}, heads, p, address(t.v), t.out.address());
}

void CudaAttention::backward(const AttentionShape& shape, const Device::AttentionTensors& t,
                             const Gradients& g) {
    State& s = *state_;
    const Key key = key_of(shape);
#ifdef ARENA_WITH_CUDNN
    if (Fused* fused = s.fused->find(key, true)) {
        cuda::FlashAttention::Tensors tensors = inputs(t);
        tensors.d_o = address(g.d_out);
        tensors.dq = g.dq.address();
        tensors.dk = g.dk.address();
        tensors.dv = g.dv.address();
        fused->bound(tensors).backward(s.stream);
        return;
    }
#endif
    // dV = P' dO, dP = dO V', dS, dQ = dS K, dK = dS' Q
    const auto [heads, seq, d] = key;
    void* p = s.probabilities(key, t);
    void* dp = s.d_scores.of(at(heads * seq * seq) * sizeof(Bf16), s.stream);
    s.run(cuda::Layout::tn, {seq, d, seq}, heads, p, address(g.d_out), g.dv.address());
    s.run(cuda::Layout::nt, {seq, seq, d}, heads, address(g.d_out), address(t.v), dp);
    cuda::softmax_backward(s.kernels(), heads * seq, seq, State::scale(key), p, dp);
    s.run(cuda::Layout::nn, {seq, d, seq}, heads, dp, address(t.k), g.dq.address());
    s.run(cuda::Layout::tn, {seq, d, seq}, heads, dp, address(t.q), g.dk.address());
}

}  // namespace arena::train
