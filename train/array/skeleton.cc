// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/array/skeleton.h"

namespace arena::train {

Skeleton::Skeleton(const GptShape& shape, const TrainPlan& plan, Index stage, Index most_samples,
                   Group& alone, Device& device)
    : shape_(shape),
      plan_(plan),
      place_{.stage = stage},
      device_(device),
      layout_(layout_tensors(shape, plan.layout, place_, plan.layers(stage), device.alignment())),
      weights_(layout_, device),
      block_shape_(block_shape(shape, 1, most_samples, device)),
      scratch_(block_shape_),
      gradient_(block_shape_.elements(shape.hidden)),
      unused_loss_(device, 1) {
    const Index layers = plan.stage_layers[at(stage)];
    for (Index i = 0; i < layers; ++i)
        blocks_.emplace_back(block_shape_, weights_, i * block_tensors, alone, scratch_);
    if (is_first()) embedding_ = std::make_unique<Embedding>(block_shape_, weights_, alone);
    if (is_last()) head_ = std::make_unique<Head>(block_shape_, weights_, alone);
    if (plan.recompute == Recompute::none) return;
    for (Index i = 0; i < layers; ++i) shared_.cores.emplace_back(block_shape_);
    if (plan.recompute != Recompute::full) return;
    for (Index i = 0; i < layers; ++i) {
        shared_.inputs.push_back(block_shape_.elements(shape.hidden));
        shared_.states.emplace_back(block_shape_);
    }
}

Skeleton::Slot Skeleton::make_slot(Index samples) {
    BlockShape shape = block_shape_;
    shape.samples = samples;
    Slot slot;
    slot.samples = samples;
    const bool full = plan_.recompute == Recompute::full;
    const std::size_t layers = blocks_.size();
    for (std::size_t i = 0; i < (full ? 1 : layers + 1); ++i)
        slot.inputs.push_back(shape.elements(shape_.hidden));
    for (std::size_t i = 0; i < (full ? 0 : layers); ++i) slot.states.emplace_back(shape);
    if (plan_.recompute == Recompute::none)
        for (std::size_t i = 0; i < layers; ++i) slot.cores.emplace_back(shape);
    if (is_first()) slot.tokens = {device_, at(shape.tokens())};
    if (is_last()) slot.labels = {device_, at(shape.tokens())};
    return slot;
}

/// With full recomputation the input of layer i + 1 lies at shared_.inputs[i].
Elements& Skeleton::input(Slot& slot, std::size_t layer) {
    return layer < slot.inputs.size() ? slot.inputs[layer] : shared_.inputs[layer - 1];
}
BlockState& Skeleton::state(Slot& slot, std::size_t layer) {
    return slot.states.empty() ? shared_.states[layer] : slot.states[layer];
}
AttentionCore& Skeleton::core(Slot& slot, std::size_t layer) {
    return slot.cores.empty() ? shared_.cores[layer] : slot.cores[layer];
}

Span<Element> Skeleton::part(const Elements& all, const Slot& slot) const {
    return {all.data(), at(slot.samples * shape_.seq * shape_.hidden)};
}

/// The layers compute batches of its size from now on.
void Skeleton::take(Slot& slot) {
    for (Block& block : blocks_) block.set_samples(slot.samples);
    if (embedding_) embedding_->set_samples(slot.samples);
    if (head_) head_->set_samples(slot.samples);
}

void Skeleton::receive_input(Slot& slot, Group& group) {
    if (!is_first())
        group.receive(part(slot.inputs.front(), slot), static_cast<int>(place_.stage) - 1);
}

void Skeleton::forward(Slot& slot, Device::Sum loss) {
    take(slot);
    if (is_first()) embedding_->forward(slot.tokens.span(), slot.inputs.front().data());
    for (std::size_t i = 0; i < blocks_.size(); ++i)
        blocks_[i].forward(input(slot, i).data(), state(slot, i), core(slot, i),
                           input(slot, i + 1).data());
    if (is_last()) run_head(slot, loss);
    holder_ = &slot;
}

void Skeleton::run_head(Slot& slot, Device::Sum loss) {
    head_->forward(input(slot, blocks_.size()).data(), slot.labels.span(), loss);
}

void Skeleton::send_output(Slot& slot, Group& group) {
    if (!is_last())
        group.send(part(input(slot, blocks_.size()), slot), static_cast<int>(place_.stage) + 1);
}

/// The output of the last layer is needed where there is a head alone.
void Skeleton::recompute(Slot& slot) {
    take(slot);
    if (holder_ == &slot) return;
    holder_ = &slot;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        if (plan_.recompute == Recompute::none) break;
        if (plan_.recompute == Recompute::selective)
            blocks_[i].recompute_core(state(slot, i), core(slot, i));
        else if (i + 1 < blocks_.size() || is_last())
            blocks_[i].forward(input(slot, i).data(), state(slot, i), core(slot, i),
                               input(slot, i + 1).data());
        else
            blocks_[i].recompute(input(slot, i).data(), state(slot, i), core(slot, i));
    }
    if (is_last()) run_head(slot, unused_loss_.data());
}

void Skeleton::receive_gradient(Slot& slot, Group& group) {
    if (!is_last()) group.receive(part(gradient_, slot), static_cast<int>(place_.stage) + 1);
}

void Skeleton::backward(Slot& slot) {
    device_.clear(weights_.gradients().span());
    const auto tokens = static_cast<float>(slot.samples * shape_.seq);
    if (is_last())
        head_->backward(input(slot, blocks_.size()).data(), slot.labels.span(), 1.0F / tokens,
                        gradient_.data());
    for (std::size_t i = blocks_.size(); i-- > 0;)
        blocks_[i].backward(input(slot, i).data(), state(slot, i), core(slot, i), gradient_.data());
    if (is_first()) embedding_->backward(slot.tokens.span(), gradient_.data());
    holder_ = nullptr;
}

void Skeleton::send_gradient(Slot& slot, Group& group) {
    if (!is_first()) group.send(part(gradient_, slot), static_cast<int>(place_.stage) - 1);
}

void Skeleton::update(const OptimizerOptions& options, Index step, DeviceState& state,
                      Device::Sum squares) {
    for (const LocalTensor& t : layout_.tensors) {
        const Pointer<float> gradient = weights_.gradients().data(t.offset);
        device_.add_squares(t.size(), gradient, squares);
        device_.adamw(adamw_of(options, t.spec, step), t.size(), state.masters.data(t.offset),
                      gradient, state.first.data(t.offset), state.second.data(t.offset),
                      state.weights.data(t.offset));
    }
}

}  // namespace arena::train
