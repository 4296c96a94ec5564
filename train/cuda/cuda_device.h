// SPDX-License-Identifier: GPL-2.0-or-later
// What the CUDA back-end keeps for one rank: its GPU, one stream on which everything runs in order,
// the GEMMs that were tuned so far, attention. Whoever waits for the GPU also looks after the other
// ranks, since the kernels of a collective wait for them for ever.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "profiler/cuda/cuda_gemm.h"
#include "profiler/cuda/cuda_kernels.h"
#include "train/core/far_device.h"
#include "train/cuda/cuda_attention.h"

namespace arena::train {

/// GEMMs by problem; each is tuned when it is first run, as the profiler does before it measures.
class CudaGemms {
  public:
    CudaGemms(cudaStream_t, cublasLtHandle_t);
    ~CudaGemms();
    CudaGemms(const CudaGemms&) = delete;
    CudaGemms& operator=(const CudaGemms&) = delete;
    void run(const cuda::Problem&, const void* a, const void* b, void* c);

  private:
    cuda::Gemm& tuned(const cuda::Problem&, const void* a, const void* b, void* c);
    cudaStream_t stream_;
    cublasLtHandle_t blas_;
    void* workspace_ = nullptr;
    std::map<std::array<Index, 6>, std::unique_ptr<cuda::Gemm>> gemms_;
};

struct FarDevice::State {
    explicit State(int gpu);
    ~State();
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    /// Until the stream has done all; throws what a check says.
    void wait();
    [[nodiscard]] cuda::Stream kernels() const { return {stream, cuda::Type::bf16}; }

    std::string name;
    cudaStream_t stream = nullptr;
    cublasLtHandle_t blas = nullptr;
    std::unique_ptr<CudaGemms> gemms;
    std::unique_ptr<CudaAttention> attention;
    /// Of the groups: throws when a rank is lost. Called while wait() waits, with the seconds that
    /// it has waited.
    using Check = std::function<void(double waited_s)>;
    std::list<Check> checks;
};

}  // namespace arena::train
