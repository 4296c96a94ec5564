// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/core/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/hash.h"

namespace arena::train {
namespace {

constexpr float deviation = 0.02F;  // GPT-2's

TensorSpec matrix(std::string name, Index outer, Index axis, Index inner, bool sharded,
                  float sigma = deviation) {
    return {.name = std::move(name),
            .outer = outer,
            .axis = axis,
            .inner = inner,
            .sharded = sharded,
            .decayed = true,
            .deviation = sigma};
}
TensorSpec vector(std::string name, Index outer, Index axis, Index inner, bool sharded,
                  float value = 0) {
    return {.name = std::move(name),
            .outer = outer,
            .axis = axis,
            .inner = inner,
            .sharded = sharded,
            .value = value};
}

std::uint64_t hash(const std::string& text) {
    std::uint64_t h = 0;
    for (const char c : text) h = splitmix(h ^ static_cast<unsigned char>(c));
    return h;
}

/// Uniform in (0, 1].
double uniform(std::uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1p-53; }

/// Box-Muller: one normal value from two mixes of the key.
float normal(std::uint64_t key) {
    const double radius = std::sqrt(-2 * std::log(uniform(splitmix(key))));
    return static_cast<float>(radius * std::cos(2 * std::numbers::pi * uniform(splitmix(~key))));
}

std::uint64_t key_of(const TensorSpec& spec, std::uint64_t seed) {
    return splitmix(hash(spec.name) ^ splitmix(seed));
}
float value_at(const TensorSpec& spec, std::uint64_t key, Index index) {
    if (spec.deviation == 0) return spec.value;
    return spec.deviation * normal(key + static_cast<std::uint64_t>(index));
}

}  // namespace

float initial_value(const TensorSpec& spec, std::uint64_t seed, Index index) {
    return value_at(spec, key_of(spec, seed), index);
}

std::vector<TensorSpec> block_specs(const GptShape& s, Index layer) {
    const Index h = s.hidden, d = s.head_dim();
    const float residual = deviation / std::sqrt(2.0F * static_cast<float>(s.layers));
    const auto name = [&](const char* part) { return fmt::format("h.{}.{}", layer, part); };
    return {
        vector(name("ln_1.weight"), 1, 1, h, false, 1),
        vector(name("ln_1.bias"), 1, 1, h, false),
        matrix(name("attn.c_attn.weight"), 3, s.heads, d * h, true),
        vector(name("attn.c_attn.bias"), 3, s.heads, d, true),
        matrix(name("attn.c_proj.weight"), h, s.heads, d, true, residual),
        vector(name("attn.c_proj.bias"), 1, 1, h, false),
        vector(name("ln_2.weight"), 1, 1, h, false, 1),
        vector(name("ln_2.bias"), 1, 1, h, false),
        matrix(name("mlp.c_fc.weight"), 1, s.ffn, h, true),
        vector(name("mlp.c_fc.bias"), 1, s.ffn, 1, true),
        matrix(name("mlp.c_proj.weight"), h, s.ffn, 1, true, residual),
        vector(name("mlp.c_proj.bias"), 1, 1, h, false),
    };
}

TensorSpec token_table(const GptShape& s) {
    return matrix("wte.weight", 1, s.vocab, s.hidden, true);
}
TensorSpec position_table(const GptShape& s) {
    return matrix("wpe.weight", 1, s.seq, s.hidden, false);
}
TensorSpec untied_head(const GptShape& s) {
    return matrix("lm_head.weight", 1, s.vocab, s.hidden, true);
}
std::vector<TensorSpec> final_norm(const GptShape& s) {
    return {vector("ln_f.weight", 1, 1, s.hidden, false, 1),
            vector("ln_f.bias", 1, 1, s.hidden, false)};
}

std::vector<TensorSpec> all_specs(const GptShape& s) {
    std::vector<TensorSpec> specs{token_table(s), position_table(s)};
    for (Index layer = 0; layer < s.layers; ++layer)
        for (TensorSpec& spec : block_specs(s, layer)) specs.push_back(std::move(spec));
    for (TensorSpec& spec : final_norm(s)) specs.push_back(std::move(spec));
    if (!s.tied) specs.push_back(untied_head(s));
    return specs;
}

void take_part(const LocalTensor& t, std::span<const float> whole, float* part) {
    const Index row = t.spec.axis * t.spec.inner, piece = t.range.size() * t.spec.inner;
    for (Index o = 0; o < t.spec.outer; ++o)
        std::copy_n(whole.data() + o * row + t.range.begin * t.spec.inner, piece, part + o * piece);
}

void put_part(const TensorSpec& spec, Range range, const float* part, std::span<float> whole) {
    const Index row = spec.axis * spec.inner, piece = range.size() * spec.inner;
    for (Index o = 0; o < spec.outer; ++o)
        std::copy_n(part + o * piece, piece, whole.data() + o * row + range.begin * spec.inner);
}

TensorLayout layout_tensors(const GptShape& shape, const RankLayout& layout, const Place& place,
                            Range layers, Index alignment) {
    TensorLayout all;
    Index total = 0;
    const auto hold = [&](TensorSpec spec, bool shadow = false) {
        const Range range =
            spec.sharded ? share(spec.axis, layout.tp, place.shard) : Range{0, spec.axis};
        total = (total + alignment - 1) / alignment * alignment;
        all.tensors.push_back({std::move(spec), range, total, shadow});
        total += all.tensors.back().size();
    };
    const bool first = place.stage == 0, last = place.stage == layout.pp - 1;
    for (Index layer = layers.begin; layer < layers.end; ++layer)
        for (TensorSpec& spec : block_specs(shape, layer)) hold(std::move(spec));
    if (first) hold(token_table(shape));
    if (first) hold(position_table(shape));
    if (last)
        for (TensorSpec& spec : final_norm(shape)) hold(std::move(spec));
    if (last && !shape.tied) hold(untied_head(shape));
    if (last && shape.tied && !first) hold(token_table(shape), true);
    all.size = at((total + layout.dp - 1) / layout.dp * layout.dp);
    return all;
}

Parameters::Parameters(const GptShape& shape, const RankLayout& layout, const Place& place,
                       Range layers, Index alignment)
    : layout_(layout_tensors(shape, layout, place, layers, alignment)), weights_(layout_.size) {}

void Parameters::initialize(std::uint64_t seed) {
    for (const LocalTensor& t : tensors()) {
        float* to = weights_.data() + t.offset;
        const std::uint64_t key = key_of(t.spec, seed);
        const Index row = t.spec.axis * t.spec.inner, piece = t.range.size() * t.spec.inner;
        for (Index o = 0; o < t.spec.outer; ++o)
            for (Index i = 0; i < piece; ++i)
                *to++ = value_at(t.spec, key, o * row + t.range.begin * t.spec.inner + i);
    }
}

Index find_tensor(const std::vector<LocalTensor>& tensors, const std::string& name) {
    const auto at = std::find_if(tensors.begin(), tensors.end(),
                                 [&](const LocalTensor& t) { return t.spec.name == name; });
    return at == tensors.end() ? -1 : at - tensors.begin();
}

}  // namespace arena::train
