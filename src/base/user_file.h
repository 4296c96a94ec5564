// SPDX-License-Identifier: GPL-2.0-or-later
// Files that a person names to a command.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace arena {

/// read_regular_file(), but symbolic links are followed, as the person may expect.
Result<std::string> read_user_file(const std::string& path, std::size_t max_bytes);

}  // namespace arena
