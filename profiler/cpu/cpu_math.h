// SPDX-License-Identifier: GPL-2.0-or-later
// Scalar functions written so that loops over them vectorise, and the attribute that compiles a
// loop for several instruction sets and picks one at start.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define ARENA_CLONES \
    __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define ARENA_CLONES
#endif
#define ARENA_INLINE __attribute__((always_inline)) inline

namespace arena::cpu {

/// exp(x) within 2e-7 relative for x in [-87, 88]; clamped outside. 2^n * exp(r), |r| <= ln 2 / 2.
ARENA_INLINE float fast_exp(float x) {
    x = x < -87.0F ? -87.0F : x;
    x = x > 88.0F ? 88.0F : x;
    const float t = x * 1.44269504F;
    const auto n = static_cast<std::int32_t>(t + (t < 0 ? -0.5F : 0.5F));
    const auto f = static_cast<float>(n);
    const float r = (x - f * 0.693359375F) + f * 2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1.0F;
    return p * std::bit_cast<float>((n + 127) << 23);
}

ARENA_INLINE float sigmoid(float x) { return 1.0F / (1.0F + fast_exp(-x)); }

}  // namespace arena::cpu
