// SPDX-License-Identifier: GPL-2.0-or-later
// Row-major C[m,n] is column-major C'[n,m] = B' A': cuBLASLt's first operand is our B.
#include "profiler/cuda_gemm.h"

#include <stdexcept>
#include <string>

namespace arena::cuda {
namespace {

cudaDataType_t data_type(Precision p) {
    switch (p) {
        case Precision::fp32:
        case Precision::tf32:
            return CUDA_R_32F;
        case Precision::fp16:
            return CUDA_R_16F;
        case Precision::bf16:
            return CUDA_R_16BF;
        case Precision::fp8:
        case Precision::mxfp8:
        case Precision::nvfp4:  // refused by the back-end
            return CUDA_R_8F_E4M3;
    }
    return CUDA_R_32F;
}

cublasLtMatrixLayout_t layout_of(cudaDataType_t type, Index rows, Index cols, Index batch) {
    cublasLtMatrixLayout_t layout = nullptr;
    check(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(cols), rows),
          "matrix layout");
    if (batch == 1) return layout;
    const auto count = static_cast<std::int32_t>(batch);
    const std::int64_t stride = rows * cols;
    check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                           sizeof count),
          "batch count");
    check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &stride, sizeof stride),
          "batch stride");
    return layout;
}

struct Preference {
    cublasLtMatmulPreference_t handle = nullptr;
    explicit Preference(std::size_t bytes) {
        check(cublasLtMatmulPreferenceCreate(&handle), "preference");
        check(cublasLtMatmulPreferenceSetAttribute(handle, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                   &bytes, sizeof bytes),
              "workspace limit");
    }
    ~Preference() { cublasLtMatmulPreferenceDestroy(handle); }
    Preference(const Preference&) = delete;
    Preference& operator=(const Preference&) = delete;
};

}  // namespace

void check(cudaError_t e, const char* what) {
    if (e != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(e));
}

void check(cublasStatus_t s, const char* what) {
    if (s != CUBLAS_STATUS_SUCCESS)
        throw std::runtime_error(std::string("cuBLASLt: ") + what + ": " +
                                 cublasLtGetStatusString(s));
}

Gemm::Gemm(cublasLtHandle_t handle, const Problem& p, void* workspace, std::size_t workspace_bytes)
    : handle_(handle), workspace_(workspace), workspace_bytes_(workspace_bytes) {
    const bool fp8 = p.precision == Precision::fp8;
    const Layout layout = fp8 ? Layout::nt : p.layout;
    const auto compute =
        p.precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescCreate(&operation_, compute, CUDA_R_32F), "operation");
    const cublasOperation_t first = layout == Layout::nt ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = layout == Layout::tn ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &first,
                                         sizeof first),
          "op A");
    check(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                         sizeof second),
          "op B");
    const auto type = data_type(p.precision);
    first_ = layout == Layout::nt ? layout_of(type, p.k, p.n, p.batch)
                                  : layout_of(type, p.n, p.k, p.batch);
    second_ = layout == Layout::tn ? layout_of(type, p.m, p.k, p.batch)
                                   : layout_of(type, p.k, p.m, p.batch);
    result_ = layout_of(fp8 ? CUDA_R_16BF : type, p.n, p.m, p.batch);
    const Preference preference(workspace_bytes);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle, operation_, first_, second_, result_, result_,
                                         preference.handle, 1, &found, &count),
          "heuristic");
    if (count == 0) throw std::runtime_error("cuBLASLt knows no algorithm for this shape");
    algorithm_ = found.algo;
}

Gemm::~Gemm() {
    for (const auto layout : {first_, second_, result_})
        if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
}

void Gemm::run(cudaStream_t stream, const void* a, const void* b, void* c) const {
    const float one = 1, zero = 0;
    check(cublasLtMatmul(handle_, operation_, &one, b, first_, a, second_, &zero, c, result_, c,
                         result_, &algorithm_, workspace_, workspace_bytes_, stream),
          "matmul");
}

}  // namespace arena::cuda
