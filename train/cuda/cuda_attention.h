// SPDX-License-Identifier: GPL-2.0-or-later
// Attention on a GPU: cuDNN's fused engines, as the profiler measures them; where it has none for
// the shape, GEMMs and a softmax over whole matrices of scores, as the profiler measures then.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "train/core/device.h"

namespace arena::train {

class CudaGemms;

class CudaAttention {
  public:
    CudaAttention(cudaStream_t, CudaGemms&);
    ~CudaAttention();
    CudaAttention(const CudaAttention&) = delete;
    CudaAttention& operator=(const CudaAttention&) = delete;

    void forward(const AttentionShape&, const Device::AttentionTensors&);
    struct Gradients {
        Device::In d_out;
        Device::Out dq, dk, dv;
    };
    void backward(const AttentionShape&, const Device::AttentionTensors&, const Gradients&);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace arena::train
