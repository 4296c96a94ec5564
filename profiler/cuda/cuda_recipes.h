// SPDX-License-Identifier: GPL-2.0-or-later
// The recipe of each operator that the CUDA back-end measures.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "base/result.h"
#include "core/model.h"
#include "core/profile.h"
#include "profiler/cuda/cuda_recipe.h"
#include "profiler/cuda/cudnn_recipes.h"

namespace arena::cuda {

inline constexpr std::size_t workspace_bytes = 32U << 20;

/// What recipes use of an open device. All of it outlives what they make.
struct Handles {
    cudaStream_t stream = nullptr;
    cublasLtHandle_t blas = nullptr;
    Cudnn* dnn = nullptr;
    void* workspace = nullptr;  ///< of workspace_bytes
    bool has_told_unfused = false;
};

/// Element type of what is not a GEMM: fp8 models keep bf16 there.
Type element_type(Precision);
/// ErrorCode::no for what the back-end does not have; throws as cuda::check() does.
Result<Recipe> make_recipe(Handles&, const OpShape&);

}  // namespace arena::cuda
