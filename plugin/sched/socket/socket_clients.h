// SPDX-License-Identifier: GPL-2.0-or-later
// The clients of the plug-in's socket, each a small state machine: its line is read, its answer is
// awaited, its answer is written. Nothing here blocks; the time is an argument.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "plugin/sched/socket/socket_server.h"

namespace arena {

class SocketClients {
  public:
    using Clock = std::chrono::steady_clock;
    /// A complete line.
    struct Heard {
        std::uint64_t client;
        std::uint32_t uid;
        std::string line;
    };

    explicit SocketClients(const SocketLimits& limits) : limits_(limits) {}

    /// Takes a new, non-blocking connection. Where its user or everybody has too many, the longest
    /// silent one makes room: of that user, else of the user with the most; with none silent, the
    /// new one goes.
    void add(FileDescriptor fd, std::uint32_t uid, Clock::time_point now);
    /// One entry for each client, for poll(): the state says what is waited for.
    [[nodiscard]] std::vector<pollfd> polls() const;
    /// What poll() found; the lines that are complete now.
    std::vector<Heard> advance(const std::vector<pollfd>& polls);
    /// Begins to write the answer; empty closes.
    void answer(std::uint64_t client, std::string text, Clock::time_point now);
    /// Closes those whose time is over.
    void expire(Clock::time_point now);
    /// Until the next of them is over, for poll(): -1 when none is.
    [[nodiscard]] int timeout_ms(Clock::time_point now) const;
    /// Those that have gone since the last call.
    std::vector<std::uint64_t> take_gone();
    void clear();

  private:
    enum class State { reading, waiting, writing };
    struct Client {
        FileDescriptor fd;
        std::uint32_t uid = 0;
        State state = State::reading;
        std::string text;  ///< the line so far, or what is left of the answer from `sent` on
        std::size_t sent = 0;
        Clock::time_point deadline = Clock::time_point::max();
    };
    using Clients = std::map<std::uint64_t, Client>;  ///< by age: ids only grow

    bool make_room(std::uint32_t uid);
    [[nodiscard]] std::size_t count_of(std::uint32_t uid) const;
    [[nodiscard]] std::uint32_t user_with_most() const;
    Clients::iterator drop(Clients::iterator client);
    /// False: the client is of no more use.
    bool read(Client& client) const;
    static bool write(Client& client);

    SocketLimits limits_;
    Clients clients_;
    std::uint64_t last_ = 0;
    std::vector<std::uint64_t> gone_;
};

}  // namespace arena
