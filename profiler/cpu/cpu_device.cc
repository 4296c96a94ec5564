// SPDX-License-Identifier: GPL-2.0-or-later
// CPU identity for profiles: two profiles may only be mixed when these facts agree.
#include "profiler/cpu/cpu_device.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/text.h"
#include "config.h"
#include "profiler/core/request.h"
#include "profiler/cpu/cpu_kernels.h"

#ifdef HAVE_HWLOC
#include <hwloc.h>
#endif

namespace arena {
namespace {

constexpr std::int64_t default_cache = 32 << 20;

std::string model_from_proc() {
    std::ifstream f("/proc/cpuinfo");
    for (std::string line; std::getline(f, line);)
        if (line.rfind("model name", 0) == 0)
            if (const auto colon = line.find(':'); colon != std::string::npos)
                return std::string(trim(line.substr(colon + 1)));
    return {};
}

#ifdef HAVE_HWLOC
CpuFacts facts_from_hwloc() {
    CpuFacts f;
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) return f;
    if (hwloc_topology_load(topology) == 0) {
        const hwloc_obj_t root = hwloc_get_root_obj(topology);
        f.memory_bytes = static_cast<std::int64_t>(root->total_memory);
        const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
        const char* name =
            hwloc_obj_get_info_by_name(package != nullptr ? package : root, "CPUModel");
        if (name != nullptr) f.model = name;
        for (const auto type : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE})
            if (const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, 0);
                cache != nullptr)
                f.cache_bytes =
                    std::max(f.cache_bytes, static_cast<std::int64_t>(cache->attr->cache.size));
    }
    hwloc_topology_destroy(topology);
    return f;
}
#else
CpuFacts facts_from_hwloc() { return {}; }
#endif

}  // namespace

std::int64_t allowed_cpus() {
    for (int size = 1024; size <= 1 << 18; size *= 4) {
        cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(size));
        const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(size));
        const int failed = ::sched_getaffinity(0, bytes, set);
        const int count = failed == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0) return count;
    }
    return 1;
}

CpuFacts cpu_facts() {
    CpuFacts f = facts_from_hwloc();
    if (f.model.empty()) f.model = model_from_proc();
    if (f.model.empty()) f.model = "unknown CPU";
    if (f.memory_bytes == 0)
        f.memory_bytes =
            static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
    if (f.cache_bytes == 0) f.cache_bytes = default_cache;
    f.cache_bytes = std::min<std::int64_t>(f.cache_bytes, 128 << 20);
    return f;
}

Device cpu_device(const CpuFacts& facts, std::int64_t threads) {
    struct utsname kernel {};
    ::uname(&kernel);
    Device d;
    d.kind = "cpu";
    d.name = facts.model;
    d.driver = kernel.release;
    d.library = cpu::gemm_library() + " + arena loops 1";
    d.memory_bytes = facts.memory_bytes;
    d.threads = threads;
    d.node = host_name();
    return d;
}

}  // namespace arena
