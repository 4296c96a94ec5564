// SPDX-License-Identifier: GPL-2.0-or-later
// The table (CSV) of streams of communication calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "slowdown/calls.h"

namespace arena::slowdown {

struct CallStream {
    std::string name;
    std::vector<Call> calls;
};

/// Columns sequence, t_us, op_id, count, comm and, where known, peer; others are ignored. Rows of a
/// sequence stand in order of time. Streams in the order of their first row. Errors name the line.
Result<std::vector<CallStream>> parse_calls(std::string_view text, const std::string& file);

}  // namespace arena::slowdown
