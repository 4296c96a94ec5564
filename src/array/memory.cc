// SPDX-License-Identifier: GPL-2.0-or-later
#include "array/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace arena::array {

namespace {

Bytes of(const ByteTable& table, const Block& block) {
    return table[static_cast<std::size_t>(block.job)][static_cast<std::size_t>(block.stage)];
}

Status check_table(const ByteTable& table, const Instance& instance, const char* name) {
    if (table.size() != static_cast<std::size_t>(instance.jobs))
        return usage_error(fmt::format("{} has {} rows, and there are {} jobs", name, table.size(),
                                       instance.jobs));
    for (const auto& row : table) {
        if (row.size() != static_cast<std::size_t>(instance.stages))
            return usage_error(fmt::format("{} has a row of {} instead of {} amounts", name,
                                           row.size(), instance.stages));
        for (const Bytes amount : row)
            if (amount < 0 || amount > most_bytes)
                return usage_error(
                    fmt::format("{}: {} is not 0 to {} bytes", name, amount, most_bytes));
    }
    return Done{};
}

/// Of one device, over the blocks of the first jobs.
struct DeviceNeeds {
    Bytes state = 0, working = 0;
    std::vector<Bytes> checkpoints;  ///< largest first
};

DeviceNeeds needs_on(const Instance& instance, const MemoryNeeds& needs, int device, int jobs) {
    DeviceNeeds all;
    for (const Block& block : instance.blocks) {
        if (block.device != device || block.job >= jobs) continue;
        all.state = std::max(all.state, of(needs.state, block));
        all.working = std::max(all.working, of(needs.working, block));
        if (!block.backward) all.checkpoints.push_back(of(needs.checkpoint, block));
    }
    std::sort(all.checkpoints.begin(), all.checkpoints.end(), std::greater<>());
    return all;
}

Bytes needed_on(const Instance& instance, const MemoryNeeds& needs, int device, int jobs, int cap) {
    const DeviceNeeds all = needs_on(instance, needs, device, jobs);
    const std::size_t most = all.checkpoints.size();
    const std::size_t flying = cap == 0 ? most : std::min(most, static_cast<std::size_t>(cap));
    const auto end = all.checkpoints.begin() + static_cast<std::ptrdiff_t>(flying);
    return needs.fixed[static_cast<std::size_t>(device)] + needs.buffers * all.state +
           std::accumulate(all.checkpoints.begin(), end, Bytes{0}) + all.working;
}

bool fits(const Instance& instance, const MemoryNeeds& needs, const std::vector<Bytes>& capacity,
          int cap) {
    const auto needed = bytes_needed(instance, needs, cap);
    return std::equal(needed.begin(), needed.end(), capacity.begin(), std::less_equal<>());
}

}  // namespace

Status check_needs(const Instance& instance, const MemoryNeeds& needs) {
    const std::pair<const ByteTable&, const char*> tables[] = {
        {needs.state, "state"}, {needs.checkpoint, "checkpoint"}, {needs.working, "working"}};
    for (const auto& [table, name] : tables)
        if (auto checked = check_table(table, instance, name); !checked) return checked;
    if (needs.fixed.size() != static_cast<std::size_t>(instance.devices))
        return usage_error(fmt::format("fixed has {} amounts, and there are {} devices",
                                       needs.fixed.size(), instance.devices));
    for (const Bytes amount : needs.fixed)
        if (amount < 0 || amount > most_bytes)
            return usage_error(fmt::format("fixed: {} is not 0 to {} bytes", amount, most_bytes));
    if (needs.buffers < 1 || needs.buffers > 64)
        return usage_error(fmt::format("{} buffers are not 1 to 64", needs.buffers));
    return Done{};
}

std::vector<Bytes> peak_bytes(const Instance& instance, const Schedule& schedule,
                              const MemoryNeeds& needs) {
    const auto devices = static_cast<std::size_t>(instance.devices);
    std::vector<Bytes> peak(devices, 0), kept(devices, 0), base(devices);
    for (std::size_t d = 0; d < devices; ++d)
        base[d] =
            needs.fixed[d] +
            needs.buffers * needs_on(instance, needs, static_cast<int>(d), instance.jobs).state;
    for (const std::size_t b : blocks_in_order(instance, schedule)) {
        const Block& block = instance.blocks[b];
        const auto d = static_cast<std::size_t>(block.device);
        if (!block.backward) kept[d] += of(needs.checkpoint, block);
        peak[d] = std::max(peak[d], base[d] + kept[d] + of(needs.working, block));
        if (block.backward) kept[d] -= of(needs.checkpoint, block);
    }
    return peak;
}

std::vector<Bytes> bytes_needed(const Instance& instance, const MemoryNeeds& needs,
                                int in_flight_cap) {
    std::vector<Bytes> needed;
    for (int d = 0; d < instance.devices; ++d)
        needed.push_back(needed_on(instance, needs, d, instance.jobs, in_flight_cap));
    return needed;
}

Result<int> in_flight_cap(const Instance& instance, const MemoryNeeds& needs,
                          const std::vector<Bytes>& capacity) {
    if (capacity.size() != static_cast<std::size_t>(instance.devices))
        return usage_error(fmt::format("capacity has {} amounts, and there are {} devices",
                                       capacity.size(), instance.devices));
    if (fits(instance, needs, capacity, 0)) return 0;
    int cap = static_cast<int>(instance.blocks.size());
    while (cap > 0 && !fits(instance, needs, capacity, cap)) --cap;
    if (cap > 0) return cap;
    const auto least = bytes_needed(instance, needs, 1);
    std::size_t d = 0;
    while (least[d] <= capacity[d]) ++d;
    return no_error(fmt::format("device {} needs {} bytes for one member in flight, and has {}", d,
                                least[d], capacity[d]));
}

int array_size(const Instance& instance, const MemoryNeeds& needs,
               const std::vector<Bytes>& capacity, Bytes host_capacity) {
    Bytes host = 0;
    for (int jobs = 1; jobs <= instance.jobs; ++jobs) {
        for (const Bytes state : needs.state[static_cast<std::size_t>(jobs) - 1]) host += 2 * state;
        if (host > host_capacity) return jobs - 1;
        for (int d = 0; d < instance.devices; ++d)
            if (needed_on(instance, needs, d, jobs, 0) > capacity[static_cast<std::size_t>(d)])
                return jobs - 1;
    }
    return instance.jobs;
}

}  // namespace arena::array
