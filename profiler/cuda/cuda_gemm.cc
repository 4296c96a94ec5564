// SPDX-License-Identifier: GPL-2.0-or-later
// Row-major C[m,n] is column-major C'[n,m] = B' A': cuBLASLt's first operand is our B.
#include "profiler/cuda/cuda_gemm.h"

#include <array>
#include <limits>
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

/// Into `layout`, whose owner lets go of it when a call fails.
void make_layout(cublasLtMatrixLayout_t& layout, cudaDataType_t type, Index rows, Index cols,
                 Index batch) {
    check(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(cols), rows),
          "matrix layout");
    if (batch == 1) return;
    const auto count = static_cast<std::int32_t>(batch);
    const std::int64_t stride = rows * cols;
    check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                           sizeof count),
          "batch count");
    check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &stride, sizeof stride),
          "batch stride");
}

struct Preference {
    cublasLtMatmulPreference_t handle = nullptr;
    Preference() = default;
    explicit Preference(std::size_t bytes) : Preference() {
        check(cublasLtMatmulPreferenceCreate(&handle), "preference");
        check(cublasLtMatmulPreferenceSetAttribute(handle, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                   &bytes, sizeof bytes),
              "workspace limit");
    }
    ~Preference() {
        if (handle != nullptr) cublasLtMatmulPreferenceDestroy(handle);
    }
    Preference(const Preference&) = delete;
    Preference& operator=(const Preference&) = delete;
};

constexpr int most_proposals = 8;

/// Milliseconds of what is launched between two events.
class Timer {
  public:
    explicit Timer(cudaStream_t stream) : Timer() {
        stream_ = stream;
        check(cudaEventCreate(&begin_), "event");
        check(cudaEventCreate(&end_), "event");
    }
    ~Timer() {
        if (begin_ != nullptr) cudaEventDestroy(begin_);
        if (end_ != nullptr) cudaEventDestroy(end_);
    }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    template <typename Launch>
    float time(const Launch& launch) const {
        check(cudaEventRecord(begin_, stream_), "record");
        launch();
        check(cudaEventRecord(end_, stream_), "record");
        check(cudaEventSynchronize(end_), "tune");
        float ms = 0;
        check(cudaEventElapsedTime(&ms, begin_, end_), "elapsed");
        return ms;
    }

  private:
    Timer() = default;
    cudaStream_t stream_ = nullptr;
    cudaEvent_t begin_ = nullptr, end_ = nullptr;
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
    : Gemm(handle, workspace, workspace_bytes) {  // from here on the destructor lets go
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
    if (layout == Layout::nt)
        make_layout(first_, type, p.k, p.n, p.batch);
    else
        make_layout(first_, type, p.n, p.k, p.batch);
    if (layout == Layout::tn)
        make_layout(second_, type, p.m, p.k, p.batch);
    else
        make_layout(second_, type, p.k, p.m, p.batch);
    const auto result_type = p.adds ? CUDA_R_32F : fp8 ? CUDA_R_16BF : type;
    make_layout(result_, result_type, p.n, p.m, p.batch);
    keep_ = p.adds ? 1 : 0;
    if (fp8) use_fast_sums();
    propose();
}

/// Hopper's fp8 units sum in fewer bits then, as frameworks let them in the forward pass.
void Gemm::use_fast_sums() {
    const std::int8_t on = 1;
    check(
        cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &on, sizeof on),
        "fast sums");
}

void Gemm::propose() {
    const Preference preference(workspace_bytes_);
    std::array<cublasLtMatmulHeuristicResult_t, most_proposals> found{};
    int count = 0;
    const cublasStatus_t asked =
        cublasLtMatmulAlgoGetHeuristic(handle_, operation_, first_, second_, result_, result_,
                                       preference.handle, most_proposals, found.data(), &count);
    if (asked != CUBLAS_STATUS_NOT_SUPPORTED) check(asked, "heuristic");
    for (int i = 0; i < count; ++i)
        if (found[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
            proposed_.push_back(found[static_cast<std::size_t>(i)].algo);
    if (proposed_.empty()) throw Unsupported("cuBLASLt knows no algorithm for this shape");
    algorithm_ = proposed_.front();
}

void Gemm::tune(cudaStream_t stream, const void* a, const void* b, void* c) {
    constexpr int runs = 3;
    if (proposed_.size() < 2) return;
    const Timer timer(stream);
    float best_ms = std::numeric_limits<float>::infinity();
    cublasLtMatmulAlgo_t best = proposed_.front();
    for (const auto& candidate : proposed_) {
        algorithm_ = candidate;
        run(stream, a, b, c);  // its code is loaded now
        const float ms = timer.time([&] {
            for (int i = 0; i < runs; ++i) run(stream, a, b, c);
        });
        if (ms >= best_ms) continue;
        best_ms = ms;
        best = candidate;
    }
    algorithm_ = best;
    proposed_.clear();
}

Gemm::~Gemm() {
    for (const auto layout : {first_, second_, result_})
        if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
}

void Gemm::run(cudaStream_t stream, const void* a, const void* b, void* c) const {
    const float one = 1;
    check(cublasLtMatmul(handle_, operation_, &one, b, first_, a, second_, &keep_, c, result_, c,
                         result_, &algorithm_, workspace_, workspace_bytes_, stream),
          "matmul");
}

}  // namespace arena::cuda
