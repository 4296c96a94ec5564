// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/recorder/real.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace arena::watch {
namespace {

void* opened(const char* library) {
    if (const char* path = ::secure_getenv("ARENA_WATCH_NCCL")) return ::dlopen(path, RTLD_NOW);
    if (void* there = ::dlopen(library, RTLD_NOW | RTLD_NOLOAD)) return there;
    return ::dlopen(library, RTLD_NOW);
}

}  // namespace

void* find_real(const char* name, const char* library) {
    const int kept = errno;
    void* found = ::dlsym(RTLD_NEXT, name);
    if (found == nullptr && library != nullptr)
        if (void* handle = opened(library)) found = ::dlsym(handle, name);
    if (found == nullptr) {
        char text[128];
        std::snprintf(text, sizeof text, "%s is called, but no library has it", name);
        say_once(text);
    }
    errno = kept;
    return found;
}

}  // namespace arena::watch
