// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/core/pipeline.h"

#include <algorithm>
#include <numeric>

namespace arena::train {
namespace {

std::size_t bytes(const BlockState& s) {
    return s.norm_1.bytes() + s.saved_1.bytes() + s.query.bytes() + s.key.bytes() +
           s.value.bytes() + s.middle.bytes() + s.norm_2.bytes() + s.saved_2.bytes() +
           s.up.bytes() + s.active.bytes();
}
std::size_t bytes(const AttentionCore& c) {
    return c.out.bytes() + c.lse.bytes() + c.context.bytes();
}

}  // namespace

Range TrainPlan::layers(Index stage) const {
    const Index begin =
        std::accumulate(stage_layers.begin(), stage_layers.begin() + stage, Index{0});
    return {begin, begin + stage_layers[at(stage)]};
}

Index TrainPlan::global_batch() const {
    return micro_batch * std::accumulate(micro_batches.begin(), micro_batches.end(), Index{0});
}

Range TrainPlan::samples(Index replica) const {
    const auto mine = micro_batches.begin() + replica;
    const Index begin = micro_batch * std::accumulate(micro_batches.begin(), mine, Index{0});
    return {begin, begin + micro_batch * *mine};
}

Index in_flight(Index stages, Index stage, Index micro_batches) {
    return std::min(stages - stage, micro_batches);
}

Stage::Stage(const GptShape& shape, const TrainPlan& plan, const Place& place, Weights& weights,
             Group& world, Group& shards, Device& device)
    : shape_(shape),
      plan_(plan),
      place_(place),
      block_shape_(block_shape(shape, plan.layout.tp, plan.micro_batch, device)),
      device_(device),
      world_(world),
      scratch_(block_shape_),
      shared_state_(block_shape_),
      shared_core_(block_shape_),
      gradient_(block_shape_.elements(shape.hidden)),
      loss_(device, 1) {
    const Index count = plan.stage_layers[at(place.stage)];
    for (Index i = 0; i < count; ++i)
        blocks_.emplace_back(block_shape_, weights, i * block_tensors, shards, scratch_);
    if (is_first()) embedding_ = std::make_unique<Embedding>(block_shape_, weights, shards);
    if (is_last()) head_ = std::make_unique<Head>(block_shape_, weights, shards);
    make_room();
}

Stage::Slot Stage::make_slot() {
    Slot slot;
    for (std::size_t i = 0; i <= blocks_.size(); ++i)
        slot.inputs.push_back(block_shape_.elements(shape_.hidden));
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        if (plan_.recompute != Recompute::full) slot.states.emplace_back(block_shape_);
        if (plan_.recompute == Recompute::none) slot.cores.emplace_back(block_shape_);
    }
    return slot;
}

/// For as many micro-batches as this replica has; more than that does no harm.
void Stage::make_room() {
    const auto tokens = at(micro_batches() * block_shape_.tokens());
    if (is_first() && inputs_.size() < tokens) inputs_ = {device_, tokens};
    if (is_last() && labels_.size() < tokens) labels_ = {device_, tokens};
    const auto slots = at(in_flight(plan_.layout.pp, place_.stage, micro_batches()));
    while (slots_.size() < slots) slots_.push_back(make_slot());
}

void Stage::split(const std::vector<Index>& micro_batches) {
    plan_.micro_batches = micro_batches;
    make_room();
}

double Stage::activation_bytes() const {
    std::size_t sum = 0;
    for (const Slot& slot : slots_) {
        for (const Elements& input : slot.inputs) sum += input.bytes();
        for (const BlockState& state : slot.states) sum += bytes(state);
        for (const AttentionCore& core : slot.cores) sum += bytes(core);
    }
    return static_cast<double>(sum);
}

double Stage::run(const Batch& batch) {
    const Index all = micro_batches();
    const Index warmup = in_flight(plan_.layout.pp, place_.stage, all) - 1;
    if (is_first()) device_.upload(std::span(batch.inputs), inputs_.data());
    if (is_last()) device_.upload(std::span(batch.labels), labels_.data());
    device_.clear(loss_.span());
    for (Index m = 0; m < warmup; ++m) forward(m);
    for (Index m = warmup; m < all; ++m) {
        forward(m);
        backward(m - warmup);
    }
    for (Index m = all - warmup; m < all; ++m) backward(m);
    world_.flush();
    return device_.value(loss_.data());
}

int Stage::neighbour(Index step) const {
    return static_cast<int>(plan_.layout.rank({place_.stage + step, place_.replica, place_.shard}));
}

Tokens Stage::part(const Array<std::int32_t>& tokens, Index micro_batch) const {
    const Index each = block_shape_.tokens();
    return tokens.span({micro_batch * each, (micro_batch + 1) * each});
}

Stage::Slot& Stage::slot(Index micro_batch) { return slots_[at(micro_batch) % slots_.size()]; }

BlockState& Stage::state(std::size_t block, Slot& slot) {
    return slot.states.empty() ? shared_state_ : slot.states[block];
}
AttentionCore& Stage::core(std::size_t block, Slot& slot) {
    return slot.cores.empty() ? shared_core_ : slot.cores[block];
}

void Stage::forward(Index micro_batch) {
    Slot& s = slot(micro_batch);
    if (is_first())
        embedding_->forward(part(inputs_, micro_batch), s.inputs.front().data());
    else
        world_.receive(s.inputs.front().span(), neighbour(-1));
    for (std::size_t b = 0; b < blocks_.size(); ++b)
        blocks_[b].forward(s.inputs[b].data(), state(b, s), core(b, s), s.inputs[b + 1].data());
    if (is_last())
        head_->forward(s.inputs.back().data(), part(labels_, micro_batch), loss_.data());
    else
        world_.send(s.inputs.back().span(), neighbour(1));
}

void Stage::backward(Index micro_batch) {
    Slot& s = slot(micro_batch);
    const auto tokens = static_cast<float>(plan_.global_batch() * shape_.seq);
    if (is_last())
        head_->backward(s.inputs.back().data(), part(labels_, micro_batch), 1.0F / tokens,
                        gradient_.data());
    else
        world_.receive(gradient_.span(), neighbour(1));
    for (std::size_t b = blocks_.size(); b-- > 0;) backward_block(b, s);
    if (is_first())
        embedding_->backward(part(inputs_, micro_batch), gradient_.data());
    else
        world_.send(gradient_.span(), neighbour(-1));
}

void Stage::backward_block(std::size_t b, Slot& s) {
    Block& block = blocks_[b];
    const Block::Input input = s.inputs[b].data();
    if (plan_.recompute == Recompute::full) block.recompute(input, state(b, s), core(b, s));
    if (plan_.recompute == Recompute::selective) block.recompute_core(state(b, s), core(b, s));
    block.backward(input, state(b, s), core(b, s), gradient_.data());
}

}  // namespace arena::train
