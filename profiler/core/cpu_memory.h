// SPDX-License-Identifier: GPL-2.0-or-later
// Buffers of the CPU back-end: two regions that are filled with random numbers once and cut anew
// for each operator. `input` is only ever read, so its values stay as drawn; `output` is written.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace arena::cpu {

/// A growing anonymous mapping; every byte ever handed out was written before.
class Region {
  public:
    enum class Fill { uniform, zero };
    explicit Region(Fill fill) : fill_(fill) {}
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    ~Region() { release(); }

    /// Makes room for `bytes` and starts cutting at the front again. Throws std::bad_alloc.
    void reset(std::size_t bytes);
    /// The next `count` floats, aligned to a page when `count` is a page or more, else to 64 bytes.
    float* take(std::size_t count);
    /// Most bytes that take(count) uses; a double because untrusted sizes may overflow integers.
    static double cost(std::int64_t count) {
        const double bytes = static_cast<double>(count) * sizeof(float);
        return bytes + (bytes >= 4096 ? 4096 : 64);
    }

  private:
    void release();
    Fill fill_;
    std::byte* base_ = nullptr;
    std::size_t size_ = 0, used_ = 0;
};

/// Bytes this process may still use: MemAvailable, or what its memory cgroup leaves if that is
/// less.
std::int64_t available_memory();

}  // namespace arena::cpu
