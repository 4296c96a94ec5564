// SPDX-License-Identifier: GPL-2.0-or-later
// Memory that the host cannot touch. A Far pointer can be moved and passed on but not followed; who
// implements a far device (cuda_device.cc; for tests emulated_device.cc) takes the address out of
// it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "train/core/shape.h"

namespace arena::train {

/// The upper half of a float, as __nv_bfloat16 lies in memory.
struct Bf16 {
    std::uint16_t bits = 0;
};
inline float to_float(Bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
/// To the nearest, ties to even; NaN stays NaN.
inline Bf16 to_bf16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if ((bits & 0x7fffffffU) > 0x7f800000U)
        return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
    return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

template <typename T>
class Far {
  public:
    Far() = default;
    explicit Far(T* address) : address_(address) {}
    /// From Far<float> to Far<const float>.
    template <typename U>
    requires(std::is_same_v<T, const U>) Far(Far<U> other) : address_(other.address()) {}
    Far operator+(Index n) const { return Far(address_ + n); }
    /// For the device's implementation.
    [[nodiscard]] T* address() const { return address_; }

  private:
    T* address_ = nullptr;
};

template <typename T>
class FarSpan {
  public:
    FarSpan() = default;
    FarSpan(Far<T> data, std::size_t size) : data_(data), size_(size) {}
    template <typename U>
    requires(std::is_same_v<T, const U>) FarSpan(FarSpan<U> other)
        : data_(other.data()), size_(other.size()) {}
    [[nodiscard]] Far<T> data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] FarSpan subspan(std::size_t begin, std::size_t n) const {
        return {data_ + static_cast<Index>(begin), n};
    }

  private:
    Far<T> data_;
    std::size_t size_ = 0;
};

/// Zeroed memory of the device that this thread uses. Throws std::runtime_error where there is not
/// enough.
void* far_allocate(std::size_t bytes);
void far_free(void*) noexcept;

/// Owns far memory, as std::vector does memory; zeros at first.
template <typename T>
class FarArray {
  public:
    FarArray() = default;
    explicit FarArray(std::size_t n) : size_(n) {
        if (n > 0) data_ = Far<T>(static_cast<T*>(far_allocate(n * sizeof(T))));
    }
    ~FarArray() { far_free(data_.address()); }
    FarArray(FarArray&& other) noexcept { swap(other); }
    FarArray& operator=(FarArray&& other) noexcept {
        FarArray(std::move(other)).swap(*this);
        return *this;
    }
    [[nodiscard]] Far<T> data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return size_; }
    void swap(FarArray& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }

  private:
    Far<T> data_;
    std::size_t size_ = 0;
};

}  // namespace arena::train
