// SPDX-License-Identifier: GPL-2.0-or-later
// For tests: a chief that decides nothing. It says what its script says when the script says so,
// and writes every frame that it hears to a file, a line of JSON each:
//   fake_chief KEY RUN SCRIPT LOG
// Lines of the script: "plan" waits for a trainer's plan, "step N" until step N is done, "obeyed N"
// until N words were, "checked N" for N answers, "pause MS", "file PATH"; "say WORD...", "release",
// "frame JSON" send; "die" ends it on the spot. After the script it listens until the trainer is
// gone. After a minute in which it waits and hears nothing: 1.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>

#include "base/text.h"
#include "watch/wire/link.h"

using namespace arena;
using namespace arena::watch;

namespace {

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

[[noreturn]] void give_up(const std::string& why) {
    fmt::print(stderr, "fake_chief: {}\n", why);
    std::exit(1);
}

class FakeChief {
  public:
    FakeChief(Listener listener, const char* log)
        : listener_(std::move(listener)), log_(std::fopen(log, "we")) {
        if (log_ == nullptr) give_up("the log cannot be written to");
    }
    void obey(std::string_view line);
    void listen_to_the_end() {
        wait("the end", [this] { return is_gone_; });
    }

  private:
    void wait(const std::string& what, const std::function<bool()>& done);
    void hear(const LinkEvent&);
    void count(const Frame&);
    void say(const Frame& frame) { listener_.send_all(frame); }

    Listener listener_;
    std::FILE* log_;
    bool has_plan_ = false, is_gone_ = false;
    std::int64_t step_ = 0, obeyed_ = 0, checked_ = 0;
};

void FakeChief::wait(const std::string& what, const std::function<bool()>& done) {
    double end = now_s() + 60;
    while (!done()) {
        if (now_s() > end) give_up("has waited a minute for " + what);
        if (is_gone_) give_up("the trainer is gone, before " + what);
        auto wanted = listener_.wanted();
        poll(wanted.data(), wanted.size(), 5);
        for (const LinkEvent& event : listener_.serve(now_s())) {
            hear(event);
            end = now_s() + 60;
        }
    }
}

void FakeChief::hear(const LinkEvent& event) {
    if (event.what == LinkEvent::What::down) is_gone_ = true;
    if (event.what != LinkEvent::What::frame) return;
    count(event.frame);
    fmt::print(log_, "{}\n", format_watch_frame(event.frame));
    std::fflush(log_);
}

void FakeChief::count(const Frame& frame) {
    if (std::holds_alternative<TrainerPlan>(frame)) has_plan_ = true;
    if (const auto* const done = std::get_if<StepDone>(&frame)) step_ = done->step;
    obeyed_ += std::holds_alternative<Obeyed>(frame) ? 1 : 0;
    checked_ += std::holds_alternative<Checked>(frame) ? 1 : 0;
}

void FakeChief::obey(std::string_view line) {
    const std::size_t blank = std::min(line.find(' '), line.size());
    const std::string word(line.substr(0, blank)), rest(trim(line.substr(blank)));
    const std::int64_t number = parse_integer(rest, 0, 1 << 30).value_or(0);
    const double start = now_s();
    if (word == "plan") return wait(word, [&] { return has_plan_; });
    if (word == "step") return wait(std::string(line), [&] { return step_ >= number; });
    if (word == "obeyed") return wait(std::string(line), [&] { return obeyed_ >= number; });
    if (word == "checked") return wait(std::string(line), [&] { return checked_ >= number; });
    if (word == "pause")
        return wait(word, [&] { return now_s() > start + 1e-3 * static_cast<double>(number); });
    if (word == "file") return wait(word, [&] { return access(rest.c_str(), F_OK) == 0; });
    if (word == "say") return say(Say{rest});
    if (word == "release") return say(Release{});
    if (word == "die") std::_Exit(9);
    if (const auto frame = parse_watch_frame(rest); word == "frame" && frame) return say(*frame);
    give_up("no line of a script: " + std::string(line));
}

}  // namespace

int main(int argc, char** argv) {
    const auto key = argc == 5 ? parse_watch_key(argv[1]) : std::nullopt;
    if (!key) give_up("usage: fake_chief KEY RUN SCRIPT LOG");
    const auto script = read_regular_file(argv[3], 1 << 20);
    if (!script) give_up(script.error().message());
    auto listener = Listener::open(*key, argv[2], false);
    if (!listener) give_up(listener.error().message());
    FakeChief chief(std::move(*listener), argv[4]);
    for (const std::string_view line : split(*script, '\n'))
        if (!trim(line).empty()) chief.obey(trim(line));
    chief.listen_to_the_end();
    return 0;
}
