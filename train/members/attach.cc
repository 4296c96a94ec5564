// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/members/attach.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/file_descriptor.h"
#include "watch/wire/line_stream.h"

namespace arena::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_unsent = std::size_t{256} << 10, read_at_once = std::size_t{256} << 10;
constexpr auto look_every = std::chrono::milliseconds(100);
constexpr auto between_calls = std::chrono::milliseconds(200);

class Attached {
  public:
    Attached(const Attachment& a, const MemberOptions& options, FileDescriptor socket)
        : a_(a),
          options_(options),
          stream_(std::move(socket), longest_array_frame + watch::seal_chars, most_unsent) {}

    /// Its end, or nothing where the array is gone.
    std::optional<MemberExit> run(const std::atomic<bool>& leave,
                                  const std::function<void(const MemberLine&)>& tell);
    [[nodiscard]] bool was_welcome() const { return state_ == State::up; }

  private:
    enum class State { greeting, proving, up };
    bool take_line(std::string_view line, const std::function<void(const MemberLine&)>& tell);
    bool answer(std::string_view line);
    bool take_frame(const ArrayFrame&, const std::function<void(const MemberLine&)>& tell);
    void say(const ArrayFrame& frame) { stream_.send(up_->seal(format_array_frame(frame))); }

    const Attachment& a_;
    const MemberOptions& options_;
    watch::LineStream stream_;
    State state_ = State::greeting;
    std::optional<watch::Seal> up_, down_;
    bool said_leave_ = false;
    std::optional<MemberExit> exit_;
};

bool Attached::answer(std::string_view line) {
    const auto nonce = watch::parse_greeting(line);
    const std::string own = watch::new_nonce();
    if (!nonce || own.empty()) return false;
    up_.emplace(a_.key, "up", *nonce);
    down_.emplace(a_.key, "down", std::string(*nonce) + " " + own);
    stream_.send(up_->seal(own));
    state_ = State::proving;
    return true;
}

bool Attached::take_line(std::string_view line,
                         const std::function<void(const MemberLine&)>& tell) {
    if (state_ == State::greeting) return answer(line);
    const auto text = down_->open(line);
    if (!text) return false;
    if (state_ == State::proving) {
        if (*text != "welcome") return false;
        state_ = State::up;
        say(MemberJoin{options_});
        return true;
    }
    const auto frame = parse_array_frame(*text);
    return frame && take_frame(*frame, tell);
}

bool Attached::take_frame(const ArrayFrame& frame,
                          const std::function<void(const MemberLine&)>& tell) {
    if (const auto* const told = std::get_if<MemberLine>(&frame)) {
        tell(*told);
    } else if (const auto* const exit = std::get_if<MemberExit>(&frame)) {
        exit_ = *exit;
    } else if (std::holds_alternative<MemberPing>(frame)) {
        say(MemberPong{});
    } else {
        return false;
    }
    return true;
}

std::optional<MemberExit> Attached::run(const std::atomic<bool>& leave,
                                        const std::function<void(const MemberLine&)>& tell) {
    auto heard = Clock::now();
    while (stream_.is_open()) {
        if (wait_for_input(stream_.fd(), Clock::now() + look_every)) stream_.receive(read_at_once);
        while (const auto line = stream_.next_line()) {
            heard = Clock::now();
            if (!take_line(*line, tell)) return std::nullopt;
            if (exit_) return exit_;
        }
        if (leave && state_ == State::up && !std::exchange(said_leave_, true)) say(MemberLeave{});
        if (Clock::now() - heard > std::chrono::duration<double>(a_.patience_s))
            return std::nullopt;
        stream_.flush();
    }
    return std::nullopt;
}

}  // namespace

MemberExit attach(const Attachment& a, const MemberOptions& options, const std::atomic<bool>& leave,
                  const std::function<void(const MemberLine&)>& tell) {
    const auto end = Clock::now() + std::chrono::duration<double>(a.patience_s);
    const auto again = [&](const std::string& why) {
        return MemberExit{options.requeue_code,
                          fmt::format("{}; to be started again from the last checkpoint", why)};
    };
    for (;;) {
        auto socket = call_at(a.address);
        const std::string why =
            socket ? "the array does not take this member's key" : socket.error().message();
        if (socket) {
            Attached member(a, options, std::move(socket).value());
            if (const auto exit = member.run(leave, tell)) return *exit;
            if (member.was_welcome()) return again("the array is gone");
        }
        if (leave) return again("told to leave before the array was reached");
        if (Clock::now() > end) return again("the array cannot be reached: " + why);
        std::this_thread::sleep_for(between_calls);
    }
}

}  // namespace arena::train
