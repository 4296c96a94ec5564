// SPDX-License-Identifier: GPL-2.0-or-later
// FarDevice on a CUDA GPU: each member hands its call to cuBLASLt, cuDNN or a kernel.
#include "train/cuda/cuda_device.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <thread>

#include "train/cuda/cuda_train_kernels.h"

namespace arena::train {
namespace {

using cuda::check;

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

cuda::Layout layout_of(Layout layout) {
    switch (layout) {
        case Layout::nt:
            return cuda::Layout::nt;
        case Layout::nn:
            return cuda::Layout::nn;
        case Layout::tn:
            return cuda::Layout::tn;
    }
    return cuda::Layout::nt;
}

cuda::HeadsLayout layout_of(const HeadsShape& s) {
    return {s.of.samples, s.of.seq, s.of.heads, s.of.head_dim, s.part, s.parts};
}
cuda::VocabularyShard shard_of(const LogitsShape& s) { return {s.first, s.width}; }

/// Memory of cudaMallocAsync() stays the process's when it is freed.
void keep_messages_memory(int gpu) {
    cudaMemPool_t pool = nullptr;
    std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
    check(cudaDeviceGetDefaultMemPool(&pool, gpu), "memory pool");
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all), "memory pool");
}

void launched(const char* what) { check(cudaGetLastError(), what); }

}  // namespace

void* far_allocate(std::size_t bytes) {
    void* p = nullptr;
    if (const cudaError_t e = cudaMalloc(&p, bytes); e != cudaSuccess) {
        std::size_t free_bytes = 0, total = 0;
        cudaMemGetInfo(&free_bytes, &total);
        throw std::runtime_error(fmt::format(
            "{:.1f} MiB of GPU memory are not there, {:.1f} of {:.1f} are free: {}; take a smaller "
            "micro-batch, recomputation, or more GPUs",
            static_cast<double>(bytes) / 1048576, static_cast<double>(free_bytes) / 1048576,
            static_cast<double>(total) / 1048576, cudaGetErrorString(e)));
    }
    check(cudaMemset(p, 0, bytes), "clear memory");
    check(cudaDeviceSynchronize(), "clear memory");  // the ranks' streams do not wait for this one
    return p;
}
void far_free(void* p) noexcept {
    if (p != nullptr) cudaFree(p);
}

// ---- GEMMs --------------------------------------------------------------------------------------

CudaGemms::CudaGemms(cudaStream_t stream, cublasLtHandle_t blas) : stream_(stream), blas_(blas) {
    check(cudaMalloc(&workspace_, workspace_bytes), "workspace of GEMMs");
}
CudaGemms::~CudaGemms() {
    gemms_.clear();
    cudaFree(workspace_);
}

void CudaGemms::run(const cuda::Problem& p, const void* a, const void* b, void* c) {
    tuned(p, a, b, c).run(stream_, a, b, c);
}

/// What is added to is not spoilt by tuning: that goes to memory of its own.
cuda::Gemm& CudaGemms::tuned(const cuda::Problem& p, const void* a, const void* b, void* c) {
    const std::array<Index, 6> key{static_cast<Index>(p.layout), p.m, p.n, p.k, p.batch, p.adds};
    auto& gemm = gemms_[key];
    if (gemm) return *gemm;
    gemm = std::make_unique<cuda::Gemm>(blas_, p, workspace_, workspace_bytes);
    if (!p.adds) {
        gemm->tune(stream_, a, b, c);
        return *gemm;
    }
    const FarArray<float> other(at(p.m * p.n));
    gemm->tune(stream_, a, b, other.data().address());
    check(cudaStreamSynchronize(stream_), "tune");
    return *gemm;
}

void FarDevice::multiply(Layout layout, Index m, Index n, Index k, In a, In b, Out c) const {
    state().gemms->run({layout_of(layout), m, n, k, 1, Precision::bf16}, a.address(), b.address(),
                       c.address());
}
void FarDevice::multiply_add(Layout layout, Index m, Index n, Index k, In a, In b,
                             Numbers c) const {
    state().gemms->run({layout_of(layout), m, n, k, 1, Precision::bf16, true}, a.address(),
                       b.address(), c.address());
}

// ---- the device ---------------------------------------------------------------------------------

FarDevice::State::State(int gpu) {
    cudaDeviceProp properties{};
    check(cudaSetDevice(gpu), "select device");
    check(cudaGetDeviceProperties(&properties, gpu), "device properties");
    if (properties.major < 8)
        throw std::runtime_error(
            fmt::format("{} has no bf16 (compute capability {}.{}, 8.0 or "
                        "higher is needed)",
                        properties.name, properties.major, properties.minor));
    name = properties.name;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    keep_messages_memory(gpu);
    check(cublasLtCreate(&blas), "start");
    gemms = std::make_unique<CudaGemms>(stream, blas);
    attention = std::make_unique<CudaAttention>(stream, *gemms);
}

FarDevice::State::~State() {
    attention.reset();
    gemms.reset();
    if (blas != nullptr) cublasLtDestroy(blas);
    if (stream != nullptr) cudaStreamDestroy(stream);
}

void FarDevice::State::wait() {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    auto asked = start;
    cudaError_t e = cudaErrorNotReady;
    while ((e = cudaStreamQuery(stream)) == cudaErrorNotReady) {
        const auto now = Clock::now();
        if (now - asked < std::chrono::milliseconds(100)) {
            std::this_thread::yield();
            continue;
        }
        asked = now;
        for (const Check& c : checks) c(std::chrono::duration<double>(now - start).count());
    }
    check(e, "a step");
}

/// srun may have given each task its own GPU, or all of the node's to every task.
FarDevice make_device(int, Comm& world) {
    const int local = world.node_rank();
    int count = 0;
    if (const cudaError_t e = cudaGetDeviceCount(&count); e != cudaSuccess || count == 0)
        throw std::runtime_error(fmt::format(
            "no usable GPU: {}", e != cudaSuccess ? cudaGetErrorString(e) : "CUDA sees no device"));
    if (count > 1 && local >= count)
        throw std::runtime_error(fmt::format(
            "rank {} is number {} on a node where {} GPUs are visible: one rank per GPU",
            world.rank(), local, count));
    return FarDevice(std::make_shared<FarDevice::State>(count == 1 ? 0 : local));
}

std::string FarDevice::name() const { return state().name; }
void FarDevice::wait() const { state().wait(); }

void FarDevice::copy_in(const void* host, std::size_t bytes, void* to) const {
    check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, state().stream), "copy");
    wait();
}
void FarDevice::download(ConstNumbers from, std::span<float> host) const {
    wait();
    check(cudaMemcpyAsync(host.data(), from.address(), host.size_bytes(), cudaMemcpyDeviceToHost,
                          state().stream),
          "copy");
    wait();
}

// ---- rows and elements --------------------------------------------------------------------------

void FarDevice::norm_forward(Index rows, Index cols, In x, In gamma, In beta, Out y,
                             Numbers saved) const {
    cuda::norm_forward(state().kernels(), rows, cols, false, 1e-5F, x.address(), gamma.address(),
                       beta.address(), y.address(), saved.address());
    launched("norm");
}
void FarDevice::norm_backward(Index rows, Index cols, In x, In gamma, ConstNumbers saved, In dy,
                              Out dx, Numbers d_gamma, Numbers d_beta, NormScratch&) const {
    cuda::norm_backward_add(state().kernels(), rows, cols, false, x.address(), gamma.address(),
                            saved.address(), dy.address(), dx.address(), d_gamma.address(),
                            d_beta.address());
    launched("norm's gradient");
}
void FarDevice::add_bias(Index rows, Index cols, In bias, Out y) const {
    cuda::add_bias(state().kernels(), rows, cols, bias.address(), y.address());
    launched("bias");
}
void FarDevice::add_column_sums(Index rows, Index cols, In x, Numbers sums) const {
    cuda::add_column_sums(state().kernels(), rows, cols, x.address(), sums.address());
    launched("bias's gradient");
}
void FarDevice::accumulate(Index n, In b, Out a) const {
    cuda::add(state().kernels(), n, a.address(), b.address(), a.address());
    launched("sum");
}
void FarDevice::bias_residual(Index rows, Index cols, In x, In bias, In residual, Out y) const {
    cuda::bias_residual_forward(state().kernels(), rows, cols, x.address(), bias.address(),
                                residual.address(), y.address());
    launched("bias and residual");
}
void FarDevice::gelu_forward(Index n, In x, Out y) const {
    cuda::gelu_forward(state().kernels(), n, x.address(), y.address());
    launched("GELU");
}
void FarDevice::gelu_backward(Index n, In x, In dy, Out dx) const {
    cuda::gelu_backward(state().kernels(), n, x.address(), dy.address(), dx.address());
    launched("GELU's gradient");
}

void FarDevice::to_heads(const HeadsShape& s, In rows, Out heads) const {
    cuda::to_heads(state().kernels(), layout_of(s), rows.address(), heads.address());
    launched("heads");
}
void FarDevice::to_rows(const HeadsShape& s, In heads, Out rows) const {
    cuda::to_rows(state().kernels(), layout_of(s), heads.address(), rows.address());
    launched("rows");
}
void FarDevice::attention_forward(const AttentionShape& s, const AttentionTensors& t) const {
    state().attention->forward(s, t);
    launched("attention");
}
void FarDevice::attention_backward(const AttentionShape& s, const AttentionTensors& t, In d_out,
                                   Out dq, Out dk, Out dv) const {
    state().attention->backward(s, t, {d_out, dq, dk, dv});
    launched("attention's gradient");
}

void FarDevice::gather_rows(const LogitsShape& s, Index hidden, Ids ids, In table, Out out) const {
    cuda::gather_rows(state().kernels(), shard_of(s), s.tokens, hidden, ids.data().address(),
                      table.address(), out.address());
    launched("embedding");
}
void FarDevice::scatter_rows(const LogitsShape& s, Index hidden, Ids ids, In d_out,
                             Numbers d_table) const {
    cuda::scatter_rows(state().kernels(), shard_of(s), s.tokens, hidden, ids.data().address(),
                       d_out.address(), d_table.address());
    launched("embedding's gradient");
}

// ---- loss and optimizer -------------------------------------------------------------------------

void FarDevice::top_and_target(const LogitsShape& s, In logits, Ids labels, Numbers top,
                               Numbers target) const {
    cuda::top_and_target(state().kernels(), shard_of(s), s.tokens, logits.address(),
                         labels.data().address(), top.address(), target.address());
    launched("largest logits");
}
void FarDevice::sum_exponentials(const LogitsShape& s, Out logits, ConstNumbers top,
                                 Numbers sums) const {
    cuda::sum_exponentials(state().kernels(), shard_of(s), s.tokens, logits.address(),
                           top.address(), sums.address());
    launched("sums of exponentials");
}
void FarDevice::logits_gradient(const LogitsShape& s, Out logits, Ids labels, ConstNumbers top,
                                ConstNumbers sums, float scale) const {
    cuda::logits_gradient(state().kernels(), shard_of(s), s.tokens, logits.address(),
                          labels.data().address(), top.address(), sums.address(), scale);
    launched("logits' gradient");
}

void FarDevice::clear(Sum& sum) const {
    check(cudaMemsetAsync(sum.value.data().address(), 0, sizeof(double), state().stream), "clear");
}
double FarDevice::value(const Sum& sum) const {
    double value = std::numeric_limits<double>::quiet_NaN();
    wait();
    check(cudaMemcpyAsync(&value, sum.value.data().address(), sizeof value, cudaMemcpyDeviceToHost,
                          state().stream),
          "copy");
    wait();
    return value;
}
void FarDevice::add_losses(Index tokens, ConstNumbers top, ConstNumbers target, ConstNumbers sums,
                           Sum& sum) const {
    cuda::add_losses(state().stream, tokens, top.address(), target.address(), sums.address(),
                     sum.value.data().address());
    launched("loss");
}
void FarDevice::add_squares(Index n, ConstNumbers x, Sum& sum) const {
    cuda::add_squares(state().stream, n, x.address(), sum.value.data().address());
    launched("norm of the gradients");
}
void FarDevice::scale(Index n, float factor, Numbers x) const {
    cuda::scale(state().stream, n, factor, x.address());
    launched("scale");
}
void FarDevice::fill_zero(FarSpan<float> x) const {
    check(cudaMemsetAsync(x.data().address(), 0, x.size() * sizeof(float), state().stream),
          "clear");
}
void FarDevice::adamw(const AdamW& a, Index n, Numbers masters, ConstNumbers gradient,
                      Numbers first, Numbers second, Out weights) const {
    const cuda::AdamFactors factors = cuda::adam_factors(
        static_cast<double>(a.rate), static_cast<double>(a.beta1), static_cast<double>(a.beta2),
        static_cast<double>(a.epsilon), static_cast<double>(a.decay), a.step);
    cuda::adamw_masters(state().kernels(), factors, n, masters.address(), gradient.address(),
                        first.address(), second.address(), weights.address());
    launched("AdamW");
}

}  // namespace arena::train
