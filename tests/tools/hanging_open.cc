// SPDX-License-Identifier: GPL-2.0-or-later
// LD_PRELOAD: open() of the directory ARENA_HANG_DIR hangs for as long as the file ARENA_HANG_WHILE
// is there, as it does where a file server is away. Notes each such call in ARENA_HANG_WHILE.seen.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void pass(const char* path) {
    static const char* const directory = std::getenv("ARENA_HANG_DIR");
    static const char* const gate = std::getenv("ARENA_HANG_WHILE");
    if (directory == nullptr || gate == nullptr || std::strcmp(path, directory) != 0) return;
    if (::access(gate, F_OK) != 0) return;
    ::close(::creat((std::string(gate) + ".seen").c_str(), 0644));
    while (::access(gate, F_OK) == 0) ::usleep(100000);
}

template <typename F>
int open_after(const char* name, const char* path, int flags, mode_t mode) {
    static F* const real = reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
    pass(path);
    return real(path, flags, mode);
}

mode_t mode_of(int flags, va_list list) {
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = mode_of(flags, list);
    va_end(list);
    return open_after<int(const char*, int, ...)>("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = mode_of(flags, list);
    va_end(list);
    return open_after<int(const char*, int, ...)>("open64", path, flags, mode);
}

}  // extern "C"
