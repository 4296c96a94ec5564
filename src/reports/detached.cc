// SPDX-License-Identifier: GPL-2.0-or-later
#include "reports/detached.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/file_descriptor.h"

namespace arena {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
    list.push_back(nullptr);
    return list;
}

/// Without close_range(2) (Linux before 5.9), by number.
void close_all_from(int first) {
    if (::syscall(SYS_close_range, first, ~0U, 0) == 0) return;
    for (int fd = first; fd < 1024; ++fd) ::close(fd);
}

/// In the child of a child: errno goes through the pipe if the program cannot be run.
[[noreturn]] void become(char* const* words, char* const* variables, int told) {
    constexpr int kept = 3;
    ::setsid();
    const int apart = ::fcntl(told, F_DUPFD, kept + 1);
    const int nothing = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < kept; ++fd) ::dup2(nothing, fd);
    ::dup2(apart, kept);
    ::fcntl(kept, F_SETFD, FD_CLOEXEC);
    close_all_from(kept + 1);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(words[0], words, variables);
    const int why = errno;
    (void)!::write(kept, &why, sizeof why);
    ::_exit(127);
}

}  // namespace

Status start_detached(const std::vector<std::string>& words,
                      const std::vector<std::string>& variables) {
    const std::vector<char*> argv = pointers(words), envp = pointers(variables);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return environment_error(fmt::format("no pipe: {}", std::strerror(errno)), words[0]);
    const FileDescriptor reads(ends[0]);
    FileDescriptor writes(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        const pid_t grandchild = ::fork();
        if (grandchild == 0) become(argv.data(), envp.data(), writes.get());
        ::_exit(grandchild < 0 ? 1 : 0);
    }
    int status = 1, why = 0;
    while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (child < 0 || status != 0)
        return environment_error("cannot be started: no process more", words[0]);
    writes.reset();
    if (::read(reads.get(), &why, sizeof why) == sizeof why)
        return environment_error(fmt::format("cannot be run: {}", std::strerror(why)), words[0]);
    return Done{};
}

}  // namespace arena
