// SPDX-License-Identifier: GPL-2.0-or-later
// What a rank is in the plan: its stage, replica and shard, with the groups that it talks to, its
// weights and moments and what computes on them. Two ranks can change roles between two steps: then
// all make new ones and the two send each other what they knew.
#pragma once

#include <memory>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/core/compute_clock.h"
#include "train/core/optimizer.h"
#include "train/core/pipeline.h"

namespace arena::train {

/// What a role has learnt: fp32 weights, and the moments of those that it updates.
struct ModelState {
    std::vector<float> weights, first, second;
};

class Role {
  public:
    /// `world`: all ranks in the order of their places. Collective. References outlive the role.
    /// `timed`: compute_s() is wanted.
    Role(const GptShape&, const TrainPlan&, const OptimizerOptions&, Comm& world, Device&,
         bool timed = false);

    [[nodiscard]] const Place& place() const { return place_; }
    [[nodiscard]] Comm& world() { return world_; }
    [[nodiscard]] double activation_bytes() const { return stage_.activation_bytes(); }
    /// Of weights and moments; of gradients; of a micro-batch between two stages.
    [[nodiscard]] double state_bytes();
    [[nodiscard]] double gradient_bytes();
    [[nodiscard]] double message_bytes() const { return message_bytes_; }
    /// Seconds that this rank computed in the pipeline of the last step, without what it exchanged
    /// with others.
    [[nodiscard]] double compute_s() const { return compute_s_; }
    [[nodiscard]] float rate(Index step) const { return optimizer_.rate(step); }
    void initialize(std::uint64_t seed) { parameters_.initialize(seed); }
    [[nodiscard]] RunState state(const TrainPlan& plan) {
        return {plan, place_, parameters_, optimizer_, world_};
    }
    void upload() { optimizer_.upload(); }
    void download() { optimizer_.download(); }

    struct Sums {
        double loss = 0;  ///< of this rank's tokens, once over all ranks
        double norm = 0;  ///< of all gradients before clipping
    };
    /// `step` from 1.
    Sums train(const Batch&, Index step);
    void split(const std::vector<Index>& micro_batches) { stage_.split(micro_batches); }

    /// Collective.
    ModelState model_state();
    /// What a role of the same place had learnt.
    void set_model_state(const ModelState&);
    /// Of the lengths that set_model_state() takes.
    ModelState empty_model_state();

  private:
    [[nodiscard]] bool is_last() const { return place_.stage == layout_.pp - 1; }
    [[nodiscard]] Index ends_color() const;
    void add_tied_gradients();

    GptShape shape_;
    RankLayout layout_;
    Comm& world_;
    Place place_;
    std::unique_ptr<Comm> shards_, replicas_, ends_;
    Device& device_;
    ComputeClock clock_;
    double compute_s_ = 0, message_bytes_;
    std::unique_ptr<Group> world_group_, shard_group_, replica_group_, end_group_;
    Parameters parameters_;
    Weights weights_;
    Stage stage_;
    Optimizer optimizer_;
};

}  // namespace arena::train
