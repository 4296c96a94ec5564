// SPDX-License-Identifier: GPL-2.0-or-later
// Launchers: the programs that start a job's ranks, which plans each can express, and in which words.
// One row per launcher, read by the request readers, the planner (a proxy plan is one that the job's
// launcher can run) and the plug-in. Flags are those of the releases named in launchers.cc. No row
// has mixed stages: Megatron-LM, its descendants and torchtitan make one mesh of processes for all stages. Alpa's
// submeshes can differ, but are arguments in Python, not a launcher's.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/values.h"

namespace arena {

/// Which layers per stage can be said.
enum class LayerSplit {
    even,  ///< the same number on every stage
    ends,  ///< first and last stage differ from the rest, which are even
    any,
};
/// Whether a degree can be said: not at all, when the user pins it, or whenever it is faster.
enum class Degree { no, pinned, free };

/// The plans that a launcher can express. Interleaved plans (vpp > 1) are even everywhere.
struct Capabilities {
    LayerSplit layers = LayerSplit::any;
    bool mixed_stages = false;  ///< stages may differ in dp and tp
    Degree vpp = Degree::pinned, cp = Degree::pinned, ep = Degree::pinned;
    Degree convolutions = Degree::no;    ///< tp of a wide_resnet
    bool selective = true, full = true;  ///< recompute
    unsigned zero = 0b0011;              ///< bit z: ZeRO stage z without a pipeline
    unsigned zero_pipeline = 0b0011;     ///< with one
    bool sequence_parallel = true;
    bool operator==(const Capabilities&) const = default;

    [[nodiscard]] bool has_zero(std::int64_t stage, std::int64_t pp) const {
        return stage >= 0 && stage <= 3 && (((pp > 1 ? zero_pipeline : zero) >> stage) & 1) != 0;
    }
};
/// Everything that the planner can price, for `arena plan --launcher any`.
Capabilities all_capabilities();
/// Whether a plan of this many layers per stage and so on can be said, convolutions aside. Any plan
/// of the search can.
bool expresses(const Capabilities&, const Plan&);
/// What of it cannot be said, for people; "" when all can. Of a plan without a model, convolutions
/// aside.
std::string inexpressible(const Capabilities&, const Plan&);
std::string inexpressible(const Capabilities&, const Model&, const Plan&);
bool expresses(LayerSplit, std::span<const std::int64_t> stage_layers);

/// Templates take {pp} {dp} {tp} {mb} {nmb} {batch} {vpp} {chunk} {cp} {ep} {zero} {first} {last}; chunk =
/// layers of one interleaved chunk. Words after `flags` follow where the plan has the feature.
struct Launcher {
    std::string_view name;
    bool one_task_per_node;  ///< it starts the ranks of a node itself
    Capabilities can;
    std::string_view flags;
    std::string_view sequence_parallel, unsharded, zero, full, selective, vpp, cp, ep, ends;
};
std::span<const Launcher> launchers();
const Launcher* find_launcher(std::string_view name);
/// "env, torchrun, ...", for messages.
std::string launcher_names();

}  // namespace arena
