// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/role.h"

#include <algorithm>

namespace arena::train {
namespace {

/// Ranks that share all of their place but one coordinate, which is 0 here.
std::unique_ptr<Comm> group_of(Comm& world, const RankLayout& layout, const Place& first) {
    return world.split(static_cast<int>(layout.rank(first)));
}

OptimizerOptions sharded(OptimizerOptions options, const TrainPlan& plan) {
    options.sharded = plan.zero_stage == 1;
    return options;
}

}  // namespace

Role::Role(const GptShape& shape, const TrainPlan& plan, const OptimizerOptions& options,
           Comm& world, Device& device, bool is_timed)
    : shape_(shape),
      layout_(plan.layout),
      world_(world),
      place_(layout_.place(world.rank())),
      shards_(group_of(world, layout_, {place_.stage, place_.replica, 0})),
      replicas_(group_of(world, layout_, {place_.stage, 0, place_.shard})),
      ends_(world.split(static_cast<int>(ends_color()))),
      device_(device),
      clock_(device, is_timed),
      message_bytes_(static_cast<double>(plan.micro_batch * shape.seq * shape.hidden) *
                     static_cast<double>(device.width_of<Element>())),
      world_group_(timed(device_.group(world), clock_)),
      shard_group_(timed(device_.group(*shards_), clock_)),
      replica_group_(device_.group(*replicas_)),
      end_group_(device_.group(*ends_)),
      parameters_(shape, layout_, place_, plan.layers(place_.stage), device_.alignment()),
      weights_(parameters_, device_),
      stage_(shape, plan, place_, weights_, *world_group_, *shard_group_, device_),
      optimizer_(sharded(options, plan), weights_, {*replicas_, *replica_group_}, world,
                 place_.shard, device_) {
    world_group_->connect(layout_, place_);
}

/// First and last stage of one replica and shard share a color: they hold a tied table together.
Index Role::ends_color() const {
    const bool at_end = place_.stage == 0 || is_last();
    return layout_.rank({at_end ? 0 : place_.stage, place_.replica, place_.shard});
}

void Role::add_tied_gradients() {
    if (!shape_.tied || ends_->size() < 2) return;
    const Index table = weights_.find("wte.weight");
    const auto size = static_cast<std::size_t>(weights_.tensors()[at(table)].size());
    end_group_->all_reduce_sum(Span<float>(weights_.gradient(table), size));
}

Role::Sums Role::train(const Batch& batch, Index step) {
    device_.clear(weights_.gradients().span());
    clock_.start();
    const double loss = stage_.run(batch);
    compute_s_ = clock_.stop();
    add_tied_gradients();
    const double norm = optimizer_.update(step);
    return {is_last() && place_.shard == 0 ? loss : 0, norm};
}

double Role::state_bytes() {
    return gradient_bytes() + 2 * static_cast<double>(optimizer_.own_size() * sizeof(float));
}

double Role::gradient_bytes() {
    return static_cast<double>(parameters_.weights().size() * sizeof(float));
}

ModelState Role::model_state() {
    optimizer_.download();
    const std::span<const float> weights = parameters_.weights();
    return {{weights.begin(), weights.end()},
            optimizer_.own(Optimizer::Moment::first),
            optimizer_.own(Optimizer::Moment::second)};
}

void Role::set_model_state(const ModelState& all) {
    std::ranges::copy(all.weights, parameters_.weights().begin());
    optimizer_.set_own(Optimizer::Moment::first, all.first);
    optimizer_.set_own(Optimizer::Moment::second, all.second);
    optimizer_.upload();
}

ModelState Role::empty_model_state() {
    ModelState none;
    none.weights.resize(parameters_.weights().size());
    none.first.resize(optimizer_.own_size());
    none.second.resize(optimizer_.own_size());
    return none;
}

}  // namespace arena::train
