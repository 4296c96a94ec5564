// SPDX-License-Identifier: GPL-2.0-or-later
// Files that a person names to a command, and what a command writes to its standard output.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/result.h"

namespace arena {

/// read_regular_file(), but symbolic links are followed, as the person may expect.
Result<std::string> read_user_file(const std::string& path, std::size_t max_bytes);

/// What a program exits with, for the end of main(): what `run` returned; 3 with a sentence on
/// standard error where it returned 0 or 1 and its standard output did not get where it was to go
/// (a full disk), and where it threw. `told`: says what was thrown; none = as an internal error.
int run_program(const char* name, const std::function<int()>& run,
                const std::function<void(const std::exception&)>& told = {});

}  // namespace arena
