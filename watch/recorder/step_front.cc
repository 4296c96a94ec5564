// SPDX-License-Identifier: GPL-2.0-or-later
// The C call of arena_watch.h.
#include "watch/arena_watch.h"
#include "watch/recorder/recorder.h"

namespace arena::watch {
namespace {

int note_step(std::uint64_t tokens) {
    Call call;
    call.op = Op::step;
    call.front = Front::step;
    call.count = tokens;
    return note_call(call).time_ns == 0 ? 1 : 0;
}

}  // namespace
}  // namespace arena::watch

extern "C" ARENA_WATCH_EXPORT int arena_watch_step() { return arena::watch::note_step(0); }
extern "C" ARENA_WATCH_EXPORT int arena_watch_step_tokens(uint64_t tokens) {
    return arena::watch::note_step(tokens);
}
