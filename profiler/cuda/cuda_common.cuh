// SPDX-License-Identifier: GPL-2.0-or-later
// What the CUDA kernels of profiler and trainer share: packs of 16 bytes, conversions, reduction
// over a block, sizes of grids. For .cu files alone.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "profiler/cuda/cuda_kernels.h"

namespace arena::cuda {

constexpr int block_size = 256;

template <typename T>
struct alignas(16) Pack {
    static constexpr int size = 16 / sizeof(T);
    T v[size];
};

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
    return x;
}
template <>
__device__ inline __half from_float<__half>(float x) {
    return __float2half(x);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
    return __float2bfloat16(x);
}

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

struct Sum {
    static constexpr float empty = 0.0f;
    __device__ static float join(float a, float b) { return a + b; }
};
struct Max {
    static constexpr float empty = -INFINITY;
    __device__ static float join(float a, float b) { return fmaxf(a, b); }
};

/// Reduction over the block; every thread gets the result.
template <typename Op>
__device__ float reduce(float x) {
    __shared__ float part[32];
    for (int o = 16; o > 0; o /= 2) x = Op::join(x, __shfl_xor_sync(0xffffffffu, x, o));
    __syncthreads();  // part may still be read from the reduction before
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x % 32 < block_size / 32 ? part[threadIdx.x % 32] : Op::empty;
    for (int o = 16; o > 0; o /= 2) x = Op::join(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
}

/// Blocks of a loop over items with a stride of the grid.
inline int blocks_for(Index items) {
    return static_cast<int>(std::clamp<Index>((items + block_size - 1) / block_size, 1, 1 << 16));
}

/// Calls f with a null pointer of the element type: picks the instance of a template by Type.
template <typename F>
void with_type(Type type, F f) {
    switch (type) {
        case Type::f32:
            f(static_cast<float*>(nullptr));
            break;
        case Type::f16:
            f(static_cast<__half*>(nullptr));
            break;
        case Type::bf16:
            f(static_cast<__nv_bfloat16*>(nullptr));
            break;
    }
}

}  // namespace arena::cuda
