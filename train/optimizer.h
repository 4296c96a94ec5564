// SPDX-License-Identifier: GPL-2.0-or-later
// AdamW with gradient clipping over the replicas of one shard: each holds all moments and updates
// all weights, or (ZeRO stage 1) holds and updates its part of the flat array and gathers the
// others'.
#pragma once

#include <vector>

#include "train/comm.h"
#include "train/parameters.h"

namespace arena::train {

struct OptimizerOptions {
    float rate = 3e-4F, beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, decay = 0.1F;
    float clip = 1;          ///< largest norm of all gradients together; 0 = no clipping
    Index warmup_steps = 0;  ///< the rate grows linearly up to step warmup_steps
    bool sharded = false;    ///< ZeRO stage 1
};

class Optimizer {
  public:
    /// `shard`: this rank's place among the tensor-parallel ranks. References outlive the
    /// optimizer.
    Optimizer(const OptimizerOptions&, Parameters&, Comm& replicas, Comm& world, Index shard,
              int threads);

    /// Sums the gradients over the replicas, clips, updates the weights; `step` from 1. Returns the
    /// norm of all gradients before clipping, the same on all ranks.
    double update(Index step);
    [[nodiscard]] float rate(Index step) const;

    /// A moment of all of this rank's elements, gathered over the replicas. Collective among them.
    enum class Moment { first, second };
    std::vector<float> gather(Moment);
    /// The inverse, from all elements; not collective.
    void set(Moment, std::span<const float> all);

  private:
    void sum_gradients();
    double norm_of_owned();
    void scale_owned(float factor);
    void update_tensor(const LocalTensor&, Index step);
    std::vector<float>& moment(Moment m) { return m == Moment::first ? first_ : second_; }

    OptimizerOptions o_;
    Parameters& p_;
    Comm& replicas_;
    Comm& world_;
    Index shard_;
    int threads_;
    Range owned_;  ///< of the flat arrays
    std::vector<float> first_, second_;
};

}  // namespace arena::train
