// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/block.h"

#include <algorithm>

namespace arena::train {
namespace {

/// [rows, cols] = [rows, k] [cols, k]^T
void forward_gemm(Index rows, Index cols, Index k, const float* x, const float* w, float* y) {
    cpu::gemm({cpu::Layout::nt, rows, cols, k}, x, k, w, k, 0, y, cols);
}
/// [rows, k] = [rows, cols] [cols, k]
void data_gemm(Index rows, Index cols, Index k, const float* dy, const float* w, float* dx) {
    cpu::gemm({cpu::Layout::nn, rows, k, cols}, dy, cols, w, k, 0, dx, k);
}

/// Rows of `width` floats: [tokens, part, heads, dim] <-> [samples, heads, seq, dim], one part of
/// `parts`.
template <typename Copy>
void for_each_head_row(const BlockShape& s, Index part, Index parts, Copy copy) {
    for (Index b = 0; b < s.samples; ++b)
        for (Index t = 0; t < s.seq; ++t)
            for (Index h = 0; h < s.heads; ++h)
                copy((((b * s.seq + t) * parts + part) * s.heads + h) * s.head_dim,
                     ((b * s.heads + h) * s.seq + t) * s.head_dim);
}
void to_heads(const BlockShape& s, Index part, Index parts, const float* rows, float* heads) {
    for_each_head_row(s, part, parts,
                      [&](Index r, Index h) { std::copy_n(rows + r, s.head_dim, heads + h); });
}
void to_rows(const BlockShape& s, Index part, Index parts, const float* heads, float* rows) {
    for_each_head_row(s, part, parts,
                      [&](Index r, Index h) { std::copy_n(heads + h, s.head_dim, rows + r); });
}

cpu::Attention attention(const BlockShape& s) {
    const Index heads = s.samples * s.heads;
    return {
        .heads = heads, .kv_heads = heads, .seq = s.seq, .head_dim = s.head_dim, .causal = true};
}

}  // namespace

void add_bias(Index rows, Index cols, const float* bias, float* y) {
    for (Index r = 0; r < rows; ++r) accumulate(cols, bias, y + r * cols);
}
void add_column_sums(Index rows, Index cols, const float* x, float* sums) {
    for (Index r = 0; r < rows; ++r) accumulate(cols, x + r * cols, sums);
}
void accumulate(Index n, const float* b, float* a) {
    for (Index i = 0; i < n; ++i) a[i] += b[i];
}

BlockShape block_shape(const GptShape& g, Index tp, Index samples, int threads) {
    return {samples, g.seq, g.hidden, g.heads / tp, g.head_dim(), g.ffn / tp, threads};
}

AttentionCore::AttentionCore(const BlockShape& s)
    : out(at(s.tokens() * s.width())), lse(at(s.tokens() * s.heads)), context(out.size()) {}

BlockState::BlockState(const BlockShape& s)
    : norm_1(at(s.tokens() * s.hidden)),
      saved_1(at(s.tokens() * 2)),
      query(at(s.tokens() * s.width())),
      key(query.size()),
      value(query.size()),
      middle(norm_1.size()),
      norm_2(norm_1.size()),
      saved_2(saved_1.size()),
      up(at(s.tokens() * s.ffn)),
      active(up.size()) {}

BlockScratch::BlockScratch(const BlockShape& s)
    : qkv(at(3 * s.tokens() * s.width())),
      d_qkv(qkv.size()),
      d_hidden(at(s.tokens() * s.hidden)),
      d_middle(d_hidden.size()),
      d_norm(d_hidden.size()),
      d_active(at(s.tokens() * s.ffn)),
      d_up(d_active.size()),
      d_context(at(s.tokens() * s.width())),
      d_out(d_context.size()),
      d_query(d_context.size()),
      d_key(d_context.size()),
      d_value(d_context.size()),
      partial(at(2 * s.hidden * s.threads)),
      sums(at(s.hidden)),
      sums_2(sums.size()) {}

Block::Block(const BlockShape& shape, Parameters& parameters, Index first, Comm& shards,
             BlockScratch& scratch)
    : s_(shape), shards_(shards), scratch_(scratch) {
    for (Index i = 0; i < block_tensors; ++i) {
        w_[i] = parameters.weight(first + i);
        g_[i] = parameters.gradient(first + i);
    }
}

void Block::forward(const float* input, BlockState& state, AttentionCore& core, float* output) {
    recompute(input, state, core);
    forward_gemm(s_.tokens(), s_.hidden, s_.ffn, state.active.data(), w_[down_weight],
                 scratch_.d_hidden.data());
    shards_.all_reduce_sum(std::span(scratch_.d_hidden));
    cpu::bias_residual_forward(s_.tokens(), s_.hidden, scratch_.d_hidden.data(), w_[down_bias],
                               state.middle.data(), output, s_.threads);
}

void Block::recompute(const float* input, BlockState& state, AttentionCore& core) {
    attend(input, state, core);
    expand(state);
}

void Block::recompute_core(const BlockState& state, AttentionCore& core) {
    cpu::attention_forward(attention(s_), state.query.data(), state.key.data(), state.value.data(),
                           core.out.data(), core.lse.data(), s_.threads);
    to_rows(s_, 0, 1, core.out.data(), core.context.data());
}

void Block::attend(const float* input, BlockState& state, AttentionCore& core) {
    const Index tokens = s_.tokens();
    cpu::norm_forward({tokens, s_.hidden}, input, w_[ln_1_weight], w_[ln_1_bias],
                      state.norm_1.data(), state.saved_1.data(), s_.threads);
    forward_gemm(tokens, 3 * s_.width(), s_.hidden, state.norm_1.data(), w_[qkv_weight],
                 scratch_.qkv.data());
    add_bias(tokens, 3 * s_.width(), w_[qkv_bias], scratch_.qkv.data());
    unpack(state);
    recompute_core(state, core);
    forward_gemm(tokens, s_.hidden, s_.width(), core.context.data(), w_[proj_weight],
                 scratch_.d_hidden.data());
    shards_.all_reduce_sum(std::span(scratch_.d_hidden));
    cpu::bias_residual_forward(tokens, s_.hidden, scratch_.d_hidden.data(), w_[proj_bias], input,
                               state.middle.data(), s_.threads);
}

void Block::unpack(BlockState& state) {
    float* const parts[] = {state.query.data(), state.key.data(), state.value.data()};
    for (Index p = 0; p < 3; ++p) to_heads(s_, p, 3, scratch_.qkv.data(), parts[p]);
}

void Block::expand(BlockState& state) {
    const Index tokens = s_.tokens();
    cpu::norm_forward({tokens, s_.hidden}, state.middle.data(), w_[ln_2_weight], w_[ln_2_bias],
                      state.norm_2.data(), state.saved_2.data(), s_.threads);
    forward_gemm(tokens, s_.ffn, s_.hidden, state.norm_2.data(), w_[up_weight], state.up.data());
    add_bias(tokens, s_.ffn, w_[up_bias], state.up.data());
    cpu::gelu_forward(tokens * s_.ffn, state.up.data(), state.active.data(), s_.threads);
}

void Block::backward(const float* input, const BlockState& state, const AttentionCore& core,
                     float* gradient) {
    backward_mlp(state, gradient);
    backward_attention(input, state, core, gradient);
}

void Block::backward_mlp(const BlockState& state, float* gradient) {
    const Index tokens = s_.tokens();
    add_matrix_gradient(down_weight, gradient, s_.hidden, state.active.data(), s_.ffn);
    add_bias_gradient(down_bias, gradient, s_.hidden);
    data_gemm(tokens, s_.hidden, s_.ffn, gradient, w_[down_weight], scratch_.d_active.data());
    cpu::gelu_backward(tokens * s_.ffn, state.up.data(), scratch_.d_active.data(),
                       scratch_.d_up.data(), s_.threads);
    add_matrix_gradient(up_weight, scratch_.d_up.data(), s_.ffn, state.norm_2.data(), s_.hidden);
    add_bias_gradient(up_bias, scratch_.d_up.data(), s_.ffn);
    data_gemm(tokens, s_.ffn, s_.hidden, scratch_.d_up.data(), w_[up_weight],
              scratch_.d_norm.data());
    shards_.all_reduce_sum(std::span(scratch_.d_norm));
    backward_norm(state.middle.data(), ln_2_weight, state.saved_2, gradient);
}

void Block::backward_attention(const float* input, const BlockState& state,
                               const AttentionCore& core, float* gradient) {
    const Index tokens = s_.tokens(), width = s_.width();
    add_matrix_gradient(proj_weight, gradient, s_.hidden, core.context.data(), width);
    add_bias_gradient(proj_bias, gradient, s_.hidden);
    data_gemm(tokens, s_.hidden, width, gradient, w_[proj_weight], scratch_.d_context.data());
    to_heads(s_, 0, 1, scratch_.d_context.data(), scratch_.d_out.data());
    cpu::attention_backward(attention(s_), state.query.data(), state.key.data(), state.value.data(),
                            core.out.data(), core.lse.data(), scratch_.d_out.data(),
                            scratch_.d_query.data(), scratch_.d_key.data(), scratch_.d_value.data(),
                            s_.threads);
    pack_gradients();
    add_matrix_gradient(qkv_weight, scratch_.d_qkv.data(), 3 * width, state.norm_1.data(),
                        s_.hidden);
    add_bias_gradient(qkv_bias, scratch_.d_qkv.data(), 3 * width);
    data_gemm(tokens, 3 * width, s_.hidden, scratch_.d_qkv.data(), w_[qkv_weight],
              scratch_.d_norm.data());
    shards_.all_reduce_sum(std::span(scratch_.d_norm));
    backward_norm(input, ln_1_weight, state.saved_1, gradient);
}

void Block::pack_gradients() {
    const float* const parts[] = {scratch_.d_query.data(), scratch_.d_key.data(),
                                  scratch_.d_value.data()};
    for (Index p = 0; p < 3; ++p) to_rows(s_, p, 3, parts[p], scratch_.d_qkv.data());
}

/// d_x += the gradient through the norm of scratch d_norm: the residual branch is in d_x already.
void Block::backward_norm(const float* x, BlockTensor weight, const Floats& saved, float* d_x) {
    cpu::norm_backward({s_.tokens(), s_.hidden}, x, w_[weight], saved.data(),
                       scratch_.d_norm.data(), scratch_.d_middle.data(), scratch_.sums.data(),
                       scratch_.sums_2.data(), scratch_.partial.data(), s_.threads);
    accumulate(s_.hidden, scratch_.sums.data(), g_[weight]);
    accumulate(s_.hidden, scratch_.sums_2.data(), g_[weight + 1]);
    accumulate(s_.tokens() * s_.hidden, scratch_.d_middle.data(), d_x);
}

/// [out, width] += d_out^T in.
void Block::add_matrix_gradient(BlockTensor tensor, const float* d_out, Index out, const float* in,
                                Index width) {
    cpu::gemm({cpu::Layout::tn, out, width, s_.tokens()}, d_out, out, in, width, 1, g_[tensor],
              width);
}

void Block::add_bias_gradient(BlockTensor tensor, const float* d_out, Index cols) {
    add_column_sums(s_.tokens(), cols, d_out, g_[tensor]);
}

}  // namespace arena::train
