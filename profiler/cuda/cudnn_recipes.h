// SPDX-License-Identifier: GPL-2.0-or-later
// Operators that cuDNN runs: fused attention and convolutions. A build without cuDNN has none of
// them (no_cudnn.cc).
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "core/model.h"
#include "core/profile.h"
#include "profiler/cuda/cuda_recipe.h"

namespace arena::cuda {

class Cudnn {
  public:
    /// Throws std::runtime_error where cuDNN cannot be used.
    explicit Cudnn(cudaStream_t);
    ~Cudnn();
    Cudnn(const Cudnn&) = delete;
    Cudnn& operator=(const Cudnn&) = delete;
    /// "cuDNN 9.19.0"; "" without it.
    [[nodiscard]] std::string version() const;
    /// ErrorCode::no, with cuDNN's words, where it has no fused engine for the shape.
    Result<Recipe> attention(const OpShape&, Precision);
    /// The attention of a layer on the rows of its GEMMs: 0 qkv, 1 o, 2 statistics; backward also 3
    /// dO, 4 dqkv, 5 the sums of dq. Its backward reads what forward on the same buffers wrote.
    Result<Recipe> attention_in_rows(const OpShape& layer);
    Result<Recipe> convolution(const OpShape&);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace arena::cuda
