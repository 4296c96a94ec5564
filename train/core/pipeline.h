// SPDX-License-Identifier: GPL-2.0-or-later
// One rank's part of a training step: its stage of the pipeline under 1F1B (PipeDream-flush), with
// the activations of as many micro-batches as are in flight there, or what recomputation leaves of
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/plan.h"
#include "train/core/ends.h"

namespace arena::train {

/// The plan that a run trains under; see plan.h for where it comes from.
struct TrainPlan {
    RankLayout layout;
    std::vector<Index> stage_layers = {1};   ///< one entry per stage, each >= 0, sum = layers
    Index micro_batch = 1;                   ///< samples
    std::vector<Index> micro_batches = {1};  ///< of each replica in a step, each >= 1
    Recompute recompute = Recompute::none;
    Index zero_stage = 0;  ///< 0 or 1
    [[nodiscard]] Index global_batch() const;
    /// Of the samples of a step those of a replica: one after the other, as many as it has.
    [[nodiscard]] Range samples(Index replica) const;
    [[nodiscard]] Range layers(Index stage) const;
    bool operator==(const TrainPlan&) const = default;
};

/// Tokens and labels of one step for one replica, [micro_batches, micro_batch, seq].
struct Batch {
    std::vector<std::int32_t> inputs, labels;
};

/// Micro-batches that a stage holds activations of at the most.
Index in_flight(Index stages, Index stage, Index micro_batches);

class Stage {
  public:
    /// World: all ranks; shards: those of this replica and stage. References outlive the stage.
    Stage(const GptShape&, const TrainPlan&, const Place&, Weights&, Group& world, Group& shards,
          Device&);

    /// Forward and backward of all micro-batches; adds d(mean loss of the global batch) to the
    /// gradients. Returns this replica's sum of token losses on the last stage, 0 on the others.
    double run(const Batch&);
    /// TrainPlan::micro_batches from the next run() on, of the same sum.
    void split(const std::vector<Index>& micro_batches);
    /// Bytes of activations that this rank keeps between forward and backward.
    [[nodiscard]] double activation_bytes() const;

  private:
    struct Slot {                      ///< a micro-batch in flight
        std::vector<Elements> inputs;  ///< of each block, and of the head
        std::vector<BlockState> states;
        std::vector<AttentionCore> cores;
    };
    [[nodiscard]] bool is_first() const { return place_.stage == 0; }
    [[nodiscard]] bool is_last() const { return place_.stage == plan_.layout.pp - 1; }
    [[nodiscard]] int neighbour(Index step) const;
    [[nodiscard]] Tokens part(const Array<std::int32_t>&, Index micro_batch) const;
    [[nodiscard]] Index micro_batches() const { return plan_.micro_batches[at(place_.replica)]; }
    void make_room();
    Slot make_slot();
    Slot& slot(Index micro_batch);
    void forward(Index micro_batch);
    void backward(Index micro_batch);
    void backward_block(std::size_t block, Slot&);
    /// Where a block's state lies: the slot's, or the shared one of full recomputation.
    BlockState& state(std::size_t block, Slot&);
    AttentionCore& core(std::size_t block, Slot&);

    GptShape shape_;
    TrainPlan plan_;
    Place place_;
    BlockShape block_shape_;
    Device& device_;
    Group& world_;
    BlockScratch scratch_;
    BlockState shared_state_;
    AttentionCore shared_core_;
    std::vector<Block> blocks_;
    std::unique_ptr<Embedding> embedding_;
    std::unique_ptr<Head> head_;
    std::vector<Slot> slots_;
    Elements gradient_;
    Array<std::int32_t> inputs_, labels_;  ///< of the step
    Array<double> loss_;
};

}  // namespace arena::train
