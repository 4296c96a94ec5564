// SPDX-License-Identifier: GPL-2.0-or-later
// Mitigation, as arithmetic: what each strategy would cost and gain for what is known to be slow.
// S2 by a model of the step that is calibrated with the steps seen, S3 by what the links carry and
// what stages of slow GPUs hold up. Nothing is worth its while below `least_gain` of the step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slowdown/locate.h"
#include "slowdown/micro_batches.h"
#include "slowdown/ski_rental.h"
#include "watch/chief/trainer.h"

namespace arena::watch {

inline constexpr double least_gain = 0.03;

/// Medians over steps of one level, since the last word.
struct StepLevel {
    double step_s = 0;                  ///< 0: not seen
    std::vector<double> micro_batch_s;  ///< of each replica; empty: not told
    Counts counts = {};                 ///< that ran
};

/// What an answer is computed from.
struct Situation {
    const Trainer& trainer;
    StepLevel healthy, present;
    const slowdown::CheckRound& baseline;
    const slowdown::CheckRound& checked;  ///< the latest rounds
    std::span<const slowdown::SlowGpu> slow_gpus;
};

struct BetterSplit {
    Counts counts;
    double step_s = 0;  ///< expected
};
/// Nothing: no gain above least_gain, or nothing to compute it from.
std::optional<BetterSplit> better_split(const Situation& situation);

struct BetterPlaces {
    Placement placement;  ///< of ranks
    std::vector<Swap> swaps;
    double gain_s = 0;   ///< of each step, expected
    double pause_s = 0;  ///< what the swaps cost
};
/// Grids of more nodes (tensor-parallel groups) are left alone: the search would hold up all else.
inline constexpr std::size_t most_placed = 256;
inline constexpr std::size_t most_swaps = 64;  ///< of ranks
std::optional<BetterPlaces> better_places(const Situation& situation, slowdown::Cause cause);

inline constexpr double usual_restart_s = 120;  ///< where the trainer does not say
/// What helps against the cause and can be had now, the cheapest first.
std::vector<slowdown::Priced> prices(const Situation& situation, slowdown::Cause cause);

}  // namespace arena::watch
