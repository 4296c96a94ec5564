// SPDX-License-Identifier: GPL-2.0-or-later
// The chief's side of link.h.
#include <fmt/format.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "watch/wire/link.h"

namespace arena::watch {
namespace {

constexpr std::size_t most_strangers = 32, most_peers = 4096, most_accepts = 64;
constexpr std::size_t longest_of_stranger = 128;
constexpr double lines_per_s = 1000, lines_at_once = 4000;

FileDescriptor make_socket(int family) {
    FileDescriptor made(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int yes = 1, no = 0;
    if (made.get() >= 0 && family == AF_INET6 &&
        ::setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) != 0)
        made.reset();
    // The chief of a step's next life binds the port of the one before.
    if (made.get() >= 0) ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    return made;
}

Address any_address(int family, bool all_interfaces) {
    Address address;
    address.name.ss_family = static_cast<sa_family_t>(family);
    address.size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (family == AF_INET && !all_interfaces)
        reinterpret_cast<sockaddr_in&>(address.name).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

bool listens(const FileDescriptor& socket, const Address& address) {
    constexpr int backlog = 256;
    return socket.get() >= 0 &&
           ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.name), address.size) ==
               0 &&
           ::listen(socket.get(), backlog) == 0;
}

}  // namespace

void LineBudget::refill(double now_s) {
    if (at_s_ >= 0) left_ = std::min(lines_at_once, left_ + (now_s - at_s_) * lines_per_s);
    at_s_ = now_s;
}

bool LineBudget::take(double now_s) {
    refill(now_s);
    if (is_spent()) return false;
    left_ -= 1;
    return true;
}

Result<Listener> Listener::open(const WatchKey& key, std::string_view run, bool all_interfaces) {
    const Ports ports = meeting_ports(key, run);
    for (const int family : {AF_INET6, AF_INET}) {
        if (family == AF_INET6 && !all_interfaces) continue;
        const Address address = any_address(family, all_interfaces);
        for (const std::uint16_t port : ports) {
            FileDescriptor socket = make_socket(family);
            if (listens(socket, with_port(address, port)))
                return Listener(key, std::move(socket), port);
        }
    }
    return environment_error(fmt::format("none of the {} ports of this step can be listened at: {}",
                                         ports.size(), std::strerror(errno)));
}

std::vector<pollfd> Listener::wanted() const {
    std::vector<pollfd> all{{socket_.get(), POLLIN, 0}};
    for (const Peer& peer : peers_) all.push_back(peer.stream.wanted(!peer.budget.is_spent()));
    return all;
}

std::size_t Listener::count(bool known) const {
    return static_cast<std::size_t>(std::count_if(
        peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.known == known; }));
}

bool Listener::drop_oldest_stranger() {
    const auto oldest =
        std::find_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return !peer.known; });
    if (oldest == peers_.end()) return false;
    peers_.erase(oldest);
    ++counts_.refused;
    return true;
}

void Listener::take_caller(int fd, double now_s) {
    FileDescriptor socket(fd);
    const int yes = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    const std::string nonce = new_nonce();
    if (nonce.empty()) return;
    // Callers who have the key show it at once: the oldest of those who have not makes room.
    if (count(false) >= most_strangers) drop_oldest_stranger();
    peers_.push_back({.id = ++last_,
                      .stream = LineStream(std::move(socket), longest_of_stranger, most_unsent),
                      .nonce = nonce,
                      .since_s = now_s,
                      .up = Seal(key_, "up", nonce),
                      .down = Seal(key_, "down", nonce),
                      .budget = {}});
    peers_.back().stream.send(format_greeting(nonce));
}

void Listener::accept_callers(double now_s) {
    for (std::size_t i = 0; i < most_accepts; ++i) {
        const int fd = ::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take_caller(fd, now_s);
        } else if (errno == EMFILE || errno == ENFILE) {
            if (!drop_oldest_stranger()) return;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        }
    }
}

void Listener::end_strangers(double now_s) {
    for (Peer& peer : peers_) {
        if (peer.known || !peer.stream.is_open() || now_s - peer.since_s < time_to_prove_s)
            continue;
        peer.stream.close();
        ++counts_.refused;
    }
}

bool Listener::welcome(Peer& peer, std::string_view nonce, std::vector<LinkEvent>& events) {
    if (!is_nonce(nonce) || count(true) >= most_peers) return false;
    peer.known = true;
    peer.stream.allow_lines(longest_frame + seal_chars);
    peer.down = Seal(key_, "down", peer.nonce + " " + std::string(nonce));
    peer.stream.send(peer.down.seal("welcome"));
    events.push_back({LinkEvent::What::up, peer.id, {}});
    return true;
}

bool Listener::take_line(Peer& peer, std::string_view line, std::vector<LinkEvent>& events) {
    const auto text = peer.up.open(line);
    if (!text) return false;
    if (!peer.known) return welcome(peer, *text, events);
    auto frame = parse_watch_frame(*text);
    if (!frame) return false;
    events.push_back({LinkEvent::What::frame, peer.id, std::move(frame).value()});
    return true;
}

void Listener::serve(Peer& peer, double now_s, std::vector<LinkEvent>& events) {
    peer.budget.refill(now_s);
    peer.stream.flush();
    if (!peer.budget.is_spent()) peer.stream.receive(read_at_once);
    while (!peer.budget.is_spent()) {
        const bool open = peer.stream.is_open();
        const auto line = peer.stream.next_line();
        if (!line && open && !peer.stream.is_open()) ++counts_.forged;  // too long for anybody's
        if (!line) return;
        peer.budget.take(now_s);
        if (take_line(peer, *line, events)) continue;
        ++counts_.forged;
        return peer.stream.close();
    }
}

void Listener::remove_closed(std::vector<LinkEvent>& events) {
    for (const Peer& peer : peers_) {
        if (peer.known && !peer.stream.is_open())
            events.push_back({LinkEvent::What::down, peer.id, {}});
    }
    peers_.remove_if([](const Peer& peer) { return !peer.stream.is_open(); });
}

std::vector<LinkEvent> Listener::serve(double now_s) {
    std::vector<LinkEvent> events;
    accept_callers(now_s);
    for (Peer& peer : peers_) serve(peer, now_s, events);
    end_strangers(now_s);
    remove_closed(events);
    return events;
}

void Listener::say(Peer& peer, const Frame& frame) {
    if (!peer.known || !peer.stream.is_open()) return;
    peer.stream.send(peer.down.seal(format_watch_frame(frame)));
    if (!peer.stream.is_open()) ++counts_.dropped;
}

void Listener::send(PeerId to, const Frame& frame) {
    for (Peer& peer : peers_) {
        if (peer.id == to) say(peer, frame);
    }
}

void Listener::send_all(const Frame& frame) {
    for (Peer& peer : peers_) say(peer, frame);
}

}  // namespace arena::watch
