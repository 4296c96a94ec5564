// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/members/desk.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace arena::train {
namespace {

constexpr std::size_t most_strangers = 32, most_members = 1024, most_accepts = 64;
constexpr std::size_t most_unsent_replies = std::size_t{4} << 20, behind = std::size_t{1} << 20;
constexpr std::size_t longest_of_stranger = 128, read_of_caller = std::size_t{64} << 10;
constexpr double time_to_join_s = 5, silence_s = 60, ping_every_s = 10;

}  // namespace

std::vector<pollfd> MemberDesk::wanted() const {
    std::vector<pollfd> all{{listening_.get(), POLLIN, 0}};
    for (const Caller& caller : callers_) all.push_back(caller.stream.wanted());
    return all;
}

std::size_t MemberDesk::count(bool members) const {
    return static_cast<std::size_t>(std::ranges::count_if(callers_, [&](const Caller& caller) {
        return (caller.state == State::member || caller.state == State::ending) == members;
    }));
}

void MemberDesk::accept_callers(double now_s) {
    for (std::size_t i = 0; i < most_accepts; ++i) {
        FileDescriptor socket(
            ::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (socket.get() < 0) return;
        if (is_same_user(socket.get()))
            take_caller(std::move(socket), now_s);
        else
            ++refused_;
    }
}

/// Callers who have the key show it at once: the oldest of those who have not makes room.
void MemberDesk::take_caller(FileDescriptor socket, double now_s) {
    const std::string nonce = watch::new_nonce();
    if (nonce.empty()) return;
    if (count(false) >= most_strangers) {
        const auto is_outside = [](const Caller& caller) {
            return caller.state == State::stranger || caller.state == State::known;
        };
        callers_.erase(std::ranges::find_if(callers_, is_outside));
        ++refused_;
    }
    callers_.push_back(
        {.id = ++last_,
         .stream = watch::LineStream(std::move(socket), longest_of_stranger, most_unsent_replies),
         .nonce = nonce,
         .up = watch::Seal(key_, "up", nonce),
         .down = watch::Seal(key_, "down", nonce),
         .since_s = now_s,
         .heard_s = now_s,
         .pinged_s = now_s});
    callers_.back().stream.send(watch::format_greeting(nonce));
}

bool MemberDesk::welcome(Caller& caller, std::string_view nonce) {
    if (!watch::is_nonce(nonce) || count(true) >= most_members) return false;
    caller.state = State::known;
    caller.stream.allow_lines(longest_array_frame + watch::seal_chars);
    caller.down = watch::Seal(key_, "down", caller.nonce + " " + std::string(nonce));
    caller.stream.send(caller.down.seal("welcome"));
    return true;
}

/// What an array says is no word of a member's.
bool MemberDesk::take_frame(Caller& caller, ArrayFrame frame) {
    if (caller.state == State::ending) return true;
    if (auto* const join = std::get_if<MemberJoin>(&frame)) {
        if (caller.state != State::known) return false;
        caller.state = State::member;
        events_.push_back({MemberEvent::What::join, caller.id, std::move(join->options)});
        return true;
    }
    if (caller.state != State::member) return false;
    if (std::holds_alternative<MemberLeave>(frame))
        events_.push_back({MemberEvent::What::leave, caller.id, {}});
    return std::holds_alternative<MemberLeave>(frame) || std::holds_alternative<MemberPong>(frame);
}

bool MemberDesk::take_line(Caller& caller, std::string_view line) {
    const auto text = caller.up.open(line);
    if (!text) return false;
    if (caller.state == State::stranger) return welcome(caller, *text);
    auto frame = parse_array_frame(*text);
    return frame && take_frame(caller, std::move(frame).value());
}

void MemberDesk::refuse(Caller& caller) {
    if (caller.state != State::ending) ++refused_;
    caller.stream.close();
}

void MemberDesk::serve(Caller& caller, double now_s) {
    caller.stream.flush();
    caller.stream.receive(read_of_caller);
    while (const auto line = caller.stream.next_line()) {
        caller.heard_s = now_s;
        if (!take_line(caller, *line)) return refuse(caller);
    }
}

void MemberDesk::keep_time(Caller& caller, double now_s) {
    const bool is_outside = caller.state == State::stranger || caller.state == State::known;
    if (is_outside && now_s - caller.since_s >= time_to_join_s) return refuse(caller);
    if (!is_outside && now_s - caller.heard_s >= silence_s) return caller.stream.close();
    if (caller.state != State::member || now_s - caller.pinged_s < ping_every_s) return;
    caller.pinged_s = now_s;
    say(caller, MemberPing{});
}

void MemberDesk::serve(double now_s) {
    accept_callers(now_s);
    for (Caller& caller : callers_) {
        serve(caller, now_s);
        if (caller.stream.is_open()) keep_time(caller, now_s);
        if (!caller.stream.is_open() && caller.state == State::member)
            events_.push_back({MemberEvent::What::gone, caller.id, {}});
    }
    callers_.remove_if([](const Caller& caller) { return !caller.stream.is_open(); });
}

std::vector<MemberEvent> MemberDesk::take_events() { return std::exchange(events_, {}); }

MemberDesk::Caller* MemberDesk::find(MemberId id) {
    const auto found = std::ranges::find(callers_, id, &Caller::id);
    return found == callers_.end() ? nullptr : &*found;
}

/// A stream that this closes is seen by the next serve().
void MemberDesk::say(Caller& caller, const ArrayFrame& frame) {
    caller.stream.send(caller.down.seal(format_array_frame(frame)));
}

void MemberDesk::send(MemberId id, const ArrayFrame& frame) {
    if (Caller* const caller = find(id); caller != nullptr && caller->state == State::member)
        say(*caller, frame);
}

void MemberDesk::end(MemberId id, const MemberExit& exit) {
    Caller* const caller = find(id);
    if (caller == nullptr || caller->state != State::member) return;
    say(*caller, exit);
    caller->state = State::ending;
}

bool MemberDesk::keeps_up(MemberId id) const {
    const auto found = std::ranges::find(callers_, id, &Caller::id);
    return found == callers_.end() || found->stream.unsent() < behind;
}

bool MemberDesk::has_enders() const {
    return std::ranges::any_of(callers_,
                               [](const Caller& caller) { return caller.state == State::ending; });
}

}  // namespace arena::train
