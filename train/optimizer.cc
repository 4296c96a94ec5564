// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "profiler/cpu_kernels.h"

namespace arena::train {
namespace {

std::span<float> part(std::span<float> all, Range range) {
    return all.subspan(at(range.begin), at(range.size()));
}

Range common(Range a, const LocalTensor& t) {
    const Range both{std::max(a.begin, t.offset), std::min(a.end, t.offset + t.size())};
    return both.begin < both.end ? both : Range{};
}

}  // namespace

Optimizer::Optimizer(const OptimizerOptions& options, Parameters& parameters, Comm& replicas,
                     Comm& world, Index shard, int threads)
    : o_(options),
      p_(parameters),
      replicas_(replicas),
      world_(world),
      shard_(shard),
      threads_(threads) {
    const auto all = static_cast<Index>(p_.weights().size());
    owned_ = o_.sharded ? share(all, replicas.size(), replicas.rank()) : Range{0, all};
    first_.assign(at(owned_.size()), 0);
    second_.assign(at(owned_.size()), 0);
}

float Optimizer::rate(Index step) const {
    if (step >= o_.warmup_steps) return o_.rate;
    return o_.rate * static_cast<float>(step) / static_cast<float>(o_.warmup_steps);
}

double Optimizer::update(Index step) {
    sum_gradients();
    double squares[] = {norm_of_owned()};
    world_.all_reduce_sum(std::span<double>(squares));
    const double norm = std::sqrt(squares[0]);
    if (o_.clip > 0 && norm > static_cast<double>(o_.clip))
        scale_owned(static_cast<float>(static_cast<double>(o_.clip) / norm));
    for (const LocalTensor& tensor : p_.tensors()) update_tensor(tensor, step);
    if (o_.sharded) replicas_.all_gather(part(p_.weights(), owned_), p_.weights());
    return norm;
}

void Optimizer::sum_gradients() {
    if (!o_.sharded) return replicas_.all_reduce_sum(p_.gradients());
    std::vector<float> sum(at(owned_.size()));
    replicas_.reduce_scatter(p_.gradients(), sum);
    std::copy(sum.begin(), sum.end(), part(p_.gradients(), owned_).begin());
}

/// Every element of the model counts once: not on other replicas, shards or the shadow of a table.
double Optimizer::norm_of_owned() {
    if (!o_.sharded && replicas_.rank() != 0) return 0;
    double sum = 0;
    for (const LocalTensor& t : p_.tensors()) {
        if (t.shadow || (!t.spec.sharded && shard_ != 0)) continue;
        for (const float g : part(p_.gradients(), common(owned_, t)))
            sum += static_cast<double>(g) * static_cast<double>(g);
    }
    return sum;
}

void Optimizer::scale_owned(float factor) {
    for (float& g : part(p_.gradients(), owned_)) g *= factor;
}

void Optimizer::update_tensor(const LocalTensor& tensor, Index step) {
    const Range range = common(owned_, tensor);
    const Index begin = range.begin - owned_.begin;
    if (range.size() == 0) return;
    const cpu::AdamW adam{
        rate(step), o_.beta1, o_.beta2, o_.epsilon, tensor.spec.decayed ? o_.decay : 0, step};
    cpu::adamw(adam, range.size(), part(p_.weights(), range).data(),
               part(p_.gradients(), range).data(), first_.data() + begin, second_.data() + begin,
               threads_);
}

std::vector<float> Optimizer::gather(Moment which) {
    const std::vector<float>& mine = moment(which);
    if (!o_.sharded) return mine;
    std::vector<float> all(p_.weights().size());
    replicas_.all_gather(mine, all);
    return all;
}

void Optimizer::set(Moment which, std::span<const float> all) {
    const auto mine = all.subspan(at(owned_.begin), at(owned_.size()));
    std::copy(mine.begin(), mine.end(), moment(which).begin());
}

}  // namespace arena::train
