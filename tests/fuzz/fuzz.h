// SPDX-License-Identifier: GPL-2.0-or-later
// A libFuzzer target: FUZZ(text) { } gets any bytes, and aborts where what it reads does not hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#define FUZZ(text)                                                                      \
    static void fuzz(std::string_view);                                                 \
    extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
        fuzz({reinterpret_cast<const char*>(data), size});                              \
        return 0;                                                                       \
    }                                                                                   \
    static void fuzz(std::string_view text)
