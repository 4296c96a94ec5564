// SPDX-License-Identifier: GPL-2.0-or-later
// NCCL's profiler front: for an NCCL that cannot be preloaded (linked statically, opened with
// RTLD_DEEPBIND), and for what the work took on the GPU. A call is recorded here only where the
// preload front does not; kernels are asked for only while a reader wants timings.
#include <atomic>
#include <iterator>
#include <string_view>

#include "watch/recorder/nccl_calls.h"
#include "watch/recorder/nccl_comms.h"
#include "watch/recorder/nccl_profiler_abi.h"
#include "watch/recorder/recorder.h"

namespace arena::watch::profiler {
namespace {

constexpr int calls_only = collective | point_to_point;

/// A communicator. NCCL's mask is one for the process, read at each event.
struct Context {
    std::atomic<std::uint64_t> name{0};  ///< 0: free
};
Context contexts[1024];
Context crowd;  ///< all beyond these
std::atomic<int*> mask{nullptr};

/// A call whose kernels are followed. Its place is taken anew, from the oldest, where NCCL does not
/// tell the end of all its channels.
struct Event {
    Call call;
    Noted noted;
    std::uint32_t channels = 0;
    std::atomic<std::uint32_t> ended{0};
    std::atomic<std::uint64_t> begin_ns{0}, end_ns{0};
};
Event events[4096];
std::atomic<std::uint32_t> next_event{0};

struct NamedOp {
    std::string_view name;
    Op op;
};
constexpr NamedOp functions[] = {{"AllReduce", Op::all_reduce},
                                 {"AllGather", Op::all_gather},
                                 {"ReduceScatter", Op::reduce_scatter},
                                 {"Broadcast", Op::broadcast},
                                 {"Reduce", Op::reduce},
                                 {"Send", Op::send},
                                 {"Recv", Op::recv},
                                 {"AlltoAll", Op::all_to_all},
                                 {"AllToAll", Op::all_to_all},
                                 {"Gather", Op::gather},
                                 {"Scatter", Op::scatter}};
struct NamedType {
    std::string_view name;
    Type type;
};
constexpr NamedType types[] = {{"ncclInt8", Type::int8},
                               {"ncclUint8", Type::uint8},
                               {"ncclInt32", Type::int32},
                               {"ncclUint32", Type::uint32},
                               {"ncclInt64", Type::int64},
                               {"ncclUint64", Type::uint64},
                               {"ncclFloat16", Type::float16},
                               {"ncclFloat32", Type::float32},
                               {"ncclFloat64", Type::float64},
                               {"ncclBfloat16", Type::bfloat16},
                               {"ncclFloat8e4m3", Type::float8_e4m3},
                               {"ncclFloat8e5m2", Type::float8_e5m2}};

Op op_of(const char* name) {
    for (const NamedOp& f : functions)
        if (name != nullptr && f.name == name) return f.op;
    return Op::invalid;
}

Type type_of(const char* name) {
    for (const NamedType& t : types)
        if (name != nullptr && t.name == name) return t.type;
    return Type::other;
}

Call call_of(const Context& context, const char* function, const char* type, std::size_t count) {
    Call call;
    call.op = op_of(function);
    call.front = Front::nccl_profiler;
    call.type = type_of(type);
    call.count = count;
    call.bytes = count * type_bytes(static_cast<std::uint32_t>(call.type));
    call.comm = context.name.load(std::memory_order_relaxed);
    return call;
}

/// The handle of a call, null where nobody wants its end.
void* begin_call(const Call& call, std::uint32_t channels) {
    const Noted noted = nccl::preload_is_active() ? Noted{} : note_call(call);
    const bool timed = profiling();
    if (int* wanted = mask.load()) *wanted = timed ? calls_only | kernel_channel : calls_only;
    if (!timed || channels == 0) return nullptr;
    Event& event = events[next_event.fetch_add(1) % std::size(events)];
    event.call = call;
    event.noted = noted;
    event.channels = channels;
    event.ended = 0;
    event.begin_ns = ~std::uint64_t{0};
    event.end_ns = 0;
    return &event;
}

/// Handles of kernels are their call's, told apart by the lowest bit.
void* kernel_of(void* event) {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(event) | 1);
}
Event* kernel_event(void* handle) {
    const auto bits = reinterpret_cast<std::uintptr_t>(handle);
    return bits % 2 == 1 ? reinterpret_cast<Event*>(bits - 1) : nullptr;
}

void* begin_kernel(void* parent, std::uint64_t time_ns) {
    if (parent == nullptr) return nullptr;
    auto& begin = static_cast<Event*>(parent)->begin_ns;
    std::uint64_t seen = begin.load();
    while (time_ns < seen && !begin.compare_exchange_weak(seen, time_ns)) continue;
    return kernel_of(parent);
}

template <typename Kind>
int start(void* context, void** handle, Description<Kind>* d) {
    const auto& comm = *static_cast<Context*>(context);
    *handle = nullptr;
    if (d->kind == collective) {
        Call call = call_of(comm, d->collective.function, d->collective.type, d->collective.count);
        call.aux = d->collective.root;
        *handle = begin_call(call, d->collective.channels);
    } else if (d->kind == point_to_point) {
        Call call = call_of(comm, d->point_to_point.function, d->point_to_point.type,
                            d->point_to_point.count);
        call.aux = d->point_to_point.peer;
        *handle = begin_call(call, d->point_to_point.channels);
    } else if (d->kind == kernel_channel) {
        *handle = begin_kernel(d->parent, d->kernel.time_ns);
    }
    return nccl::success;
}

int state(void* handle, int what, StateArguments* arguments) {
    Event* event = kernel_event(handle);
    if (event == nullptr || what != kernel_stopped || arguments == nullptr) return nccl::success;
    std::uint64_t seen = event->end_ns.load();
    while (arguments->kernel_time_ns > seen &&
           !event->end_ns.compare_exchange_weak(seen, arguments->kernel_time_ns))
        continue;
    return nccl::success;
}

int stop(void* handle) {
    Event* event = kernel_event(handle);
    if (event == nullptr || event->ended.fetch_add(1) + 1 != event->channels) return nccl::success;
    const std::uint64_t begin = event->begin_ns.load(), end = event->end_ns.load();
    if (end > begin) note_timing(event->call, event->noted, end - begin);
    return nccl::success;
}

int open(void** context, int* activation, std::uint64_t hash) {
    const std::uint64_t made = nccl::name_in_the_making();
    const std::uint64_t name = made != 0 ? made : (hash >> 2 | 1);
    *context = &crowd;
    for (Context& place : contexts) {
        std::uint64_t free = 0;
        if (!place.name.compare_exchange_strong(free, name)) continue;
        *context = &place;
        break;
    }
    *activation = calls_only;
    mask.store(activation);
    if (!nccl::preload_is_active()) next_generation();
    return nccl::success;
}

int close(void* context) {
    if (context != &crowd) static_cast<Context*>(context)->name.store(0);
    if (!nccl::preload_is_active()) next_generation();
    return nccl::success;
}

template <typename Kind, typename Init>
constexpr Table<Kind, Init> table(Init* init) {
    return {"arena-watch", init, &start<Kind>, &stop, &state, &close};
}

constexpr Init4* init4 = [](auto context, auto mask_, auto, auto hash, auto... /*sizes*/) {
    return open(context, mask_, hash);
};
constexpr Init5* init5 = [](auto context, auto hash, auto mask_, auto... /*name, sizes*/) {
    return open(context, mask_, hash);
};

}  // namespace
}  // namespace arena::watch::profiler

using namespace arena::watch::profiler;  // NOLINT: the symbols below are C's
extern "C" {
extern ARENA_WATCH_EXPORT const Table<std::uint8_t, Init4> ncclProfiler_v4;
extern ARENA_WATCH_EXPORT const Table<std::uint64_t, Init5> ncclProfiler_v5;
const Table<std::uint8_t, Init4> ncclProfiler_v4 = table<std::uint8_t>(init4);
const Table<std::uint64_t, Init5> ncclProfiler_v5 = table<std::uint64_t>(init5);
}
