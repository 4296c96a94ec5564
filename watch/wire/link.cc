// SPDX-License-Identifier: GPL-2.0-or-later
// A caller's side of link.h.
#include "watch/wire/link.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>

namespace arena::watch {
namespace {

constexpr std::size_t longest_greeting = 128;
constexpr double time_to_connect_s = 2;
constexpr double first_pause_s = 0.5, longest_pause_s = 15;

/// Begins to connect; nothing: there is no way.
FileDescriptor call(const Address& address) {
    FileDescriptor made(
        ::socket(address.name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (made.get() < 0) return made;
    const int yes = 1;
    ::setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ::setsockopt(made.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    if (::connect(made.get(), reinterpret_cast<const sockaddr*>(&address.name), address.size) !=
            0 &&
        errno != EINPROGRESS)
        made.reset();
    return made;
}

}  // namespace

Link::Link(const WatchKey& key, std::string_view run, std::vector<Address> addresses) : key_(key) {
    const Ports ports = meeting_ports(key, run);
    for (const std::uint16_t port : ports) {
        for (const Address& address : addresses) targets_.push_back(with_port(address, port));
    }
}

std::vector<pollfd> Link::wanted() const {
    if (!stream_) return {};
    pollfd one = stream_->wanted(!budget_.is_spent());
    if (state_ == State::connecting) one.events = POLLOUT;
    return {one};
}

void Link::try_next(double now_s) {
    if (targets_.empty()) return;
    const Address& target = targets_[next_target_++];
    since_s_ = now_s;
    if (FileDescriptor socket = call(target); socket.get() >= 0) {
        stream_.emplace(std::move(socket), longest_greeting, most_unsent);
        state_ = State::connecting;
    } else {
        give_up(now_s);
    }
}

/// The next target at once; after the last one, all again after a pause.
void Link::give_up(double now_s) {
    stream_.reset();
    state_ = State::waiting;
    try_at_s_ = now_s;
    if (next_target_ < targets_.size()) return;
    next_target_ = 0;
    pause_s_ = std::clamp(2 * pause_s_, first_pause_s, longest_pause_s);
    try_at_s_ = now_s + pause_s_;
}

bool Link::finish_connecting() {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(stream_->fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
        return false;
    Address other;
    other.size = sizeof other.name;
    if (::getpeername(stream_->fd(), reinterpret_cast<sockaddr*>(&other.name), &other.size) == 0)
        state_ = State::greeting;
    return true;
}

bool Link::answer(std::string_view line) {
    const auto nonce = parse_greeting(line);
    const std::string own = new_nonce();
    if (!nonce || own.empty()) return false;
    up_.emplace(key_, "up", *nonce);
    down_.emplace(key_, "down", std::string(*nonce) + " " + own);
    stream_->send(up_->seal(own));
    stream_->allow_lines(longest_frame + seal_chars);
    state_ = State::proving;
    return true;
}

bool Link::take_line(std::string_view line, std::vector<LinkEvent>& events) {
    if (state_ == State::greeting) return answer(line);
    const auto text = down_->open(line);
    if (!text) return false;
    if (state_ == State::proving) {
        if (*text != "welcome") return false;
        state_ = State::up;
        pause_s_ = 0;
        events.push_back({LinkEvent::What::up, 0, {}});
        return true;
    }
    auto frame = parse_watch_frame(*text);
    if (!frame) return false;
    events.push_back({LinkEvent::What::frame, 0, std::move(frame).value()});
    return true;
}

/// A port of one's own machine where nobody listens refuses at once: all of them in one call.
void Link::look_for_chief(double now_s) {
    for (std::size_t tries = 0; tries < targets_.size(); ++tries) {
        if (state_ != State::waiting || now_s < try_at_s_) return;
        try_next(now_s);
        if (state_ == State::connecting && !finish_connecting()) give_up(now_s);
    }
}

/// False: what came is not the chief's.
bool Link::read_lines(double now_s, std::vector<LinkEvent>& events) {
    budget_.refill(now_s);
    stream_->flush();
    if (!budget_.is_spent()) stream_->receive(read_at_once);
    while (!budget_.is_spent()) {
        const auto line = stream_->next_line();
        if (!line) break;
        budget_.take(now_s);
        if (!take_line(*line, events)) return false;
    }
    return true;
}

std::vector<LinkEvent> Link::serve(double now_s) {
    std::vector<LinkEvent> events;
    look_for_chief(now_s);
    if (!stream_) return events;
    const bool was_up = is_up();
    bool good = state_ != State::connecting || finish_connecting();
    if (good && state_ != State::connecting) good = read_lines(now_s, events);
    const double limit_s = state_ == State::connecting ? time_to_connect_s : time_to_prove_s;
    if (!is_up() && now_s - since_s_ >= limit_s) good = false;
    if (good && stream_->is_open()) return events;
    if (was_up || is_up()) {
        events.push_back({LinkEvent::What::down, 0, {}});
        next_target_ = targets_.size();  // from the first one on, after a pause
    }
    give_up(now_s);
    return events;
}

bool Link::send(const Frame& frame) {
    if (!is_up() || !stream_->is_open()) return false;
    stream_->send(up_->seal(format_watch_frame(frame)));
    return stream_->is_open();
}

}  // namespace arena::watch
