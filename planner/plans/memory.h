// SPDX-License-Identifier: GPL-2.0-or-later
// Peak device bytes of one GPU in a pipeline stage: optimizer state, activations of the
// micro-batches in flight under 1F1B, logits, buffers and what the framework reserves. Each layer
// counts by itself; where all are homogeneous the bytes are affine in their number, so that layers
// can be partitioned under a memory limit at once. Sources: Korthikanti et al. 2022 (activations,
// table 2), Megatron-LM's table of state bytes per parameter.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/hardware.h"
#include "core/plan.h"
#include "planner/hardware/calibration.h"
#include "planner/models/layer_sums.h"
#include "planner/operators/operators.h"
#include "planner/plans/context.h"

namespace arena {

/// The plan around a shard.
struct PlanChoice {
    std::int64_t stages = 1, dp = 1, micro_batches = 1;
    Recompute recompute = Recompute::none;
    std::int64_t zero_stage = 0;
    std::int64_t vpp = 1, cp = 1, ep = 1;  ///< see Plan
    std::int64_t hsdp = 0;                 ///< see Plan
    Schedule schedule = Schedule::one_f_one_b;
    /// Ranks that share ZeRO's state.
    [[nodiscard]] std::int64_t sharing() const { return (hsdp == 0 ? dp : hsdp) * cp; }
    /// The stage with the last layer, the head and the loss.
    [[nodiscard]] std::int64_t last_stage() const { return is_v_shaped(schedule) ? 0 : stages - 1; }
    /// Whether one stage has both embedding and head.
    [[nodiscard]] bool has_both_ends() const { return last_stage() == 0; }
    /// Whether stages have several chunks, or a schedule that only a replay prices: these have
    /// equally many layers.
    [[nodiscard]] bool is_replayed() const { return vpp > 1 || schedule != Schedule::one_f_one_b; }
};
/// Of a plan whose stages are alike but for their layers.
PlanChoice choice_of(const Plan&);
ShardShape shape_of(const Plan&);

struct StageMemory {
    double fixed_bytes = 0, layer_bytes = 0;
    [[nodiscard]] double total(std::int64_t layers) const {
        return fixed_bytes + static_cast<double>(layers) * layer_bytes;
    }
    /// Layers that fit, at most `most`.
    [[nodiscard]] std::int64_t capacity(std::int64_t most, double limit_bytes) const;
};

/// Micro-batches whose activations a stage holds at once; a fraction where it has chunks.
double micro_batches_in_flight(const PlanChoice&, std::int64_t index);
/// Bytes of weights, gradients and Adam state per parameter (Megatron's table: bf16 18, fp16 20,
/// fp32 16 bytes unsharded), the sharded part divided by dp.
double state_bytes_per_parameter(Precision, std::int64_t zero_stage, std::int64_t dp);
/// The same of other states: bytes of weights, gradients and the rest.
struct StateBytes {
    double weights, gradients, optimizer;
};
StateBytes state_bytes_of(Precision);
double state_bytes_per_parameter(const StateBytes&, std::int64_t zero_stage, std::int64_t dp);
/// Bytes of gradients exchanged per parameter.
double gradient_bytes(Precision);

class MemoryModel {
  public:
    MemoryModel(const PoolContext&, const ShardShape&);
    /// Of a stage of equal layers.
    [[nodiscard]] StageMemory stage(const PlanChoice&, std::int64_t index) const;
    /// Of stage `index` with these layers; an interleaved stage has several ranges.
    [[nodiscard]] double bytes(const PlanChoice&, std::int64_t index,
                               std::span<const LayerRange>) const;
    /// What of bytes() holds transfers, and so depends on where a stage begins and ends.
    [[nodiscard]] double buffer_bytes(const PlanChoice&, std::span<const LayerRange>) const;
    /// The most layers from `begin` on that stage `index` can hold, 0 to `most`; where layers
    /// differ, buffers aside.
    [[nodiscard]] std::int64_t capacity(const PlanChoice&, std::int64_t index, std::int64_t begin,
                                        std::int64_t most, double limit_bytes) const;
    /// What of bytes() the process and its communicators take: the more, the more kinds of groups.
    [[nodiscard]] double reserved_bytes(const PlanChoice&) const;
    [[nodiscard]] bool is_homogeneous() const { return held_.is_homogeneous(); }
    /// The model's layers.
    [[nodiscard]] const std::shared_ptr<const LayerIndex>& index() const { return index_; }
    /// Kept activations of a layer and one micro-batch, the mean over the model's; without
    /// allocator slack.
    [[nodiscard]] double activation_bytes(Recompute recompute) const {
        return activations_[static_cast<std::size_t>(recompute)];
    }

  private:
    using Row = std::array<double, 5>;  ///< dense and expert parameters; kept bytes by Recompute
    /// Of the largest layer of a stage, and what crosses its ends.
    struct Extremes {
        double live_bytes = 0;  ///< what recompute brings back while its backward runs
        double parameters = 0, boundary_bytes = 0;
    };

    /// Of a process alone, and more of one that is in all the usual groups.
    struct Reserve {
        double process_bytes, communicator_bytes;
    };

    void set_inputs(const Model&, double transformer_bytes);
    void set_layers(const Model&, const FrameworkConstants&, bool emulated);
    /// Of a kind of layer: what it holds, and what modules bring back while its backward runs.
    struct Held {
        Row row;
        double again = 0;
    };
    void set_rows(const std::shared_ptr<const LayerIndex>&, const std::vector<Held>& kinds);
    [[nodiscard]] Held layer_row(const Model&, const LayerKind&, const FrameworkConstants&,
                                 bool emulated) const;
    [[nodiscard]] Extremes extremes(const PlanChoice&, std::span<const LayerRange>) const;
    [[nodiscard]] double fixed_bytes(const PlanChoice&, std::int64_t index, const Extremes&) const;
    [[nodiscard]] Row weights(const PlanChoice&, std::int64_t index) const;
    [[nodiscard]] double held_parameters(const PlanChoice&, std::int64_t index) const;
    [[nodiscard]] double state_bytes(std::int64_t zero_stage, std::int64_t ranks) const;
    [[nodiscard]] double end_state_bytes(std::int64_t zero_stage, std::int64_t ranks) const;

    Precision precision_;
    double slack_, extra_state_bytes_;
    StateBytes states_;
    double trained_share_;  ///< trained_share(); 1: nothing is frozen
    double frozen_bytes_;   ///< of a frozen weight of a layer
    bool adapted_;
    ShardShape shape_;
    bool tied_;
    double embedding_parameters_, head_parameters_;
    std::shared_ptr<const LayerIndex> index_;
    LayerSums<5> held_;
    LayerMost most_parameters_;
    std::array<LayerMost, 3> most_live_;  ///< by Recompute: what it and modules bring back
    LayerEnds inputs_;                    ///< bytes into each layer and out of the last
    std::array<double, 3> activations_;   ///< by Recompute
    double logits_bytes_;
    Reserve reserve_;
};

}  // namespace arena
