// SPDX-License-Identifier: GPL-2.0-or-later
#include "counted_new.h"

#include <cstddef>
#include <cstdlib>
#include <new>

std::atomic<long> arena::test::allocations{0};

void* operator new(std::size_t size) {
    arena::test::allocations += 1;
    if (void* const p = std::malloc(size)) return p;
    throw std::bad_alloc();
}
// Inlined, gcc takes free() for the wrong counterpart of the `operator new` that it did not inline.
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
