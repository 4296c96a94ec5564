// SPDX-License-Identifier: GPL-2.0-or-later
// Arrays on the device and their comparison with a reference, for the GPU's test programs. Each
// program includes it once. Error = max |got - want| / (1e-3 + max |want|).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "profiler/cuda/cuda_gemm.h"
#include "profiler/cuda/cuda_kernels.h"

namespace {

using namespace arena;
using cuda::Index;
using cuda::Stream;
using cuda::Type;
using Floats = std::vector<float>;

int tests = 0, failures = 0;

std::size_t size_of(Index n) { return static_cast<std::size_t>(n); }
std::size_t width_of(Type t) { return t == Type::f32 ? 4 : 2; }
float rounded(float x, Type t) {
    if (t == Type::f16) return __half2float(__float2half(x));
    if (t == Type::bf16) return __bfloat162float(__float2bfloat16(x));
    return x;
}

Floats draw(Index n, unsigned seed, Type t, float width = 2) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> value(-width / 2, width / 2);
    Floats v(size_of(n));
    for (auto& x : v) x = rounded(value(engine), t);
    return v;
}

/// Device memory of one array; host values converted to and from the element type.
class Array {
  public:
    Array(Index n, Type t) : n_(n), type_(t) {
        cuda::check(cudaMalloc(&p_, size_of(n) * width_of(t) + 16), "malloc");
        cuda::check(cudaMemset(p_, 0xff, size_of(n) * width_of(t)),
                    "memset");  // NaN: a forgotten element is seen
    }
    Array(const Floats& v, Type t) : Array(static_cast<Index>(v.size()), t) {
        std::vector<unsigned char> raw(v.size() * width_of(t));
        for (std::size_t i = 0; i < v.size(); ++i) {
            if (t == Type::f32) reinterpret_cast<float*>(raw.data())[i] = v[i];
            if (t == Type::f16) reinterpret_cast<__half*>(raw.data())[i] = __float2half(v[i]);
            if (t == Type::bf16)
                reinterpret_cast<__nv_bfloat16*>(raw.data())[i] = __float2bfloat16(v[i]);
        }
        cuda::check(cudaMemcpy(p_, raw.data(), raw.size(), cudaMemcpyHostToDevice), "copy");
    }
    explicit Array(const std::vector<std::int32_t>& v)
        : Array(static_cast<Index>(v.size()), Type::f32) {
        cuda::check(cudaMemcpy(p_, v.data(), v.size() * 4, cudaMemcpyHostToDevice), "copy");
    }
    ~Array() { cudaFree(p_); }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    operator void*() const { return p_; }
    [[nodiscard]] float* f32() const { return static_cast<float*>(p_); }
    [[nodiscard]] std::int32_t* ids() const { return static_cast<std::int32_t*>(p_); }
    [[nodiscard]] Floats host() const {
        cuda::check(cudaDeviceSynchronize(), "synchronise");
        std::vector<unsigned char> raw(size_of(n_) * width_of(type_));
        cuda::check(cudaMemcpy(raw.data(), p_, raw.size(), cudaMemcpyDeviceToHost), "copy");
        Floats v(size_of(n_));
        for (std::size_t i = 0; i < v.size(); ++i) {
            if (type_ == Type::f32) v[i] = reinterpret_cast<float*>(raw.data())[i];
            if (type_ == Type::f16) v[i] = __half2float(reinterpret_cast<__half*>(raw.data())[i]);
            if (type_ == Type::bf16)
                v[i] = __bfloat162float(reinterpret_cast<__nv_bfloat16*>(raw.data())[i]);
        }
        return v;
    }

  private:
    Index n_;
    Type type_;
    void* p_ = nullptr;
};

double bound_of(Type t) { return t == Type::f32 ? 2e-5 : t == Type::f16 ? 2e-3 : 1.6e-2; }

void close(const Array& device, const Floats& want, double bound, const std::string& name) {
    const Floats got = device.host();
    double top = 0, worst = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        top = std::max(top, std::abs(static_cast<double>(want[i])));
        const double d = std::abs(static_cast<double>(got[i]) - want[i]);
        worst = std::isnan(d) ? INFINITY : std::max(worst, d);
    }
    const double error = worst / (1e-3 + top);
    const bool good = got.size() == want.size() && error <= bound;
    failures += !good;
    std::printf("%sok %d - %s: error %.2g, bound %.2g\n", good ? "" : "not ", ++tests, name.c_str(),
                error, bound);
}

const char* name_of(Type t) {
    return t == Type::f32 ? "fp32 " : t == Type::f16 ? "fp16 " : "bf16 ";
}

Precision precision_of(Type t) {
    return t == Type::f32 ? Precision::fp32 : t == Type::f16 ? Precision::fp16 : Precision::bf16;
}

/// Whether a GPU can be used; else the plan of a test that skips is printed.
inline bool have_gpu() {
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e == cudaSuccess && count > 0) return true;
    std::printf("1..0 # SKIP no usable GPU: %s\n",
                e != cudaSuccess ? cudaGetErrorString(e) : "none is visible");
    return false;
}

}  // namespace
