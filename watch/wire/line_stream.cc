// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/wire/line_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace arena::watch {
namespace {

bool is_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void LineStream::receive(std::size_t most) {
    in_.erase(0, taken_);
    searched_ -= std::min(searched_, taken_);
    taken_ = 0;
    std::array<char, 16384> buffer;
    while (is_open() && most > 0) {
        const ssize_t n = ::recv(fd(), buffer.data(), std::min(most, buffer.size()), 0);
        if (n < 0 && is_later(errno)) return;
        if (n <= 0) return close();
        in_.append(buffer.data(), static_cast<std::size_t>(n));
        most -= static_cast<std::size_t>(n);
    }
}

std::optional<std::string_view> LineStream::next_line() {
    const std::size_t end = in_.find('\n', std::max(taken_, searched_));
    const std::size_t size = (end == std::string::npos ? in_.size() : end) - taken_;
    if (size > longest_) {
        close();
        in_.clear();
        taken_ = searched_ = 0;
        return std::nullopt;
    }
    if (end == std::string::npos) {
        searched_ = in_.size();
        return std::nullopt;
    }
    const std::string_view line = std::string_view(in_).substr(taken_, size);
    taken_ = searched_ = end + 1;
    return line;
}

void LineStream::send(std::string_view line) {
    if (!is_open()) return;
    if (out_.size() + line.size() >= most_unsent_) return close();
    out_.append(line).append("\n");
    flush();
}

void LineStream::flush() {
    std::size_t sent = 0;
    while (is_open() && sent < out_.size()) {
        const ssize_t n = ::send(fd(), out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && is_later(errno)) break;
        if (n < 0) close();
        if (n > 0) sent += static_cast<std::size_t>(n);
    }
    out_.erase(0, sent);
}

pollfd LineStream::wanted(bool reading) const {
    const int events = (reading ? POLLIN : 0) | (out_.empty() ? 0 : POLLOUT);
    return {fd(), static_cast<short>(events), 0};
}

}  // namespace arena::watch
