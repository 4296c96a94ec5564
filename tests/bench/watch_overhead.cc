// SPDX-License-Identifier: GPL-2.0-or-later
// What recording a call costs; tests/bench/watch-overhead runs it.
//   watch_overhead calls N            N all-reduces of the stub, each timed: the sorted quantiles
//   watch_overhead ring P N           P processes record N calls each, in a ring per rank
//   watch_overhead mutex P N          the same behind one mutex per node, as the published probe
//   does
// Prints "median_ns p90_ns p99_ns mean_ns seconds"; the clock's own cost is in the first three.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>
#include <vector>

#include "watch/recorder/nccl_calls.h"
#include "watch/ring/process.h"
#include "watch/ring/ring_file.h"

extern "C" arena::watch::nccl::Result ncclAllReduce(const void*, void*, std::size_t, int, int,
                                                    arena::watch::nccl::Comm,
                                                    arena::watch::nccl::Stream);

namespace {

using namespace arena::watch;

std::uint64_t now(clockid_t clock = CLOCK_MONOTONIC_RAW) {
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(t.tv_nsec);
}

/// The probe's buffer as published: 14 words a record, 20000 records, one lock.
struct NodeBuffer {
    pthread_mutex_t lock;
    std::uint64_t number, head, tail, next_event;
    std::uint64_t records[20000][14];
};

NodeBuffer* make_node_buffer() {
    auto* buffer =
        static_cast<NodeBuffer*>(::mmap(nullptr, sizeof(NodeBuffer), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&buffer->lock, &shared);
    return buffer;
}

void record_in(NodeBuffer& buffer, std::uint64_t count) {
    const std::uint64_t time_us = now() / 1000;
    pthread_mutex_lock(&buffer.lock);
    std::uint64_t* words = buffer.records[buffer.tail];
    for (int i = 0; i < 13; ++i) words[i] = count;
    words[7] = time_us;
    words[13] = buffer.next_event++;
    buffer.tail = (buffer.tail + 1) % 20000;
    if (buffer.number < 20000)
        buffer.number += 1;
    else
        buffer.head = (buffer.head + 1) % 20000;
    pthread_mutex_unlock(&buffer.lock);
}

Ring make_ring() {
    RingOwner owner;
    owner.job = 77000540;  // watch-overhead takes its rings away
    owner.rank = static_cast<std::uint32_t>(::getpid());
    owner.pid = owner.rank;
    owner.pid_started = process_started(owner.pid);
    return create_ring(owner, usual_records);
}

void record_in(const Ring& ring, std::uint64_t count) {
    Record record;
    record.time_ns = now();
    record.count = count;
    write_record(ring, record);
}

template <typename Call>
std::vector<std::uint32_t> time_calls(std::uint64_t n, Call call) {
    std::vector<std::uint32_t> times(n);
    for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t begin = now();
        call(i);
        times[i] = static_cast<std::uint32_t>(std::min<std::uint64_t>(now() - begin, UINT32_MAX));
    }
    return times;
}

void print(std::vector<std::uint32_t> times, double seconds) {
    std::sort(times.begin(), times.end());
    const double mean =
        std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
    std::printf("%u %u %u %.0f %.3f\n", times[times.size() * 50 / 100],
                times[times.size() * 90 / 100], times[times.size() * 99 / 100], mean, seconds);
}

struct Together {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
};

/// P processes at once; their times in shared memory.
template <typename Begin>
void run_processes(int processes, std::uint64_t n, Begin begin) {
    const auto shared = [](std::size_t bytes) {
        return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    };
    auto* together = new (shared(sizeof(Together))) Together;
    const std::size_t all = static_cast<std::size_t>(processes) * n;
    auto* times = static_cast<std::uint32_t*>(shared(all * sizeof(std::uint32_t)));
    for (int p = 0; p < processes; ++p) {
        if (::fork() != 0) continue;
        const auto call = begin();
        together->ready += 1;
        while (!together->go) ::usleep(100);
        const auto mine = time_calls(n, call);
        std::copy(mine.begin(), mine.end(), times + static_cast<std::size_t>(p) * n);
        ::_exit(0);
    }
    while (together->ready < processes) ::usleep(100);
    const std::uint64_t start = now();
    together->go = true;
    while (::wait(nullptr) > 0) continue;
    print({times, times + all}, static_cast<double>(now() - start) * 1e-9);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view what = argc > 1 ? argv[1] : "";
    const auto number = [&](int i) { return argc > i ? std::strtoull(argv[i], nullptr, 10) : 0; };
    if (what == "calls" && argc == 3) {
        const auto all_reduce = [](std::uint64_t count) {
            ncclAllReduce(nullptr, nullptr, count, 7, 0, nullptr, nullptr);
        };
        time_calls(10'000, all_reduce);
        const std::uint64_t start = now();
        const auto times = time_calls(number(2), all_reduce);
        print(times, static_cast<double>(now() - start) * 1e-9);
    } else if (what == "ring" && argc == 4) {
        run_processes(static_cast<int>(number(2)), number(3), [] {
            return [ring = make_ring()](std::uint64_t count) { record_in(ring, count); };
        });
    } else if (what == "mutex" && argc == 4) {
        NodeBuffer* buffer = make_node_buffer();
        run_processes(static_cast<int>(number(2)), number(3), [buffer] {
            return [buffer](std::uint64_t count) { record_in(*buffer, count); };
        });
    } else {
        return 2;
    }
    return 0;
}
