// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any process of a node may write to the port where members attach; what is
// accepted says itself again.

// also: train/members/frames.cc

#include <string>

#include "fuzz.h"
#include "train/members/frames.h"

FUZZ(text) {
    const auto frame = arena::train::parse_array_frame(text);
    if (!frame) return;
    const std::string line = arena::train::format_array_frame(*frame);
    const auto again = arena::train::parse_array_frame(line);
    if (line.find('\n') != std::string::npos || !again ||
        arena::train::format_array_frame(*again) != line)
        std::abort();
}
