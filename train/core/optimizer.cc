// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/core/optimizer.h"

#include <algorithm>
#include <cmath>

namespace arena::train {
namespace {

template <typename T>
std::span<T> part(std::span<T> all, Range range) {
    return all.subspan(at(range.begin), at(range.size()));
}

Range common(Range a, const LocalTensor& t) {
    const Range both{std::max(a.begin, t.offset), std::min(a.end, t.offset + t.size())};
    return both.begin < both.end ? both : Range{};
}

}  // namespace

float rate_of(const OptimizerOptions& o, Index step) {
    if (step >= o.warmup_steps) return o.rate;
    return o.rate * static_cast<float>(step) / static_cast<float>(o.warmup_steps);
}

AdamW adamw_of(const OptimizerOptions& o, const TensorSpec& tensor, Index step) {
    return {.rate = rate_of(o, step),
            .beta1 = o.beta1,
            .beta2 = o.beta2,
            .epsilon = o.epsilon,
            .decay = tensor.decayed ? o.decay : 0,
            .step = step};
}

Optimizer::Optimizer(const OptimizerOptions& options, Weights& weights, const Replicas& replicas,
                     Comm& world, Index shard, Device& device)
    : o_(options),
      w_(weights),
      replicas_(replicas),
      world_(world),
      shard_(shard),
      device_(device),
      owned_(owned(static_cast<Index>(w_.weights().size()))),
      masters_(Array<float>::of(device, part(w_.host().weights(), owned_))),
      first_(device, at(owned_.size())),
      second_(device, at(owned_.size())),
      squares_(device, 1) {}

Range Optimizer::owned(Index all) const {
    return o_.sharded ? share(all, replicas_.host.size(), replicas_.host.rank()) : Range{0, all};
}

double Optimizer::update(Index step) {
    sum_gradients();
    double squares[] = {norm_of_owned()};
    world_.all_reduce_sum(std::span<double>(squares));
    const double norm = std::sqrt(squares[0]);
    if (o_.clip > 0 && norm > static_cast<double>(o_.clip))
        scale_owned(static_cast<float>(static_cast<double>(o_.clip) / norm));
    for (const LocalTensor& tensor : w_.tensors()) update_tensor(tensor, step);
    if (o_.sharded) replicas_.device.all_gather(w_.weights().span(owned_), w_.weights().span());
    return norm;
}

void Optimizer::sum_gradients() {
    const Array<float>& all = w_.gradients();
    if (!o_.sharded) return replicas_.device.all_reduce_sum(all.span());
    replicas_.device.reduce_scatter(all.span(), all.span(owned_));
}

/// Every element of the model counts once: not on other replicas, shards or the shadow of a table.
double Optimizer::norm_of_owned() {
    if (!o_.sharded && replicas_.host.rank() != 0) return 0;
    device_.clear(squares_.span());
    for (const LocalTensor& t : w_.tensors()) {
        if (t.shadow || (!t.spec.sharded && shard_ != 0)) continue;
        const Range mine = common(owned_, t);
        if (mine.size() > 0)
            device_.add_squares(mine.size(), w_.gradients().data(mine.begin), squares_.data());
    }
    return device_.value(squares_.data());
}

void Optimizer::scale_owned(float factor) {
    device_.scale(owned_.size(), factor, w_.gradients().data(owned_.begin));
}

void Optimizer::update_tensor(const LocalTensor& tensor, Index step) {
    const Range range = common(owned_, tensor);
    const Index begin = range.begin - owned_.begin;
    if (range.size() == 0) return;
    device_.adamw(adamw_of(o_, tensor.spec, step), range.size(), masters_.data(begin),
                  w_.gradients().data(range.begin), first_.data(begin), second_.data(begin),
                  w_.weights().data(range.begin));
}

void Optimizer::upload() {
    if (device_.is_host()) return;
    const std::span<const float> host = w_.host().weights();
    device_.upload(host, w_.weights().data());
    device_.upload(part(host, owned_), masters_.data());
}

void Optimizer::download() {
    if (device_.is_host()) return;
    const std::span<float> host = w_.host().weights();
    device_.download(masters_.data(), part(host, owned_));
    if (o_.sharded) replicas_.host.all_gather(part(host, owned_), host);
}

std::vector<float> Optimizer::own(Moment which) {
    std::vector<float> mine(at(owned_.size()));
    device_.download(moment(which).data(), mine);
    return mine;
}

void Optimizer::set_own(Moment which, std::span<const float> mine) {
    device_.upload(mine, moment(which).data());
}

std::vector<float> Optimizer::gather(Moment which) {
    const std::vector<float> mine = own(which);
    if (!o_.sharded) return mine;
    std::vector<float> all(w_.weights().size());
    replicas_.host.all_gather(mine, all);
    return all;
}

void Optimizer::set(Moment which, std::span<const float> all) { set_own(which, part(all, owned_)); }

}  // namespace arena::train
