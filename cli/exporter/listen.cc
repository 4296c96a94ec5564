// SPDX-License-Identifier: GPL-2.0-or-later
// See listen.h.
#include "cli/exporter/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/text.h"

namespace arena::cli {
namespace {

constexpr int backlog = 64;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const ListenAddress& address) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const std::string port = std::to_string(address.port);
    if (::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found) != 0) found = nullptr;
    return {found, &::freeaddrinfo};
}

std::uint16_t bound_port(int fd) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return 0;
    if (storage.ss_family == AF_INET6)
        return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
    return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

bool is_numeric_loopback(const std::string& host) {
    in_addr v4{};
    in6_addr v6{};
    if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
    return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/// "host:port", "[host]:port", "host" -> host
std::string_view without_port(std::string_view text) {
    const std::size_t end = text.find(']');
    if (text.starts_with('[') && end != std::string_view::npos) return text.substr(1, end - 1);
    return text.substr(0, text.find(':'));
}

bool same_name(std::string_view a, std::string_view b) {
    return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

Result<ListenAddress> read_listen_address(std::string_view text) {
    const auto refuse = [&] {
        return usage_error("\"" + printable(text) +
                               "\" is no address and port; accepted: 127.0.0.1:9820, [::1]:9820, "
                               "0.0.0.0:9820, with a port from 0 (any that is free) to 65535",
                           "--listen");
    };
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return refuse();
    const auto port = parse_integer(text.substr(colon + 1), 0, 65535);
    std::string_view host = text.substr(0, colon);
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    if (!port || host.empty() || bracketed != (host.find(':') != std::string_view::npos))
        return refuse();
    ListenAddress address{std::string(host == "localhost" ? "127.0.0.1" : host),
                          static_cast<std::uint16_t>(*port)};
    if (!resolve(address)) return refuse();
    return address;
}

bool is_loopback(const ListenAddress& address) { return is_numeric_loopback(address.host); }

std::string to_string(const ListenAddress& address) {
    const bool v6 = address.host.find(':') != std::string::npos;
    return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

Result<Listener> open_listener(const ListenAddress& address) {
    const auto failed = [&](const char* doing) {
        return environment_error(std::string(doing) + ": " + std::strerror(errno),
                                 to_string(address));
    };
    const Addresses list = resolve(address);
    if (!list) return environment_error("is no address of this machine's", to_string(address));
    FileDescriptor fd(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    if (fd.get() < 0) return failed("cannot make a socket");
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(fd.get(), list->ai_addr, list->ai_addrlen) != 0 || ::listen(fd.get(), backlog) != 0)
        return failed("cannot listen there");
    ListenAddress bound{address.host, bound_port(fd.get())};
    return Listener{std::move(fd), std::move(bound)};
}

bool is_local_host(std::string_view header, std::string_view machine) {
    const std::string_view host = without_port(header);
    if (header.empty() || same_name(host, "localhost") || is_numeric_loopback(std::string(host)))
        return true;
    return same_name(host, machine) || same_name(host, machine.substr(0, machine.find('.')));
}

}  // namespace arena::cli
