// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/operators.h"

#include <algorithm>

#include "planner/layers.h"
#include "planner/model.h"

namespace arena {

namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

/// Builds shapes of one shard; every operator appears with its forward and backward form.
class Builder {
  public:
    Builder(const Model& model, Precision precision, const ShardShape& shape)
        : model_(model),
          precision_(precision),
          tp_(shape.tp),
          micro_batch_(shape.micro_batch),
          tokens_(model.seq_length * shape.micro_batch),
          norm_rows_(shape.sequence_parallel ? std::max<std::int64_t>(1, tokens_ / tp_) : tokens_) {
    }

    void layer(std::vector<OpCount>& forward, std::vector<OpCount>& backward) const {
        const std::int64_t h = model_.hidden, f = model_.ffn_hidden / tp_;
        pair(forward, backward, OpKind::norm, {norm_rows_, h}, norm_variant(), 2);
        gemm(forward, backward, qkv_columns(), h);
        pair(forward, backward, OpKind::attention, attention_dims(), attention_variant(), 1);
        gemm(forward, backward, h, h / tp_);
        gemm(forward, backward, is_gated(model_) ? 2 * f : f, h);
        pair(forward, backward, OpKind::elementwise, {tokens_, f},
             is_gated(model_) ? "swiglu" : "gelu", 1);
        gemm(forward, backward, h, f);
        pair(forward, backward, OpKind::elementwise, {norm_rows_, h},
             model_.linear_bias ? "bias_residual" : "add", 2);
    }

    void embedding(std::vector<OpCount>& ops) const {
        pair(ops, ops, OpKind::embedding, {tokens_, model_.hidden, shard_vocab(model_, tp_)}, "",
             1);
    }

    void head(std::vector<OpCount>& ops) const {
        const std::int64_t h = model_.hidden, vocab = shard_vocab(model_, tp_);
        if (model_.family == Family::bert) {
            gemm(ops, ops, h, h);
            pair(ops, ops, OpKind::elementwise, {tokens_, h}, "gelu", 1);
        }
        pair(ops, ops, OpKind::norm, {norm_rows_, h}, norm_variant(), 1);
        gemm(ops, ops, vocab, h);
        pair(ops, ops, OpKind::cross_entropy, {tokens_, vocab}, "", 1);
    }

    OpShape attention() const {
        return {OpKind::attention, Pass::forward, precision_, attention_dims(),
                attention_variant()};
    }

    OpShape optimizer() const {
        const auto parameters = static_cast<std::int64_t>(layer_shard_parameters(model_, tp_));
        return {OpKind::optimizer, Pass::forward, precision_, {parameters}, "adamw"};
    }

  private:
    using Dims = std::array<std::int64_t, 4>;

    void pair(std::vector<OpCount>& forward, std::vector<OpCount>& backward, OpKind kind, Dims dims,
              const char* variant, double count) const {
        forward.push_back({{kind, Pass::forward, precision_, dims, variant}, count});
        backward.push_back({{kind, Pass::backward, precision_, dims, variant}, count});
    }

    /// Y[tokens,n] = X[tokens,k] W^T; dX = dY W; dW[n,k] = dY^T X (core/profile.h fixes the
    /// layouts).
    void gemm(std::vector<OpCount>& forward, std::vector<OpCount>& backward, std::int64_t n,
              std::int64_t k) const {
        const auto shape = [&](Pass pass, Dims dims, const char* variant) {
            return OpCount{{OpKind::gemm, pass, precision_, dims, variant}, 1};
        };
        forward.push_back(shape(Pass::forward, {tokens_, n, k, 1}, ""));
        backward.push_back(shape(Pass::backward, {tokens_, k, n, 1}, "dgrad"));
        backward.push_back(shape(Pass::backward, {n, k, tokens_, 1}, "wgrad"));
    }

    std::int64_t head_dim() const { return model_.hidden / model_.heads; }
    std::int64_t kv_heads() const { return std::max<std::int64_t>(1, model_.kv_heads / tp_); }
    std::int64_t qkv_columns() const { return head_dim() * (model_.heads / tp_ + 2 * kv_heads()); }
    Dims attention_dims() const {
        return {micro_batch_ * model_.heads / tp_, micro_batch_ * kv_heads(), model_.seq_length,
                head_dim()};
    }
    const char* attention_variant() const {
        return model_.family == Family::bert ? "full" : "causal";
    }
    const char* norm_variant() const { return model_.rms_norm ? "rms" : "layer"; }

    const Model& model_;
    Precision precision_;
    std::int64_t tp_, micro_batch_, tokens_, norm_rows_;
};

}  // namespace

std::int64_t shard_vocab(const Model& model, std::int64_t tp) {
    const std::int64_t unit = 128 * tp;
    return (model.vocab + unit - 1) / unit * 128;
}

double layer_shard_parameters(const Model& model, std::int64_t tp) {
    const double h = real(model.hidden);
    const double mlp = (is_gated(model) ? 3 : 2) * h * real(model.ffn_hidden);
    const double matrices = h * qkv_width(model) + h * h + mlp;
    return matrices / real(tp) + (layer_parameters(model, {}).total() - matrices);
}

double embedding_shard_parameters(const Model& model, std::int64_t tp) {
    const double positions = model.learned_positions ? real(model.seq_length) : 0;
    return real(model.hidden) * (real(shard_vocab(model, tp)) + positions);
}

double head_shard_parameters(const Model& model, std::int64_t tp) {
    const double h = real(model.hidden);
    return h * real(shard_vocab(model, tp)) + 2 * h + (model.family == Family::bert ? h * h : 0);
}

bool tp_fits(const Model& model, std::int64_t tp) {
    const bool kv = model.kv_heads % tp == 0 || tp % model.kv_heads == 0;
    return model.heads % tp == 0 && kv && model.ffn_hidden % tp == 0;
}

bool default_sequence_parallel(const Model& model, std::int64_t tp) {
    return tp > 1 && model.seq_length % tp == 0;
}

ShardOperators shard_operators(const Model& model, Precision precision, const ShardShape& shape) {
    const Builder builder(model, precision, shape);
    ShardOperators ops;
    builder.layer(ops.layer_forward, ops.layer_backward);
    builder.embedding(ops.embedding);
    builder.head(ops.head);
    ops.attention = builder.attention();
    ops.optimizer = builder.optimizer();
    return ops;
}

}  // namespace arena
