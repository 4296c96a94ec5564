// SPDX-License-Identifier: GPL-2.0-or-later
// How often the program has allocated: it replaces the global operator new.
#pragma once

#include <atomic>

namespace arena::test {

extern std::atomic<long> allocations;

}  // namespace arena::test
