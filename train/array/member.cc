// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/array/member.h"

#include <algorithm>

#include "train/comm/messages.h"

namespace arena::train {

Status agree_in_words(Comm& comm, const Status& mine) {
    std::vector<double> failed(2 *
                               at(comm.size()));  // the code of each rank, and whether it knows why
    const auto rank = at(comm.rank()), ranks = at(comm.size());
    if (!mine) {
        failed[rank] = exit_code(mine.error().code);
        failed[ranks + rank] = mine.error().text.empty() ? 0 : 1;
    }
    comm.all_reduce_sum(std::span<double>(failed));
    const auto middle = failed.begin() + static_cast<std::ptrdiff_t>(ranks);
    const auto first = std::find_if(failed.begin(), middle, [](double code) { return code != 0; });
    if (first == middle) return Done{};
    const auto knows = std::find(middle, failed.end(), 1.0);
    const auto code = static_cast<ErrorCode>(static_cast<int>(*first));
    if (knows == failed.end()) return Error{code, "failed on another rank", ""};
    const std::string text =
        share_text(comm, mine ? "" : mine.error().message(), static_cast<int>(knows - middle));
    return Error{code, text, ""};
}

Member::Member(MemberOptions options, const TrainPlan& plan, Index most, Comm& world,
               Skeleton& skeleton, Device& device)
    : o_(std::move(options)),
      plan_(plan),
      device_(device),
      skeleton_(skeleton),
      comm_(world.split(0)),
      group_(device.group(*comm_)),
      home_(o_.shape, plan, plan.layout.place(world.rank()), device),
      slot_(skeleton.make_slot(o_.batch)),
      losses_(device, at(most)),
      squares_(device, at(most)) {
    group_->connect(plan_.layout, plan_.layout.place(world.rank()));
}

CheckpointFacts Member::facts() const {
    return {o_.shape, step_, o_.seed, o_.batch, data_ ? data_->tokens() : 0};
}

RunState Member::run_state() {
    return {plan_, plan_.layout.place(comm_->rank()), home_.parameters, home_, *comm_};
}

Status Member::begin(Resumed& resumed) {
    Status opened = Done{};
    if (skeleton_.is_first() || skeleton_.is_last()) {
        auto file = TokenFile::open(o_.data, o_.width, o_.shape.seq, o_.shape.vocab);
        if (file)
            data_.emplace(std::move(*file));
        else
            opened = file.error();
    }
    if (Status s = agree_in_words(*comm_, opened); !s) return s;
    home_.parameters.initialize(o_.seed);
    if (!o_.checkpoints.empty()) {
        const auto found = resume(o_.checkpoints, facts(), run_state());
        if (Status s = agree_in_words(*comm_, found ? Status(Done{}) : found.error()); !s) return s;
        resumed = *found;
        step_ = resumed.step;
        if (!resumed.path.empty()) saved_ = step_;
        kept_ = resumed.path;
    }
    home_.refresh();
    return Done{};
}

Status Member::save() {
    const Status status = save_checkpoint(o_.checkpoints, facts(), run_state(), kept_);
    if (status) saved_ = step_;
    return agree_in_words(*comm_, status);
}

Index Member::until_stop() const {
    const Index left = o_.steps - step_;
    return o_.save_every == 0 || o_.checkpoints.empty()
               ? left
               : std::min(left, o_.save_every - step_ % o_.save_every);
}

/// Samples come as in a run of its own: by the number of samples before them.
Index Member::read(Index iterations, Status& why) {
    if (!data_) return iterations;
    const Index seq = o_.shape.seq;
    tokens_.resize(at(iterations * o_.batch * seq));
    labels_.resize(tokens_.size());
    for (Index i = 0; i < iterations * o_.batch; ++i) {
        const Index sample = sample_of(step_ * o_.batch + i, data_->samples(), o_.seed);
        why = data_->read(sample, std::span(tokens_).subspan(at(i * seq), at(seq)),
                          std::span(labels_).subspan(at(i * seq), at(seq)));
        if (!why) return i / o_.batch;
    }
    return iterations;
}

void Member::upload(const std::vector<std::int32_t>& all, Index iteration,
                    Array<std::int32_t>& to) {
    if (to.size() == 0) return;
    const std::size_t size = to.size();
    device_.upload(std::span(all).subspan(at(iteration) * size, size), to.data());
}

void Member::begin_round(Index iterations) {
    device_.clear(losses_.span({0, iterations}));
    device_.clear(squares_.span({0, iterations}));
}

void Member::forward(Index iteration, std::size_t mark) {
    upload(tokens_, iteration, slot_.tokens);
    upload(labels_, iteration, slot_.labels);
    skeleton_.receive_input(slot_, *group_);
    device_.mark(mark);
    skeleton_.forward(slot_, losses_.data(iteration));
    skeleton_.send_output(slot_, *group_);
    device_.mark(mark + 1);
}

void Member::backward(Index iteration, DeviceState& state, std::size_t mark) {
    device_.mark(mark);
    skeleton_.recompute(slot_);
    device_.mark(mark + 1);
    skeleton_.receive_gradient(slot_, *group_);
    device_.mark(mark + 2);
    skeleton_.backward(slot_);
    skeleton_.send_gradient(slot_, *group_);
    device_.mark(mark + 3);
    skeleton_.update(o_.optimizer, step_ + iteration + 1, state, squares_.data(iteration));
    device_.mark(mark + 4);
}

void Member::end_round(std::span<double> losses, std::span<double> squares) {
    group_->flush();
    for (std::size_t i = 0; i < losses.size(); ++i) {
        losses[i] += device_.value(losses_.data(static_cast<Index>(i)));
        squares[i] += device_.value(squares_.data(static_cast<Index>(i)));
    }
    step_ += static_cast<Index>(losses.size());
}

}  // namespace arena::train
