// SPDX-License-Identifier: GPL-2.0-or-later
// NCCL's entry points as its documentation (release 2.28) gives them: one row per call that moves
// data. NCCL's own header is not needed; where configure finds it, a test compiles these rows
// against it.
#pragma once

#include <cstddef>

namespace arena::watch::nccl {

using Result = int;
constexpr Result success = 0, system_error = 2, in_progress = 7;
using Comm = struct OpaqueComm*;
using Stream = struct OpaqueStream*;
using Config = void;
using SimInfo = void;
struct UniqueId {
    char internal[128];
};

}  // namespace arena::watch::nccl

// ROW(function, operation, aux, parameters, arguments): `count`, `type` and `comm` are parameters
// of each; aux: the peer of a send or receive, the root, else the reduction, -1 without either.
#define ARENA_NCCL_CALLS(ROW)                                                                \
    ROW(ncclSend, send, peer,                                                                \
        (const void* from, std::size_t count, int type, int peer, Comm comm, Stream stream), \
        (from, count, type, peer, comm, stream))                                             \
    ROW(ncclRecv, recv, peer,                                                                \
        (void* to, std::size_t count, int type, int peer, Comm comm, Stream stream),         \
        (to, count, type, peer, comm, stream))                                               \
    ROW(ncclBcast, bcast, root,                                                              \
        (void* buffer, std::size_t count, int type, int root, Comm comm, Stream stream),     \
        (buffer, count, type, root, comm, stream))                                           \
    ROW(ncclBroadcast, broadcast, root,                                                      \
        (const void* from, void* to, std::size_t count, int type, int root, Comm comm,       \
         Stream stream),                                                                     \
        (from, to, count, type, root, comm, stream))                                         \
    ROW(ncclAllGather, all_gather, -1,                                                       \
        (const void* from, void* to, std::size_t count, int type, Comm comm, Stream stream), \
        (from, to, count, type, comm, stream))                                               \
    ROW(ncclReduceScatter, reduce_scatter, reduction,                                        \
        (const void* from, void* to, std::size_t count, int type, int reduction, Comm comm,  \
         Stream stream),                                                                     \
        (from, to, count, type, reduction, comm, stream))                                    \
    ROW(ncclAllReduce, all_reduce, reduction,                                                \
        (const void* from, void* to, std::size_t count, int type, int reduction, Comm comm,  \
         Stream stream),                                                                     \
        (from, to, count, type, reduction, comm, stream))                                    \
    ROW(ncclReduce, reduce, root,                                                            \
        (const void* from, void* to, std::size_t count, int type, int reduction, int root,   \
         Comm comm, Stream stream),                                                          \
        (from, to, count, type, reduction, root, comm, stream))                              \
    ROW(ncclAlltoAll, all_to_all, -1,                                                        \
        (const void* from, void* to, std::size_t count, int type, Comm comm, Stream stream), \
        (from, to, count, type, comm, stream))                                               \
    ROW(ncclGather, gather, root,                                                            \
        (const void* from, void* to, std::size_t count, int type, int root, Comm comm,       \
         Stream stream),                                                                     \
        (from, to, count, type, root, comm, stream))                                         \
    ROW(ncclScatter, scatter, root,                                                          \
        (const void* from, void* to, std::size_t count, int type, int root, Comm comm,       \
         Stream stream),                                                                     \
        (from, to, count, type, root, comm, stream))

// ROW(function, parameters): those that make, end and group.
#define ARENA_NCCL_COMM_CALLS(ROW)                                                               \
    ROW(ncclCommInitRank, (Comm * made, int ranks, UniqueId id, int rank))                       \
    ROW(ncclCommInitRankConfig, (Comm * made, int ranks, UniqueId id, int rank, Config* config)) \
    ROW(ncclCommInitRankScalable,                                                                \
        (Comm * made, int ranks, int rank, int ids, UniqueId* id, Config* config))               \
    ROW(ncclCommInitAll, (Comm * made, int devices, const int* device))                          \
    ROW(ncclCommSplit, (Comm comm, int color, int key, Comm* made, Config* config))              \
    ROW(ncclCommShrink,                                                                          \
        (Comm comm, int* excluded, int number, Comm* made, Config* config, int how))             \
    ROW(ncclCommFinalize, (Comm comm))                                                           \
    ROW(ncclCommDestroy, (Comm comm))                                                            \
    ROW(ncclCommAbort, (Comm comm))                                                              \
    ROW(ncclGroupStart, ())                                                                      \
    ROW(ncclGroupEnd, ())                                                                        \
    ROW(ncclGroupSimulateEnd, (SimInfo * info))
