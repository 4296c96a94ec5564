// SPDX-License-Identifier: GPL-2.0-or-later
// Attention (grouped or latent), dense MLPs and experts of one rank. Sources: Narayanan et
// al. 2021 (tensor parallel GEMMs); Lepikhin et al. 2020 (GShard: one-hot dispatch); DeepSeek-V2
// 2024 (latent attention).
#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "planner/models/model.h"
#include "planner/operators/op_builder.h"

namespace arena {

namespace {

class Transformer {
  public:
    Transformer(const Model& model, Precision precision, const ShardShape& shape,
                const LayerKind& kind, OpBuilder& ops)
        : model_(model),
          kind_(kind),
          shape_(shape),
          ops_(ops),
          adapted_(adapted_matrices(model)),
          block_(precision),
          plain_(plain_precision(precision)),
          tokens_(std::max<std::int64_t>(1, model.seq_length * shape.micro_batch / shape.cp)),
          norm_rows_(shape.sequence_parallel ? std::max<std::int64_t>(1, tokens_ / shape.tp)
                                             : tokens_) {}

    void layer() const {
        const std::int64_t h = model_.hidden;
        ops_.pair(OpKind::norm, plain_, {norm_rows_, h}, norm_variant(), 2);
        is_latent(model_) ? latent_projections() : projections();
        ops_.pair(OpKind::attention, plain_, attention_dims(), attention_variant(),
                  1 / real(shape_.cp));
        matrix(block_, tokens_, h, model_.heads * value_head_dim(model_) / shape_.tp, 1,
               adapts(lora_target::o_proj));
        layer_mlp();
        ops_.pair(OpKind::elementwise, plain_, {norm_rows_, h},
                  model_.linear_bias ? ElementwiseKind::bias_residual : ElementwiseKind::add, 2);
    }

    void layer_mlp() const {
        kind_.body == LayerKind::Body::moe ? experts()
                                           : mlp(block_, tokens_, model_.ffn_hidden / shape_.tp);
    }

    void embedding() const {
        if (is_adapted(model_))
            return ops_.forward_only(OpKind::embedding, plain_,
                                     {tokens_, model_.hidden, shard_vocab(model_, shape_.tp)});
        ops_.pair(OpKind::embedding, plain_,
                  {tokens_, model_.hidden, shard_vocab(model_, shape_.tp)}, {});
    }

    void head() const {
        const std::int64_t h = model_.hidden, vocab = shard_vocab(model_, shape_.tp);
        if (model_.family == Family::bert) {
            matrix(plain_, tokens_, h, h, 1, false);
            ops_.pair(OpKind::elementwise, plain_, {tokens_, h}, ElementwiseKind::gelu);
        }
        ops_.pair(OpKind::norm, plain_, {norm_rows_, h}, norm_variant());
        matrix(plain_, tokens_, vocab, h, 1, false);
        ops_.pair(OpKind::cross_entropy, plain_, {tokens_, vocab}, {});
    }

    OpShape attention() const {
        return {OpKind::attention, Pass::forward, plain_, attention_dims(), attention_variant()};
    }

  private:
    /// A matrix of the model: trained; or frozen, so that it gets no gradient, and where it is
    /// adapted, with two thin ones beside it whose product is added. One of 4 bits is written out
    /// in each pass.
    void matrix(Precision precision, std::int64_t m, std::int64_t n, std::int64_t k,
                std::int64_t batch = 1, bool takes_adapter = true) const {
        if (!is_adapted(model_)) return ops_.gemm(precision, m, n, k, batch);
        ops_.gemm_of_constant(precision, m, n, k, batch);
        if (model_.base_bits == 4)
            ops_.pair(OpKind::elementwise, plain_, {n * batch, k}, ElementwiseKind::relu);
        if (takes_adapter) adapter(m, n, k, batch);
    }

    void adapter(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) const {
        ops_.gemm(plain_, m, model_.lora_rank, k, batch);
        ops_.gemm(plain_, m, n, model_.lora_rank, batch);
        ops_.pair(OpKind::elementwise, plain_, {m * batch, n}, ElementwiseKind::add);
    }

    bool adapts(std::int64_t target) const { return (adapted_ & target) != 0; }

    /// Query, key and value heads in one GEMM; the adapters in one or each by itself.
    void projections() const {
        const std::int64_t d = head_dim(model_), heads = model_.heads / shape_.tp;
        matrix(block_, tokens_, d * (heads + 2 * kv_heads()), model_.hidden, 1,
               adapts(lora_target::qkv_proj));
        if (adapts(lora_target::q_proj)) adapter(tokens_, d * heads, model_.hidden, 1);
        for (const std::int64_t target : {lora_target::k_proj, lora_target::v_proj})
            if (adapts(target)) adapter(tokens_, d * kv_heads(), model_.hidden, 1);
        if (model_.qk_norm)
            ops_.pair(OpKind::norm, plain_, {tokens_ * (heads + kv_heads()), d}, norm_variant());
    }

    /// Compressions are computed whole by every tensor-parallel rank on its share of the tokens,
    /// the expansions are split by heads.
    void latent_projections() const {
        const std::int64_t h = model_.hidden, heads = model_.heads / shape_.tp;
        const std::int64_t queries = heads * head_dim(model_), q_rank = model_.q_lora_rank;
        const std::int64_t kv_rank = model_.kv_lora_rank;
        if (q_rank > 0) {
            matrix(block_, norm_rows_, q_rank, h);
            ops_.pair(OpKind::norm, plain_, {norm_rows_, q_rank}, norm_variant());
        }
        matrix(block_, tokens_, queries, q_rank > 0 ? q_rank : h);
        matrix(block_, norm_rows_, kv_rank + model_.qk_rope_head_dim, h);
        ops_.pair(OpKind::norm, plain_, {norm_rows_, kv_rank}, norm_variant());
        matrix(block_, tokens_, heads * (model_.qk_nope_head_dim + model_.v_head_dim), kv_rank);
    }

    void mlp(Precision precision, std::int64_t rows, std::int64_t width,
             std::int64_t batch = 1) const {
        const std::int64_t h = model_.hidden;
        const bool gated = is_gated(model_);
        matrix(precision, rows, gated ? 2 * width : width, h, batch,
               adapts(gated ? lora_target::gate_up_proj : lora_target::up_proj));
        for (const std::int64_t target : {lora_target::gate_proj, lora_target::up_proj})
            if (gated && adapts(target)) adapter(rows, width, h, batch);
        ops_.pair(OpKind::elementwise, plain_, {rows * batch, width},
                  is_gated(model_) ? ElementwiseKind::swiglu : ElementwiseKind::gelu);
        matrix(precision, rows, h, width, batch, adapts(lora_target::down_proj));
    }

    /// Router, rows to experts and back, one GEMM per local expert (a batch of equal ones: routing
    /// is taken as balanced), shared experts on all tokens.
    void experts() const {
        const bool spread = shape_.ep > 1;
        const std::int64_t local = std::max<std::int64_t>(1, model_.experts / shape_.ep);
        const auto routed = static_cast<std::int64_t>(std::ceil(routed_rows(model_, shape_)));
        const std::int64_t width = model_.moe_ffn_hidden / (spread ? shape_.etp : shape_.tp);
        const std::int64_t from =
            spread ? std::max<std::int64_t>(1, tokens_ * shape_.etp / shape_.tp) : tokens_;
        matrix(plain_, norm_rows_, model_.experts, model_.hidden, 1, false);
        ops_.pair(OpKind::elementwise, plain_, {norm_rows_, model_.experts}, ElementwiseKind::add);
        model_.moe_group_size > 0 ? one_hot_dispatch(from) : permutation(from, routed);
        mlp(block_, ceil_div(routed, local), width, local);
        if (model_.linear_bias && model_.moe_group_size == 0) expert_biases(routed, width);
        if (model_.shared_ffn_hidden > 0)
            mlp(block_, tokens_, model_.shared_ffn_hidden / shape_.tp);
    }

    /// Rows of tokens are gathered for the experts and summed into tokens afterwards.
    void permutation(std::int64_t from, std::int64_t rows) const {
        ops_.pair(OpKind::embedding, plain_, {rows, model_.hidden, from}, {});
        ops_.swapped_pair(OpKind::embedding, plain_, {rows, model_.hidden, from});
    }

    /// Each expert adds its own to its rows, apart from the grouped products: one pass over what
    /// the first makes, and of what the second makes one and another that joins the pieces
    /// (Megatron-Core's TEGroupedMLP).
    void expert_biases(std::int64_t rows, std::int64_t width) const {
        const std::int64_t made = is_gated(model_) ? 2 * width : width;
        ops_.pair(OpKind::elementwise, plain_, {rows, made}, ElementwiseKind::relu);
        ops_.pair(OpKind::elementwise, plain_, {rows, model_.hidden}, ElementwiseKind::relu, 2);
    }

    /// GShard: a (tokens, experts, capacity) tensor of zeros and ones multiplies the tokens; the
    /// way back has gate values in it, which need gradients.
    void one_hot_dispatch(std::int64_t from) const {
        const std::int64_t group = std::min(model_.moe_group_size, from);
        const std::int64_t groups = ceil_div(from, group);
        const auto capacity = std::max<std::int64_t>(
            1, static_cast<std::int64_t>(
                   std::ceil(std::max(1.0, model_.capacity_factor) * real(group * model_.top_k) /
                             real(model_.experts))));
        const std::int64_t slots = model_.experts * capacity;
        ops_.pair(OpKind::elementwise, plain_, {from, slots}, ElementwiseKind::add, 2);
        ops_.gemm_of_constant(plain_, slots, model_.hidden, group, groups);
        ops_.gemm(plain_, group, model_.hidden, slots, groups);
    }

    std::int64_t kv_heads() const { return std::max<std::int64_t>(1, model_.kv_heads / shape_.tp); }
    OpBuilder::Dims attention_dims() const {
        const std::int64_t keys = is_latent(model_) ? model_.heads / shape_.tp : kv_heads();
        return {shape_.micro_batch * model_.heads / shape_.tp, shape_.micro_batch * keys,
                model_.seq_length, head_dim(model_)};
    }
    AttentionVariant attention_variant() const {
        const std::int64_t values = value_head_dim(model_);
        return {.is_causal = model_.family != Family::bert,
                .value_dim = values != head_dim(model_) ? values : 0,
                .window = kind_.window};
    }
    NormKind norm_variant() const { return model_.rms_norm ? NormKind::rms : NormKind::layer; }

    const Model& model_;
    const LayerKind& kind_;
    const ShardShape& shape_;
    OpBuilder& ops_;
    std::int64_t adapted_;
    Precision block_, plain_;
    std::int64_t tokens_, norm_rows_;
};

}  // namespace

Precision plain_precision(Precision precision) {
    const bool narrow = precision == Precision::fp8 || precision == Precision::mxfp8 ||
                        precision == Precision::nvfp4;
    return narrow ? Precision::bf16 : precision;
}

double routed_rows(const Model& model, const ShardShape& shape) {
    const double tokens = real(model.seq_length) * real(shape.micro_batch) / real(shape.cp);
    const double rows =
        tokens * real(model.top_k) / (shape.ep > 1 ? real(shape.tp) / real(shape.etp) : 1);
    return model.capacity_factor > 0 ? rows * model.capacity_factor : rows;
}

void transformer_layer(const Model& model, Precision precision, const ShardShape& shape,
                       const LayerKind& kind, OpBuilder& ops) {
    Transformer(model, precision, shape, kind, ops).layer();
}

void transformer_mlp(const Model& model, Precision precision, const ShardShape& shape,
                     const LayerKind& kind, OpBuilder& ops) {
    Transformer(model, precision, shape, kind, ops).layer_mlp();
}

OpShape attention_shape(const Model& model, Precision precision, const ShardShape& shape,
                        const LayerKind& kind) {
    std::vector<OpCount> unused;
    OpBuilder ops(unused, unused);
    return Transformer(model, precision, shape, kind, ops).attention();
}

void transformer_embedding(const Model& model, Precision precision, const ShardShape& shape,
                           OpBuilder& ops) {
    Transformer(model, precision, shape, {}, ops).embedding();
}

void transformer_head(const Model& model, Precision precision, const ShardShape& shape,
                      OpBuilder& ops) {
    Transformer(model, precision, shape, {}, ops).head();
}

}  // namespace arena
