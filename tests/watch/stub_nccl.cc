// SPDX-License-Identifier: GPL-2.0-or-later
// A libnccl.so.2 without a GPU: counts the calls that reach it, makes communicators that stand for
// nothing, and calls itself through the PLT where NCCL does (Bcast -> Broadcast, AlltoAll -> group
// calls). ARENA_STUB_LATE=1: a handle made in a group is written when the group ends.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "watch/recorder/nccl_calls.h"

using namespace arena::watch::nccl;
#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

std::atomic<std::uint64_t> calls{0};
thread_local int depth = 0;
thread_local std::vector<Comm*> late;

Comm make() { return reinterpret_cast<Comm>(std::malloc(64)); }
Result give(Comm* made) {
    if (depth > 0 && std::getenv("ARENA_STUB_LATE") != nullptr)
        late.push_back(made);
    else
        *made = make();
    return success;
}

}  // namespace

EXPORT std::uint64_t stub_calls() { return calls; }

EXPORT Result ncclGroupStart() { return ++depth, success; }
EXPORT Result ncclGroupEnd() {
    if (--depth > 0) return success;
    for (Comm* made : late) *made = make();
    late.clear();
    return success;
}
EXPORT Result ncclGroupSimulateEnd(SimInfo*) { return ncclGroupEnd(); }
EXPORT Result ncclCommInitRank(Comm* made, int, UniqueId, int) { return give(made); }
EXPORT Result ncclCommInitRankConfig(Comm* made, int, UniqueId, int, Config*) { return give(made); }
EXPORT Result ncclCommInitRankScalable(Comm* made, int, int, int, UniqueId*, Config*) {
    return give(made);
}
EXPORT Result ncclCommInitAll(Comm* made, int devices, const int*) {
    for (int i = 0; i < devices; ++i) give(made + i);
    return success;
}
EXPORT Result ncclCommSplit(Comm, int color, int, Comm* made, Config*) {
    *made = nullptr;
    return color == -1 ? success : give(made);
}
EXPORT Result ncclCommShrink(Comm, int*, int, Comm* made, Config*, int) { return give(made); }
EXPORT Result ncclCommFinalize(Comm) { return success; }
EXPORT Result ncclCommDestroy(Comm comm) { return std::free(comm), success; }
EXPORT Result ncclCommAbort(Comm comm) { return std::free(comm), success; }
EXPORT Result ncclCommCuDevice(Comm, int* device) { return *device = 3, success; }

#define COUNTED() return calls.fetch_add(1, std::memory_order_relaxed), success
EXPORT Result ncclSend(const void*, std::size_t, int, int, Comm, Stream) { COUNTED(); }
EXPORT Result ncclRecv(void*, std::size_t, int, int, Comm, Stream) { COUNTED(); }
EXPORT Result ncclBroadcast(const void*, void*, std::size_t, int, int, Comm, Stream) { COUNTED(); }
EXPORT Result ncclBcast(void* buffer, std::size_t count, int type, int root, Comm comm,
                        Stream stream) {
    return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
EXPORT Result ncclAllGather(const void*, void*, std::size_t, int, Comm, Stream) { COUNTED(); }
EXPORT Result ncclReduceScatter(const void*, void*, std::size_t, int, int, Comm, Stream) {
    COUNTED();
}
EXPORT Result ncclAllReduce(const void*, void*, std::size_t, int, int, Comm, Stream) { COUNTED(); }
EXPORT Result ncclGather(const void*, void*, std::size_t, int, int, Comm, Stream) { COUNTED(); }
EXPORT Result ncclScatter(const void*, void*, std::size_t, int, int, Comm, Stream) { COUNTED(); }
#define REDUCE (const void*, void*, std::size_t, int, int, int, Comm, Stream)
EXPORT Result ncclReduce REDUCE { COUNTED(); }
EXPORT Result ncclAlltoAll(const void* from, void* to, std::size_t count, int type, Comm comm,
                           Stream stream) {
    ncclGroupStart();
    ncclSend(from, count, type, 0, comm, stream);
    ncclRecv(to, count, type, 0, comm, stream);
    return ncclGroupEnd();
}
