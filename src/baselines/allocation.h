// SPDX-License-Identifier: GPL-2.0-or-later
// A plan for a round in counts: which choice each task shall have, what that leaves free of each
// GPU type. The baselines decide on it; realise() puts it on nodes. Leaves out nodes on purpose
// until then.
#pragma once

#include <string_view>
#include <vector>

#include "core/decision.h"
#include "policy/packing.h"

namespace arena {

/// A running job grows by what adds at least this share to its speed, and not within such a time of
/// its start.
inline constexpr double least_gain = 0.1, cooldown_s = 1800;

class Allocation {
  public:
    static constexpr std::int32_t nothing = -1;

    /// Running tasks have what they run with, waiting ones nothing.
    explicit Allocation(const Problem&);
    /// Index into the choices of the task, or nothing.
    [[nodiscard]] std::int32_t of(std::size_t task) const { return chosen_[task]; }
    /// What the task runs with now, whatever the plan says; nothing when it waits.
    [[nodiscard]] std::int32_t current(std::size_t task) const;
    [[nodiscard]] const Choice& choice(std::size_t task, std::int32_t index) const;
    /// What the plan gives the task; nullptr for nothing.
    [[nodiscard]] const Choice* given(std::size_t task) const;
    [[nodiscard]] std::int64_t free_gpus(std::int32_t type) const {
        return free_[static_cast<std::size_t>(type)];
    }
    /// Whether the task could have the choice with what is free and what the plan gives it now.
    [[nodiscard]] bool fits(std::size_t task, std::int32_t index) const;
    void set(std::size_t task, std::int32_t index);
    /// The task's requested choice, or nothing.
    [[nodiscard]] std::int32_t requested(std::size_t task) const;
    /// The task's choice of the type and count, or nothing.
    [[nodiscard]] std::int32_t find(std::size_t task, std::int32_t type, std::int64_t gpus) const;
    /// Speed with the choice relative to what the user asked for, or to the fastest where nothing
    /// was.
    [[nodiscard]] double speed(std::size_t task, std::int32_t index) const;
    /// Seconds to finish with the choice from now on; a restart is not counted.
    [[nodiscard]] double left_s(std::size_t task, std::int32_t index) const;

    /// The plan on nodes: who keeps its choice keeps its nodes; then the others, the largest first.
    /// Who finds no nodes keeps what it had where that is still free, else takes its fastest choice
    /// of fewer GPUs of any type that finds some, else waits; running tasks without a choice are
    /// preempted.
    [[nodiscard]] Decision realise(std::string_view why) const;

  private:
    const Problem& problem_;
    std::vector<std::int32_t> chosen_;
    std::vector<std::int64_t> free_;
    std::vector<double> reference_s_;  ///< iteration time of the request
};

}  // namespace arena
