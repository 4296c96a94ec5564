// SPDX-License-Identifier: GPL-2.0-or-later
// See cuda_kernels.h. Memory-bound kernels: 16-byte loads where the address allows, one block per
// row for reductions along a row, atomics into fp32 for sums over rows.

#include "profiler/cuda/cuda_common.cuh"

namespace arena::cuda {
namespace {

// ---- element-wise: f(i, inputs...) on packs, remainder one by one
// ---------------------------------

struct Gelu {
    __device__ static void run(float* x, float* y) {
        const float v = x[0];
        y[0] = v * sigmoid(1.5957691216057308f * (v + 0.044715f * v * v * v));
    }
};
struct GeluGradient {
    __device__ static void run(float* x, float* y) {
        const float v = x[0], s = sigmoid(1.5957691216057308f * (v + 0.044715f * v * v * v));
        y[0] = x[1] * (s + v * s * (1 - s) * 1.5957691216057308f * (1 + 3 * 0.044715f * v * v));
    }
};
struct Swiglu {
    __device__ static void run(float* x, float* y) { y[0] = x[0] * sigmoid(x[0]) * x[1]; }
};
struct SwigluGradient {
    __device__ static void run(float* x, float* y) {
        const float g = x[0], s = sigmoid(g);
        y[0] = x[2] * x[1] * s * (1 + g * (1 - s));
        y[1] = x[2] * g * s;
    }
};
struct Add {
    __device__ static void run(float* x, float* y) { y[0] = x[0] + x[1]; }
};

template <int In, int Out>
struct Arrays {
    const void* in[In];
    void* out[Out];
};

template <typename T, typename F, int In, int Out>
__global__ void map_kernel(Index n, Arrays<In, Out> a) {
    using P = Pack<T>;
    const Index packs = n / P::size, stride = static_cast<Index>(gridDim.x) * blockDim.x;
    const Index first = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (Index i = first; i < packs; i += stride) {
        P in[In], out[Out];
        for (int k = 0; k < In; ++k) in[k] = static_cast<const P*>(a.in[k])[i];
#pragma unroll
        for (int j = 0; j < P::size; ++j) {
            float x[In], y[Out];
            for (int k = 0; k < In; ++k) x[k] = to_float(in[k].v[j]);
            F::run(x, y);
            for (int k = 0; k < Out; ++k) out[k].v[j] = from_float<T>(y[k]);
        }
        for (int k = 0; k < Out; ++k) static_cast<P*>(a.out[k])[i] = out[k];
    }
    for (Index i = packs * P::size + first; i < n; i += stride) {
        float x[In], y[Out];
        for (int k = 0; k < In; ++k) x[k] = to_float(static_cast<const T*>(a.in[k])[i]);
        F::run(x, y);
        for (int k = 0; k < Out; ++k) static_cast<T*>(a.out[k])[i] = from_float<T>(y[k]);
    }
}

template <typename F, int In, int Out>
void map(Stream s, Index n, Arrays<In, Out> a) {
    const int blocks = blocks_for(n / (s.type == Type::f32 ? 4 : 8));
    switch (s.type) {
        case Type::f32:
            map_kernel<float, F><<<blocks, block_size, 0, s.handle>>>(n, a);
            break;
        case Type::f16:
            map_kernel<__half, F><<<blocks, block_size, 0, s.handle>>>(n, a);
            break;
        case Type::bf16:
            map_kernel<__nv_bfloat16, F><<<blocks, block_size, 0, s.handle>>>(n, a);
            break;
    }
}

// ---- norm ---------------------------------------------------------------------------------------

template <typename T>
__global__ void norm_kernel(Norm n, NormTensors t) {
    const Index cols = n.cols;
    const bool rms = n.rms;
    const T* row = static_cast<const T*>(t.x) + blockIdx.x * cols;
    const T *gamma = static_cast<const T*>(t.gamma), *beta = static_cast<const T*>(t.beta);
    T* out = static_cast<T*>(t.y) + blockIdx.x * cols;
    float sum = 0;
    if (!rms)
        for (Index i = threadIdx.x; i < cols; i += block_size) sum += to_float(row[i]);
    const float mean = rms ? 0 : reduce<Sum>(sum) / static_cast<float>(cols);
    float square = 0;
    for (Index i = threadIdx.x; i < cols; i += block_size) {
        const float d = to_float(row[i]) - mean;
        square += d * d;
    }
    const float inverse = rsqrtf(reduce<Sum>(square) / static_cast<float>(cols) + n.epsilon);
    for (Index i = threadIdx.x; i < cols; i += block_size)
        out[i] = from_float<T>((to_float(row[i]) - mean) * inverse * to_float(gamma[i]) +
                               (rms ? 0.0f : to_float(beta[i])));
    if (threadIdx.x == 0) {
        t.saved[2 * blockIdx.x] = mean;
        t.saved[2 * blockIdx.x + 1] = inverse;
    }
}

template <typename T>
__global__ void norm_dx_kernel(Index cols, bool rms, const T* x, const T* gamma, const float* saved,
                               const T* dy, T* dx) {
    const Index at = blockIdx.x * cols;
    const float mean = saved[2 * blockIdx.x], inverse = saved[2 * blockIdx.x + 1];
    float sum = 0, dot = 0;
    for (Index i = threadIdx.x; i < cols; i += block_size) {
        const float g = to_float(dy[at + i]) * to_float(gamma[i]);
        sum += g;
        dot += g * (to_float(x[at + i]) - mean) * inverse;
    }
    sum = rms ? 0 : reduce<Sum>(sum) / static_cast<float>(cols);
    dot = reduce<Sum>(dot) / static_cast<float>(cols);
    for (Index i = threadIdx.x; i < cols; i += block_size) {
        const float hat = (to_float(x[at + i]) - mean) * inverse;
        dx[at + i] =
            from_float<T>(inverse * (to_float(dy[at + i]) * to_float(gamma[i]) - sum - hat * dot));
    }
}

constexpr int column_rows = 64;  ///< rows that one block of a column sum adds up

/// One thread per column and 64 rows; scaled sums go to d_gamma, plain sums to d_beta.
template <typename T>
__global__ void norm_columns_kernel(Index rows, Index cols, const T* x, const float* saved,
                                    const T* dy, float* d_gamma, float* d_beta) {
    const Index c = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    const Index begin = static_cast<Index>(blockIdx.y) * column_rows;
    const Index end = begin + column_rows < rows ? begin + column_rows : rows;
    float gamma = 0, beta = 0;
    for (Index r = begin; r < end; ++r) {
        const float g = to_float(dy[r * cols + c]);
        gamma += g * (to_float(x[r * cols + c]) - saved[2 * r]) * saved[2 * r + 1];
        beta += g;
    }
    atomicAdd(d_gamma + c, gamma);
    if (d_beta != nullptr) atomicAdd(d_beta + c, beta);
}

template <typename T>
__global__ void bias_gradient_kernel(Index rows, Index cols, const T* dy, T* dx, float* d_bias) {
    const Index c = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    const Index begin = static_cast<Index>(blockIdx.y) * column_rows;
    const Index end = begin + column_rows < rows ? begin + column_rows : rows;
    float sum = 0;
    for (Index r = begin; r < end; ++r) {
        const T g = dy[r * cols + c];
        if (dx != nullptr) dx[r * cols + c] = g;
        sum += to_float(g);
    }
    atomicAdd(d_bias + c, sum);
}

dim3 column_grid(Index rows, Index cols) {
    return dim3(static_cast<unsigned>((cols + block_size - 1) / block_size),
                static_cast<unsigned>((rows + column_rows - 1) / column_rows));
}

template <typename T>
__global__ void bias_residual_kernel(Index n, Index cols, const T* x, const T* bias,
                                     const T* residual, T* y) {
    const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        y[i] = from_float<T>(to_float(x[i]) + to_float(bias[i % cols]) + to_float(residual[i]));
}

// ---- softmax ------------------------------------------------------------------------------------

template <typename T>
__global__ void softmax_kernel(Index cols, float scale, bool causal, T* scores) {
    T* row = scores + blockIdx.x * cols;
    const Index valid = causal ? blockIdx.x % cols + 1 : cols;
    float top = -INFINITY, sum = 0;
    for (Index i = threadIdx.x; i < valid; i += block_size) top = fmaxf(top, to_float(row[i]));
    top = reduce<Max>(top);
    for (Index i = threadIdx.x; i < valid; i += block_size)
        sum += __expf((to_float(row[i]) - top) * scale);
    const float inverse = 1.0f / reduce<Sum>(sum);
    for (Index i = threadIdx.x; i < cols; i += block_size)
        row[i] =
            from_float<T>(i < valid ? __expf((to_float(row[i]) - top) * scale) * inverse : 0.0f);
}

template <typename T>
__global__ void softmax_gradient_kernel(Index cols, float scale, const T* p, T* dp) {
    const Index at = blockIdx.x * cols;
    float dot = 0;
    for (Index i = threadIdx.x; i < cols; i += block_size)
        dot += to_float(p[at + i]) * to_float(dp[at + i]);
    dot = reduce<Sum>(dot);
    for (Index i = threadIdx.x; i < cols; i += block_size)
        dp[at + i] = from_float<T>(to_float(p[at + i]) * (to_float(dp[at + i]) - dot) * scale);
}

// ---- loss, embedding, optimizer -----------------------------------------------------------------

template <typename T>
__global__ void loss_kernel(Index cols, const T* x, const std::int32_t* label, float* loss,
                            float* lse) {
    const T* row = x + blockIdx.x * cols;
    float top = -INFINITY, sum = 0;
    for (Index i = threadIdx.x; i < cols; i += block_size) top = fmaxf(top, to_float(row[i]));
    top = reduce<Max>(top);
    for (Index i = threadIdx.x; i < cols; i += block_size) sum += __expf(to_float(row[i]) - top);
    sum = reduce<Sum>(sum);
    if (threadIdx.x != 0) return;
    lse[blockIdx.x] = top + logf(sum);
    loss[blockIdx.x] = lse[blockIdx.x] - to_float(row[label[blockIdx.x]]);
}

template <typename T>
__global__ void loss_gradient_kernel(Index cols, const T* x, const std::int32_t* label,
                                     const float* lse, float scale, T* dx) {
    const Index at = blockIdx.x * cols;
    const float shift = lse[blockIdx.x];
    const std::int32_t hit = label[blockIdx.x];
    for (Index i = threadIdx.x; i < cols; i += block_size)
        dx[at + i] =
            from_float<T>((__expf(to_float(x[at + i]) - shift) - (i == hit ? 1.0f : 0.0f)) * scale);
}

template <typename T>
__global__ void gather_kernel(Index hidden, const std::int32_t* ids, const T* table, T* out) {
    const T* row = table + static_cast<Index>(ids[blockIdx.x]) * hidden;
    for (Index i = threadIdx.x; i < hidden; i += block_size) out[blockIdx.x * hidden + i] = row[i];
}

template <typename T>
__global__ void scatter_kernel(Index hidden, const std::int32_t* ids, const T* d_out,
                               float* d_table) {
    float* row = d_table + static_cast<Index>(ids[blockIdx.x]) * hidden;
    for (Index i = threadIdx.x; i < hidden; i += block_size)
        atomicAdd(row + i, to_float(d_out[blockIdx.x * hidden + i]));
}

template <typename G, typename T>
__global__ void adamw_kernel(Index n, AdamFactors f, float* p, const G* g, float* m, float* v,
                             T* copy) {
    const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
        p[i] = adamw_element(f, p[i], to_float(g[i]), m[i], v[i]);
        if (copy != nullptr) copy[i] = from_float<T>(p[i]);
    }
}

// ---- filling ------------------------------------------------------------------------------------

__device__ inline std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

template <typename T>
__global__ void uniform_kernel(Index n, std::uint64_t seed, T* p) {
    const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        p[i] = from_float<T>(
            static_cast<float>(mix(seed + static_cast<std::uint64_t>(i)) >> 40) * 0x1p-24f - 0.5f);
}

__global__ void fp8_kernel(Index n, std::uint64_t seed, unsigned char* p) {
    const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        p[i] = static_cast<unsigned char>(mix(seed + static_cast<std::uint64_t>(i)) >> 56) &
               0xbf;  // below 2
}

__global__ void ids_kernel(Index n, std::uint64_t seed, std::int32_t limit, std::int32_t* p) {
    const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        p[i] = static_cast<std::int32_t>((mix(seed + static_cast<std::uint64_t>(i)) >> 32) %
                                         static_cast<std::uint64_t>(limit));
}

__global__ void value_kernel(Index n, float value, float* p) {
    const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        p[i] = value;
}

template <typename T>
__global__ void heads_kernel(HeadCopy c, T* rows, T* dense, bool to_rows) {
    const Index n = c.samples * c.heads * c.seq * c.d;
    const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
        const Index element = i % c.d, token = i / c.d % c.seq, head = i / (c.d * c.seq);
        const Index row = head / c.heads * c.seq + token;
        T& in_row = rows[row * c.width + c.offset + head % c.heads * c.d + element];
        if (to_rows)
            in_row = dense[i];
        else
            dense[i] = in_row;
    }
}

unsigned rows_grid(Index rows) { return static_cast<unsigned>(rows); }

}  // namespace

void norm_forward(Stream s, const Norm& n, const NormTensors& tensors) {
    with_type(s.type, [&](auto* t) {
        using T = std::remove_pointer_t<decltype(t)>;
        norm_kernel<T><<<rows_grid(n.rows), block_size, 0, s.handle>>>(n, tensors);
    });
}

void norm_backward(Stream s, const Norm& n, const NormInputs& in, const void* dy,
                   const NormGradients& to) {
    const std::size_t bytes = static_cast<std::size_t>(n.cols) * sizeof(float);
    cudaMemsetAsync(to.gamma, 0, bytes, s.handle);
    if (!n.rms) cudaMemsetAsync(to.beta, 0, bytes, s.handle);
    norm_backward_add(s, n, in, dy, to);
}

void norm_backward_add(Stream s, const Norm& n, const NormInputs& in, const void* dy,
                       const NormGradients& to) {
    with_type(s.type, [&](auto* t) {
        using P = decltype(t);
        using C = const std::remove_pointer_t<P>*;
        norm_dx_kernel<<<rows_grid(n.rows), block_size, 0, s.handle>>>(
            n.cols, n.rms, static_cast<C>(in.x), static_cast<C>(in.gamma), in.saved,
            static_cast<C>(dy), static_cast<P>(to.x));
        norm_columns_kernel<<<column_grid(n.rows, n.cols), block_size, 0, s.handle>>>(
            n.rows, n.cols, static_cast<C>(in.x), in.saved, static_cast<C>(dy), to.gamma,
            n.rms ? nullptr : to.beta);
    });
}

void gelu_forward(Stream s, Index n, const void* x, void* y) { map<Gelu, 1, 1>(s, n, {{x}, {y}}); }
void gelu_backward(Stream s, Index n, const void* x, const void* dy, void* dx) {
    map<GeluGradient, 2, 1>(s, n, {{x, dy}, {dx}});
}
void swiglu_forward(Stream s, Index n, const void* gate, const void* up, void* y) {
    map<Swiglu, 2, 1>(s, n, {{gate, up}, {y}});
}
void swiglu_backward(Stream s, Index n, const void* gate, const void* up, const void* dy,
                     void* d_gate, void* d_up) {
    map<SwigluGradient, 3, 2>(s, n, {{gate, up, dy}, {d_gate, d_up}});
}
void add(Stream s, Index n, const void* a, const void* b, void* y) {
    map<Add, 2, 1>(s, n, {{a, b}, {y}});
}

void bias_residual_forward(Stream s, Index rows, Index cols, const void* x, const void* bias,
                           const void* residual, void* y) {
    with_type(s.type, [&](auto* t) {
        using P = decltype(t);
        using C = const std::remove_pointer_t<P>*;
        bias_residual_kernel<<<blocks_for(rows * cols), block_size, 0, s.handle>>>(
            rows * cols, cols, static_cast<C>(x), static_cast<C>(bias), static_cast<C>(residual),
            static_cast<P>(y));
    });
}

void bias_residual_backward(Stream s, Index rows, Index cols, const void* dy, void* dx,
                            float* d_bias) {
    cudaMemsetAsync(d_bias, 0, static_cast<std::size_t>(cols) * sizeof(float), s.handle);
    with_type(s.type, [&](auto* t) {
        using P = decltype(t);
        using C = const std::remove_pointer_t<P>*;
        bias_gradient_kernel<<<column_grid(rows, cols), block_size, 0, s.handle>>>(
            rows, cols, static_cast<C>(dy), static_cast<P>(dx), d_bias);
    });
}

void add_column_sums(Stream s, Index rows, Index cols, const void* x, float* sums) {
    with_type(s.type, [&](auto* t) {
        using P = decltype(t);
        using C = const std::remove_pointer_t<P>*;
        bias_gradient_kernel<<<column_grid(rows, cols), block_size, 0, s.handle>>>(
            rows, cols, static_cast<C>(x), static_cast<P>(nullptr), sums);
    });
}

void softmax_forward(Stream s, Index rows, Index cols, float scale, bool causal, void* scores) {
    with_type(s.type, [&](auto* t) {
        softmax_kernel<<<rows_grid(rows), block_size, 0, s.handle>>>(
            cols, scale, causal, static_cast<decltype(t)>(scores));
    });
}

void softmax_backward(Stream s, Index rows, Index cols, float scale, const void* p, void* dp) {
    with_type(s.type, [&](auto* t) {
        using P = decltype(t);
        using C = const std::remove_pointer_t<P>*;
        softmax_gradient_kernel<<<rows_grid(rows), block_size, 0, s.handle>>>(
            cols, scale, static_cast<C>(p), static_cast<P>(dp));
    });
}

void copy_heads(Stream s, const HeadCopy& c, void* rows, void* dense, bool to_rows) {
    with_type(s.type, [&](auto* t) {
        using P = decltype(t);
        heads_kernel<<<blocks_for(c.samples * c.heads * c.seq * c.d), block_size, 0, s.handle>>>(
            c, static_cast<P>(rows), static_cast<P>(dense), to_rows);
    });
}

void embedding_forward(Stream s, Index tokens, Index hidden, const std::int32_t* ids,
                       const void* table, void* out) {
    with_type(s.type, [&](auto* t) {
        using P = decltype(t);
        using C = const std::remove_pointer_t<P>*;
        gather_kernel<<<rows_grid(tokens), block_size, 0, s.handle>>>(
            hidden, ids, static_cast<C>(table), static_cast<P>(out));
    });
}

void embedding_backward(Stream s, Index tokens, Index hidden, const std::int32_t* ids,
                        const void* d_out, float* d_table) {
    with_type(s.type, [&](auto* t) {
        using C = const std::remove_pointer_t<decltype(t)>*;
        scatter_kernel<<<rows_grid(tokens), block_size, 0, s.handle>>>(
            hidden, ids, static_cast<C>(d_out), d_table);
    });
}

void cross_entropy_forward(Stream s, Index rows, Index cols, const void* x,
                           const std::int32_t* label, float* loss, float* lse) {
    with_type(s.type, [&](auto* t) {
        using C = const std::remove_pointer_t<decltype(t)>*;
        loss_kernel<<<rows_grid(rows), block_size, 0, s.handle>>>(cols, static_cast<C>(x), label,
                                                                  loss, lse);
    });
}

void cross_entropy_backward(Stream s, Index rows, Index cols, const LossInputs& in, float scale,
                            void* dx) {
    with_type(s.type, [&](auto* t) {
        using P = decltype(t);
        using C = const std::remove_pointer_t<P>*;
        loss_gradient_kernel<<<rows_grid(rows), block_size, 0, s.handle>>>(
            cols, static_cast<C>(in.x), in.label, in.lse, scale, static_cast<P>(dx));
    });
}

void adamw(Stream s, Index n, Index step, const AdamState& a, const void* g) {
    const AdamFactors f = adam_factors(1e-4, 0.9, 0.95, 1e-8, 0.1, step);
    with_type(s.type, [&](auto* t) {
        using P = decltype(t);
        using C = const std::remove_pointer_t<P>*;
        adamw_kernel<<<blocks_for(n), block_size, 0, s.handle>>>(n, f, a.p, static_cast<C>(g), a.m,
                                                                 a.v, static_cast<P>(a.copy));
    });
}

void adamw_masters(Stream s, const AdamFactors& f, Index n, const AdamState& a, const float* g) {
    with_type(s.type, [&](auto* t) {
        adamw_kernel<<<blocks_for(n), block_size, 0, s.handle>>>(n, f, a.p, g, a.m, a.v,
                                                                 static_cast<decltype(t)>(a.copy));
    });
}

void fill_uniform(Stream s, Index n, std::uint64_t seed, void* p) {
    with_type(s.type, [&](auto* t) {
        uniform_kernel<<<blocks_for(n), block_size, 0, s.handle>>>(n, seed,
                                                                   static_cast<decltype(t)>(p));
    });
}
void fill_ids(cudaStream_t stream, Index n, std::uint64_t seed, std::int32_t limit,
              std::int32_t* p) {
    ids_kernel<<<blocks_for(n), block_size, 0, stream>>>(n, seed, limit, p);
}
void fill_fp8(cudaStream_t stream, Index n, std::uint64_t seed, void* p) {
    fp8_kernel<<<blocks_for(n), block_size, 0, stream>>>(n, seed, static_cast<unsigned char*>(p));
}
void fill_value(cudaStream_t stream, Index n, float value, float* p) {
    value_kernel<<<blocks_for(n), block_size, 0, stream>>>(n, value, p);
}

}  // namespace arena::cuda
