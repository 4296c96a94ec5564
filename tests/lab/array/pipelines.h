// SPDX-License-Identifier: GPL-2.0-or-later
// How long pipelines take as people schedule them today, for members of an array one after another
// or together: GPipe (Huang et al. 2019), 1F1B (Narayanan et al. 2021; BPipe, Kim et al. 2023, is
// 1F1B with balanced memory), Hanayo with 2 waves (Liu et al. 2023), ZB1P and ZBV (Qi et al. 2024).
// Each is played by its rule: what a device runs next, how many micro-batches are under way, how
// the model is cut. Layers are cut as evenly as time allows, which does baselines a favour. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace arena {

enum class PipelineKind { gpipe, one_f_one_b, hanayo, zb1p, zbv };
inline constexpr std::array all_pipeline_kinds{PipelineKind::gpipe, PipelineKind::one_f_one_b,
                                               PipelineKind::hanayo, PipelineKind::zb1p,
                                               PipelineKind::zbv};
/// "Hanayo, 2 waves".
std::string_view words_of(PipelineKind);
/// Micro-batches of which a device keeps activations at most, about, of `all` on so many stages.
std::int64_t in_flight(PipelineKind, std::int64_t stages, std::int64_t all);

/// What a device of the pipeline has to do; seconds, of one micro-batch.
struct DeviceLoad {
    double forward_s = 0, backward_s = 0;
    double recompute_s = 0;  ///< before the backward
    double update_s = 0;     ///< of a member, once in an iteration
    double transfer_s = 0;   ///< to a neighbour
    /// Seconds to fetch a member's weights, and all of its state, from the host, while others do.
    double fetch_weights_s = 0, fetch_state_s = 0;
};

struct PipelineRun {
    PipelineKind kind = PipelineKind::gpipe;
    std::vector<DeviceLoad> devices;
    std::int64_t members = 1;        ///< together, without a flush between them
    std::int64_t micro_batches = 1;  ///< of each
    /// States that a device holds; what is not there is fetched while others are computed with, as
    /// far ahead as there is room. 1: nothing is fetched ahead. 0: all are there.
    std::int64_t buffers = 0;
};

/// Shares of the devices' time add up to 1.
struct PipelineTime {
    double seconds = 0;  ///< one iteration of all members
    double forward = 0, backward = 0;
    double overhead = 0;  ///< recomputation, updates, waiting for states
    double bubble = 0;
};
/// O(t log t) for t tasks, 2 or 3 of each micro-batch on each device and chunk.
PipelineTime play(const PipelineRun&);

}  // namespace arena
