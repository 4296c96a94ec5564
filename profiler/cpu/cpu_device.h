// SPDX-License-Identifier: GPL-2.0-or-later
// Who the CPU is: model, last-level cache, memory (hwloc where present, else /proc), kernel,
// libraries.
#pragma once

#include <cstdint>
#include <string>

#include "core/profile.h"

namespace arena {

struct CpuFacts {
    std::string model;
    std::int64_t cache_bytes = 0;  ///< largest data cache; 32 MiB when nothing tells
    std::int64_t memory_bytes = 0;
};

/// CPUs in this process's affinity mask (taskset, cpuset cgroup).
std::int64_t allowed_cpus();
CpuFacts cpu_facts();
Device cpu_device(const CpuFacts&, std::int64_t threads);

}  // namespace arena
