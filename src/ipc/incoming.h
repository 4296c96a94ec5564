// SPDX-License-Identifier: GPL-2.0-or-later
// Reading what another process says, to its end and within limits.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "base/file_descriptor.h"

namespace arena {

struct Incoming {
    FileDescriptor fd;  ///< given back at the end
    std::string text;
};

/// Reads all of them to their ends. nullptr, or what went wrong, as a sentence: `until` came first
/// (time_point::max(): no limit), one had more than `most_bytes`, one cannot be read. What came
/// before stays.
const char* read_to_end(std::span<Incoming> all, std::chrono::steady_clock::time_point until,
                        std::size_t most_bytes);

}  // namespace arena
