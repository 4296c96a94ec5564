// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/core/block.h"

namespace arena::train {

BlockShape block_shape(const GptShape& g, Index tp, Index samples, Device& device) {
    return {.samples = samples,
            .seq = g.seq,
            .hidden = g.hidden,
            .heads = g.heads / tp,
            .head_dim = g.head_dim(),
            .ffn = g.ffn / tp,
            .device = device};
}

AttentionCore::AttentionCore(const BlockShape& s)
    : out(s.elements(s.width())), lse(s.floats(s.heads)), context(s.elements(s.width())) {}

BlockState::BlockState(const BlockShape& s)
    : norm_1(s.elements(s.hidden)),
      saved_1(s.floats(2)),
      query(s.elements(s.width())),
      key(s.elements(s.width())),
      value(s.elements(s.width())),
      middle(s.elements(s.hidden)),
      norm_2(s.elements(s.hidden)),
      saved_2(s.floats(2)),
      up(s.elements(s.ffn)),
      active(s.elements(s.ffn)) {}

BlockScratch::BlockScratch(const BlockShape& s)
    : qkv(s.elements(3 * s.width())),
      d_qkv(s.elements(3 * s.width())),
      d_hidden(s.elements(s.hidden)),
      d_middle(s.elements(s.hidden)),
      d_norm(s.elements(s.hidden)),
      d_active(s.elements(s.ffn)),
      d_up(s.elements(s.ffn)),
      d_context(s.elements(s.width())),
      d_out(s.elements(s.width())),
      d_query(s.elements(s.width())),
      d_key(s.elements(s.width())),
      d_value(s.elements(s.width())) {}

Block::Block(const BlockShape& shape, Weights& weights, Index first, Group& shards,
             BlockScratch& scratch)
    : s_(shape),
      device_(shape.device),
      shards_(shards),
      scratch_(scratch),
      weights_(weights),
      first_(first) {}

void Block::forward(Input input, BlockState& state, AttentionCore& core, Pointer<Element> output) {
    recompute(input, state, core);
    device_.multiply(Layout::nt, s_.tokens(), s_.hidden, s_.ffn, state.active.data(),
                     w(down_weight), scratch_.d_hidden.data());
    shards_.all_reduce_sum(scratch_.d_hidden.span());
    device_.bias_residual(s_.tokens(), s_.hidden, scratch_.d_hidden.data(), w(down_bias),
                          state.middle.data(), output);
}

void Block::recompute(Input input, BlockState& state, AttentionCore& core) {
    attend(input, state, core);
    expand(state);
}

Device::AttentionTensors Block::tensors(BlockState& state, AttentionCore& core) {
    return {state.query.data(), state.key.data(), state.value.data(), core.out.data(),
            core.lse.data()};
}

void Block::recompute_core(BlockState& state, AttentionCore& core) {
    device_.attention_forward(s_.attention(), tensors(state, core));
    device_.to_rows({s_.attention()}, core.out.data(), core.context.data());
}

void Block::attend(Input input, BlockState& state, AttentionCore& core) {
    const Index tokens = s_.tokens();
    device_.norm_forward(tokens, s_.hidden, input, w(ln_1_weight), w(ln_1_bias),
                         state.norm_1.data(), state.saved_1.data());
    device_.multiply(Layout::nt, tokens, 3 * s_.width(), s_.hidden, state.norm_1.data(),
                     w(qkv_weight), scratch_.qkv.data());
    device_.add_bias(tokens, 3 * s_.width(), w(qkv_bias), scratch_.qkv.data());
    unpack(state);
    recompute_core(state, core);
    device_.multiply(Layout::nt, tokens, s_.hidden, s_.width(), core.context.data(), w(proj_weight),
                     scratch_.d_hidden.data());
    shards_.all_reduce_sum(scratch_.d_hidden.span());
    device_.bias_residual(tokens, s_.hidden, scratch_.d_hidden.data(), w(proj_bias), input,
                          state.middle.data());
}

void Block::unpack(BlockState& state) {
    const Pointer<Element> parts[] = {state.query.data(), state.key.data(), state.value.data()};
    for (Index p = 0; p < 3; ++p)
        device_.to_heads({s_.attention(), p, 3}, scratch_.qkv.data(), parts[p]);
}

void Block::expand(BlockState& state) {
    const Index tokens = s_.tokens();
    device_.norm_forward(tokens, s_.hidden, state.middle.data(), w(ln_2_weight), w(ln_2_bias),
                         state.norm_2.data(), state.saved_2.data());
    device_.multiply(Layout::nt, tokens, s_.ffn, s_.hidden, state.norm_2.data(), w(up_weight),
                     state.up.data());
    device_.add_bias(tokens, s_.ffn, w(up_bias), state.up.data());
    device_.gelu_forward(tokens * s_.ffn, state.up.data(), state.active.data());
}

void Block::backward(Input input, BlockState& state, AttentionCore& core,
                     Pointer<Element> gradient) {
    backward_mlp(state, gradient);
    backward_attention(input, state, core, gradient);
}

void Block::backward_mlp(BlockState& state, Pointer<Element> gradient) {
    const Index tokens = s_.tokens();
    add_matrix_gradient(down_weight, gradient, s_.hidden, state.active.data(), s_.ffn);
    add_bias_gradient(down_bias, gradient, s_.hidden);
    device_.multiply(Layout::nn, tokens, s_.ffn, s_.hidden, gradient, w(down_weight),
                     scratch_.d_active.data());
    device_.gelu_backward(tokens * s_.ffn, state.up.data(), scratch_.d_active.data(),
                          scratch_.d_up.data());
    add_matrix_gradient(up_weight, scratch_.d_up.data(), s_.ffn, state.norm_2.data(), s_.hidden);
    add_bias_gradient(up_bias, scratch_.d_up.data(), s_.ffn);
    device_.multiply(Layout::nn, tokens, s_.hidden, s_.ffn, scratch_.d_up.data(), w(up_weight),
                     scratch_.d_norm.data());
    shards_.all_reduce_sum(scratch_.d_norm.span());
    backward_norm(state.middle.data(), ln_2_weight, state.saved_2, gradient);
}

void Block::backward_attention(Input input, BlockState& state, AttentionCore& core,
                               Pointer<Element> gradient) {
    const Index tokens = s_.tokens(), width = s_.width();
    add_matrix_gradient(proj_weight, gradient, s_.hidden, core.context.data(), width);
    add_bias_gradient(proj_bias, gradient, s_.hidden);
    device_.multiply(Layout::nn, tokens, width, s_.hidden, gradient, w(proj_weight),
                     scratch_.d_context.data());
    device_.to_heads({s_.attention()}, scratch_.d_context.data(), scratch_.d_out.data());
    device_.attention_backward(s_.attention(), tensors(state, core), scratch_.d_out.data(),
                               scratch_.d_query.data(), scratch_.d_key.data(),
                               scratch_.d_value.data());
    pack_gradients();
    add_matrix_gradient(qkv_weight, scratch_.d_qkv.data(), 3 * width, state.norm_1.data(),
                        s_.hidden);
    add_bias_gradient(qkv_bias, scratch_.d_qkv.data(), 3 * width);
    device_.multiply(Layout::nn, tokens, s_.hidden, 3 * width, scratch_.d_qkv.data(), w(qkv_weight),
                     scratch_.d_norm.data());
    shards_.all_reduce_sum(scratch_.d_norm.span());
    backward_norm(input, ln_1_weight, state.saved_1, gradient);
}

void Block::pack_gradients() {
    const Pointer<Element> parts[] = {scratch_.d_query.data(), scratch_.d_key.data(),
                                      scratch_.d_value.data()};
    for (Index p = 0; p < 3; ++p)
        device_.to_rows({s_.attention(), p, 3}, parts[p], scratch_.d_qkv.data());
}

/// d_x += the gradient through the norm of scratch d_norm: the residual branch is in d_x already.
void Block::backward_norm(Input x, BlockTensor weight, Floats& saved, Pointer<Element> d_x) {
    device_.norm_backward(s_.tokens(), s_.hidden, {x, w(weight), saved.data()},
                          scratch_.d_norm.data(), scratch_.d_middle.data(), g(weight),
                          g(weight + 1));
    device_.accumulate(s_.tokens() * s_.hidden, scratch_.d_middle.data(), d_x);
}

/// [out, width] += d_out^T in.
void Block::add_matrix_gradient(BlockTensor tensor, Input d_out, Index out, Input in, Index width) {
    device_.multiply_add(Layout::tn, out, width, s_.tokens(), d_out, in, g(tensor));
}

void Block::add_bias_gradient(BlockTensor tensor, Input d_out, Index cols) {
    device_.add_column_sums(s_.tokens(), cols, d_out, g(tensor));
}

}  // namespace arena::train
