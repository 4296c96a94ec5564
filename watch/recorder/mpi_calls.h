// SPDX-License-Identifier: GPL-2.0-or-later
// MPI's calls that move data, as the MPI standard gives them: a row per call.
//   ROW(function, operation, count, type, aux, parameters, arguments)
// count and type are those of the side that every rank has to give; aux: peer, root, or -1.
#pragma once

// Over when they return: their time is a timing.
#define ARENA_MPI_BLOCKING(ROW)                                                                 \
    ROW(MPI_Send, send, count, type, to,                                                        \
        (const void* from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm),       \
        (from, count, type, to, tag, comm))                                                     \
    ROW(MPI_Ssend, send, count, type, to,                                                       \
        (const void* from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm),       \
        (from, count, type, to, tag, comm))                                                     \
    ROW(MPI_Recv, recv, count, type, from,                                                      \
        (void* to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,              \
         MPI_Status* status),                                                                   \
        (to, count, type, from, tag, comm, status))                                             \
    ROW(MPI_Bcast, bcast, count, type, root,                                                    \
        (void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm),                  \
        (buffer, count, type, root, comm))                                                      \
    ROW(MPI_Reduce, reduce, count, type, root,                                                  \
        (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, int root,         \
         MPI_Comm comm),                                                                        \
        (from, to, count, type, op, root, comm))                                                \
    ROW(MPI_Allreduce, all_reduce, count, type, -1,                                             \
        (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),   \
        (from, to, count, type, op, comm))                                                      \
    ROW(MPI_Reduce_scatter_block, reduce_scatter, count, type, -1,                              \
        (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),   \
        (from, to, count, type, op, comm))                                                      \
    ROW(MPI_Reduce_scatter, reduce_scatter, counts[0], type, -1,                                \
        (const void* from, void* to, const int counts[], MPI_Datatype type, MPI_Op op,          \
         MPI_Comm comm),                                                                        \
        (from, to, counts, type, op, comm))                                                     \
    ROW(MPI_Allgather, all_gather, to_count, to_type, -1,                                       \
        (const void* from, int from_count, MPI_Datatype from_type, void* to, int to_count,      \
         MPI_Datatype to_type, MPI_Comm comm),                                                  \
        (from, from_count, from_type, to, to_count, to_type, comm))                             \
    ROW(MPI_Allgatherv, all_gather, to_counts[0], to_type, -1,                                  \
        (const void* from, int from_count, MPI_Datatype from_type, void* to,                    \
         const int to_counts[], const int places[], MPI_Datatype to_type, MPI_Comm comm),       \
        (from, from_count, from_type, to, to_counts, places, to_type, comm))                    \
    ROW(MPI_Alltoall, all_to_all, to_count, to_type, -1,                                        \
        (const void* from, int from_count, MPI_Datatype from_type, void* to, int to_count,      \
         MPI_Datatype to_type, MPI_Comm comm),                                                  \
        (from, from_count, from_type, to, to_count, to_type, comm))                             \
    ROW(MPI_Alltoallv, all_to_all, to_counts[0], to_type, -1,                                   \
        (const void* from, const int from_counts[], const int from_places[],                    \
         MPI_Datatype from_type, void* to, const int to_counts[], const int to_places[],        \
         MPI_Datatype to_type, MPI_Comm comm),                                                  \
        (from, from_counts, from_places, from_type, to, to_counts, to_places, to_type, comm))   \
    ROW(MPI_Gather, gather, from_count, from_type, root,                                        \
        (const void* from, int from_count, MPI_Datatype from_type, void* to, int to_count,      \
         MPI_Datatype to_type, int root, MPI_Comm comm),                                        \
        (from, from_count, from_type, to, to_count, to_type, root, comm))                       \
    ROW(MPI_Gatherv, gather, from_count, from_type, root,                                       \
        (const void* from, int from_count, MPI_Datatype from_type, void* to,                    \
         const int to_counts[], const int places[], MPI_Datatype to_type, int root,             \
         MPI_Comm comm),                                                                        \
        (from, from_count, from_type, to, to_counts, places, to_type, root, comm))              \
    ROW(MPI_Scatter, scatter, to_count, to_type, root,                                          \
        (const void* from, int from_count, MPI_Datatype from_type, void* to, int to_count,      \
         MPI_Datatype to_type, int root, MPI_Comm comm),                                        \
        (from, from_count, from_type, to, to_count, to_type, root, comm))                       \
    ROW(MPI_Scatterv, scatter, to_count, to_type, root,                                         \
        (const void* from, const int from_counts[], const int places[], MPI_Datatype from_type, \
         void* to, int to_count, MPI_Datatype to_type, int root, MPI_Comm comm),                \
        (from, from_counts, places, from_type, to, to_count, to_type, root, comm))              \
    ROW(MPI_Barrier, barrier, 0, MPI_BYTE, -1, (MPI_Comm comm), (comm))

// Begun when they return: recorded, without a timing.
#define ARENA_MPI_IMMEDIATE(ROW)                                                             \
    ROW(MPI_Isend, send, count, type, to,                                                    \
        (const void* from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,     \
         MPI_Request* request),                                                              \
        (from, count, type, to, tag, comm, request))                                         \
    ROW(MPI_Issend, send, count, type, to,                                                   \
        (const void* from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,     \
         MPI_Request* request),                                                              \
        (from, count, type, to, tag, comm, request))                                         \
    ROW(MPI_Irecv, recv, count, type, from,                                                  \
        (void* to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,           \
         MPI_Request* request),                                                              \
        (to, count, type, from, tag, comm, request))                                         \
    ROW(MPI_Ibcast, bcast, count, type, root,                                                \
        (void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,                \
         MPI_Request* request),                                                              \
        (buffer, count, type, root, comm, request))                                          \
    ROW(MPI_Ireduce, reduce, count, type, root,                                              \
        (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, int root,      \
         MPI_Comm comm, MPI_Request* request),                                               \
        (from, to, count, type, op, root, comm, request))                                    \
    ROW(MPI_Iallreduce, all_reduce, count, type, -1,                                         \
        (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, \
         MPI_Request* request),                                                              \
        (from, to, count, type, op, comm, request))                                          \
    ROW(MPI_Ireduce_scatter_block, reduce_scatter, count, type, -1,                          \
        (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, \
         MPI_Request* request),                                                              \
        (from, to, count, type, op, comm, request))                                          \
    ROW(MPI_Iallgather, all_gather, to_count, to_type, -1,                                   \
        (const void* from, int from_count, MPI_Datatype from_type, void* to, int to_count,   \
         MPI_Datatype to_type, MPI_Comm comm, MPI_Request* request),                         \
        (from, from_count, from_type, to, to_count, to_type, comm, request))                 \
    ROW(MPI_Ialltoall, all_to_all, to_count, to_type, -1,                                    \
        (const void* from, int from_count, MPI_Datatype from_type, void* to, int to_count,   \
         MPI_Datatype to_type, MPI_Comm comm, MPI_Request* request),                         \
        (from, from_count, from_type, to, to_count, to_type, comm, request))                 \
    ROW(MPI_Ibarrier, barrier, 0, MPI_BYTE, -1, (MPI_Comm comm, MPI_Request * request),      \
        (comm, request))
