// SPDX-License-Identifier: GPL-2.0-or-later
// One GEMM problem prepared for cuBLASLt: layouts, the first algorithm of its heuristic (what
// frameworks run), workspace. Row-major in, as in cpu_kernels.h.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "core/values.h"

namespace arena::cuda {

using Index = std::int64_t;
enum class Layout { nt, nn, tn };  ///< as cpu::Layout

struct Problem {
    Layout layout = Layout::nt;
    Index m = 0, n = 0, k = 0, batch = 1;
    Precision precision =
        Precision::bf16;  ///< of A and B; fp8 writes C as bf16 and always runs as nt
};

/// Throws std::runtime_error with cuBLASLt's or CUDA's word when a call fails.
void check(cudaError_t, const char* what);
void check(cublasStatus_t, const char* what);

class Gemm {
  public:
    /// workspace is shared by all GEMMs of a stream. Throws when the heuristic knows no algorithm.
    Gemm(cublasLtHandle_t handle, const Problem&, void* workspace, std::size_t workspace_bytes);
    ~Gemm();
    Gemm(const Gemm&) = delete;
    Gemm& operator=(const Gemm&) = delete;
    void run(cudaStream_t, const void* a, const void* b, void* c) const;

  private:
    cublasLtHandle_t handle_;
    void* workspace_;
    std::size_t workspace_bytes_;
    cublasLtMatmulDesc_t operation_ = nullptr;
    cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
    cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace arena::cuda
