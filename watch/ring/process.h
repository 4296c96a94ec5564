// SPDX-License-Identifier: GPL-2.0-or-later
// Whether a process is still the one that it was: by its number and when it began.
#pragma once

#include <cstdint>

namespace arena::watch {

/// Clock ticks from boot to its begin; 0: there is no such process, or it has ended.
std::uint64_t process_started(std::uint32_t pid);

}  // namespace arena::watch
