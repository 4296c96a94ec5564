// SPDX-License-Identifier: GPL-2.0-or-later
// See cpu_layer.h.
#include "profiler/cpu/cpu_layer.h"

namespace arena::cpu {

StackShape stack_shape(const OpShape& layer) {
    const auto v = variant_as<LayerVariant>(layer);
    StackShape s;
    s.samples = layer.dims[0];
    s.seq = layer.dims[1];
    s.hidden = layer.dims[2];
    s.ffn = layer.dims[3];
    s.heads = v.heads;
    s.kv_heads = v.kv_heads;
    s.head_dim = v.head_dim;
    s.sequence_ranks = v.sequence_ranks;
    s.causal = v.is_causal;
    s.rms = v.is_rms;
    s.gated = v.is_gated;
    s.bias = v.has_bias;
    return s;
}

std::vector<std::function<void()>> layer_bodies(const OpShape& layer, Index sets, int threads) {
    StackShape shape = stack_shape(layer);
    shape.layers = sets;
    const auto stack = std::make_shared<LayerStack>(shape, threads);
    if (layer.pass == Pass::backward) stack->forward();  // what the backward pass reads
    std::vector<std::function<void()>> bodies;
    for (Index i = 0; i < sets; ++i)
        if (layer.pass == Pass::forward)
            bodies.emplace_back([stack, i] { stack->forward_layer(i); });
        else
            bodies.emplace_back([stack, i = sets - 1 - i] { stack->backward_layer(i); });
    return bodies;
}

}  // namespace arena::cpu
