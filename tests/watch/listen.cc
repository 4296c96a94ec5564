// SPDX-License-Identifier: GPL-2.0-or-later
// listen RUN [FRAME]: a chief that decides nothing, with ARENA_WATCH_KEY, at the ports of the step
// RUN (JOB.STEP.LIFE): a line for what each caller says, "PEER up", "PEER down" or "PEER FRAME".
// FRAME (JSON) is said to each caller that comes. Until it is killed.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "watch/wire/link.h"

using namespace arena::watch;

namespace {

double now_s() {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void say(const LinkEvent& event) {
    const bool is_frame = event.what == LinkEvent::What::frame;
    fmt::print("{} {}\n", event.peer,
               is_frame                            ? format_watch_frame(event.frame)
               : event.what == LinkEvent::What::up ? "up"
                                                   : "down");
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    const char* text = std::getenv("ARENA_WATCH_KEY");
    const auto key = parse_watch_key(text == nullptr ? "" : text);
    if (argc < 2 || !key) return 2;
    auto listener = Listener::open(*key, argv[1], false);
    if (!listener) return 3;
    fmt::print(stderr, "{}\n", listener->port());
    const auto frame = argc > 2 ? parse_watch_frame(argv[2]) : arena::usage_error("none");
    for (;;) {
        for (const LinkEvent& event : listener->serve(now_s())) {
            say(event);
            if (event.what == LinkEvent::What::up && frame) listener->send(event.peer, *frame);
        }
        auto wanted = listener->wanted();
        ::poll(wanted.data(), wanted.size(), 100);
    }
}
