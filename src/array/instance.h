// SPDX-License-Identifier: GPL-2.0-or-later
// What is to be scheduled: sibling jobs that share one pipeline (ArrayPipe, INFOCOM'25). Each job
// is a chain of blocks, a mini-batch on one stage, forward through all stages and back; each block
// runs on the device of its stage. Job shops and flow shops are instances, too. Values only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"

namespace arena::array {

/// Time; what a tick is, the maker of an instance decides. All times of an instance add up to at
/// most most_ticks, so that no schedule overflows.
using Ticks = std::int32_t;
inline constexpr std::int64_t most_ticks = 2'000'000'000;
/// Later than all times of an instance.
inline constexpr Ticks never = std::numeric_limits<Ticks>::max();
inline constexpr std::size_t most_jobs = 1024, most_stages = 256, most_blocks = 1 << 16;
/// A job, a stage, a device or a state, none below 0, as a place in a table.
constexpr std::size_t index(int number) { return static_cast<std::size_t>(number); }

struct Block {
    int job = 0, stage = 0, device = 0;
    bool backward = false;
    int state = 0;       ///< of (job, stage), from 0: what the device must hold to run it
    Ticks work = 0;      ///< from its start until its output is ready
    Ticks hold = 0;      ///< from its start until the device is free, >= work: with the update
    Ticks transfer = 0;  ///< from its output to the input of the job's next block
    Ticks setup = 0;     ///< the device switches to its state, if it holds another
    bool operator==(const Block&) const = default;
};

/// Blocks of job j are first[j] to first[j + 1] - 1, in the order of its chain.
struct Instance {
    std::string name;
    int jobs = 0, stages = 0, devices = 0;
    std::vector<Block> blocks;
    std::vector<std::size_t> first;
    [[nodiscard]] std::size_t length(int job) const {
        const auto j = static_cast<std::size_t>(job);
        return first[j + 1] - first[j];
    }
    bool operator==(const Instance&) const = default;
};

/// Times of jobs [job][stage]; transfer has one stage less. A job whose backward row is all zero
/// has forward blocks only.
struct StageTimes {
    using Table = std::vector<std::vector<Ticks>>;
    std::vector<int> device_of_stage;
    Table forward = {}, backward = {};
    Table recompute = {};  ///< before the backward
    Table update = {};     ///< after it, when its gradient is already on its way
    Table setup = {};      ///< switch to the state of (job, stage)
    Table transfer_forward = {}, transfer_backward = {};  ///< between stage s and s + 1
};
/// An empty table is all zero. Errors: a table's shape, a time below 0, a sum above most_ticks.
Result<Instance> make_instance(std::string name, const StageTimes& times);

/// Each job does its chain so many times, one after the other: iterations that overlap. For
/// append() and the list rule: the exact search takes a state to have one pair of blocks. Errors:
/// more than most_blocks or most_ticks.
Result<Instance> repeated(const Instance& instance, int times);

/// Chains of (device, time) whose blocks share nothing: a job shop.
struct RouteStep {
    int device = 0;
    Ticks time = 0;
};
Result<Instance> make_job_shop(std::string name, int devices,
                               const std::vector<std::vector<RouteStep>>& routes);

/// What a schedule must obey besides the instance.
struct Rules {
    bool forward_first = false;  ///< a device runs all its forward blocks before any backward one
    int in_flight_cap = 0;       ///< most states of a device whose forward is done and whose
                                 ///< backward is not; 0: no limit
    [[nodiscard]] bool none() const { return !forward_first && in_flight_cap == 0; }
    bool operator==(const Rules&) const = default;
};

}  // namespace arena::array
