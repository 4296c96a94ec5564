// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lab/array/schedule_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace arena::array {

namespace {

constexpr Ticks missing = -1;

Status check_chains(const Instance& instance, std::span<const Ticks> start) {
    for (std::size_t b = 0; b < instance.blocks.size(); ++b) {
        const Block& block = instance.blocks[b];
        if (start[b] < 0) return no_error(fmt::format("{} starts before 0", name_of(block)));
        const bool is_last = b + 1 == instance.first[static_cast<std::size_t>(block.job) + 1];
        if (is_last) continue;
        const std::int64_t ready = std::int64_t{start[b]} + block.work + block.transfer;
        if (start[b + 1] < ready)
            return no_error(fmt::format("{} starts at {}, and its input comes at {}",
                                        name_of(instance.blocks[b + 1]), start[b + 1], ready));
    }
    return Done{};
}

/// What one device ran so far.
struct Ran {
    const Block* last = nullptr;
    std::int64_t free = 0;
    int in_flight = 0;
    bool backward = false;
};

Status run_next(Ran& ran, const Block& block, Ticks start, const Rules& rules) {
    const bool switches = ran.last != nullptr && ran.last->state != block.state;
    const std::int64_t earliest = ran.free + (switches ? block.setup : 0);
    if (start < earliest)
        return no_error(fmt::format("{} starts at {}, and device {} is ready for it at {}",
                                    name_of(block), start, block.device, earliest));
    if (rules.forward_first && ran.backward && !block.backward)
        return no_error(fmt::format("{} comes after a backward block on device {}", name_of(block),
                                    block.device));
    ran.in_flight += block.backward ? -1 : 1;
    if (rules.in_flight_cap > 0 && ran.in_flight > rules.in_flight_cap)
        return no_error(fmt::format("{} is one in flight too many on device {}: at most {}",
                                    name_of(block), block.device, rules.in_flight_cap));
    ran.last = &block;
    ran.free = std::int64_t{start} + block.hold;
    ran.backward |= block.backward;
    return Done{};
}

using Blocks = std::vector<std::size_t>;

/// Blocks of each device by start; what takes no time goes before what does, a job's in the order
/// of its chain.
std::vector<Blocks> by_device(const Instance& instance, std::span<const Ticks> start) {
    std::vector<Blocks> devices(static_cast<std::size_t>(instance.devices));
    for (std::size_t b = 0; b < instance.blocks.size(); ++b)
        devices[static_cast<std::size_t>(instance.blocks[b].device)].push_back(b);
    for (Blocks& blocks : devices)
        std::sort(blocks.begin(), blocks.end(), [&](std::size_t a, std::size_t b) {
            const auto key = [&](std::size_t i) {
                return std::tuple(start[i], instance.blocks[i].hold > 0, i);
            };
            return key(a) < key(b);
        });
    return devices;
}

/// Whether each job's blocks stand in the order of its chain.
bool keeps_chains(const Instance& instance, const Blocks& group) {
    for (std::size_t i = 1; i < group.size(); ++i)
        for (std::size_t k = 0; k < i; ++k)
            if (instance.blocks[group[k]].job == instance.blocks[group[i]].job &&
                group[k] > group[i])
                return false;
    return true;
}

/// Runs blocks of one start, which are `group` in some order, from each of the ways that the device
/// may have come so far; the ways that hold. Errors: none does; the reason of the first.
Result<std::vector<Ran>> run_group(const Instance& instance, const Rules& rules, Ticks start,
                                   Blocks group, const std::vector<Ran>& ways) {
    constexpr std::size_t most_tried = 6;
    const bool is_free = group.size() > 1 && group.size() <= most_tried;
    std::vector<Ran> held;
    std::optional<Error> why;
    if (is_free) std::sort(group.begin(), group.end());
    do {
        if (is_free && !keeps_chains(instance, group)) continue;
        for (Ran ran : ways) {
            Status status = Done{};
            for (std::size_t i = 0; status && i < group.size(); ++i)
                status = run_next(ran, instance.blocks[group[i]], start, rules);
            const auto same = [&](const Ran& other) { return other.last == ran.last; };
            if (!status && !why) why = status.error();
            if (status && std::none_of(held.begin(), held.end(), same)) held.push_back(ran);
        }
    } while (is_free && std::next_permutation(group.begin(), group.end()));
    if (held.empty()) return *why;
    return held;
}

/// When the device is free at last.
Result<std::int64_t> check_device(const Instance& instance, const Rules& rules,
                                  std::span<const Ticks> start, const Blocks& blocks) {
    std::vector<Ran> ways(1);
    for (std::size_t i = 0; i < blocks.size();) {
        std::size_t end = i + 1;
        while (end < blocks.size() && start[blocks[end]] == start[blocks[i]]) ++end;
        const auto at = [&](std::size_t k) {
            return blocks.begin() + static_cast<std::ptrdiff_t>(k);
        };
        auto held = run_group(instance, rules, start[blocks[i]], Blocks(at(i), at(end)), ways);
        if (!held) return held.error();
        ways = std::move(*held);
        i = end;
    }
    return ways.front().free;
}

}  // namespace

std::string name_of(const Block& block) {
    return fmt::format("job {} stage {} {}", block.job, block.stage,
                       block.backward ? "backward" : "forward");
}

Result<Ticks> check_schedule(const Instance& instance, const Rules& rules,
                             std::span<const Ticks> start) {
    if (start.size() != instance.blocks.size())
        return no_error(
            fmt::format("{} blocks instead of {}", start.size(), instance.blocks.size()));
    if (const auto checked = check_chains(instance, start); !checked) return checked.error();
    std::int64_t makespan = 0;
    for (const auto& blocks : by_device(instance, start)) {
        const auto ended = check_device(instance, rules, start, blocks);
        if (!ended) return ended.error();
        makespan = std::max(makespan, *ended);
    }
    if (makespan > most_ticks) return no_error(fmt::format("it ends after {} ticks", most_ticks));
    return static_cast<Ticks>(makespan);
}

std::vector<PlacedBlock> placed_blocks(const Instance& instance, const Schedule& schedule) {
    std::vector<PlacedBlock> placed;
    for (std::size_t b = 0; b < instance.blocks.size(); ++b) {
        const Block& block = instance.blocks[b];
        placed.push_back({block.job, block.stage, block.backward, schedule.start[b]});
    }
    return placed;
}

Result<std::vector<Ticks>> starts_of(const Instance& instance,
                                     std::span<const PlacedBlock> placed) {
    std::vector<Ticks> start(instance.blocks.size(), missing);
    for (const PlacedBlock& one : placed) {
        const Block wanted{.job = one.job, .stage = one.stage, .backward = one.backward};
        if (one.start < 0 || one.start > most_ticks)
            return no_error(fmt::format("{} starts at {}, which is not 0 to {}", name_of(wanted),
                                        one.start, most_ticks));
        if (one.job < 0 || one.job >= instance.jobs)
            return no_error(fmt::format("there is no job {}", one.job));
        std::size_t b = instance.first[static_cast<std::size_t>(one.job)];
        const std::size_t end = instance.first[static_cast<std::size_t>(one.job) + 1];
        while (b < end && (instance.blocks[b].stage != one.stage ||
                           instance.blocks[b].backward != one.backward))
            ++b;
        if (b == end) return no_error(fmt::format("there is no {}", name_of(wanted)));
        if (start[b] != missing) return no_error(fmt::format("{} starts twice", name_of(wanted)));
        start[b] = static_cast<Ticks>(one.start);
    }
    const auto lost = std::find(start.begin(), start.end(), missing);
    if (lost != start.end())
        return no_error(
            fmt::format("{} is missing",
                        name_of(instance.blocks[static_cast<std::size_t>(lost - start.begin())])));
    return start;
}

}  // namespace arena::array
