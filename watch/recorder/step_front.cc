// SPDX-License-Identifier: GPL-2.0-or-later
// The C calls of arena_watch.h.
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

/// Its record stands where it returned: before that nobody had said anything.
int note_program_call(const Call& call, std::uint64_t duration_ns) {
    const Noted noted = note_call(call);
    if (noted.time_ns == 0) return 1;
    if (noted.timed && duration_ns > 0) note_timing(call, noted, duration_ns);
    return 0;
}

}  // namespace
}  // namespace arena::watch

extern "C" ARENA_WATCH_EXPORT int arena_watch_step() { return arena::watch::note_step(0); }
extern "C" ARENA_WATCH_EXPORT int arena_watch_step_tokens(uint64_t tokens) {
    return arena::watch::note_step(tokens);
}
extern "C" ARENA_WATCH_EXPORT int arena_watch_call(uint32_t op, uint64_t comm, uint64_t bytes,
                                                   int32_t peer, uint64_t duration_ns) {
    using arena::watch::Op;
    constexpr std::uint64_t most_comm = std::uint64_t{1} << 62;
    if (op >= static_cast<std::uint32_t>(Op::step) ||
        op == static_cast<std::uint32_t>(Op::invalid) || comm >= most_comm)
        return 1;
    arena::watch::Call call;
    call.op = static_cast<Op>(op);
    call.front = arena::watch::Front::program;
    call.type = arena::watch::Type::uint8;
    call.count = call.bytes = bytes;
    call.comm = comm;
    call.aux = peer;
    return arena::watch::note_program_call(call, duration_ns);
}
