// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/members/address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "base/text.h"

namespace arena::train {
namespace {

constexpr int backlog = 128, time_to_connect_ms = 2000;
constexpr std::size_t longest_host = 255;

bool is_abstract(const ArrayAddress& a) { return a.path.starts_with('@'); }

std::string text_of(const ArrayAddress& a) {
    return a.path.empty() ? fmt::format("{}:{}", a.host, a.port) : a.path;
}

Error refusal(const ArrayAddress& a, const char* what) {
    return environment_error(fmt::format("{}: {}", what, std::strerror(errno)), text_of(a));
}

FileDescriptor make_socket(int family) {
    FileDescriptor made(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int yes = 1, idle_s = 20, every_s = 10, times = 4;
    if (family == AF_UNIX || made.get() < 0) return made;
    ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    ::setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ::setsockopt(made.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    ::setsockopt(made.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    ::setsockopt(made.get(), IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
    ::setsockopt(made.get(), IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    return made;
}

Result<sockaddr_un> local_name(const ArrayAddress& a) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    if (a.path.size() >= sizeof name.sun_path)
        return usage_error(fmt::format("is longer than {} bytes", sizeof name.sun_path - 1),
                           a.path);
    a.path.copy(name.sun_path, a.path.size());
    if (is_abstract(a)) name.sun_path[0] = '\0';
    return name;
}

/// An abstract name ends where its bytes do; a path, at its zero byte.
socklen_t size_of_name(const ArrayAddress& a) {
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + a.path.size() +
                                  (is_abstract(a) ? 0 : 1));
}

struct FreeAddresses {
    void operator()(addrinfo* all) const { ::freeaddrinfo(all); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> resolve(const ArrayAddress& a, int flags) {
    addrinfo hints{}, *all = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    const std::string port = std::to_string(a.port);
    const int code =
        ::getaddrinfo(a.host.empty() ? nullptr : a.host.c_str(), port.c_str(), &hints, &all);
    if (code != 0) return environment_error(::gai_strerror(code), text_of(a));
    return Addresses(all);
}

/// Whether a call that is under way came through.
bool is_connected(int fd) {
    std::array<pollfd, 1> wait{{{fd, POLLOUT, 0}}};
    if (::poll(wait.data(), wait.size(), time_to_connect_ms) != 1) {
        errno = ETIMEDOUT;
        return false;
    }
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return false;
    errno = error;
    return error == 0;
}

bool connects(const FileDescriptor& socket, const sockaddr* name, socklen_t size) {
    if (socket.get() < 0) return false;
    if (::connect(socket.get(), name, size) == 0) return true;
    return errno == EINPROGRESS && is_connected(socket.get());
}

/// A full backlog has a local caller told to try again, where TCP lets him wait.
bool connects_locally(const FileDescriptor& socket, const sockaddr_un& name, socklen_t size) {
    constexpr int nap_ms = 5;
    for (int waited_ms = 0;; waited_ms += nap_ms) {
        if (connects(socket, reinterpret_cast<const sockaddr*>(&name), size)) return true;
        if (errno != EAGAIN || waited_ms >= time_to_connect_ms) return false;
        ::poll(nullptr, 0, nap_ms);
    }
}

Result<FileDescriptor> call_local(const ArrayAddress& a) {
    const auto name = local_name(a);
    if (!name) return name.error();
    FileDescriptor socket = make_socket(AF_UNIX);
    if (!connects_locally(socket, *name, size_of_name(a))) return refusal(a, "nobody answers");
    // An abstract name can be had by whoever asks first.
    if (!is_same_user(socket.get()))
        return environment_error("another user's process listens there", a.path);
    return socket;
}

Result<FileDescriptor> listen_locally(const ArrayAddress& a) {
    const auto name = local_name(a);
    if (!name) return name.error();
    const FileDescriptor caller = make_socket(AF_UNIX);  // closed later: errno is looked at
    if (connects_locally(caller, *name, size_of_name(a)))
        return environment_error("another array listens there already", a.path);
    struct stat facts {};
    if (errno == ECONNREFUSED && !is_abstract(a) && ::lstat(a.path.c_str(), &facts) == 0 &&
        S_ISSOCK(facts.st_mode))
        ::unlink(a.path.c_str());
    FileDescriptor socket = make_socket(AF_UNIX);
    const mode_t before = ::umask(0177);
    const bool bound =
        socket.get() >= 0 &&
        ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*name), size_of_name(a)) == 0;
    ::umask(before);
    if (!bound || ::listen(socket.get(), backlog) != 0) return refusal(a, "cannot be listened at");
    return socket;
}

}  // namespace

Result<ArrayAddress> read_array_address(std::string_view text, const std::string& name) {
    ArrayAddress a;
    if (text.starts_with('/') || (text.starts_with('@') && text.size() > 1)) {
        a.path = text;
        return a;
    }
    const std::size_t colon = text.rfind(':');
    const std::string_view host =
        colon == std::string_view::npos ? std::string_view() : text.substr(0, colon);
    const auto port =
        parse_integer(colon == std::string_view::npos ? text : text.substr(colon + 1), 1, 65535);
    if (!port || host.size() > longest_host || printable(host, longest_host) != host)
        return usage_error(
            fmt::format("\"{}\" is no address: HOST:PORT, or /PATH or @NAME of a local socket",
                        printable(text)),
            name);
    const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    a.host = is_bracketed ? host.substr(1, host.size() - 2) : host;
    a.port = static_cast<std::uint16_t>(*port);
    return a;
}

Result<FileDescriptor> listen_at(const ArrayAddress& a) {
    if (!a.path.empty()) return listen_locally(a);
    const auto all = resolve(a, AI_PASSIVE);
    if (!all) return all.error();
    for (const addrinfo* one = all->get(); one != nullptr; one = one->ai_next) {
        FileDescriptor socket = make_socket(one->ai_family);
        if (socket.get() >= 0 && ::bind(socket.get(), one->ai_addr, one->ai_addrlen) == 0 &&
            ::listen(socket.get(), backlog) == 0)
            return socket;
    }
    return refusal(a, "cannot be listened at");
}

Result<FileDescriptor> call_at(const ArrayAddress& a) {
    if (!a.path.empty()) return call_local(a);
    const auto all = resolve(a, 0);
    if (!all) return all.error();
    for (const addrinfo* one = all->get(); one != nullptr; one = one->ai_next) {
        FileDescriptor socket = make_socket(one->ai_family);
        if (connects(socket, one->ai_addr, one->ai_addrlen)) return socket;
    }
    return refusal(a, "nobody answers");
}

bool is_same_user(int fd) {
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return false;
    if (name.ss_family != AF_UNIX) return true;
    ucred other{};
    socklen_t length = sizeof other;
    return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 &&
           other.uid == ::geteuid();
}

}  // namespace arena::train
