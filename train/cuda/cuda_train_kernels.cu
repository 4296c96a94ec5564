// SPDX-License-Identifier: GPL-2.0-or-later
// See cuda_train_kernels.h. One block per token for what runs along the vocabulary or a row; loops
// with a stride of the grid elsewhere; 16 bytes at once where sizes allow.
#include "profiler/cuda/cuda_common.cuh"
#include "train/cuda/cuda_train_kernels.h"

namespace arena::cuda {
namespace {

__device__ inline Index thread_index() {
    return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline Index thread_count() { return static_cast<Index>(gridDim.x) * blockDim.x; }

unsigned grid_of(Index rows) { return static_cast<unsigned>(rows); }

/// Rows of `packs` packs each.
template <typename T>
__global__ void bias_pack_kernel(Index all, Index packs, const T* bias, T* y) {
    using P = Pack<T>;
    for (Index i = thread_index(); i < all; i += thread_count()) {
        P value = reinterpret_cast<P*>(y)[i];
        const P add = reinterpret_cast<const P*>(bias)[i % packs];
#pragma unroll
        for (int j = 0; j < P::size; ++j)
            value.v[j] = from_float<T>(to_float(value.v[j]) + to_float(add.v[j]));
        reinterpret_cast<P*>(y)[i] = value;
    }
}
template <typename T>
__global__ void bias_kernel(Index n, Index cols, const T* bias, T* y) {
    for (Index i = thread_index(); i < n; i += thread_count())
        y[i] = from_float<T>(to_float(y[i]) + to_float(bias[i % cols]));
}

template <typename P>
__global__ void to_heads_kernel(HeadsLayout l, const P* rows, P* heads) {
    for (Index i = thread_index(); i < l.size(); i += thread_count())
        heads[i] = rows[row_of_head(l, i)];
}
template <typename P>
__global__ void to_rows_kernel(HeadsLayout l, const P* heads, P* rows) {
    for (Index i = thread_index(); i < l.size(); i += thread_count())
        rows[row_of_head(l, i)] = heads[i];
}

/// f(layout in units, null pointer of the unit): packs of 16 bytes where a head is made of them.
template <typename F>
void with_unit(Type type, HeadsLayout l, F f) {
    with_type(type, [&](auto* t) {
        using T = std::remove_pointer_t<decltype(t)>;
        if (l.dim % Pack<T>::size != 0) return f(l, t);
        l.dim /= Pack<T>::size;
        f(l, static_cast<Pack<T>*>(nullptr));
    });
}

template <typename T>
__global__ void gather_kernel(VocabularyShard s, Index hidden, const std::int32_t* ids,
                              const T* table, T* out) {
    const Index row = shard_row(s, ids[blockIdx.x]);
    T* to = out + blockIdx.x * hidden;
    for (Index i = threadIdx.x; i < hidden; i += block_size)
        to[i] = row >= 0 ? table[row * hidden + i] : from_float<T>(0.0f);
}

template <typename T>
__global__ void scatter_kernel(VocabularyShard s, Index hidden, const std::int32_t* ids,
                               const T* d_out, float* d_table) {
    const Index row = shard_row(s, ids[blockIdx.x]);
    if (row < 0) return;  // the whole block
    for (Index i = threadIdx.x; i < hidden; i += block_size)
        atomicAdd(d_table + row * hidden + i, to_float(d_out[blockIdx.x * hidden + i]));
}

template <typename T>
__global__ void top_kernel(VocabularyShard s, const T* logits, const std::int32_t* labels,
                           float* top, float* target) {
    const T* row = logits + blockIdx.x * s.width;
    float largest = -INFINITY;
    for (Index i = threadIdx.x; i < s.width; i += block_size)
        largest = fmaxf(largest, to_float(row[i]));
    largest = reduce<Max>(largest);
    if (threadIdx.x != 0) return;
    top[blockIdx.x] = largest;
    const Index label = shard_row(s, labels[blockIdx.x]);
    target[blockIdx.x] = label >= 0 ? to_float(row[label]) : 0.0f;
}

template <typename T>
__global__ void exponentials_kernel(VocabularyShard s, const T* logits, const float* top,
                                    float* sums) {
    const T* row = logits + blockIdx.x * s.width;
    float sum = 0;
    for (Index i = threadIdx.x; i < s.width; i += block_size)
        sum += expf(to_float(row[i]) - top[blockIdx.x]);
    sum = reduce<Sum>(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <typename T>
__global__ void logits_gradient_kernel(VocabularyShard s, T* logits, const std::int32_t* labels,
                                       const float* top, const float* sums, float scale) {
    T* row = logits + blockIdx.x * s.width;
    const Index label = shard_row(s, labels[blockIdx.x]);
    for (Index i = threadIdx.x; i < s.width; i += block_size)
        row[i] = from_float<T>(
            logit_gradient(to_float(row[i]), top[blockIdx.x], sums[blockIdx.x], i == label, scale));
}

/// Sum over the block in fp64: warps by shuffles, then their sums by the first thread.
__device__ void add_block(double x, double* sum) {
    __shared__ double part[block_size / 32];
    for (int o = 16; o > 0; o /= 2) x += __shfl_xor_sync(0xffffffffu, x, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int w = 1; w < block_size / 32; ++w) x += part[w];
    atomicAdd(sum, x);
}

__global__ void losses_kernel(Index n, const float* top, const float* target, const float* sums,
                              double* sum) {
    double mine = 0;
    for (Index i = thread_index(); i < n; i += thread_count())
        mine += token_loss(top[i], target[i], sums[i]);
    add_block(mine, sum);
}

__global__ void squares_kernel(Index n, const float* x, double* sum) {
    double mine = 0;
    for (Index i = thread_index(); i < n; i += thread_count())
        mine += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    add_block(mine, sum);
}

__global__ void scale_kernel(Index n, float factor, float* x) {
    for (Index i = thread_index(); i < n; i += thread_count()) x[i] *= factor;
}

/// Blocks of a sum: few enough that their atomic additions do not queue.
int blocks_of_sum(Index n) { return std::min(blocks_for(n), 1024); }

}  // namespace

void add_bias(Stream s, Index rows, Index cols, const void* bias, void* y) {
    with_type(s.type, [&](auto* t) {
        using P = decltype(t);
        using T = std::remove_pointer_t<P>;
        const auto from = static_cast<const T*>(bias);
        const Index pack = Pack<T>::size, n = rows * cols;
        const bool aligned = reinterpret_cast<std::uintptr_t>(bias) % sizeof(Pack<T>) == 0;
        if (cols % pack == 0 && aligned)
            bias_pack_kernel<<<blocks_for(n / pack), block_size, 0, s.handle>>>(
                n / pack, cols / pack, from, static_cast<P>(y));
        else
            bias_kernel<<<blocks_for(n), block_size, 0, s.handle>>>(n, cols, from,
                                                                    static_cast<P>(y));
    });
}

void to_heads(Stream s, const HeadsLayout& layout, const void* rows, void* heads) {
    with_unit(s.type, layout, [&](const HeadsLayout& l, auto* t) {
        using P = decltype(t);
        to_heads_kernel<<<blocks_for(l.size()), block_size, 0, s.handle>>>(
            l, static_cast<const std::remove_pointer_t<P>*>(rows), static_cast<P>(heads));
    });
}
void to_rows(Stream s, const HeadsLayout& layout, const void* heads, void* rows) {
    with_unit(s.type, layout, [&](const HeadsLayout& l, auto* t) {
        using P = decltype(t);
        to_rows_kernel<<<blocks_for(l.size()), block_size, 0, s.handle>>>(
            l, static_cast<const std::remove_pointer_t<P>*>(heads), static_cast<P>(rows));
    });
}

void gather_rows(Stream s, const VocabularyShard& shard, Index tokens, Index hidden,
                 const std::int32_t* ids, const void* table, void* out) {
    with_type(s.type, [&](auto* t) {
        using P = decltype(t);
        gather_kernel<<<grid_of(tokens), block_size, 0, s.handle>>>(
            shard, hidden, ids, static_cast<const std::remove_pointer_t<P>*>(table),
            static_cast<P>(out));
    });
}
void scatter_rows(Stream s, const VocabularyShard& shard, Index tokens, Index hidden,
                  const std::int32_t* ids, const void* d_out, float* d_table) {
    with_type(s.type, [&](auto* t) {
        scatter_kernel<<<grid_of(tokens), block_size, 0, s.handle>>>(
            shard, hidden, ids, static_cast<const std::remove_pointer_t<decltype(t)>*>(d_out),
            d_table);
    });
}

void top_and_target(Stream s, const VocabularyShard& shard, Index tokens, const void* logits,
                    const std::int32_t* labels, float* top, float* target) {
    with_type(s.type, [&](auto* t) {
        top_kernel<<<grid_of(tokens), block_size, 0, s.handle>>>(
            shard, static_cast<const std::remove_pointer_t<decltype(t)>*>(logits), labels, top,
            target);
    });
}
void sum_exponentials(Stream s, const VocabularyShard& shard, Index tokens, const void* logits,
                      const float* top, float* sums) {
    with_type(s.type, [&](auto* t) {
        exponentials_kernel<<<grid_of(tokens), block_size, 0, s.handle>>>(
            shard, static_cast<const std::remove_pointer_t<decltype(t)>*>(logits), top, sums);
    });
}
void logits_gradient(Stream s, const VocabularyShard& shard, Index tokens, void* logits,
                     const std::int32_t* labels, const SoftmaxRows& rows, float scale) {
    with_type(s.type, [&](auto* t) {
        logits_gradient_kernel<<<grid_of(tokens), block_size, 0, s.handle>>>(
            shard, static_cast<decltype(t)>(logits), labels, rows.top, rows.sums, scale);
    });
}

void add_losses(cudaStream_t stream, Index tokens, const float* top, const float* target,
                const float* sums, double* sum) {
    losses_kernel<<<blocks_of_sum(tokens), block_size, 0, stream>>>(tokens, top, target, sums, sum);
}
void add_squares(cudaStream_t stream, Index n, const float* x, double* sum) {
    squares_kernel<<<blocks_of_sum(n), block_size, 0, stream>>>(n, x, sum);
}
void scale(cudaStream_t stream, Index n, float factor, float* x) {
    scale_kernel<<<blocks_for(n), block_size, 0, stream>>>(n, factor, x);
}

}  // namespace arena::cuda
