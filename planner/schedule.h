// SPDX-License-Identifier: GPL-2.0-or-later
// Dealing layers to pipeline stages, and the length of a 1F1B iteration over uneven stages.
#pragma once

#include <cstdint>
#include <span>

namespace arena {

/// What limits the deal: seconds of one layer, of the embedding and of the head (forward + backward
/// per micro-batch), and the most layers that each stage's memory holds.
struct LayerDeal {
    std::int64_t layers = 1;
    double layer_s = 0, first_s = 0, last_s = 0;
    std::span<const std::int64_t> capacity;  ///< one entry per stage
};

/// Layers per stage with the least maximum stage time, every stage at least one layer and at most
/// its capacity; ties go to later stages, which hold fewer micro-batches. Exact, since layers are
/// equal. False when the capacities cannot hold the layers. O(stages^2) at most.
bool deal_layers(const LayerDeal&, std::span<std::int64_t> stage_layers);

/// sum(stage) + (micro_batches - 1) * max(stage): the length of 1F1B with constant stage times,
/// exact when the last stage is a slowest one (even stages, a heavy head), else an upper bound that
/// warm-up forwards of an earlier slowest stage undercut by less than one pass through the
/// pipeline.
double pipeline_seconds(std::span<const double> stage_s, std::int64_t micro_batches);
/// Interleaved 1F1B, each stage in vpp chunks: what the other stages add shrinks to 1 / vpp. Needs
/// micro_batches to be a multiple of the stages (Narayanan et al. 2021, section 2.2). vpp = 1: as
/// above.
double pipeline_seconds(std::span<const double> stage_s, std::int64_t micro_batches,
                        std::int64_t vpp);

}  // namespace arena
