// SPDX-License-Identifier: GPL-2.0-or-later
// The plug-in's unix socket: one line in, one JSON document out, then closed. A thread of its own
// speaks with all clients at once and hands complete lines on: whoever answers never waits for a
// client, however silent, slow or many, and may answer later and from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace arena {

/// What one client, one user and all together may cost.
struct SocketLimits {
    std::size_t line_bytes = 4096;  ///< a list of nodes may be long
    std::size_t clients_per_user = 32;
    std::size_t clients = 256;
    std::chrono::milliseconds question{2000};  ///< to send the line
    std::chrono::milliseconds answer{10'000};  ///< to take the answer, once it is there
};

class SocketDesk;

/// The right to answer one client, once, from any thread; dropped unused, it closes the connection,
/// which a client reads as a refusal.
class Reply {
  public:
    Reply(std::shared_ptr<SocketDesk> desk, std::uint64_t client);
    Reply(Reply&&) noexcept = default;
    Reply& operator=(Reply&& other) noexcept;
    ~Reply();
    /// Empty = refused.
    void send(std::string text);
    /// False once the client has gone: work for it may be left out.
    [[nodiscard]] bool wanted() const;

  private:
    std::shared_ptr<SocketDesk> desk_;
    std::uint64_t client_ = 0;
};

/// A line without its newline, from the user `uid` (by SO_PEERCRED).
struct Question {
    std::string line;
    std::uint32_t uid = 0;
    Reply reply;
};

class SocketServer {
  public:
    SocketServer() = default;
    ~SocketServer() { close(); }
    SocketServer(const SocketServer&) = delete;
    SocketServer& operator=(const SocketServer&) = delete;

    /// Replaces a stale socket file; never a file of another kind.
    Status open(const std::string& path, const SocketLimits& limits = {});
    /// Hangs up on everybody; replies that are still out then lead nowhere.
    void close();
    /// Readable while questions wait, for poll(); -1 when closed.
    [[nodiscard]] int fd() const;
    /// The questions that wait now, in the order in which they came; at most one per client.
    std::vector<Question> take();

  private:
    FileDescriptor listener_;
    std::shared_ptr<SocketDesk> desk_;
    std::thread thread_;
    std::string path_;
};

}  // namespace arena
