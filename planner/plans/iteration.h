// SPDX-License-Identifier: GPL-2.0-or-later
// One training iteration of a shard under a plan: what each stage contributes, given the layers
// that it holds, and what the whole takes. Search partitions layers by the parts; price() of 1F1B
// is iteration_seconds() (planner/search/partition.h) of the same parts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/offer.h"
#include "planner/plans/schedule.h"
#include "planner/plans/shard.h"
#include "planner/plans/zero_bubble.h"

namespace arena {

/// Keeps references to everything it is made from. Of the embedding, the head and what the host
/// spends on a micro-batch, a third is forward. An interleaved stage holds chunks that lie apart
/// (Narayanan et al. 2021).
class Iteration {
  public:
    Iteration(const PoolContext&, const Topology&, const Shard&, const PlanChoice&);

    /// What stage `index` contributes. With interleaving: its share of an even partition, whichever
    /// layers of that number are given.
    [[nodiscard]] StagePart part(std::int64_t index, LayerRange) const;
    /// At most what part() of a stage takes besides its layers.
    [[nodiscard]] double least_extra_s(std::int64_t index) const;
    /// At most what these layers take of part(), without transfers; of two ranges, the sum.
    [[nodiscard]] double least_layers_s(LayerRange range) const {
        return slowest_seconds(range).total();
    }
    /// At most what the longest exchange, optimizer step and host time of an iteration take
    /// together, however the layers are partitioned.
    [[nodiscard]] double least_ends_s() const;
    /// What the tied table and the iteration itself add.
    [[nodiscard]] double fixed_s() const;
    /// O(stages) without interleaving, and no allocation; interleaved stages and other schedules
    /// than 1F1B are replayed, O(stages vpp micro-batches).
    [[nodiscard]] Estimate price(std::span<const std::int64_t> stage_layers) const;
    /// No replay of stage_layers takes less, nor what follows it.
    [[nodiscard]] double least_replayed_s(std::span<const std::int64_t> stage_layers) const;

  private:
    /// A stage and all that its layers add up to.
    struct Stage {
        std::int64_t index = 0, layers = 0;
        LayerRange first;  ///< all its layers, or its first chunk
        LayerSeconds seconds;
        double layer_parameters = 0, expert_parameters = 0;
        double boundary_s = 0, bytes = 0;
        double zero3_s = 0;  ///< exposed in its layers, one micro-batch
    };
    struct Longest;
    /// By chunk and then stage where they differ, else by stage. Of the backwards, what makes
    /// gradients of weights is in weights_s too.
    struct Chunks {
        std::vector<double> forward_s, backward_s, weights_s;
        bool differ = false;
    };
    /// Of gradients, and of the weights where their states are shared.
    struct Exchange {
        double reduce_s, gather_s;
    };

    [[nodiscard]] bool is_emulated() const { return context_.pool.hardware.emulated; }
    /// Of a micro-batch on a stage: once per chunk of it.
    [[nodiscard]] double host_s() const {
        return is_emulated() ? 0 : static_cast<double>(choice_.vpp) * framework_.micro_batch_s;
    }
    [[nodiscard]] bool is_last(std::int64_t index) const { return index == choice_.last_stage(); }
    /// Whether a stage is several ranges of layers that differ.
    [[nodiscard]] bool lies_apart() const { return choice_.vpp > 1 && !shard_.is_homogeneous(); }

    [[nodiscard]] double embedding_s() const { return slowdown_ * shard_.embedding_s; }
    [[nodiscard]] double head_s() const { return slowdown_ * shard_.head_s; }
    [[nodiscard]] LayerSeconds slowest_seconds(LayerRange) const;
    [[nodiscard]] LayerSeconds layer_seconds(LayerRange) const;
    [[nodiscard]] Stage stage(std::int64_t index, std::span<const LayerRange>) const;
    template <typename Visit>
    Longest each_stage(std::span<const std::int64_t> stage_layers, Visit) const;
    [[nodiscard]] double compute_s(const Stage&) const;
    [[nodiscard]] double comm_s(const Stage&) const;
    [[nodiscard]] double total_s(const Stage&) const;
    [[nodiscard]] double forward_s(const Stage&) const;
    [[nodiscard]] double ends_s(std::int64_t index) const;
    [[nodiscard]] double sent_s(std::int64_t index, std::int64_t transfers, double bytes) const;
    [[nodiscard]] double sent_s(std::int64_t index, std::span<const LayerRange>) const;
    [[nodiscard]] double received_s(std::int64_t index, std::span<const LayerRange>) const;

    [[nodiscard]] std::int64_t transfers(std::int64_t index) const;
    [[nodiscard]] std::vector<LayerRange> chunk_ranges(std::span<const std::int64_t>) const;
    [[nodiscard]] std::vector<LayerRange> even_chunks(std::int64_t index) const;
    void set_even_chunks(std::span<const std::int64_t> stage_layers, Chunks&) const;
    void set_heterogeneous_chunks(std::span<const std::int64_t> stage_layers, Chunks&) const;
    [[nodiscard]] InterleavedStages interleaved(std::span<const std::int64_t>, Chunks&) const;
    [[nodiscard]] SplitStages split_stages(std::span<const std::int64_t>, Chunks&) const;
    [[nodiscard]] double replayed_s(std::span<const std::int64_t>) const;

    [[nodiscard]] double held_ends(const Stage&) const;
    [[nodiscard]] double parameters(const Stage&) const;
    [[nodiscard]] double exchanged_bytes(double parameters) const;
    [[nodiscard]] double weight_bytes() const;
    [[nodiscard]] std::int64_t expert_replicas() const;
    [[nodiscard]] double reduce_s(double bytes) const;
    [[nodiscard]] Exchange replicate(const Group&, double parameters) const;
    [[nodiscard]] Exchange replicate(double dense, double routed) const;
    [[nodiscard]] double exchange_s(const Stage&) const;
    [[nodiscard]] double least_exchange_s(std::int64_t layers) const;
    [[nodiscard]] double earlier_exchanges_s(const Stage&) const;
    [[nodiscard]] double behind_backward_s(const Stage&, double comm) const;
    [[nodiscard]] double behind_forward_s(const Stage&, double comm) const;
    [[nodiscard]] Exchange zero3(double parameters) const;
    [[nodiscard]] double zero3_layer_s(LayerRange) const;
    [[nodiscard]] double zero3_layers_s(LayerRange) const;
    [[nodiscard]] double zero3_exposed_s(const Stage&) const;
    [[nodiscard]] double tied_exchange_s() const;
    [[nodiscard]] double stepped_share() const;
    [[nodiscard]] double optimizer_s(const Longest&) const;
    void finish(Estimate&) const;
    void set_source(Estimate&) const;

    const PoolContext& context_;
    const Topology& topology_;
    const Shard& shard_;
    const PlanChoice& choice_;
    const FrameworkConstants& framework_;
    double slowdown_;              ///< of computing on the slowest node
    Group replicas_;               ///< ranks that hold the same dense parameters
    Group sharing_, groups_;       ///< of these, a group that shares states; its rank's likes
    Group expert_replicas_;        ///< ... the same experts
    std::vector<double> zero3_s_;  ///< exposed in the layers before each one; empty: equal layers
};

}  // namespace arena
