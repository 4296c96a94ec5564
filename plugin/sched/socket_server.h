// SPDX-License-Identifier: GPL-2.0-or-later
// The plug-in's unix socket: one line in, one JSON document out, then closed. Served by the
// scheduler's own thread between rounds; a slow or hostile client costs at most 0.3 s.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace arena {

class SocketServer {
  public:
    /// Answers a request of the user `uid` (by SO_PEERCRED); empty = refused.
    using Answer = std::function<std::string(std::string_view line, std::uint32_t uid)>;

    SocketServer() = default;
    ~SocketServer() { close(); }
    SocketServer(const SocketServer&) = delete;
    SocketServer& operator=(const SocketServer&) = delete;

    /// Replaces a stale socket file; never a file of another kind.
    Status open(const std::string& path);
    void close();
    /// To poll() for; -1 when closed.
    [[nodiscard]] int fd() const { return fd_; }
    /// Serves the clients that wait now, at most eight.
    void serve(const Answer& answer) const;

  private:
    int fd_ = -1;
    std::string path_;
};

}  // namespace arena
