// SPDX-License-Identifier: GPL-2.0-or-later
// One stage of the pipeline that all members share: the layers, their working memory and one array
// of gradients, computing with whichever state is bound to them. A block is one member's whole
// batch, forward or backward; its optimizer step belongs to the backward block, so that gradients
// live no longer than it. With recomputation a member keeps only the input of the stage meanwhile.
// One rank per stage: no tensor or data parallelism.
#pragma once

#include <memory>
#include <vector>

#include "train/array/states.h"
#include "train/core/ends.h"
#include "train/members/member_options.h"

namespace arena::train {

class Skeleton {
  public:
    /// What a member keeps from forward to backward.
    struct Slot {
        Index samples = 0;
        std::vector<Elements> inputs;  ///< of the stage; without full recomputation of each layer
        std::vector<BlockState> states;
        std::vector<AttentionCore> cores;
        Array<std::int32_t> tokens, labels;  ///< on the first stage, on the last
    };
    /// `most_samples` of a batch; `alone`: a group of this rank only. References outlive it.
    Skeleton(const GptShape&, const TrainPlan&, Index stage, Index most_samples, Group& alone,
             Device&);

    Slot make_slot(Index samples);
    [[nodiscard]] const TensorLayout& layout() const { return layout_; }
    [[nodiscard]] bool is_first() const { return place_.stage == 0; }
    [[nodiscard]] bool is_last() const { return place_.stage == plan_.layout.pp - 1; }
    void bind(const DeviceState& state) { weights_.bind(state.weights); }
    /// Input and gradient of a stage come and go by the member's own group.
    void receive_input(Slot&, Group&);
    /// Computes the layers, on the last stage adds the loss; send_output() is the rest of the
    /// block.
    void forward(Slot&, Device::Sum loss);
    void send_output(Slot&, Group&);
    /// What forward() left and others have overwritten since.
    void recompute(Slot&);
    void receive_gradient(Slot&, Group&);
    void backward(Slot&);
    void send_gradient(Slot&, Group&);
    /// Adds the sum of squares of all gradients, and does the optimizer's step (from 1).
    void update(const OptimizerOptions&, Index step, DeviceState&, Device::Sum squares);

  private:
    void take(Slot&);
    Elements& input(Slot&, std::size_t layer);
    BlockState& state(Slot&, std::size_t layer);
    AttentionCore& core(Slot&, std::size_t layer);
    [[nodiscard]] Span<Element> part(const Elements&, const Slot&) const;
    void run_head(Slot&, Device::Sum loss);

    GptShape shape_;
    TrainPlan plan_;
    Place place_;
    Device& device_;
    TensorLayout layout_;
    Weights weights_;
    BlockShape block_shape_;
    BlockScratch scratch_;
    std::vector<Block> blocks_;
    std::unique_ptr<Embedding> embedding_;
    std::unique_ptr<Head> head_;
    Slot shared_;  ///< what slots have none of
    Elements gradient_;
    Array<double> unused_loss_;
    const Slot* holder_ = nullptr;  ///< whose forward the shared memory has
};

}  // namespace arena::train
