// SPDX-License-Identifier: GPL-2.0-or-later
// Waiting for a file descriptor until a moment.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>

namespace arena {

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
