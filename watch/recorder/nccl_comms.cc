// SPDX-License-Identifier: GPL-2.0-or-later
// NCCL's communicators: names as they are made, forgotten as they go. In a group a handle may be
// written only when the group ends, so that it is looked at again there.
#include "watch/recorder/nccl_comms.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "watch/recorder/comms.h"
#include "watch/recorder/nccl_calls.h"
#include "watch/recorder/real.h"
#include "watch/ring/hash.h"

namespace arena::watch::nccl {
namespace {

__attribute__((tls_model("initial-exec"))) constinit thread_local int group_depth = 0;
__attribute__((tls_model("initial-exec"))) constinit thread_local std::uint64_t in_the_making = 0;
std::atomic<bool> active{false};

Handle handle_of(Comm comm) { return reinterpret_cast<Handle>(comm); }

/// Handles that a group is to write.
struct Pending {
    Comm* made = nullptr;
    std::uint64_t name = 0;
    pthread_t thread{};
};
Pending pending[256];
pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER;

void add(Comm comm, std::uint64_t name) {
    if (comm != nullptr) add_comm(handle_of(comm), name);
}

void remember(Comm* made, std::uint64_t name) {
    pthread_mutex_lock(&pending_lock);
    for (Pending& p : pending) {
        if (p.made != nullptr) continue;
        p = {made, name, pthread_self()};
        break;
    }
    pthread_mutex_unlock(&pending_lock);
}

void resolve_pending() {
    pthread_mutex_lock(&pending_lock);
    for (Pending& p : pending) {
        if (p.made == nullptr || pthread_equal(p.thread, pthread_self()) == 0) continue;
        add(*p.made, p.name);
        p = {};
    }
    pthread_mutex_unlock(&pending_lock);
}

void look_at_device(Comm comm) {
    static constinit Real<Result(Comm, int*)> device_of("ncclCommCuDevice", nccl_library);
    int device = -1;
    if (auto* ask = device_of.get(); ask != nullptr && ask(comm, &device) == success)
        note_device(device);
}

/// Around a call that makes communicators of one name.
template <typename Make>
Result make(Comm* made, int number, std::uint64_t name, Make real) {
    active.store(true);
    in_the_making = name;
    const Result result = real();
    in_the_making = 0;
    if (result != success && result != in_progress) return result;
    for (int i = 0; i < number; ++i) {
        if (group_depth > 0) remember(made + i, name);
        if (group_depth == 0 || made[i] != nullptr) add(made[i], name);
    }
    if (group_depth == 0 && result == success && number > 0 && made[0] != nullptr)
        look_at_device(made[0]);
    return result;
}

std::uint64_t name_of(const UniqueId* ids, int number) {
    Hash hash;
    for (int i = 0; i < number; ++i) hash.bytes(ids[i].internal, sizeof ids[i].internal);
    return hash.value();
}

std::uint64_t name_of_child(Comm parent, std::uint64_t how) {
    const Handle handle = handle_of(parent);
    return Hash().number(comm_name(handle)).number(how).number(next_child(handle)).value();
}

}  // namespace

bool preload_is_active() { return active.load(std::memory_order_relaxed); }
std::uint64_t name_in_the_making() { return in_the_making; }

}  // namespace arena::watch::nccl

using namespace arena::watch;        // NOLINT: the symbols below are C's
using namespace arena::watch::nccl;  // NOLINT

#define BEGIN(function, ...)                                                  \
    static constinit Real<Result(__VA_ARGS__)> real(#function, nccl_library); \
    auto* const go_on = real.get();                                           \
    if (go_on == nullptr) return system_error;                                \
    const Outermost outermost

extern "C" {

ARENA_WATCH_EXPORT Result ncclCommInitRank(Comm* made, int ranks, UniqueId id, int rank) {
    BEGIN(ncclCommInitRank, Comm*, int, UniqueId, int);
    if (!outermost) return go_on(made, ranks, id, rank);
    return make(made, 1, name_of(&id, 1), [&] { return go_on(made, ranks, id, rank); });
}

ARENA_WATCH_EXPORT Result ncclCommInitRankConfig(Comm* made, int ranks, UniqueId id, int rank,
                                                 Config* config) {
    BEGIN(ncclCommInitRankConfig, Comm*, int, UniqueId, int, Config*);
    if (!outermost) return go_on(made, ranks, id, rank, config);
    return make(made, 1, name_of(&id, 1), [&] { return go_on(made, ranks, id, rank, config); });
}

ARENA_WATCH_EXPORT Result ncclCommInitRankScalable(Comm* made, int ranks, int rank, int ids,
                                                   UniqueId* id, Config* config) {
    BEGIN(ncclCommInitRankScalable, Comm*, int, int, int, UniqueId*, Config*);
    if (!outermost) return go_on(made, ranks, rank, ids, id, config);
    return make(made, 1, name_of(id, ids),
                [&] { return go_on(made, ranks, rank, ids, id, config); });
}

ARENA_WATCH_EXPORT Result ncclCommInitAll(Comm* made, int devices, const int* device) {
    BEGIN(ncclCommInitAll, Comm*, int, const int*);
    if (!outermost) return go_on(made, devices, device);
    static std::atomic<std::uint32_t> times{0};
    const std::uint64_t name = Hash()
                                   .text("all")
                                   .number(static_cast<std::uint64_t>(::getpid()))
                                   .number(times.fetch_add(1))
                                   .value();
    return make(made, devices, name, [&] { return go_on(made, devices, device); });
}

ARENA_WATCH_EXPORT Result ncclCommSplit(Comm comm, int color, int key, Comm* made, Config* config) {
    BEGIN(ncclCommSplit, Comm, int, int, Comm*, Config*);
    if (!outermost) return go_on(comm, color, key, made, config);
    return make(made, 1, name_of_child(comm, static_cast<std::uint64_t>(color)),
                [&] { return go_on(comm, color, key, made, config); });
}

ARENA_WATCH_EXPORT Result ncclCommShrink(Comm comm, int* excluded, int number, Comm* made,
                                         Config* config, int how) {
    BEGIN(ncclCommShrink, Comm, int*, int, Comm*, Config*, int);
    if (!outermost) return go_on(comm, excluded, number, made, config, how);
    Hash without;
    without.text("without");
    for (int i = 0; i < number; ++i) without.number(static_cast<std::uint64_t>(excluded[i]));
    return make(made, 1, name_of_child(comm, without.value()),
                [&] { return go_on(comm, excluded, number, made, config, how); });
}

ARENA_WATCH_EXPORT Result ncclCommFinalize(Comm comm) {
    BEGIN(ncclCommFinalize, Comm);
    return go_on(comm);
}

ARENA_WATCH_EXPORT Result ncclCommDestroy(Comm comm) {
    BEGIN(ncclCommDestroy, Comm);
    if (outermost) remove_comm(handle_of(comm));
    return go_on(comm);
}

ARENA_WATCH_EXPORT Result ncclCommAbort(Comm comm) {
    BEGIN(ncclCommAbort, Comm);
    if (outermost) remove_comm(handle_of(comm));
    return go_on(comm);
}

ARENA_WATCH_EXPORT Result ncclGroupStart() {
    BEGIN(ncclGroupStart);
    if (outermost) ++group_depth;
    return go_on();
}

ARENA_WATCH_EXPORT Result ncclGroupEnd() {
    BEGIN(ncclGroupEnd);
    const Result result = go_on();
    if (outermost && group_depth > 0 && --group_depth == 0) resolve_pending();
    return result;
}

ARENA_WATCH_EXPORT Result ncclGroupSimulateEnd(SimInfo* info) {
    BEGIN(ncclGroupSimulateEnd, SimInfo*);
    const Result result = go_on(info);
    if (outermost && group_depth > 0 && --group_depth == 0) resolve_pending();
    return result;
}

}  // extern "C"
