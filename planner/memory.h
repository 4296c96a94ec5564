// SPDX-License-Identifier: GPL-2.0-or-later
// Peak device bytes of one GPU in a pipeline stage: optimizer state, activations of the
// micro-batches in flight under 1F1B, logits, buffers and what the framework reserves. Affine in
// the stage's layers, so that layers can be dealt out under a memory limit. Sources:
// Korthikanti et al. 2022 (activations, table 2), Megatron-LM's table of state bytes per parameter.
#pragma once

#include <array>
#include <cstdint>

#include "core/values.h"
#include "planner/calibration.h"
#include "planner/operators.h"

namespace arena {

/// The plan around a shard.
struct PlanChoice {
    std::int64_t stages = 1, dp = 1, micro_batches = 1;
    Recompute recompute = Recompute::none;
    std::int64_t zero_stage = 0;
    std::int64_t vpp = 1, cp = 1, ep = 1;  ///< see Plan
};

struct StageMemory {
    double fixed_bytes = 0, layer_bytes = 0;
    [[nodiscard]] double total(std::int64_t layers) const {
        return fixed_bytes + static_cast<double>(layers) * layer_bytes;
    }
};

/// Micro-batches whose activations a stage holds at once; a fraction when interleaved.
double micro_batches_in_flight(const PlanChoice&, std::int64_t index);
/// Bytes of weights, gradients and Adam state per parameter (Megatron's table: bf16 18, fp16 20,
/// fp32 16 bytes unsharded), the sharded part divided by dp.
double state_bytes_per_parameter(Precision, std::int64_t zero_stage, std::int64_t dp);
/// Bytes of gradients exchanged per parameter.
double gradient_bytes(Precision);

class MemoryModel {
  public:
    MemoryModel(const Model&, const GpuType&, const FrameworkConstants&, Precision,
                const ShardShape&);
    /// With the built-in default framework.
    MemoryModel(const Model&, const GpuType&, Precision, const ShardShape&);
    [[nodiscard]] StageMemory stage(const PlanChoice&, std::int64_t index) const;
    /// Kept activations of one layer and one micro-batch; without allocator slack.
    [[nodiscard]] double activation_bytes(Recompute recompute) const {
        return activations_[static_cast<std::size_t>(recompute)];
    }

  private:
    [[nodiscard]] double held_parameters(const PlanChoice&, std::int64_t index) const;

    [[nodiscard]] double layer_state_bytes(const PlanChoice&) const;

    [[nodiscard]] double state_bytes(std::int64_t zero_stage, std::int64_t ranks) const;

    Precision precision_;
    double slack_, extra_state_bytes_;
    ShardShape shape_;
    bool tied_;
    double expert_parameters_ = 0;  ///< of layer_parameters_, mean over the layers
    double layer_parameters_, embedding_parameters_, head_parameters_;
    std::array<double, 3> activations_;  ///< by Recompute
    double logits_bytes_, boundary_bytes_, reserved_bytes_;
};

}  // namespace arena
