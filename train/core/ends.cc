// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/core/ends.h"

namespace arena::train {
namespace {

const LocalTensor& tensor(const Weights& w, Index i) { return w.tensors()[at(i)]; }

Index head_table(const Weights& w) {
    const Index own = w.find("lm_head.weight");
    return own >= 0 ? own : w.find("wte.weight");
}

}  // namespace

Embedding::Embedding(const BlockShape& shape, Weights& w, Group& shards)
    : s_(shape),
      device_(shape.device),
      shards_(shards),
      weights_(w),
      tokens_(w.find("wte.weight")),
      positions_(w.find("wpe.weight")),
      rows_(tensor(w, tokens_).range) {}

/// The positions are a bias of each sample.
void Embedding::forward(Tokens ids, Pointer<Element> output) {
    device_.gather_rows(rows(), s_.hidden, ids, weights_.weight(tokens_), output);
    shards_.all_reduce_sum(Span<Element>(output, at(s_.tokens() * s_.hidden)));
    device_.add_bias(s_.samples, span(), weights_.weight(positions_), output);
}

void Embedding::backward(Tokens ids, Pointer<const Element> gradient) {
    device_.scatter_rows(rows(), s_.hidden, ids, gradient, weights_.gradient(tokens_));
    device_.add_column_sums(s_.samples, span(), gradient, weights_.gradient(positions_));
}

Head::Head(const BlockShape& shape, Weights& w, Group& shards)
    : s_(shape),
      device_(shape.device),
      shards_(shards),
      weights_(w),
      gamma_(w.find("ln_f.weight")),
      beta_(w.find("ln_f.bias")),
      table_(head_table(w)),
      rows_(tensor(w, table_).range),
      norm_(s_.elements(s_.hidden)),
      logits_(s_.elements(rows_.size())),
      saved_(s_.floats(2)),
      top_(s_.floats(1)),
      target_(s_.floats(1)),
      sum_(s_.floats(1)),
      d_norm_(s_.elements(s_.hidden)) {}

void Head::forward(Pointer<const Element> input, Tokens labels, Device::Sum loss) {
    const Index tokens = s_.tokens();
    device_.norm_forward(tokens, s_.hidden, input, weights_.weight(gamma_), weights_.weight(beta_),
                         norm_.data(), saved_.data());
    device_.multiply(Layout::nt, tokens, rows_.size(), s_.hidden, norm_.data(),
                     weights_.weight(table_), logits_.data());
    device_.top_and_target(rows(), logits_.data(), labels, top_.data(), target_.data());
    shards_.all_reduce_max(top_.span());
    shards_.all_reduce_sum(target_.span());
    device_.sum_exponentials(rows(), logits_.data(), top_.data(), sum_.data());
    shards_.all_reduce_sum(sum_.span());
    device_.add_losses(tokens, top_.data(), target_.data(), sum_.data(), loss);
}

void Head::backward(Pointer<const Element> input, Tokens labels, float scale,
                    Pointer<Element> gradient) {
    const Index tokens = s_.tokens(), width = rows_.size(), h = s_.hidden;
    device_.logits_gradient(rows(), logits_.data(), labels, top_.data(), sum_.data(), scale);
    device_.multiply_add(Layout::tn, width, h, tokens, logits_.data(), norm_.data(),
                         weights_.gradient(table_));
    device_.multiply(Layout::nn, tokens, h, width, logits_.data(), weights_.weight(table_),
                     d_norm_.data());
    shards_.all_reduce_sum(d_norm_.span());
    device_.norm_backward(tokens, h, {input, weights_.weight(gamma_), saved_.data()},
                          d_norm_.data(), gradient, weights_.gradient(gamma_),
                          weights_.gradient(beta_));
}

}  // namespace arena::train
