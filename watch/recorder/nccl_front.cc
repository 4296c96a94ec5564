// SPDX-License-Identifier: GPL-2.0-or-later
// The entry points of NCCL, before NCCL's own: each records and goes on to the real one. What NCCL
// itself calls through them on the way (Bcast, the group calls of AlltoAll) is not recorded again.
#include <cstdint>

#include "watch/recorder/comms.h"
#include "watch/recorder/nccl_calls.h"
#include "watch/recorder/real.h"
#include "watch/recorder/recorder.h"

namespace arena::watch::nccl {
namespace {

Handle handle_of(Comm comm) { return reinterpret_cast<Handle>(comm); }

void note(Op op, std::uint64_t count, int type, std::int32_t aux, Comm comm) {
    Call call;
    call.op = op;
    call.front = Front::nccl;
    call.type = type < 0 || type > 254 ? Type::other : static_cast<Type>(type);
    call.count = count;
    call.bytes = count * type_bytes(static_cast<std::uint32_t>(type));
    call.comm = comm_name(handle_of(comm));
    call.aux = aux;
    note_call(call);
}

}  // namespace
}  // namespace arena::watch::nccl

using namespace arena::watch;        // NOLINT: the symbols below are C's
using namespace arena::watch::nccl;  // NOLINT

#define FORWARD_CALL(function, operation, aux, parameters, arguments)           \
    extern "C" ARENA_WATCH_EXPORT Result function parameters {                  \
        static constinit Real<Result parameters> real(#function, nccl_library); \
        const Outermost outermost;                                              \
        if (outermost) note(Op::operation, count, type, aux, comm);             \
        auto* go_on = real.get();                                               \
        return go_on != nullptr ? go_on arguments : system_error;               \
    }
ARENA_NCCL_CALLS(FORWARD_CALL)
