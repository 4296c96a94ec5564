// SPDX-License-Identifier: GPL-2.0-or-later
// Device memory. Blocks are never reused, so that who still uses a freed one is seen. Each ends at
// a page that nobody may touch, and begins after one. New memory is 0xff: NaN in every type.
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>

#include "tests/cuda/device.h"

namespace soft {
namespace {

constexpr std::size_t page = 4096, alignment = 256;  // cudaMalloc's, programming guide 5.3.2
constexpr std::size_t most_poison = std::size_t{16} << 20;
constexpr std::uintptr_t device_base = 0x100000000000, device_span = std::uintptr_t{1} << 41;
constexpr unsigned char canary = 0xc5;

struct Block {
    std::byte* begin = nullptr;
    std::byte* pages = nullptr;
    std::size_t bytes = 0, page_bytes = 0;
    int device = 0;
    std::string by;
};

struct Memory {
    std::map<std::uintptr_t, Block> blocks;
    std::map<std::uintptr_t, std::size_t> pinned;
    std::vector<std::uintptr_t> next;
    std::vector<std::size_t> used;
    int opened = 0;
    std::string user;  ///< the operation that runs
};
Memory& memory() {
    static auto* const m = new Memory;  // used by exit handlers of others
    return *m;
}

/// ARENA_SOFT_OPEN=1: the host may touch device memory unseen, which saves time where ranks are
/// many.
bool is_closed() {
    static const bool closed = setting("ARENA_SOFT_OPEN", 0) == 0;
    return closed;
}

std::size_t up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

void on_fault(int, siginfo_t* info, void*) {
    const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
    char text[400];
    if (at < device_base || at >= device_base + device_span * 16) {
        signal(SIGSEGV, SIG_DFL);
        return;
    }
    const Memory& m = memory();
    const int n = std::snprintf(text, sizeof text, "software device: %s touched %p, which is %s\n",
                                m.opened > 0 ? m.user.c_str() : "the host", info->si_addr,
                                m.opened > 0 ? "outside every block, or freed" : "device memory");
    (void)!write(2, text, static_cast<std::size_t>(n));
    void* frames[30];
    backtrace_symbols_fd(frames, backtrace(frames, 30), 2);
    _exit(86);
}

void watch_faults() {
    static const bool once = [] {
        struct sigaction act {};
        act.sa_sigaction = on_fault;
        act.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &act, nullptr);
        sigaction(SIGBUS, &act, nullptr);
        return true;
    }();
    (void)once;
}

std::map<std::string, int>& living() {
    static auto* const all = new std::map<std::string, int>;
    return *all;
}

/// At exit, with streams at rest until the end.
void report_leaks() {
    lock().lock();
    for (const auto& [what, count] : living())
        if (count != 0)
            std::fprintf(stderr, "software device: leak of %d %s\n", count, what.c_str());
    for (const auto& [at, block] : memory().blocks)
        std::fprintf(stderr, "software device: leak of %zu bytes on device %d, by %s\n",
                     block.bytes, block.device, block.by.c_str());
}

void check_canary(const Block& b) {
    const std::byte* const end = b.pages + b.page_bytes;
    for (const std::byte* p = b.begin + b.bytes; p < end; ++p)
        if (*p != std::byte{canary})
            fault("something wrote behind the " + std::to_string(b.bytes) + " bytes of a block");
}

}  // namespace

void alive(const char* what, int change) {
    static const int once = std::atexit(report_leaks);
    (void)once;
    living()[what] += change;
}

std::size_t memory_bytes() {
    return static_cast<std::size_t>(setting("ARENA_SOFT_MEMORY_MIB", 4096)) << 20;
}

std::size_t free_bytes(int device) {
    Memory& m = memory();
    m.used.resize(static_cast<std::size_t>(device_count()));
    return memory_bytes() - m.used[static_cast<std::size_t>(device)];
}

void* allocate(int device, std::size_t bytes, const char* by) {
    watch_faults();
    Memory& m = memory();
    alive("blocks", 0);
    const auto d = static_cast<std::size_t>(device);
    m.next.resize(static_cast<std::size_t>(device_count()));
    if (m.next[d] == 0) m.next[d] = device_base + d * device_span;
    Block b;
    b.bytes = bytes, b.device = device, b.by = by;
    const std::size_t padded = up(bytes, alignment);
    b.page_bytes = up(padded, page);
    if (b.page_bytes > free_bytes(device)) return nullptr;
    m.next[d] += page;
    b.pages = reinterpret_cast<std::byte*>(m.next[d]);
    if (mmap(b.pages, b.page_bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != b.pages)
        return nullptr;
    m.next[d] += b.page_bytes;
    b.begin = b.pages + (b.page_bytes - padded);
    std::memset(b.begin, 0xff, std::min(bytes, most_poison));
    std::memset(b.begin + bytes, canary, padded - bytes);
    m.used[d] += b.page_bytes;
    if (m.opened == 0 && is_closed()) mprotect(b.pages, b.page_bytes, PROT_NONE);
    m.blocks[reinterpret_cast<std::uintptr_t>(b.begin)] = b;
    return b.begin;
}

bool release(void* p) {
    Memory& m = memory();
    const auto found = m.blocks.find(reinterpret_cast<std::uintptr_t>(p));
    if (found == m.blocks.end()) return false;
    const Block b = found->second;
    {
        const Opened open("free");
        check_canary(b);
    }
    m.blocks.erase(found);
    m.used[static_cast<std::size_t>(b.device)] -= b.page_bytes;
    munmap(b.pages, b.page_bytes);
    // the address stays nobody's
    mmap(b.pages, b.page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
    return true;
}

int device_of(const void* p, std::size_t bytes, const char* user) {
    const auto at = reinterpret_cast<std::uintptr_t>(p);
    if (at < device_base || at >= device_base + device_span * 16) return -1;
    Memory& m = memory();
    auto found = m.blocks.upper_bound(at);
    if (found != m.blocks.begin()) {
        const Block& b = (--found)->second;
        const std::size_t offset = at - found->first;
        if (offset < b.bytes + (bytes == 0) && bytes <= b.bytes - offset) return b.device;
    }
    fault(std::string(user) + " of " + std::to_string(bytes) +
          " bytes that do not lie inside one live block of device memory");
}

void* allocate_pinned(std::size_t bytes) {
    void* const p = std::malloc(bytes);
    alive("blocks of pinned memory", 1);
    std::memset(p, 0xff, bytes);
    memory().pinned[reinterpret_cast<std::uintptr_t>(p)] = bytes;
    return p;
}
bool release_pinned(void* p) {
    if (memory().pinned.erase(reinterpret_cast<std::uintptr_t>(p)) == 0) return false;
    alive("blocks of pinned memory", -1);
    std::free(p);
    return true;
}
bool pin(void* p, std::size_t bytes) {
    if (is_pinned(p, 1)) return false;
    alive("blocks of registered memory", 1);
    memory().pinned[reinterpret_cast<std::uintptr_t>(p)] = bytes;
    return true;
}
bool unpin(void* p) {
    if (memory().pinned.erase(reinterpret_cast<std::uintptr_t>(p)) == 0) return false;
    alive("blocks of registered memory", -1);
    return true;
}
bool is_pinned(const void* p, std::size_t bytes) {
    const auto at = reinterpret_cast<std::uintptr_t>(p);
    const auto& pinned = memory().pinned;
    auto found = pinned.upper_bound(at);
    if (found == pinned.begin()) return false;
    --found;
    return at + bytes <= found->first + found->second;
}

Opened::Opened(const std::string& user) {
    Memory& m = memory();
    before_ = m.user;
    m.user = user;
    if (m.opened++ > 0 || !is_closed()) return;
    for (const auto& [at, b] : m.blocks) mprotect(b.pages, b.page_bytes, PROT_READ | PROT_WRITE);
}
void Opened::name(const std::string& user) { memory().user = user; }
Opened::~Opened() {
    Memory& m = memory();
    m.user = before_;
    if (--m.opened > 0 || !is_closed()) return;
    for (const auto& [at, b] : m.blocks) mprotect(b.pages, b.page_bytes, PROT_NONE);
}

}  // namespace soft
