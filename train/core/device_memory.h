// SPDX-License-Identifier: GPL-2.0-or-later
// Memory of a device, which the host can not touch in general. A Pointer can be moved and passed on
// but not followed; who implements a device (cpu_device.cc, cuda_device.cc; for tests
// emulated_device.cc) takes the address out of it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

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

/// What a device keeps activations and weights in: float or Bf16. Never complete, so that only the
/// device itself, which knows their width, counts them in memory.
struct Element;

template <typename T>
class Pointer {
  public:
    Pointer() = default;
    explicit Pointer(T* address) : address_(address) {}
    /// From Pointer<float> to Pointer<const float>.
    template <typename U>
    requires(std::is_same_v<T, const U>) Pointer(Pointer<U> other) : address_(other.address()) {}
    Pointer operator+(Index n) const { return Pointer(address_ + n); }
    /// For the device's implementation.
    [[nodiscard]] T* address() const { return address_; }

  private:
    T* address_ = nullptr;
};

template <typename T>
class Span {
  public:
    Span() = default;
    Span(Pointer<T> data, std::size_t size) : data_(data), size_(size) {}
    template <typename U>
    requires(std::is_same_v<T, const U>) Span(Span<U> other)
        : data_(other.data()), size_(other.size()) {}
    [[nodiscard]] Pointer<T> data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] Span subspan(std::size_t begin, std::size_t n) const {
        return {data_ + static_cast<Index>(begin), n};
    }

  private:
    Pointer<T> data_;
    std::size_t size_ = 0;
};

}  // namespace arena::train
