// SPDX-License-Identifier: GPL-2.0-or-later
// NCCL's profiler plug-in interface, releases 4 (NCCL 2.26) and 5 (2.28), as far as collectives,
// point-to-point calls and their kernels need it: from NCCL's documentation of external profilers.
// What is not read stands as room only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace arena::watch::profiler {

constexpr int collective = 1 << 1, point_to_point = 1 << 2, kernel_channel = 1 << 6;
constexpr int kernel_stopped = 22;  ///< the state that carries a kernel's end

struct Collective {
    std::uint64_t number;
    const char* function;
    const void* from;
    void* to;
    std::size_t count;
    int root;
    const char* type;
    std::uint8_t channels, warps;
    const char *algorithm, *protocol;
    void* group;  ///< of release 5
};
struct PointToPoint {
    const char* function;
    void* buffer;
    const char* type;
    std::size_t count;
    int peer;
    std::uint8_t channels;
    void* group;  ///< of release 5
};
struct KernelChannel {
    std::uint8_t channel;
    std::uint64_t time_ns;  ///< of the GPU's clock
};

/// `Kind` is a byte in release 4, eight in release 5; what follows has the same place in both.
template <typename Kind>
struct Description {
    Kind kind;
    void* parent;
    int rank;
    union {
        Collective collective;
        PointToPoint point_to_point;
        KernelChannel kernel;
    };
};
static_assert(offsetof(Description<std::uint8_t>, parent) == 8 &&
              offsetof(Description<std::uint64_t>, parent) == 8 &&
              offsetof(Description<std::uint8_t>, collective) == 24 &&
              offsetof(Description<std::uint64_t>, collective) == 24);

union StateArguments {
    std::size_t transferred;
    std::uint64_t kernel_time_ns;
};

using Logger = void (*)(int, unsigned long, const char*, int, const char*, ...);

template <typename Kind, typename Init>
struct Table {
    const char* name;
    Init* init;
    int (*start)(void* context, void** event, Description<Kind>* description);
    int (*stop)(void* event);
    int (*state)(void* event, int state, StateArguments* arguments);
    int (*finish)(void* context);
};
using Init4 = int(void** context, int* mask, const char* name, std::uint64_t hash, int nodes,
                  int ranks, int rank, Logger log);
using Init5 = int(void** context, std::uint64_t hash, int* mask, const char* name, int nodes,
                  int ranks, int rank, Logger log);

}  // namespace arena::watch::profiler
