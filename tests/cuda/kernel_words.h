// SPDX-License-Identifier: GPL-2.0-or-later
// The words of a kernel that our .cu files use, for the host's compiler. Included before the file
// by host-kernels. A word that is not here does not compile.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace soft {

extern uint3 thread_place, block_place;
extern dim3 grid_shape, block_shape;
void barrier();
/// The value of the lane whose number differs in these bits.
std::uint64_t shuffle_xor(unsigned mask, std::uint64_t value, int lanes);

template <typename T>
T shuffled(unsigned mask, T value, int lanes) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = shuffle_xor(mask, bits, lanes);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace soft

#ifdef ARENA_SOFT_KERNELS
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#define __global__ __attribute__((noinline, noclone))
#define __device__
#define __host__
#define __shared__ static  // one block runs at a time
#define threadIdx (::soft::thread_place)
#define blockIdx (::soft::block_place)
#define blockDim (::soft::block_shape)
#define gridDim (::soft::grid_shape)

inline void __syncthreads() { soft::barrier(); }
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
    return soft::shuffled(mask, value, lanes);
}
template <typename T>
T atomicAdd(T* to, T value) {
    const T before = *to;
    *to += value;
    return before;
}
inline float __expf(float x) { return std::exp(x); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
#endif
