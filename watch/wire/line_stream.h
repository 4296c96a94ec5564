// SPDX-License-Identifier: GPL-2.0-or-later
// A connection as lines, both ways, that never waits: what is not there yet comes at the next call.
// Bounded: a line that is too long, and an other end that does not read, end it.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"

namespace arena::watch {

class LineStream {
  public:
    /// `socket` is non-blocking. `longest`: bytes of a line; `most_unsent`: of what waits.
    LineStream(FileDescriptor socket, std::size_t longest, std::size_t most_unsent)
        : socket_(std::move(socket)), longest_(longest), most_unsent_(most_unsent) {}

    /// Takes in at most `most` bytes.
    void receive(std::size_t most);
    /// The next whole line, without its end; valid until the next call of receive().
    std::optional<std::string_view> next_line();
    void send(std::string_view line);
    void flush();
    void allow_lines(std::size_t longest) { longest_ = longest; }

    [[nodiscard]] std::size_t unsent() const { return out_.size(); }  ///< bytes that wait
    [[nodiscard]] bool is_open() const { return socket_.get() >= 0; }
    void close() { socket_.reset(); }
    /// What poll(2) is to wait for; `reading`: whether there is room for more.
    [[nodiscard]] pollfd wanted(bool reading = true) const;
    [[nodiscard]] int fd() const { return socket_.get(); }

  private:
    FileDescriptor socket_;
    std::size_t longest_, most_unsent_;
    std::string in_, out_;
    std::size_t taken_ = 0;  ///< of in_, given out
    std::size_t searched_ = 0;
};

}  // namespace arena::watch
