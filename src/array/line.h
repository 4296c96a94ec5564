// SPDX-License-Identifier: GPL-2.0-or-later
// Blocks appended one after another: what append(), the list rule and the searches share. The inner
// loop of the searches; nothing here allocates but the constructor.
#pragma once

#include <algorithm>
#include <vector>

#include "array/instance.h"

namespace arena::array {

/// The devices and jobs after some blocks were appended.
class Line {
  public:
    static constexpr int nothing = -1;  ///< a device that holds no state of use
    static constexpr int any = -2;      ///< that ran nothing yet: its first block needs no switch

    Line(const Instance& instance, const Rules& rules)
        : instance_(&instance),
          rules_(rules),
          next_(instance.first.begin(), instance.first.end() - 1),
          ready_(static_cast<std::size_t>(instance.jobs), 0),
          device_(static_cast<std::size_t>(instance.devices)) {
        if (!rules.none())
            for (const Block& block : instance.blocks)
                device_[static_cast<std::size_t>(block.device)].forward_left += !block.backward;
    }

    [[nodiscard]] bool has_next(int job) const {
        const auto j = static_cast<std::size_t>(job);
        return next_[j] < instance_->first[j + 1];
    }
    [[nodiscard]] std::size_t next_index(int job) const {
        return next_[static_cast<std::size_t>(job)];
    }
    [[nodiscard]] const Block& next(int job) const { return instance_->blocks[next_index(job)]; }
    /// Whether rules let the job's next block go.
    [[nodiscard]] bool may_go(int job) const {
        if (rules_.none()) return true;
        const Block& block = next(job);
        const Device& device = device_[static_cast<std::size_t>(block.device)];
        if (block.backward) return !rules_.forward_first || device.forward_left == 0;
        return rules_.in_flight_cap == 0 || device.in_flight < rules_.in_flight_cap;
    }
    [[nodiscard]] Ticks earliest_start(int job) const {
        const Block& block = next(job);
        const Device& device = device_[static_cast<std::size_t>(block.device)];
        const bool holds = device.state == block.state || device.state == any;
        return std::max(ready_[static_cast<std::size_t>(job)],
                        device.free + (holds ? 0 : block.setup));
    }
    /// Its start.
    Ticks append(int job) {
        const Ticks start = earliest_start(job);
        const auto j = static_cast<std::size_t>(job);
        const Block& block = instance_->blocks[next_[j]++];
        Device& device = device_[static_cast<std::size_t>(block.device)];
        device.free = start + block.hold;
        device.state = block.state;
        ready_[j] = start + block.work + block.transfer;
        makespan_ = std::max(makespan_, device.free);
        if (!rules_.none()) {
            device.forward_left -= !block.backward;
            device.in_flight += block.backward ? -1 : 1;
        }
        return start;
    }
    [[nodiscard]] Ticks makespan() const { return makespan_; }
    /// When the input of the job's next block is there; of one that is done, its last output.
    [[nodiscard]] Ticks ready(int job) const { return ready_[static_cast<std::size_t>(job)]; }

  private:
    struct Device {
        Ticks free = 0;
        int state = any;
        int forward_left = 0, in_flight = 0;
    };
    const Instance* instance_;
    Rules rules_;
    std::vector<std::size_t> next_;
    std::vector<Ticks> ready_;
    std::vector<Device> device_;
    Ticks makespan_ = 0;
};

/// Goes through `jobs` in order; calls each(block index, start). Where rules forbid a block, those
/// after it go first, and it follows as soon as it may. False: some may never go.
template <typename Each>
bool append_in_order(Line& line, const Rules& rules, const std::vector<int>& jobs, Each each) {
    const auto go = [&](int job) {
        const std::size_t index = line.next_index(job);
        each(index, line.append(job));
    };
    if (rules.none()) {
        for (const int job : jobs) go(job);
        return true;
    }
    std::vector<int> waiting;
    for (const int job : jobs) {
        waiting.push_back(job);
        for (std::size_t i = 0; i < waiting.size();) {
            if (!line.may_go(waiting[i])) {
                ++i;
                continue;
            }
            go(waiting[i]);
            waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
            i = 0;
        }
    }
    return waiting.empty();
}

}  // namespace arena::array
