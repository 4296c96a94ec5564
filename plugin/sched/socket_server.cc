// SPDX-License-Identifier: GPL-2.0-or-later
// See socket_server.h.
#include "plugin/sched/socket_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

namespace arena {
namespace {

constexpr std::size_t max_line = 128;
constexpr int clients_per_turn = 8;

void limit_time(int client) {
    const timeval limit{0, 100'000};
    ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/// The first line without its newline; empty when there is none in time or it is too long.
std::string read_line(int client) {
    char buffer[max_line];
    const ssize_t got = ::recv(client, buffer, sizeof buffer, 0);
    if (got <= 0) return {};
    const std::string_view text(buffer, static_cast<std::size_t>(got));
    const std::size_t end = text.find('\n');
    return end == std::string_view::npos ? std::string() : std::string(text.substr(0, end));
}

/// A client that reads in drops gets no more than its time: send() itself only limits each wait. A snapshot
/// of thousands of jobs is some ten megabytes.
void send_all(int client, std::string_view text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (!text.empty() && std::chrono::steady_clock::now() < deadline) {
        const ssize_t sent = ::send(client, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(sent));
    }
}

Status failed(const std::string& path, const char* doing) {
    return environment_error(std::string(doing) + ": " + std::strerror(errno), path);
}

}  // namespace

Status SocketServer::open(const std::string& path) {
    close();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return usage_error("socket path is longer than 107 bytes", path);
    std::strcpy(address.sun_path, path.c_str());
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) ::unlink(path.c_str());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return failed(path, "socket");
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::chmod(path.c_str(), 0666) != 0 || ::listen(fd, 64) != 0) {
        Status status = failed(path, "cannot listen");
        ::close(fd);
        return status;
    }
    fd_ = fd;
    path_ = path;
    return Done{};
}

void SocketServer::close() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(path_.c_str());
    fd_ = -1;
}

void SocketServer::serve(const Answer& answer) const {
    for (int i = 0; i < clients_per_turn; ++i) {
        const int client = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) return;
        limit_time(client);
        ucred peer{};
        socklen_t size = sizeof peer;
        if (::getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
            if (const std::string line = read_line(client); !line.empty())
                send_all(client, answer(line, peer.uid));
        ::close(client);
    }
}

}  // namespace arena
