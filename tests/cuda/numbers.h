// SPDX-License-Identifier: GPL-2.0-or-later
// Elements of the libraries' types as fp32, and products of them. Sums are in fp32 and rounded once
// to the type that is stored.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace soft {

enum class Number { f32, f16, bf16, e4m3 };

inline std::size_t width_of(Number n) { return n == Number::f32 ? 4 : n == Number::e4m3 ? 1 : 2; }

inline float load(Number n, const void* p, std::int64_t i) {
    switch (n) {
        case Number::f32:
            return static_cast<const float*>(p)[i];
        case Number::f16:
            return __half2float(static_cast<const __half*>(p)[i]);
        case Number::bf16:
            return __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
        case Number::e4m3:
            return static_cast<float>(static_cast<const __nv_fp8_e4m3*>(p)[i]);
    }
    return 0;
}
inline void store(Number n, void* p, std::int64_t i, float x) {
    switch (n) {
        case Number::f32:
            static_cast<float*>(p)[i] = x;
            return;
        case Number::f16:
            static_cast<__half*>(p)[i] = __float2half(x);
            return;
        case Number::bf16:
            static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16(x);
            return;
        case Number::e4m3:
            static_cast<__nv_fp8_e4m3*>(p)[i] = __nv_fp8_e4m3(x);
            return;
    }
}
inline float rounded(Number n, float x) {
    std::uint32_t memory = 0;
    store(n, &memory, 0, x);
    return load(n, &memory, 0);
}

using Floats = std::vector<float>;

/// c[m, n] = a[m, k] b[k, n], dense and row-major.
inline Floats product(const Floats& a, const Floats& b, std::int64_t m, std::int64_t n,
                      std::int64_t k) {
    Floats c(static_cast<std::size_t>(m * n));
    for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t l = 0; l < k; ++l) {
            const float x = a[static_cast<std::size_t>(i * k + l)];
            const float* const from = b.data() + l * n;
            float* const to = c.data() + i * n;
            for (std::int64_t j = 0; j < n; ++j) to[j] += x * from[j];
        }
    return c;
}

}  // namespace soft
