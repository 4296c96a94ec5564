// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/recorder/recorder.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "watch/ring/process.h"
#include "watch/ring/rank_id.h"
#include "watch/ring/ring_file.h"

namespace arena::watch {
namespace {

enum class State { fresh, recording, off };

std::atomic<State> state{State::fresh};
Ring ring;
pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
std::atomic<std::uint32_t> generation{0};
std::atomic<int> device{-1};
std::atomic<bool> said{false};

std::uint64_t clock_ns(clockid_t clock) {
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(t.tv_nsec);
}

/// ARENA_WATCH_RECORDS, rounded up to a power of two.
std::uint64_t wanted_records() {
    const char* text = ::secure_getenv("ARENA_WATCH_RECORDS");
    const std::uint64_t wanted = text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
    if (wanted == 0) return usual_records;
    if (wanted < least_records) return least_records;
    return wanted > most_records ? most_records : std::bit_ceil(wanted);
}

RingOwner owner_of(const RankId& id) {
    RingOwner owner;
    owner.job = id.job;
    owner.step = id.step;
    owner.life = id.life;
    owner.rank = id.rank;
    owner.local_rank = id.local_rank;
    owner.ranks = id.ranks;
    owner.node = id.node;
    owner.pid = static_cast<std::uint32_t>(::getpid());
    owner.uid = ::geteuid();
    owner.pid_started = process_started(owner.pid);
    owner.opened_ns = clock_ns(CLOCK_MONOTONIC_RAW);
    owner.opened_realtime_ns = clock_ns(CLOCK_REALTIME);
    return owner;
}

/// A child has its parent's variables and memory, but is another process: what it calls itself, if
/// anything, goes to a ring of its own.
void forget_in_child() {
    pthread_mutex_init(&opening, nullptr);
    state.store(State::fresh);
}

State open_ring() {
    const auto id =
        rank_of_environment([](const char* name) -> const char* { return ::secure_getenv(name); });
    if (!id) return State::off;
    ring = create_ring(owner_of(*id), wanted_records());
    if (ring.header == nullptr) {
        char text[160];
        std::snprintf(text, sizeof text,
                      "rank %u is not watched: its ring cannot be made in %s: %s", id->rank,
                      ring_folder, ::strerrordesc_np(errno));
        say_once(text);
        return State::off;
    }
    ring.header->device.store(device.load());
    if (::secure_getenv("ARENA_WATCH_PROFILE") != nullptr)
        ring.header->control.store(Control::profile);
    static bool registered = false;
    if (!registered) registered = ::pthread_atfork(nullptr, nullptr, &forget_in_child) == 0;
    return State::recording;
}

bool recording() {
    const State now = state.load(std::memory_order_acquire);
    if (now != State::fresh) [[likely]]
        return now == State::recording;
    const int kept = errno;
    pthread_mutex_lock(&opening);
    if (state.load() == State::fresh) state.store(open_ring());
    pthread_mutex_unlock(&opening);
    errno = kept;
    return state.load() == State::recording;
}

Record record_of(const Call& call, std::uint64_t time_ns) {
    Record record;
    record.time_ns = time_ns;
    record.comm = call.comm;
    record.count = call.count;
    record.bytes = call.bytes;
    record.aux = call.aux;
    record.generation = generation.load(std::memory_order_relaxed);
    record.op = call.op;
    record.front = call.front;
    record.type = call.type;
    return record;
}

Control control() { return ring.header->control.load(std::memory_order_relaxed); }

__attribute__((destructor)) void say_end() {
    if (state.load() == State::recording) ring.header->ended.store(1);
}

}  // namespace

std::uint64_t now_ns() { return clock_ns(CLOCK_MONOTONIC_RAW); }

Noted note_call(const Call& call) {
    if (!recording()) return {};
    const Control wanted = control();
    if (wanted == Control::pause) return {};
    const std::uint64_t time_ns = now_ns();
    const std::uint64_t sequence = write_record(ring, record_of(call, time_ns));
    return {sequence, time_ns, wanted == Control::profile};
}

void note_timing(const Call& call, const Noted& noted, std::uint64_t duration_ns) {
    if (!recording()) return;
    Record record = record_of(call, noted.time_ns == 0 ? now_ns() - duration_ns : noted.time_ns);
    record.kind = Kind::timing;
    record.duration_ns = duration_ns;
    if (noted.time_ns != 0)
        record.back = static_cast<std::uint32_t>(ring.header->head.load() - noted.sequence);
    write_record(ring, record);
}

bool profiling() { return recording() && control() == Control::profile; }

void note_device(int number) {
    device.store(number);
    if (state.load() == State::recording) ring.header->device.store(number);
}

void next_generation() { generation.fetch_add(1, std::memory_order_relaxed); }

void say_once(const char* text) {
    if (!said.exchange(true)) ::dprintf(STDERR_FILENO, "arena-watch: %s\n", text);
}

}  // namespace arena::watch
