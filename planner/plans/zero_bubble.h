// SPDX-License-Identifier: GPL-2.0-or-later
// Length of pipelines whose backward is two tasks: gradients of inputs, for which the stage before
// waits, and those of weights, for which nobody does. Each stage has a fixed order of tasks, that
// of PyTorch's schedules (torch.distributed.pipelining, InterleavedZeroBubble, ZBVZeroBubble and
// DualPipeV; Qi et al. 2024, DeepSeek-V3 2024), and each task starts when the one before it and
// what it waits for are done.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan.h"

namespace arena {

struct PipelineTask {
    enum class Kind : std::uint8_t { forward, backward, inputs, weights };
    Kind kind = Kind::forward;  ///< backward: inputs and weights in one
    bool joins_next = false;    ///< both start when both may, and send when both are done
    std::int64_t chunk = 0, micro_batch = 0;
    bool operator==(const PipelineTask&) const = default;
};

/// What a stage does, one task after the other. The two V-shaped schedules have 2 chunks.
std::vector<PipelineTask> stage_tasks(Schedule, std::int64_t stage, std::int64_t stages,
                                      std::int64_t chunks, std::int64_t micro_batches);
/// Chunks whose activations a stage holds at most at once, gradients of whose weights are not done.
std::int64_t most_chunks_held(std::span<const PipelineTask>);

/// Of one micro-batch; of chunk c of stage i at c * stages + i.
struct SplitStages {
    std::span<const double> forward_s, inputs_s, weights_s;
    std::int64_t stages = 1, chunks = 1, micro_batches = 1;
    Schedule schedule = Schedule::zb_h1;
    /// Where a chunk stands in the order of the layers, of stages * chunks.
    [[nodiscard]] std::int64_t place(std::int64_t stage, std::int64_t chunk) const {
        const bool is_back = is_v_shaped(schedule) && chunk == 1;
        return is_back ? 2 * stages - 1 - stage : chunk * stages + stage;
    }
};
/// Plays every task, O(stages chunks micro_batches); of more than max_tasks, as many whole groups
/// of `stages` micro-batches, and adds for each of the others what the last one added. Where not
/// even 4 groups may be played, the length is the busiest stage's work and the way to the last
/// stage, in DualPipeV there and back.
double split_seconds(const SplitStages&, std::int64_t max_tasks);
/// No play is shorter: the busiest stage's work.
double least_split_seconds(const SplitStages&);

}  // namespace arena
