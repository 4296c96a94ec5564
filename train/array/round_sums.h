// SPDX-License-Identifier: GPL-2.0-or-later
// What the stages know of a round together, as one array of numbers for one all-reduce: whether one
// was told to leave; of each member that took part its losses and gradients, on the stage that has
// them, and what its blocks took on each.
#pragma once

#include <span>
#include <vector>

#include "train/array/timetable.h"

namespace arena::train {

class RoundSums {
  public:
    RoundSums(std::size_t members, Index iterations, Index stages)
        : iterations_(at(iterations)),
          stages_(at(stages)),
          values_(1 + members * size_of_member()) {}
    [[nodiscard]] std::span<double> all() { return values_; }
    double& told() { return values_.front(); }
    /// Of each iteration: the sum over tokens, and over gradients.
    std::span<double> losses(std::size_t who) { return of(who).subspan(0, iterations_); }
    std::span<double> squares(std::size_t who) { return of(who).subspan(iterations_, iterations_); }
    /// A block's.
    void add(std::size_t who, Index stage, const BlockTimes&);
    /// Of one iteration, by stage; what was waited for a state: of each of its two blocks.
    [[nodiscard]] std::vector<BlockTimes> means(std::size_t who);

  private:
    static constexpr std::size_t fields = 5;
    [[nodiscard]] std::size_t size_of_member() const { return 2 * iterations_ + fields * stages_; }
    std::span<double> of(std::size_t who) {
        return std::span(values_).subspan(1 + who * size_of_member(), size_of_member());
    }
    std::span<double> times(std::size_t who, std::size_t stage) {
        return of(who).subspan(2 * iterations_ + fields * stage, fields);
    }
    std::size_t iterations_, stages_;
    std::vector<double> values_;
};

}  // namespace arena::train
