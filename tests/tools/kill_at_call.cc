// SPDX-License-Identifier: GPL-2.0-or-later
// LD_PRELOAD: kills the process with SIGKILL at the ARENA_KILL_AT-th of its calls that change a
// checkpoint (write to
// *.arena.new, fsync, rename, unlink), a write after half of its bytes. So that a real run of
// arena-train dies at a point of a save that a seed chose, on any machine.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

bool due() {
    static const char* const text = std::getenv("ARENA_KILL_AT");
    static const long at = text != nullptr ? std::atol(text) : 0;
    static std::atomic<long> calls{0};
    return ++calls == at;
}

bool is_checkpoint(int fd) {
    char path[4096];
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t n = readlink(link.c_str(), path, sizeof path);
    return n > 0 && std::string_view(path, static_cast<std::size_t>(n)).ends_with(".arena.new");
}

template <typename F>
F* next(const char* name) {
    return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* bytes, size_t n) {
    static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
    if (!is_checkpoint(fd) || !due()) return real(fd, bytes, n);
    const ssize_t half = real(fd, bytes, n / 2);
    raise(SIGKILL);
    return half;
}

int fsync(int fd) {
    static auto* const real = next<int(int)>("fsync");
    if (due()) raise(SIGKILL);
    return real(fd);
}

int rename(const char* from, const char* to) noexcept {
    static auto* const real = next<int(const char*, const char*)>("rename");
    if (due()) raise(SIGKILL);
    return real(from, to);
}

int unlink(const char* path) noexcept {
    static auto* const real = next<int(const char*)>("unlink");
    if (due()) raise(SIGKILL);
    return real(path);
}
}
