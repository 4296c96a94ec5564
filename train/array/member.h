// SPDX-License-Identifier: GPL-2.0-or-later
// What one stage has of one member: its state at home, what it keeps between forward and backward,
// its way to the neighbours, and on the first and last stage its data. Sends carry no tags, so that
// each member has a communicator of its own: stages may run members in different orders.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "train/array/skeleton.h"
#include "train/checkpoint/checkpoint.h"
#include "train/comm/comm.h"

namespace arena::train {

class Member {
  public:
    /// `world`: the ranks of the array, in the order of stages. Collective. `most` iterations of a
    /// round. References outlive it.
    Member(MemberOptions, const TrainPlan&, Index most, Comm& world, Skeleton&, Device&);

    /// The newest checkpoint, or first weights. Collective; the same answer on all ranks, with its
    /// sentence on all. What happened goes to `resumed`.
    Status begin(Resumed& resumed);
    /// Collective; as begin(). The state is at home.
    Status save();

    [[nodiscard]] const MemberOptions& options() const { return o_; }
    [[nodiscard]] Index step() const { return step_; }
    [[nodiscard]] bool is_done() const { return step_ >= o_.steps; }
    [[nodiscard]] bool is_saved() const { return o_.checkpoints.empty() || saved_ == step_; }
    /// Iterations to the end, or to the next checkpoint.
    [[nodiscard]] Index until_stop() const;
    [[nodiscard]] HomeState& home() { return home_; }
    [[nodiscard]] std::string path() const { return checkpoint_path(o_.checkpoints, step_); }

    /// Reads the batches of the next iterations; how many are good, and why no more are.
    Index read(Index iterations, Status& why);
    /// The blocks of the iteration-th of the round, with the state bound; seconds go to the
    /// device's marks from `mark` on: forward 2, backward 5.
    void forward(Index iteration, std::size_t mark);
    void backward(Index iteration, DeviceState&, std::size_t mark);
    static constexpr std::size_t marks = 5;
    void begin_round(Index iterations);
    /// Adds this stage's part of the loss and of the gradients' squares of each iteration.
    void end_round(std::span<double> losses, std::span<double> squares);

  private:
    [[nodiscard]] CheckpointFacts facts() const;
    [[nodiscard]] RunState run_state();
    void upload(const std::vector<std::int32_t>& all, Index iteration, Array<std::int32_t>& to);

    MemberOptions o_;
    TrainPlan plan_;
    Device& device_;
    Skeleton& skeleton_;
    std::unique_ptr<Comm> comm_;
    std::unique_ptr<Group> group_;
    HomeState home_;
    Skeleton::Slot slot_;
    std::optional<TokenFile> data_;
    std::vector<std::int32_t> tokens_, labels_;  ///< of a round
    Array<double> losses_, squares_;             ///< of each iteration of a round
    Index step_ = 0, saved_ = -1;
    std::string kept_;  ///< path of the last checkpoint that was read or written
};

/// The failure of the lowest rank, with its sentence on all of them. Collective.
Status agree_in_words(Comm&, const Status& mine);

}  // namespace arena::train
