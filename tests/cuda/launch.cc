// SPDX-License-Identifier: GPL-2.0-or-later
// Kernel launches: what nvcc's stubs register and call, and a grid on one thread of the host. The
// threads of a block are fibers (ucontext to begin, setjmp to go on) of which one runs until it
// waits for others, so that a block without barriers is a plain loop.
#undef _FORTIFY_SOURCE
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "tests/cuda/device.h"
#include "tests/cuda/kernel_words.h"

namespace soft {

void set_last_error(cudaError_t);

namespace {

constexpr unsigned most_threads = 1024;  // Programming guide, technical specifications
constexpr std::size_t stack_bytes = std::size_t{64} << 10;

struct Fiber {
    ucontext_t first{};
    jmp_buf at{};
    bool has_begun = false, is_over = true;
    unsigned thread = 0;
};

/// What a thread has given to shuffles; stays when it is over, for others to read.
struct Lane {
    unsigned shuffles = 0;
    std::array<std::uint64_t, 2> given{};  ///< of the last two
    bool is_over = false;
};

struct Block {
    std::vector<Fiber> fibers;
    std::vector<Lane> lanes;
    std::array<unsigned, most_threads / 32> given{};  ///< to shuffles, by the lanes of a warp
    std::byte* stacks = nullptr;
    const std::function<void()>* body = nullptr;
    unsigned threads = 0, next_thread = 0, over = 0, waiting = 0, barriers = 0;
    Fiber* running = nullptr;
    jmp_buf caller{};
    std::string name;
    dim3 shape;
} block;

std::map<std::string, Kernel*>& kernels() {
    static auto* const all = new std::map<std::string, Kernel*>;
    return *all;
}

uint3 place_of(unsigned thread) {
    return {thread % block.shape.x, thread / block.shape.x % block.shape.y,
            thread / block.shape.x / block.shape.y};
}

void fiber_loop() {
    for (;;) {
        Fiber* const self = block.running;
        while (block.next_thread < block.threads) {
            self->thread = block.next_thread++;
            self->is_over = false;
            thread_place = place_of(self->thread);
            (*block.body)();
            self->is_over = true;
            block.lanes[self->thread].is_over = true;
            ++block.over;
        }
        if (_setjmp(self->at) == 0) _longjmp(block.caller, 1);
    }
}

void enter(Fiber& f) {
    block.running = &f;
    if (!f.is_over) thread_place = place_of(f.thread);
    if (f.has_begun) _longjmp(f.at, 1);
    f.has_begun = true;
    setcontext(&f.first);
}

/// The block's fibers in turn, until all threads are through.
void run_block() {
    block.next_thread = block.over = block.waiting = block.barriers = 0;
    block.lanes.assign(block.threads, {});
    block.given = {};
    volatile unsigned i = 0;
    while (block.over < block.threads) {
        Fiber& f = block.fibers[i];
        i = (i + 1) % block.threads;
        if (f.is_over && block.next_thread == block.threads) continue;
        if (_setjmp(block.caller) == 0) enter(f);
    }
}

void make_fibers() {
    if (block.stacks != nullptr) return;
    block.stacks =
        static_cast<std::byte*>(mmap(nullptr, most_threads * stack_bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    block.fibers.resize(most_threads);
    for (unsigned i = 0; i < most_threads; ++i) {
        Fiber& f = block.fibers[i];
        getcontext(&f.first);
        f.first.uc_stack.ss_sp = block.stacks + i * stack_bytes;
        f.first.uc_stack.ss_size = stack_bytes;
        f.first.uc_link = nullptr;
        makecontext(&f.first, fiber_loop, 0);
    }
}

/// Others run; true when asked again.
void yield_fiber() {
    Fiber* const self = block.running;
    if (_setjmp(self->at) == 0) _longjmp(block.caller, 1);
}

}  // namespace

uint3 thread_place, block_place;
dim3 grid_shape, block_shape;

/// Programming guide, "Synchronization functions": all threads that are not over must come.
void barrier() {
    const unsigned mine = block.barriers;
    if (++block.waiting == block.threads) {
        block.waiting = 0;
        ++block.barriers;
        return;
    }
    for (unsigned turns = 0; block.barriers == mine; ++turns) {
        if (block.over > 0 && turns > 4)
            fault(block.name + ": __syncthreads() that some threads of the block do not come to");
        yield_fiber();
    }
}

std::uint64_t shuffle_xor(unsigned mask, std::uint64_t value, int lanes) {
    if (mask != 0xffffffffu) fault(block.name + ": a shuffle mask not known here");
    const unsigned self = block.running->thread, warp = self / 32 * 32;
    if (warp + 32 > block.threads) fault(block.name + ": a shuffle in a part of a warp");
    const unsigned turn = block.lanes[self].shuffles++;
    block.lanes[self].given[turn % 2] = value;
    unsigned& given = block.given[warp / 32];
    ++given;
    const auto lacks = [&](const Lane& l) { return l.is_over && l.shuffles <= turn; };
    const auto begin = block.lanes.begin() + warp;
    for (unsigned turns = 0; given < 32 * (turn + 1); ++turns) {
        if (turns > 4 && std::any_of(begin, begin + 32, lacks))
            fault(block.name + ": a shuffle that not all of a warp come to");
        yield_fiber();
    }
    return block.lanes[self ^ static_cast<unsigned>(lanes)].given[turn % 2];
}

void run_grid(const std::string& name, dim3 grid, dim3 shape, const std::function<void()>& thread) {
    make_fibers();
    block.name = name;
    block.body = &thread;
    block.shape = block_shape = shape;
    block.threads = shape.x * shape.y * shape.z;
    grid_shape = grid;
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                block_place = {x, y, z};
                run_block();
            }
}

void add_kernel(Kernel* k) { kernels()[k->name] = k; }

/// nvcc names an anonymous namespace N_GLOBAL__N__..., N being its length; here it has a name.
Kernel* find_kernel(const char* registered_name) {
    std::string name = registered_name;
    if (const auto at = name.find("_GLOBAL__N_"); at != std::string::npos) {
        auto digits = at;
        while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1])) != 0)
            --digits;
        const auto length = std::stoul(name.substr(digits, at - digits));
        name.replace(digits, at - digits + length, "11soft_device");
    }
    const auto found = kernels().find(name);
    return found == kernels().end() ? nullptr : found->second;
}

namespace {

std::map<const void*, std::string>& stubs() {
    static auto* const all = new std::map<const void*, std::string>;
    return *all;
}

struct Configuration {
    dim3 grid, block;
    std::size_t shared = 0;
    void* stream = nullptr;
};
thread_local std::vector<Configuration> pushed;

cudaError_t launch(const void* stub, const Configuration& c, void** arguments) {
    const auto name = stubs().find(stub);
    if (name == stubs().end()) fault("a kernel that is not registered");
    Kernel* const kernel = find_kernel(name->second.c_str());
    if (kernel == nullptr) fault("no kernel of the host for " + name->second);
    const dim3 &g = c.grid, &b = c.block;
    // Programming guide, technical specifications per compute capability
    if (g.x == 0 || g.y == 0 || g.z == 0 || b.x == 0 || b.y == 0 || b.z == 0 || g.x > 0x7fffffffu ||
        g.y > 65535 || g.z > 65535 || b.x * b.y * b.z > most_threads)
        return cudaErrorInvalidConfiguration;
    if (c.shared != 0) fault(name->second + ": dynamic shared memory is not known here");
    const auto thread = kernel->copy(arguments);
    const double blocks = static_cast<double>(g.x) * g.y * g.z;
    return enqueue(
        static_cast<cudaStream_t>(c.stream),
        {name->second, seconds_of_blocks(blocks), [thread, c, what = name->second](Stream&) {
             run_grid(what, c.grid, c.block, thread);
             return true;
         }});
}

}  // namespace
}  // namespace soft

extern "C" {

void** __cudaRegisterFatBinary(void*) {
    static void* handle = nullptr;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
    const std::lock_guard guard(soft::lock());
    soft::stubs()[stub] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                     CUstream_st* stream) {
    soft::pushed.push_back({grid, block, shared, stream});
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
    const soft::Configuration c = soft::pushed.back();
    soft::pushed.pop_back();
    *grid = c.grid, *block = c.block, *shared = c.shared;
    *static_cast<void**>(stream) = c.stream;
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
    *kernel = static_cast<cudaKernel_t>(const_cast<void*>(stub));
    return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared, cudaStream_t stream) {
    const std::lock_guard guard(soft::lock());
    const int failure = soft::injected(__func__);
    const cudaError_t e = failure != 0
                              ? static_cast<cudaError_t>(failure)
                              : soft::launch(stub, {grid, block, shared, stream}, arguments);
    soft::set_last_error(e);
    return e;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared, cudaStream_t stream) {
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

}  // extern "C"
