// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/ring/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace arena::watch {

std::uint64_t process_started(std::uint32_t pid) {
    char path[32], text[1024];
    std::snprintf(path, sizeof path, "/proc/%u/stat", pid);
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t n = ::read(fd, text, sizeof text - 1);
    ::close(fd);
    if (n <= 0) return 0;
    text[n] = '\0';
    // "PID (NAME) STATE ...": a name may hold brackets and blanks; the begin is field 22.
    const char* at = std::strrchr(text, ')');
    if (at == nullptr || std::strlen(at) < 3 || at[2] == 'Z' || at[2] == 'X') return 0;
    for (int field = 2; field < 22 && at != nullptr; ++field) at = std::strchr(at + 1, ' ');
    return at == nullptr ? 0 : std::strtoull(at, nullptr, 10);
}

}  // namespace arena::watch
