// SPDX-License-Identifier: GPL-2.0-or-later
// Partitioning layers that differ so that the longest stage is short: quick,
// and a tight limit for the exact program of partition.h. Of equal layers partition_layers()
// (schedule.h) is exact.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/models/layer_sums.h"

namespace arena {

/// Fills each stage in turn as far as it may be; false when layers are left over, or a stage may
/// hold none.
template <typename May>
bool fill_stages(std::int64_t layers, std::int64_t stages, May may,
                 std::vector<std::int64_t>& stage_layers) {
    stage_layers.assign(static_cast<std::size_t>(stages), 0);
    std::int64_t begin = 0;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
        const std::int64_t most = layers - begin - (stages - stage - 1);
        std::int64_t fits = 0, above = most + 1;
        while (above - fits > 1) {
            const std::int64_t middle = (fits + above) / 2;
            (may(stage, LayerRange{begin, begin + middle}) ? fits : above) = middle;
        }
        if (fits == 0) return false;
        stage_layers[static_cast<std::size_t>(stage)] = fits;
        begin += fits;
    }
    return begin == layers;
}

/// The partition with the least longest stage by work_s(stage, range), within 1e-6 of it, where
/// every stage fits(stage, range) and has at least one layer. Neither may get better when a range
/// grows at either end. Filling each stage in turn finds a partition below a level wherever there
/// is one, unless a layer fits a later stage and not an earlier one: then this may miss it, and be
/// false though a partition fits. O(stages log(layers)) calls for each of 20 levels.
template <typename Work, typename Fits>
bool balance_layers(std::int64_t layers, std::int64_t stages, Work work_s, Fits fits,
                    std::vector<std::int64_t>& stage_layers) {
    if (!fill_stages(layers, stages, fits, stage_layers)) return false;
    double level_s = 0, below_s = 0;
    std::int64_t begin = 0;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
        const std::int64_t end = begin + stage_layers[static_cast<std::size_t>(stage)];
        level_s = std::max(level_s, work_s(stage, LayerRange{begin, end}));
        begin = end;
    }
    std::vector<std::int64_t> trial;
    for (int halvings = 0; halvings < 20; ++halvings) {
        const double middle_s = (below_s + level_s) / 2;
        const bool does = fill_stages(
            layers, stages,
            [&](std::int64_t stage, LayerRange range) {
                return work_s(stage, range) <= middle_s && fits(stage, range);
            },
            trial);
        if (does) stage_layers = trial;
        (does ? level_s : below_s) = middle_s;
    }
    return true;
}

}  // namespace arena
