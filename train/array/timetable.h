// SPDX-License-Identifier: GPL-2.0-or-later
// In which order the stages run the members' blocks: a schedule of several iterations at once, by
// what the blocks of earlier rounds took. A member that was not measured yet is taken to be as its
// siblings are; before any was, time goes by layers.
#pragma once

#include <map>
#include <vector>

#include "array/schedule.h"
#include "train/core/pipeline.h"

namespace arena::train {

/// Seconds of a member's blocks on one stage.
struct BlockTimes {
    double forward = 0, recompute = 0, backward = 0, update = 0;
    double wait = 0;  ///< for its state
};

/// Which block of a chain of 2 x stages per iteration stands at `place`, from 0.
struct PlaceInChain {
    Index iteration = 0, stage = 0;
    bool backward = false;
};
PlaceInChain place_in_chain(Index place, Index stages);

class Timetable {
  public:
    /// solve_s: of a search, at each change of the members or what is known of them.
    Timetable(std::vector<Index> stage_layers, double solve_s)
        : layers_(std::move(stage_layers)), solve_s_(solve_s) {}

    /// What the blocks of a round took in the mean, by stage.
    void learn(Index member, Index samples, std::vector<BlockTimes> stages);
    void forget(Index member);

    struct Round {
        array::Order order;  ///< positions in `members`, each 2 x stages x iterations times
        double seconds = 0;  ///< that it should take; 0: not all were measured yet
    };
    struct Participant {
        Index member = 0, samples = 1;
        bool operator==(const Participant&) const = default;
    };
    /// At least one member and one iteration.
    const Round& round(const std::vector<Participant>& members, Index iterations);

  private:
    struct Known {
        Index samples = 1, rounds = 0;
        std::vector<BlockTimes> stages;
    };
    [[nodiscard]] std::vector<BlockTimes> times_of(const Participant&) const;
    void solve(const std::vector<Participant>&);

    std::vector<Index> layers_;
    double solve_s_;
    std::map<Index, Known> known_;
    std::vector<Participant> members_;
    array::Instance one_;  ///< one iteration of these members
    array::Order order_;   ///< of it
    double ticks_per_s_ = 0;
    bool is_stale_ = true;
    Index iterations_ = 0;
    Round round_;
};

}  // namespace arena::train
