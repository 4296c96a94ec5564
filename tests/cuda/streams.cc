// SPDX-License-Identifier: GPL-2.0-or-later
// Streams: queues that are run when somebody waits. The clock of a stream moves by what its
// operations take on the device, and by the events it waits for; no time of the host is in it.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <thread>

#include "tests/cuda/device.h"

namespace soft {
namespace {

struct State {
    std::map<std::string, int> calls;
    std::map<cudaStream_t, std::shared_ptr<Stream>> streams;
    std::vector<std::shared_ptr<Stream>> leaving;  ///< destroyed with work in them
    std::map<int, std::shared_ptr<Stream>> null_streams;
    std::uintptr_t next = 0x1000;
    int sticky = 0;
};
State& state() {
    static auto* const s = new State;
    return *s;
}

void write_calls() {
    const char* file = std::getenv("ARENA_SOFT_CALLS");
    if (file == nullptr) return;
    std::FILE* const f = std::fopen(file, "a");
    if (f == nullptr) return;
    for (const auto& [name, count] : state().calls) std::fprintf(f, "%s %d\n", name.c_str(), count);
    std::fclose(f);
}

/// NAME:N=CODE, the first of several between commas that is of this call
int wanted_error(const std::string& function, int call) {
    const char* text = std::getenv("ARENA_SOFT_FAIL");
    if (text == nullptr) return 0;
    std::istringstream rules(text);
    for (std::string rule; std::getline(rules, rule, ',');) {
        const auto colon = rule.find(':'), equals = rule.find('=');
        if (colon == std::string::npos || equals == std::string::npos)
            fault("ARENA_SOFT_FAIL is NAME:N=CODE[,NAME:N=CODE...]");
        if (rule.compare(0, colon, function) == 0 && std::atoi(rule.c_str() + colon + 1) == call)
            return std::atoi(rule.c_str() + equals + 1);
    }
    return 0;
}

/// ARENA_SOFT_SLOW=DEVICE:PERCENT: how many times as long as else it computes.
double slowness_of(int device) {
    static const char* const text = std::getenv("ARENA_SOFT_SLOW");
    int which = 0, percent = 0;
    if (text == nullptr) return 1;
    if (std::sscanf(text, "%d:%d", &which, &percent) != 2)
        fault("ARENA_SOFT_SLOW is DEVICE:PERCENT");
    return which == device ? percent / 100.0 : 1;
}

/// Up to 64 operations of a stream; memory is opened once for those that follow each other.
bool run_some(Stream& s) {
    std::unique_ptr<Opened> open;
    bool any = false;
    for (int i = 0; i < 64 && !s.operations.empty(); ++i) {
        Operation& first = s.operations.front();
        if (!first.opens_memory)
            open.reset();
        else if (open)
            open->name(first.name);
        else
            open = std::make_unique<Opened>(first.name);
        if (!first.run(s)) return any;
        s.clock_s += first.seconds * (first.computes ? slowness_of(s.device) : 1);
        s.operations.pop_front();
        any = true;
    }
    return any;
}

}  // namespace

void fault(const std::string& what) {
    std::fprintf(stderr, "software device: %s\n", what.c_str());
    std::fflush(nullptr);
    _exit(86);
}

std::recursive_mutex& lock() {
    static auto* const m = new std::recursive_mutex;
    return *m;
}

std::int64_t setting(const char* name, std::int64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::atoll(text);
}
int device_count() { return static_cast<int>(setting("ARENA_SOFT_GPUS", 1)); }

int injected(const char* function) {
    State& s = state();
    static const int once = std::atexit(write_calls);
    (void)once;
    const int call = ++s.calls[function];
    if (s.sticky != 0 && std::strncmp(function, "cuda", 4) == 0) return s.sticky;
    const int code = wanted_error(function, call);
    if (code >= 700 && std::strncmp(function, "cuda", 4) == 0) s.sticky = code;
    return code;
}

std::shared_ptr<Stream> stream_of(cudaStream_t handle) {
    State& s = state();
    if (handle == nullptr) {
        auto& null = s.null_streams[current_device()];
        if (!null) {
            null = std::make_shared<Stream>();
            null->device = current_device();
        }
        return null;
    }
    const auto found = s.streams.find(handle);
    return found == s.streams.end() ? nullptr : found->second;
}

cudaStream_t new_stream(bool is_blocking) {
    State& s = state();
    alive("streams", 1);
    const auto handle = reinterpret_cast<cudaStream_t>(s.next += 16);
    auto made = std::make_shared<Stream>();
    made->device = current_device();
    made->is_blocking = is_blocking;
    s.streams[handle] = made;
    return handle;
}

bool drop_stream(cudaStream_t handle) {
    State& s = state();
    const auto found = s.streams.find(handle);
    if (found == s.streams.end()) return false;
    alive("streams", -1);
    if (!found->second->operations.empty()) s.leaving.push_back(found->second);
    s.streams.erase(found);
    return true;
}

std::shared_ptr<Stream>& capturing_here() {
    thread_local std::shared_ptr<Stream> stream;
    return stream;
}

cudaError_t enqueue(cudaStream_t handle, Operation operation) {
    const auto s = stream_of(handle);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (s->capture) {
        s->capture->operations.push_back(std::move(operation));
        return cudaSuccess;
    }
    s->has_said_no = false;
    s->operations.push_back(std::move(operation));
    return cudaSuccess;
}

void run_alone(Stream& s) {
    while (run_some(s)) continue;
}

bool progress() {
    State& s = state();
    std::vector<std::shared_ptr<Stream>> all = s.leaving;
    // the youngest first: who relies on the order of streams without an event is seen
    for (auto i = s.streams.rbegin(); i != s.streams.rend(); ++i) all.push_back(i->second);
    for (const auto& [device, null] : s.null_streams) all.push_back(null);
    bool any = false;
    for (const auto& stream : all) {
        any = run_some(*stream) || any;
    }
    std::erase_if(s.leaving, [](const auto& stream) { return stream->operations.empty(); });
    return any;
}

namespace {
/// Others, ranks as threads among them, have the lock meanwhile.
void pause() {
    lock().unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    lock().lock();
}
}  // namespace

void progress_or_pause() {
    if (!progress()) pause();
}

void progress_until(const std::function<bool()>& done, const char* who) {
    using Clock = std::chrono::steady_clock;
    auto last = Clock::now();
    while (!done()) {
        if (progress()) {
            last = Clock::now();
            continue;
        }
        if (Clock::now() - last > std::chrono::seconds(120))
            fault(std::string(who) + " waits for ever");
        pause();
    }
}

void progress_until_idle(int device, const char* who) {
    const auto busy = [device](const std::shared_ptr<Stream>& s) {
        return s->device == device && !s->operations.empty();
    };
    progress_until(
        [&] {
            const State& s = state();
            return std::none_of(s.leaving.begin(), s.leaving.end(), busy) &&
                   std::none_of(s.streams.begin(), s.streams.end(),
                                [&](const auto& item) { return busy(item.second); }) &&
                   std::none_of(s.null_streams.begin(), s.null_streams.end(),
                                [&](const auto& item) { return busy(item.second); });
        },
        who);
}

void progress_in_background() {
    static const bool once = [] {
        std::thread([] {
            for (;;) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                const std::lock_guard guard(lock());
                progress();
            }
        }).detach();
        return true;
    }();
    (void)once;
}

/// The device is slow, so that few repetitions of what computes here are timed: 0.3 GFLOP/s and
/// 100 MB/s, which tests/cuda/hardware.yaml says, too. ARENA_SOFT_FASTER: by how much it is faster.
double faster() { return static_cast<double>(setting("ARENA_SOFT_FASTER", 1)); }
constexpr double launch_s = 2e-6;
double seconds_of_bytes(double bytes) { return launch_s + bytes / (1e8 * faster()); }
double seconds_of_flops(double flops, double bytes) {
    return launch_s + std::max(flops / 3e8, bytes / 1e8) / faster();
}
double seconds_of_blocks(double blocks) { return launch_s + blocks * 1e-3 / faster(); }
double slowness_of_link(int from, int to) {
    static const char* const text = std::getenv("ARENA_SOFT_SLOW_LINK");
    int one = 0, other = 0, percent = 0;
    if (text == nullptr) return 1;
    if (std::sscanf(text, "%d-%d:%d", &one, &other, &percent) != 3)
        fault("ARENA_SOFT_SLOW_LINK is FROM-TO:PERCENT");
    return one == from && other == to ? percent / 100.0 : 1;
}
double seconds_of_message(double bytes) { return 1e-5 + bytes / (1e8 * faster()); }

}  // namespace soft
