// SPDX-License-Identifier: GPL-2.0-or-later
// A file descriptor that closes itself, and waiting for one until a moment.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <utility>

namespace arena {

class FileDescriptor {
  public:
    /// Owns `fd`; negative: nothing, as where open(2) failed.
    explicit FileDescriptor(int fd = -1) : fd_(fd) {}
    FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    FileDescriptor& operator=(FileDescriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~FileDescriptor() { reset(); }
    [[nodiscard]] int get() const { return fd_; }
    void reset() {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }
    /// The result of close(2), which reports late write errors.
    [[nodiscard]] bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

  private:
    int fd_;
};

/// What poll(2) takes: the milliseconds that are left, rounded up; 0 once the moment is over.
inline int milliseconds_until(std::chrono::steady_clock::time_point end) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, INT_MAX));
}

/// Whether there is something to read, or an end, before `end`; signals do not cut it short.
inline bool wait_for_input(int fd, std::chrono::steady_clock::time_point end) {
    pollfd wait{fd, POLLIN, 0};
    int ready = 0;
    do ready = ::poll(&wait, 1, milliseconds_until(end));
    while (ready < 0 && errno == EINTR);
    return ready > 0;
}

}  // namespace arena
