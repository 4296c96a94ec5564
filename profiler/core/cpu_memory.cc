// SPDX-License-Identifier: GPL-2.0-or-later
// Regions of random numbers, and how much memory there is for them.
#include "profiler/core/cpu_memory.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>
#include <string>

namespace arena::cpu {
namespace {

/// Uniform in [-0.5, 0.5); xorshift64*, two numbers per step. No zeros runs, no denormals, no NaN.
void fill_uniform(float* p, std::size_t n, std::uint64_t seed) {
    std::uint64_t s = seed | 1;
    for (std::size_t i = 0; i < n; ++i) {
        s ^= s >> 12;
        s ^= s << 25;
        s ^= s >> 27;
        const auto bits = static_cast<std::uint32_t>((s * 0x2545f4914f6cdd1dULL) >> 41);  // 23 bits
        p[i] = static_cast<float>(bits) * 0x1p-23F - 0.5F + 0x1p-25F;
    }
}

std::int64_t number_in(const std::string& path) {
    std::ifstream f(path);
    std::int64_t n = -1;
    f >> n;  // "max" leaves -1
    return f ? n : -1;
}

/// Path of this process's cgroup v2 below /sys/fs/cgroup, or "".
std::string own_cgroup() {
    std::ifstream f("/proc/self/cgroup");
    for (std::string line; std::getline(f, line);)
        if (line.rfind("0::", 0) == 0) return "/sys/fs/cgroup" + line.substr(3);
    return {};
}

}  // namespace

void Region::release() {
    if (base_ != nullptr) ::munmap(base_, size_);
    base_ = nullptr;
    size_ = 0;
}

void Region::reset(std::size_t bytes) {
    used_ = 0;
    if (bytes <= size_) return;
    bytes = std::max(bytes, size_ + size_ / 2);  // fewer refills while operators grow
    release();
    constexpr std::size_t huge = 2U << 20;
    const std::size_t size = (bytes + huge - 1) / huge * huge;
    void* p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    ::madvise(p, size, MADV_HUGEPAGE);
    base_ = static_cast<std::byte*>(p);
    size_ = size;
    if (fill_ == Fill::zero)
        std::memset(base_, 0, size_);
    else
        fill_uniform(reinterpret_cast<float*>(base_), size_ / sizeof(float), 0x9e3779b97f4a7c15ULL);
}

float* Region::take(std::size_t count) {
    const std::size_t unit = count * sizeof(float) >= 4096 ? 4096 : 64;
    const std::size_t at = (used_ + unit - 1) / unit * unit;
    if (at + count * sizeof(float) > size_) throw std::bad_alloc();
    used_ = at + count * sizeof(float);
    return reinterpret_cast<float*>(base_ + at);
}

std::int64_t available_memory() {
    std::int64_t available = 0;
    std::ifstream f("/proc/meminfo");
    for (std::string line; std::getline(f, line);)
        if (line.rfind("MemAvailable:", 0) == 0) {
            std::istringstream(line.substr(13)) >> available;
            available *= 1024;
        }
    const std::string group = own_cgroup();
    const std::int64_t limit = number_in(group + "/memory.max");
    const std::int64_t used = number_in(group + "/memory.current");
    if (!group.empty() && limit > 0 && used >= 0) available = std::min(available, limit - used);
    return std::max<std::int64_t>(available, 0);
}

}  // namespace arena::cpu
