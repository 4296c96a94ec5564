// SPDX-License-Identifier: GPL-2.0-or-later
// AdamW with gradient clipping over the replicas of one shard: each holds all moments and updates
// all weights, or (ZeRO stage 1) holds and updates its part of the flat array and gathers the
// others'. Where a device has memory of its own the masters and moments lie there too; the host's
// Parameters are their picture for a checkpoint.
#pragma once

#include <vector>

#include "train/comm/comm.h"
#include "train/core/weights.h"

namespace arena::train {

struct OptimizerOptions {
    float rate = 3e-4F, beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, decay = 0.1F;
    float clip = 1;          ///< largest norm of all gradients together; 0 = no clipping
    Index warmup_steps = 0;  ///< the rate grows linearly up to step warmup_steps
    bool sharded = false;    ///< ZeRO stage 1
};

/// AdamW's rate of a step, from 1; and its step on one tensor.
float rate_of(const OptimizerOptions&, Index step);
AdamW adamw_of(const OptimizerOptions&, const TensorSpec&, Index step);

/// The moments of a rank's weights, as a checkpoint takes and gives them.
class Moments {
  public:
    Moments() = default;
    Moments(const Moments&) = delete;
    Moments& operator=(const Moments&) = delete;
    virtual ~Moments() = default;
    enum class Moment { first, second };
    /// Of all of this rank's elements. Collective among its replicas.
    virtual std::vector<float> gather(Moment) = 0;
    /// The inverse; not collective.
    virtual void set(Moment, std::span<const float> all) = 0;
};

class Optimizer : public Moments {
  public:
    /// The replicas of one shard, as the host and as the device talk to them.
    struct Replicas {
        Comm& host;
        Group& device;
    };
    /// `shard`: this rank's place among the tensor-parallel ranks. References outlive the
    /// optimizer.
    Optimizer(const OptimizerOptions&, Weights&, const Replicas&, Comm& world, Index shard,
              Device&);

    /// Sums the gradients over the replicas, clips, updates the weights; `step` from 1. Returns the
    /// norm of all gradients before clipping, the same on all ranks.
    double update(Index step);
    [[nodiscard]] float rate(Index step) const { return rate_of(o_, step); }

    /// Where the device has memory of its own: weights from the host's Parameters to it, and from
    /// its masters back (collective among the replicas). Else they are the same, and nothing is
    /// done.
    void upload();
    void download();
    /// A moment of the elements that this rank updates: all, or with ZeRO its share.
    [[nodiscard]] std::size_t own_size() const { return at(owned_.size()); }
    std::vector<float> own(Moment);
    void set_own(Moment, std::span<const float> mine);
    std::vector<float> gather(Moment) override;
    void set(Moment, std::span<const float> all) override;

  private:
    [[nodiscard]] Range owned(Index all) const;
    void sum_gradients();
    double norm_of_owned();
    void scale_owned(float factor);
    void update_tensor(const LocalTensor&, Index step);
    Array<float>& moment(Moment m) { return m == Moment::first ? first_ : second_; }

    OptimizerOptions o_;
    Weights& w_;
    Replicas replicas_;
    Comm& world_;
    Index shard_;
    Device& device_;
    Range owned_;           ///< of the flat arrays
    Array<float> masters_;  ///< of those weights, in fp32
    Array<float> first_, second_;
    Array<double> squares_;
};

}  // namespace arena::train
