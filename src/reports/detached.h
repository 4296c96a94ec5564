// SPDX-License-Identifier: GPL-2.0-or-later
// A program beside this one that nothing here waits for, and that keeps nothing of it: no parent,
// no terminal, no open file. (A container that a resource manager made keeps both.)
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace arena {

/// words: the program's path and its arguments; variables: NAME=value. Returns when it runs, or
/// says why it cannot. Between fork and exec it calls what a child of a threaded program may.
Status start_detached(const std::vector<std::string>& words,
                      const std::vector<std::string>& variables);

}  // namespace arena
