// SPDX-License-Identifier: GPL-2.0-or-later
// One GEMM problem prepared for cuBLASLt: layouts, the algorithms that its heuristic puts first and
// the fastest of them, workspace. Row-major in, as in cpu_kernels.h.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/model.h"

namespace arena::cuda {

using Index = std::int64_t;
enum class Layout { nt, nn, tn };  ///< as cpu::Layout

struct Problem {
    Layout layout = Layout::nt;
    Index m = 0, n = 0, k = 0, batch = 1;
    Precision precision =
        Precision::bf16;  ///< of A and B; fp8 writes C as bf16 and always runs as nt
    bool adds = false;    ///< C is fp32 and added to
};

/// A library has no algorithm for a shape on this device: another shape may well have one.
struct Unsupported : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Throws std::runtime_error with cuBLASLt's or CUDA's word when a call fails.
void check(cudaError_t, const char* what);
void check(cublasStatus_t, const char* what);

class Gemm {
  public:
    /// workspace is shared by all GEMMs of a stream. Throws Unsupported when the heuristic knows no
    /// algorithm.
    Gemm(cublasLtHandle_t handle, const Problem&, void* workspace, std::size_t workspace_bytes);
    ~Gemm();
    Gemm(const Gemm&) = delete;
    Gemm& operator=(const Gemm&) = delete;
    void run(cudaStream_t, const void* a, const void* b, void* c) const;
    /// Times each algorithm that the heuristic proposed a few times and keeps the fastest, as
    /// frameworks that tune do; the first one until then. Waits for the stream. C is spoilt.
    void tune(cudaStream_t, const void* a, const void* b, void* c);

  private:
    Gemm(cublasLtHandle_t handle, void* workspace, std::size_t bytes)
        : handle_(handle), workspace_(workspace), workspace_bytes_(bytes) {}
    void use_fast_sums();
    void propose();
    cublasLtHandle_t handle_;
    void* workspace_;
    std::size_t workspace_bytes_;
    cublasLtMatmulDesc_t operation_ = nullptr;
    cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
    std::vector<cublasLtMatmulAlgo_t> proposed_;
    cublasLtMatmulAlgo_t algorithm_{};
    float keep_ = 0;  ///< share of C that stays
};

}  // namespace arena::cuda
