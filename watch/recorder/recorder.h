// SPDX-License-Identifier: GPL-2.0-or-later
// What the fronts share: one recorder per process, that opens its ring at the first call and only
// where the process is a rank. It stands in foreign processes, before their own libraries: it needs
// the C library alone, throws nothing, has no constructor, and leaves errno as it was.
#pragma once

#include <cstdint>

#include "watch/ring/record.h"

#define ARENA_WATCH_EXPORT __attribute__((visibility("default")))

namespace arena::watch {

struct Call {
    Op op = Op::invalid;
    Front front = Front::nccl;
    Type type = Type::other;
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t comm = 0;
    std::int32_t aux = -1;
};

/// What is known of a call once it is recorded.
struct Noted {
    std::uint64_t sequence = 0;
    std::uint64_t time_ns = 0;
    bool timed = false;  ///< its duration is wanted: note_timing()
};

ARENA_WATCH_EXPORT std::uint64_t now_ns();

/// Records a call that is made now.
ARENA_WATCH_EXPORT Noted note_call(const Call& call);
/// Records how long the work of a call took. `noted` with time_ns 0: the call's record is another
/// front's, and its place is not known.
ARENA_WATCH_EXPORT void note_timing(const Call& call, const Noted& noted,
                                    std::uint64_t duration_ns);
/// Whether a reader wants timings.
bool profiling();

/// The device is a fact of the ring; -1: not known.
void note_device(int device);
/// A communicator was made or freed.
void next_generation();

/// One line on standard error, once per process.
ARENA_WATCH_EXPORT void say_once(const char* text);

/// Only the outermost call of a thread counts: NCCL's Bcast calls its Broadcast through the PLT.
class Outermost {
  public:
    Outermost() : outermost_(depth_++ == 0) {}
    ~Outermost() { --depth_; }
    Outermost(const Outermost&) = delete;
    Outermost& operator=(const Outermost&) = delete;
    explicit operator bool() const { return outermost_; }

  private:
    // Each library its own: the fronts do not call each other.
    __attribute__((tls_model("initial-exec"))) static inline constinit thread_local int depth_ = 0;
    bool outermost_;
};

}  // namespace arena::watch
