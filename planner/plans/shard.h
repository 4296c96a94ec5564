// SPDX-License-Identifier: GPL-2.0-or-later
// A Shard is everything about a plan that depends only on (tp, micro_batch): operator times, tensor
// parallel communication, parameters, memory, of each layer by itself. Search prices thousands of
// plans from a few dozen shards without touching an operator again.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/offer.h"
#include "planner/hardware/collectives.h"
#include "planner/models/layer_sums.h"
#include "planner/operators/operators.h"
#include "planner/plans/memory.h"

namespace arena {

using EvidenceSeconds = std::array<double, evidence_count>;

/// Seconds of layers and one micro-batch, forward + backward + what recompute repeats.
struct LayerSeconds {
    double compute_s = 0, comm_s = 0;
    double forward_s = 0, backward_s = 0;  ///< the same, by direction
    double weights_s = 0;                  ///< of backward, what makes gradients of weights
    [[nodiscard]] double total() const { return compute_s + comm_s; }
};

struct Shard {
    Shard(const PoolContext&, const Topology&, const ShardShape&);

    /// Of all layers in a range, one after the other.
    [[nodiscard]] LayerSeconds seconds(Recompute recompute, LayerRange range) const {
        const auto [compute, comm, forward, backward, weights] =
            times_[static_cast<std::size_t>(recompute)].over(range);
        return {compute, comm, forward, backward, weights};
    }
    [[nodiscard]] double least_layer_s(Recompute recompute) const {
        return least_s_[static_cast<std::size_t>(recompute)];
    }
    [[nodiscard]] double slowest_layer_s(Recompute recompute) const {
        return slowest_s_[static_cast<std::size_t>(recompute)];
    }
    /// {all, those in routed experts} on one rank.
    [[nodiscard]] std::array<double, 2> parameters(LayerRange range) const {
        return parameters_.over(range);
    }
    /// {number, channels of them all} of a forward pass of the layers; the stem's one is left out.
    [[nodiscard]] std::array<double, 2> batch_norms(LayerRange range) const {
        return norms_.over(range);
    }
    /// From stage to stage behind a layer (1 ... layers), one direction, per rank.
    [[nodiscard]] double boundary_bytes(std::int64_t behind) const {
        return boundary_bytes_.at(behind);
    }
    /// No stage sends less.
    [[nodiscard]] double least_boundary_bytes() const { return boundary_bytes_.least(); }
    /// Of its tables, about.
    [[nodiscard]] std::size_t bytes() const;
    /// Whether every layer costs the same, so that only their number matters.
    [[nodiscard]] bool is_homogeneous() const { return parameters_.is_homogeneous(); }

    ShardShape shape;
    MemoryModel memory;
    double embedding_s = 0, head_s = 0;  ///< compute, forward + backward
    double embedding_comm_s = 0, head_comm_s = 0;
    double optimizer_parameter_s = 0;  ///< per parameter of the step
    double layer_parameters = 0;       ///< mean of the layers
    double trained_share = 1;          ///< of the layers'; of adapters: a small one, and no ends
    double embedding_parameters = 0, head_parameters = 0;
    EvidenceSeconds layer_evidence{}, ends_evidence{};  ///< of a layer: the mean

  private:
    struct Kind {
        std::array<LayerSeconds, 3> seconds;  ///< by Recompute
        std::array<double, 2> parameters;     ///< all, those in routed experts
        std::array<double, 2> norms;          ///< batch_norms()
    };

    void set_ends(const PoolContext&, const ShardOperators&);
    void set_layers(std::span<const Kind>);
    void set_boundaries(const PoolContext&);

    std::array<LayerSums<5>, 3> times_;              ///< by Recompute
    std::array<double, 3> least_s_{}, slowest_s_{};  ///< of one layer
    LayerSums<2> parameters_, norms_;
    LayerEnds boundary_bytes_;
};

/// Prices stage_layers under the choice; see iteration.h.
Estimate price_stages(const PoolContext&, const Topology&, const Shard&, const PlanChoice&,
                      std::span<const std::int64_t> stage_layers);

}  // namespace arena
