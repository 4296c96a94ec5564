// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/ends.h"

#include <algorithm>
#include <cmath>

#include "profiler/cpu_math.h"

namespace arena::train {
namespace {

const LocalTensor& tensor(const Parameters& p, Index i) { return p.tensors()[at(i)]; }

/// Subtracts `top`, exponentiates in place, returns the sum.
ARENA_CLONES float exponentials(Index n, float top, float* x) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index i = 0; i < n; ++i) {
        x[i] = cpu::fast_exp(x[i] - top);
        sum += x[i];
    }
    return sum;
}

Index head_table(const Parameters& p) {
    const Index own = p.find("lm_head.weight");
    return own >= 0 ? own : p.find("wte.weight");
}

}  // namespace

Embedding::Embedding(const BlockShape& shape, Parameters& p, Comm& shards)
    : s_(shape), shards_(shards) {
    const Index tokens = p.find("wte.weight"), positions = p.find("wpe.weight");
    rows_ = tensor(p, tokens).range;
    tokens_ = p.weight(tokens);
    d_tokens_ = p.gradient(tokens);
    positions_ = p.weight(positions);
    d_positions_ = p.gradient(positions);
}

void Embedding::forward(std::span<const std::int32_t> ids, float* output) {
    const Index h = s_.hidden;
    for (Index t = 0; t < s_.tokens(); ++t) {
        const Index row = ids[at(t)] - rows_.begin;
        if (row >= 0 && row < rows_.size())
            std::copy_n(tokens_ + row * h, h, output + t * h);
        else
            std::fill_n(output + t * h, h, 0.0F);
    }
    shards_.all_reduce_sum(std::span(output, at(s_.tokens() * h)));
    for (Index b = 0; b < s_.samples; ++b)
        accumulate(s_.seq * h, positions_, output + b * s_.seq * h);
}

void Embedding::backward(std::span<const std::int32_t> ids, const float* gradient) {
    const Index h = s_.hidden;
    for (Index t = 0; t < s_.tokens(); ++t) {
        const Index row = ids[at(t)] - rows_.begin;
        if (row >= 0 && row < rows_.size()) accumulate(h, gradient + t * h, d_tokens_ + row * h);
    }
    for (Index b = 0; b < s_.samples; ++b)
        accumulate(s_.seq * h, gradient + b * s_.seq * h, d_positions_);
}

Head::Head(const BlockShape& shape, Parameters& p, Comm& shards)
    : s_(shape),
      shards_(shards),
      rows_(tensor(p, head_table(p)).range),
      norm_(at(s_.tokens() * s_.hidden)),
      saved_(at(s_.tokens() * 2)),
      logits_(at(s_.tokens() * rows_.size())),
      top_(at(s_.tokens())),
      target_(top_.size()),
      sum_(top_.size()),
      d_norm_(norm_.size()),
      partial_(at(2 * s_.hidden * s_.threads)),
      sums_(at(s_.hidden)),
      sums_2_(sums_.size()) {
    const Index table = head_table(p), gamma = p.find("ln_f.weight"), beta = p.find("ln_f.bias");
    gamma_ = p.weight(gamma);
    beta_ = p.weight(beta);
    d_gamma_ = p.gradient(gamma);
    d_beta_ = p.gradient(beta);
    table_ = p.weight(table);
    d_table_ = p.gradient(table);
}

double Head::forward(const float* input, std::span<const std::int32_t> labels) {
    const Index tokens = s_.tokens(), width = rows_.size();
    cpu::norm_forward({tokens, s_.hidden}, input, gamma_, beta_, norm_.data(), saved_.data(),
                      s_.threads);
    cpu::gemm({cpu::Layout::nt, tokens, width, s_.hidden}, norm_.data(), s_.hidden, table_,
              s_.hidden, 0, logits_.data(), width);
    for (Index t = 0; t < tokens; ++t) {
        top_[at(t)] = *std::max_element(logits_of(t), logits_of(t) + width);
        const Index label = labels[at(t)] - rows_.begin;
        target_[at(t)] = label >= 0 && label < width ? logits_of(t)[label] : 0.0F;
    }
    shards_.all_reduce_max(std::span(top_));
    shards_.all_reduce_sum(std::span(target_));
    exponentiate();
    double loss = 0;
    for (Index t = 0; t < tokens; ++t)
        loss += std::log(static_cast<double>(sum_[at(t)])) +
                static_cast<double>(top_[at(t)] - target_[at(t)]);
    return loss;
}

void Head::exponentiate() {
    for (Index t = 0; t < s_.tokens(); ++t)
        sum_[at(t)] = exponentials(rows_.size(), top_[at(t)], logits_of(t));
    shards_.all_reduce_sum(std::span(sum_));
}

void Head::backward(const float* input, std::span<const std::int32_t> labels, float scale,
                    float* gradient) {
    const Index tokens = s_.tokens(), width = rows_.size(), h = s_.hidden;
    for (Index t = 0; t < tokens; ++t) {
        const float factor = scale / sum_[at(t)];
        for (Index i = 0; i < width; ++i) logits_of(t)[i] *= factor;
        const Index label = labels[at(t)] - rows_.begin;
        if (label >= 0 && label < width) logits_of(t)[label] -= scale;
    }
    cpu::gemm({cpu::Layout::tn, width, h, tokens}, logits_.data(), width, norm_.data(), h, 1,
              d_table_, h);
    cpu::gemm({cpu::Layout::nn, tokens, h, width}, logits_.data(), width, table_, h, 0,
              d_norm_.data(), h);
    shards_.all_reduce_sum(std::span(d_norm_));
    cpu::norm_backward({tokens, h}, input, gamma_, saved_.data(), d_norm_.data(), gradient,
                       sums_.data(), sums_2_.data(), partial_.data(), s_.threads);
    accumulate(h, sums_.data(), d_gamma_);
    accumulate(h, sums_2_.data(), d_beta_);
}

}  // namespace arena::train
