// SPDX-License-Identifier: GPL-2.0-or-later
// What the CUDA back-end keeps for one rank: its GPU, one stream on which everything runs in order,
// the GEMMs that were tuned so far. Whoever waits for the GPU also looks after the other ranks,
// since the kernels of a collective wait for them for ever.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profiler/cuda/cuda_gemm.h"
#include "profiler/cuda/cuda_kernels.h"
#include "train/core/device.h"

namespace arena::train {

struct CudaFree {
    void operator()(void* p) const noexcept { cudaFree(p); }
};
using CudaMemory = std::unique_ptr<void, CudaFree>;
/// Zeros. Throws std::runtime_error where there is not enough.
CudaMemory cuda_memory(std::size_t bytes);

/// GEMMs by problem; each is tuned when it is first run, as the profiler does before it measures.
/// `wait` comes before: tuning waits for the stream without an eye on the other ranks.
class CudaGemms {
  public:
    CudaGemms(cudaStream_t stream, cublasLtHandle_t blas, std::function<void()> wait)
        : stream_(stream), blas_(blas), wait_(std::move(wait)) {}
    void run(const cuda::Problem&, const void* a, const void* b, void* c);

  private:
    static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
    cuda::Gemm& tuned(const cuda::Problem&, const void* a, const void* b, void* c);
    cudaStream_t stream_;
    cublasLtHandle_t blas_;
    std::function<void()> wait_;
    CudaMemory workspace_ = cuda_memory(workspace_bytes);
    std::map<std::array<Index, 6>, std::unique_ptr<cuda::Gemm>> gemms_;
};

struct CudaContext {
    explicit CudaContext(int gpu);
    ~CudaContext();
    CudaContext(const CudaContext&) = delete;
    CudaContext& operator=(const CudaContext&) = delete;

    /// Until the stream has done all; throws what a check says.
    void wait();
    /// Device::mark() and seconds_between().
    void mark(std::size_t i);
    [[nodiscard]] double seconds_between(std::size_t begin, std::size_t end) const;
    /// Memory of a rank that ends with an exception is freed with the context: cudaFree waits for
    /// the stream, which may wait for a rank that never comes until the groups are gone.
    void release(void*) noexcept;
    [[nodiscard]] cuda::Stream kernels() const { return {stream, cuda::Type::bf16}; }

    std::string name;
    cudaStream_t stream = nullptr;
    cublasLtHandle_t blas = nullptr;
    /// Of the groups: throws when a rank is lost. Called while wait() waits, with the seconds that
    /// it has waited.
    using Check = std::function<void(double waited_s)>;
    std::list<Check> checks;
    std::vector<cudaEvent_t> marks;

  private:
    CudaContext() = default;
    std::vector<void*> late_;
};

/// Of two ranks and more; collective. The context outlives it.
std::unique_ptr<Group> make_nccl_group(Comm&, CudaContext&);

}  // namespace arena::train
