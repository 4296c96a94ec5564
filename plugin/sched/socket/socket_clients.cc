// SPDX-License-Identifier: GPL-2.0-or-later
// See socket_clients.h.
#include "plugin/sched/socket/socket_clients.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace arena {
namespace {

bool is_for_later() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

std::size_t SocketClients::count_of(std::uint32_t uid) const {
    return static_cast<std::size_t>(
        std::count_if(clients_.begin(), clients_.end(),
                      [&](const auto& entry) { return entry.second.uid == uid; }));
}

std::uint32_t SocketClients::user_with_most() const {
    std::map<std::uint32_t, std::size_t> counts;
    for (const auto& [id, client] : clients_) ++counts[client.uid];
    return std::max_element(counts.begin(), counts.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
}

bool SocketClients::make_room(std::uint32_t uid) {
    const bool user_is_full = count_of(uid) >= limits_.clients_per_user;
    if (!user_is_full && clients_.size() < limits_.clients) return true;
    const std::uint32_t from = user_is_full ? uid : user_with_most();
    const auto silent = std::find_if(clients_.begin(), clients_.end(), [&](const auto& entry) {
        return entry.second.uid == from && entry.second.state == State::reading;
    });
    if (silent == clients_.end()) return false;
    drop(silent);
    return true;
}

void SocketClients::add(FileDescriptor fd, std::uint32_t uid, Clock::time_point now) {
    if (!make_room(uid)) return;
    Client client;
    client.fd = std::move(fd);
    client.uid = uid;
    client.deadline = now + limits_.question;
    clients_.emplace(++last_, std::move(client));
}

std::vector<pollfd> SocketClients::polls() const {
    std::vector<pollfd> polls;
    for (const auto& [id, client] : clients_) {
        short events = 0;  // still told when the client hangs up
        if (client.state == State::reading) events = POLLIN;
        if (client.state == State::writing) events = POLLOUT;
        polls.push_back({client.fd.get(), events, 0});
    }
    return polls;
}

/// One recv() a turn: a client that never stops sending keeps nobody else waiting.
bool SocketClients::read(Client& client) const {
    char buffer[256];
    const std::size_t room = std::min(sizeof buffer, limits_.line_bytes - client.text.size());
    const ssize_t got = ::recv(client.fd.get(), buffer, room, 0);
    if (got < 0) return is_for_later();
    if (got == 0) return false;
    client.text.append(buffer, static_cast<std::size_t>(got));
    const std::size_t end = client.text.find('\n');
    if (end == std::string::npos) return client.text.size() < limits_.line_bytes;
    client.text.resize(end);
    client.state = State::waiting;
    client.deadline = Clock::time_point::max();
    return true;
}

bool SocketClients::write(Client& client) {
    const ssize_t sent = ::send(client.fd.get(), client.text.data() + client.sent,
                                client.text.size() - client.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return is_for_later();
    client.sent += static_cast<std::size_t>(sent);
    return client.sent < client.text.size();
}

SocketClients::Clients::iterator SocketClients::drop(Clients::iterator client) {
    gone_.push_back(client->first);
    return clients_.erase(client);
}

std::vector<SocketClients::Heard> SocketClients::advance(const std::vector<pollfd>& polls) {
    std::vector<Heard> heard;
    auto poll = polls.begin();
    for (auto it = clients_.begin(); it != clients_.end() && poll != polls.end(); ++poll) {
        Client& client = it->second;
        bool keep = true;
        if (client.state == State::reading && poll->revents != 0)
            keep = read(client);
        else if (client.state == State::writing && poll->revents != 0)
            keep = write(client);
        else if (client.state == State::waiting && (poll->revents & (POLLHUP | POLLERR)))
            keep = false;
        if (keep && client.state == State::waiting && (poll->events & POLLIN))
            heard.push_back({it->first, client.uid, std::exchange(client.text, {})});
        it = keep ? std::next(it) : drop(it);
    }
    return heard;
}

void SocketClients::answer(std::uint64_t id, std::string text, Clock::time_point now) {
    const auto it = clients_.find(id);
    if (it == clients_.end()) return;
    Client& client = it->second;
    client.state = State::writing;
    client.text = std::move(text);
    client.sent = 0;
    client.deadline = now + limits_.answer;
    if (client.text.empty() || !write(client)) drop(it);
}

void SocketClients::expire(Clock::time_point now) {
    for (auto it = clients_.begin(); it != clients_.end();)
        it = it->second.deadline <= now ? drop(it) : std::next(it);
}

int SocketClients::timeout_ms(Clock::time_point now) const {
    auto next = Clock::time_point::max();
    for (const auto& [id, client] : clients_) next = std::min(next, client.deadline);
    if (next == Clock::time_point::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

std::vector<std::uint64_t> SocketClients::take_gone() { return std::exchange(gone_, {}); }

void SocketClients::clear() {
    for (auto it = clients_.begin(); it != clients_.end();) it = drop(it);
}

}  // namespace arena
