// SPDX-License-Identifier: GPL-2.0-or-later
// See incoming.h.
#include "ipc/incoming.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace arena {
namespace {

/// Reads what is there; closes it at its end. False on an error, and beyond the limit.
bool read_some(Incoming& one, std::size_t most_bytes) {
    char buffer[65536];
    const ssize_t n = ::read(one.fd.get(), buffer, sizeof buffer);
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    if (n == 0) one.fd.reset();
    one.text.append(buffer, static_cast<std::size_t>(n));
    return one.text.size() <= most_bytes;
}

}  // namespace

const char* read_to_end(std::span<Incoming> all, std::chrono::steady_clock::time_point until,
                        std::size_t most_bytes) {
    const bool has_limit = until != std::chrono::steady_clock::time_point::max();
    for (;;) {
        std::vector<pollfd> polls;  // of a closed one -1, which poll(2) passes over
        for (const Incoming& one : all) polls.push_back({one.fd.get(), POLLIN, 0});
        if (std::ranges::none_of(polls, [](const pollfd& p) { return p.fd >= 0; })) return nullptr;
        const int ready =
            ::poll(polls.data(), polls.size(), has_limit ? milliseconds_until(until) : -1);
        if (ready < 0 && errno != EINTR) return "cannot wait for the answer";
        if (ready == 0) return "no answer in time";
        for (std::size_t i = 0; i < polls.size() && ready > 0; ++i)
            if (polls[i].revents != 0 && !read_some(all[i], most_bytes))
                return "the answer cannot be read, or is too long";
    }
}

}  // namespace arena
