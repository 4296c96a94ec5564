// SPDX-License-Identifier: GPL-2.0-or-later
// The software device: GPUs that are memory, streams and a virtual clock of this process. Work is
// run when somebody waits for it, never when it is launched, so that a forgotten wait reads poison.
// Device memory lies in pages that the host may not touch; operations open them while they run.
// What our code does against CUDA's rules ends the process with a sentence: see fault().
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace soft {

/// Misuse of CUDA: prints the sentence and ends the process with status 86.
[[noreturn]] void fault(const std::string& what);

/// Held during every call; recursive, since libraries call the runtime.
std::recursive_mutex& lock();

/// What the environment wants of the call: 0, or the error that it is to return. Counts calls.
/// ARENA_SOFT_FAIL=NAME:N=CODE fails the N-th call of NAME; CUDA codes from 700 on stay.
int injected(const char* function);

/// Of one call: the lock, and the error that the test asked for.
struct Call {
    explicit Call(const char* name) : guard(lock()), failure(injected(name)) {}
    std::lock_guard<std::recursive_mutex> guard;
    int failure;
};

/// Counts what is made and let go; what is left is said when the process ends.
void alive(const char* what, int change);

std::int64_t setting(const char* name, std::int64_t otherwise);
int device_count();
int current_device();

// ---- memory -------------------------------------------------------------------------------------

/// Null where the device has not so much left.
void* allocate(int device, std::size_t bytes, const char* by);
/// False where `p` is no live block.
bool release(void* p);
std::size_t free_bytes(int device);
std::size_t memory_bytes();
/// The device that the block is on, -1 for host memory. Ends the process where [p, p + bytes) is
/// device memory but not inside one live block.
int device_of(const void* p, std::size_t bytes, const char* user);
/// Pinned host memory.
void* allocate_pinned(std::size_t bytes);
bool release_pinned(void* p);
/// Host memory of others; false where it is pinned already, or is not.
bool pin(void* p, std::size_t bytes);
bool unpin(void* p);
bool is_pinned(const void* p, std::size_t bytes);
/// Device memory may be touched while one lives.
class Opened {
  public:
    explicit Opened(const std::string& user);
    ~Opened();
    void name(const std::string& user);
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

  private:
    std::string before_;
};

// ---- streams ------------------------------------------------------------------------------------

struct Stream;
struct Operation {
    std::string name;
    double seconds = 0;
    std::function<bool(Stream&)> run;  ///< false: cannot go on yet, ask again
    bool opens_memory = true;          ///< false: `run` opens it where it needs it
    bool computes = true;              ///< false: a copy, as fast on a slow device as on others
};

struct Graph {
    std::vector<Operation> operations;
};

struct Stream {
    int device = 0;
    bool is_blocking = true;  ///< with the null stream
    std::deque<Operation> operations;
    double clock_s = 0;
    bool has_said_no = false;        ///< a query was answered "not ready"
    std::unique_ptr<Graph> capture;  ///< of a capture under way
    bool is_capture_invalid = false;
};

/// The stream of a handle, null for one that does not live; the null stream's is the device's.
std::shared_ptr<Stream> stream_of(cudaStream_t);
cudaStream_t new_stream(bool is_blocking);
bool drop_stream(cudaStream_t);
/// To the end of the stream, or into the graph that is being captured.
cudaError_t enqueue(cudaStream_t, Operation);
/// Runs what is first in each stream; false where nothing could go on.
bool progress();
/// The same for somebody who asks again and again: gives others time where nothing could go on.
void progress_or_pause();
/// One stream alone, as far as it goes.
void run_alone(Stream&);
/// Until `done`; what cannot go on for 120 s ends the process.
void progress_until(const std::function<bool()>& done, const char* who);
/// The same until a device has done all that it was given, as releases of memory do.
void progress_until_idle(int device, const char* who);
/// The stream whose capture this thread began: it forbids calls that are not for a stream.
std::shared_ptr<Stream>& capturing_here();
/// Where ranks wait for each other, streams go on by themselves, as on a GPU.
void progress_in_background();

// ---- the clock: seconds of an operation on the device
// --------------------------------------------
double seconds_of_bytes(double bytes);
double seconds_of_flops(double flops, double bytes);
double seconds_of_blocks(double blocks);
double seconds_of_message(double bytes);
/// As ARENA_SOFT_SLOW_LINK=FROM-TO:PERCENT says: how many times as long as else.
double slowness_of_link(int from, int to);

// ---- kernels ------------------------------------------------------------------------------------

/// A kernel of a .cu file compiled for the host. `copy` gives what runs one thread with the
/// arguments as they are at the launch.
struct Kernel {
    const char* name;
    std::function<std::function<void()>(void**)> copy;
    Kernel* next;
    template <typename... A>
    Kernel(const char* mangled, void (*f)(A...));
};
void add_kernel(Kernel*);
Kernel* find_kernel(const char* registered_name);
void run_grid(const std::string& name, dim3 grid, dim3 block, const std::function<void()>& thread);

template <std::size_t I, typename... A>
using ArgumentAt = std::tuple_element_t<I, std::tuple<A...>>;

template <typename... A>
Kernel::Kernel(const char* mangled, void (*f)(A...)) : name(mangled), next(nullptr) {
    copy = [f](void** from) {
        return [&]<std::size_t... I>(std::index_sequence<I...>)->std::function<void()> {
            std::tuple<A...> values(*static_cast<ArgumentAt<I, A...>*>(from[I])...);
            return [f, values] { std::apply(f, values); };
        }
        (std::index_sequence_for<A...>());
    };
    add_kernel(this);
}

}  // namespace soft
