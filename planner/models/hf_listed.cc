// SPDX-License-Identifier: GPL-2.0-or-later
// Models of config.json that are lists of layers: how a list is written down, and models of
// sequences. Sources: Raffel et al. 2020 (T5), Radford et al. 2022 (Whisper), Gu and Dao 2023
// (Mamba), Dao and Gu 2024 (Mamba-2), Lieber et al. 2024 (Jamba), NVIDIA 2025 (Nemotron-H), TII
// 2025 (Falcon-H1), IBM 2025 (Granite 4), Yang et al. 2024 (gated delta rule, Qwen3-Next); the
// modules of transformers of these names.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/statistics.h"
#include "base/text.h"
#include "planner/models/hf_types.h"

namespace arena {

namespace {

constexpr std::int64_t most_layers = 10000;

struct ListedType {
    std::string_view name;
    bool (*write)(HfReader&, std::string_view, LayerWriter&);
};
constexpr std::array<ListedType, 16> list_writers{{{"vit", write_image_layers},
                                                   {"convnext", write_image_layers},
                                                   {"swin", write_image_layers},
                                                   {"DiTTransformer2DModel", write_image_layers},
                                                   {"UNet2DConditionModel", write_image_layers},
                                                   {"t5", write_sequence_layers},
                                                   {"mt5", write_sequence_layers},
                                                   {"whisper", write_sequence_layers},
                                                   {"mamba", write_sequence_layers},
                                                   {"mamba2", write_sequence_layers},
                                                   {"jamba", write_sequence_layers},
                                                   {"bamba", write_sequence_layers},
                                                   {"nemotron_h", write_sequence_layers},
                                                   {"falcon_h1", write_sequence_layers},
                                                   {"granitemoehybrid", write_sequence_layers},
                                                   {"qwen3_next", write_sequence_layers}}};

const ListedType* find_listed(std::string_view name) {
    for (const ListedType& type : list_writers)
        if (type.name == name) return &type;
    return nullptr;
}

}  // namespace

bool is_listed_type(std::string_view model_type) { return find_listed(model_type) != nullptr; }

std::string listed_types() {
    std::string list;
    for (const ListedType& type : list_writers)
        list += (list.empty() ? "" : ", ") + std::string(type.name);
    return list;
}

Model read_listed_model(HfReader& reader, std::string_view model_type) {
    Model model;
    model.family = Family::custom;
    set_family_flags(model);
    read_precision(reader, model);
    LayerWriter out(model.precision);
    find_listed(model_type)->write(reader, model_type, out);
    model.custom_layers = out.take();
    return model;
}

// ---- sequences
// ------------------------------------------------------------------------------------------------

namespace {

void embedding(LayerWriter& out, double tokens, double vocab, double hidden, double tables = 1) {
    out.layer("embedding", 1, tokens * hidden);
    out.parameters(tables * vocab * hidden);
    out.pass(2 * tokens * hidden);
}

/// The output table's parameters are counted where it is none of the first layer's.
void head(LayerWriter& out, double tokens, double vocab, double hidden, bool tied) {
    out.layer("head", 1, 1);
    out.norm(tokens, hidden);
    out.gemm(tokens, vocab, hidden, false);
    if (tied) out.parameters(-vocab * hidden);
    out.loss(tokens, vocab);
}

/// Tokens of a sample: arena.seq_length, else what the type is trained with.
std::int64_t tokens_of(HfReader& reader, std::int64_t usual) {
    return number_of(reader, "arena.seq_length", usual);
}

// ---- encoders and decoders

/// T5 adds a bias to its scores, which takes matrices that are written out.
void scores(LayerWriter& out, double heads, double queries, double keys, double dim) {
    out.bmm(queries, keys, dim, heads);
    out.pass(4 * heads * queries * keys, 2 * heads * queries * keys);
    out.bmm(queries, dim, keys, heads);
    out.keep(heads * (queries + 2 * keys) * dim);
}

struct T5 {
    double d, inner, heads, width;
    bool gated;

    void attention(LayerWriter& out, double queries, double keys, bool is_cross) const {
        out.norm(queries, d);
        out.gemm(queries, inner, d, false);
        out.gemm(keys, 2 * inner, d, false, is_cross);
        scores(out, heads, queries, keys, inner / heads);
        out.gemm(queries, d, inner, false);
        out.pass(3 * queries * d);
    }
    void mlp(LayerWriter& out, double tokens) const {
        out.norm(tokens, d);
        out.mlp(tokens, d, width, gated, false);
        out.pass(3 * tokens * d);
    }
};

/// Targets have arena.target_length tokens, else a quarter of the input's (512 and 114 in the
/// paper).
void t5(HfReader& reader, bool is_mt5, LayerWriter& out) {
    const double d = real(needed_number(reader, "d_model"));
    const double vocab = real(needed_number(reader, "vocab_size"));
    const std::int64_t layers = needed_number(reader, "num_layers", most_layers);
    const std::int64_t decoders = number_of(reader, "num_decoder_layers", layers);
    const double heads = real(needed_number(reader, "num_heads"));
    const double buckets = real(number_of(reader, "relative_attention_num_buckets", 32));
    const std::string act =
        reader.text("feed_forward_proj").value_or(is_mt5 ? "gated-gelu" : "relu");
    const T5 block{d, heads * real(needed_number(reader, "d_kv")), heads,
                   real(needed_number(reader, "d_ff")), act.starts_with("gated-")};
    const std::int64_t s = tokens_of(reader, number_of(reader, "n_positions", 512));
    const std::int64_t t =
        number_of(reader, "arena.target_length", std::max<std::int64_t>(1, s / 4));
    const bool tied = reader.boolean("tie_word_embeddings").value_or(!is_mt5);
    if (reader.error()) return;
    const double from = real(s), to = real(t);
    embedding(out, from + to, vocab, d);
    out.parameters(2 * buckets * heads + d);  // biases of positions; the encoder's last norm
    out.layer("encoder", layers, (from + to) * d);
    block.attention(out, from, from, false);
    block.mlp(out, from);
    out.layer("decoder", decoders, (from + to) * d);
    block.attention(out, to, to, false);
    block.attention(out, to, from, true);
    block.mlp(out, to);
    head(out, to, vocab, d, tied);
}

struct WhisperPart {
    double d, heads, width;

    void attention(LayerWriter& out, double tokens, bool causal) const {
        out.norm(tokens, d, 2);
        out.attention_block(tokens, d, heads, heads, d / heads, causal, true);
        out.parameters(-d);  // keys have no bias
        out.pass(3 * tokens * d);
    }
    void cross(LayerWriter& out, double tokens, double sounds) const {
        out.norm(tokens, d, 2);
        out.gemm(tokens, d, d, true);
        out.gemm(sounds, 2 * d, d, true);
        out.parameters(-d);
        out.cross_attention(heads, tokens, sounds, d / heads);
        out.gemm(tokens, d, d, true, false);
        out.pass(3 * tokens * d);
    }
    void mlp(LayerWriter& out, double tokens) const {
        out.norm(tokens, d, 2);
        out.mlp(tokens, d, width, false, true);
        out.pass(3 * tokens * d);
    }
};

void whisper(HfReader& reader, LayerWriter& out) {
    const double d = real(needed_number(reader, "d_model"));
    const double vocab = real(needed_number(reader, "vocab_size"));
    const double mels = real(number_of(reader, "num_mel_bins", 80));
    const double s = real(number_of(reader, "max_source_positions", 1500));
    const std::int64_t most = number_of(reader, "max_target_positions", 448);
    const double t = real(number_of(reader, "arena.target_length", most));
    const auto part = [&](std::string_view heads, std::string_view width) {
        return WhisperPart{d, real(needed_number(reader, heads)),
                           real(needed_number(reader, width))};
    };
    const WhisperPart encoder = part("encoder_attention_heads", "encoder_ffn_dim");
    const WhisperPart decoder = part("decoder_attention_heads", "decoder_ffn_dim");
    must_divide(reader, "encoder_attention_heads", encoder.heads, d, "d_model");
    must_divide(reader, "decoder_attention_heads", decoder.heads, d, "d_model");
    const std::int64_t encoders = needed_number(reader, "encoder_layers", most_layers);
    const std::int64_t decoders = needed_number(reader, "decoder_layers", most_layers);
    if (reader.error()) return;
    out.layer("sounds", 1, s * d);
    out.gemm(2 * s, d, 3 * mels, true);  // convolutions over time, the second with stride 2
    out.pass(4 * s * d, 2 * s * d);
    out.gemm(s, d, 3 * d, true);
    out.pass(2 * s * d, s * d);
    out.parameters(s * d);
    out.layer("encoder", encoders, s * d);
    encoder.attention(out, s, false);
    encoder.mlp(out, s);
    out.layer("words", 1, (s + t) * d);
    out.norm(s, d, 2);
    out.parameters(vocab * d + real(most) * d);
    out.pass(2 * t * d);
    out.layer("decoder", decoders, (s + t) * d);
    decoder.attention(out, t, true);
    decoder.cross(out, t, s);
    decoder.mlp(out, t);
    head(out, t, vocab, d, true);
    out.parameters(d);  // of its norm, the other vector
}

// ---- state spaces

/// Mamba: a scan whose state never leaves the chip.
struct Scan {
    double d, inner, state, rank, taps;
    bool conv_bias = true, bias = false, norms = false;

    void write(LayerWriter& out, double s) const {
        out.gemm(s, 2 * inner, d, bias);
        out.depthwise(s, inner, taps);
        if (!conv_bias) out.parameters(-inner);
        out.gemm(s, rank + 2 * state, inner, false);
        if (norms) out.parameters(rank + 2 * state);
        out.gemm(s, inner, rank, true);
        out.parameters(inner * state + inner);
        out.pass(s * (4 * inner + 2 * state), s * (2 * inner + 2 * state));
        out.gemm(s, d, inner, bias);
    }
};

/// Mamba-2: matrix products within chunks of the sequence, states between them.
struct Chunked {
    double d, heads, dim, groups, state, taps, chunk;
    bool conv_bias = true, bias = false, norm = true;

    void write(LayerWriter& out, double s) const {
        const double inner = heads * dim, mixed = inner + 2 * groups * state;
        const double q = std::min(chunk, s), chunks = std::ceil(s / q);
        out.gemm(s, inner + mixed + heads, d, bias);
        out.depthwise(s, mixed, taps);
        if (!conv_bias) out.parameters(-mixed);
        out.parameters(3 * heads);
        out.bmm(q, q, state, chunks * groups);
        out.bmm(q, dim, q, chunks * heads);
        out.bmm(state, dim, q, chunks * heads);
        out.bmm(q, dim, state, chunks * heads);
        out.pass(2 * chunks * heads * (q * q + dim * state));
        out.keep(s * (mixed + inner));
        if (norm) out.norm(s, inner);  // gated
        out.pass(s * inner, s * inner);
        out.gemm(s, d, inner, bias);
    }
};

/// The delta rule with a gate: within chunks a triangular system is solved and attended to, and a
/// state of key x value for each head goes from chunk to chunk.
struct DeltaRule {
    double d, key_heads, key_dim, heads, dim, taps;
    static constexpr double chunk = 64;  ///< of the library's kernels

    void write(LayerWriter& out, double s) const {
        const double keys = key_heads * key_dim, values = heads * dim, mixed = 2 * keys + values;
        const double q = std::min(chunk, s), chunks = std::ceil(s / q);
        out.gemm(s, mixed + values, d, false);
        out.gemm(s, 2 * heads, d, false, false);
        out.depthwise(s, mixed, taps);
        out.parameters(2 * heads - mixed);  // decay and its bias; the convolution has none
        out.pass(4 * s * keys);             // norms of queries and keys
        for (int scores = 0; scores < 2; ++scores) out.bmm(q, q, key_dim, chunks * heads);
        for (int halving = 0; halving < 2; ++halving) out.bmm(q, q, q, chunks * heads);  // inverse
        out.bmm(q, key_dim, q, chunks * heads);
        for (int product = 0; product < 2; ++product) out.bmm(q, dim, q, chunks * heads);
        for (int product = 0; product < 2; ++product) out.bmm(q, dim, key_dim, chunks * heads);
        out.bmm(key_dim, dim, q, chunks * heads);
        out.pass(2 * chunks * heads * (2 * q * q + key_dim * dim));
        out.keep(s * (mixed + values + 2 * heads) + chunks * heads * (q * q + key_dim * dim));
        out.pass(3 * s * values, s * values);  // gated norm of each head
        out.parameters(dim);
        out.gemm(s, d, values, false);
    }
};

void residual(LayerWriter& out, double s, double d) { out.pass(3 * s * d); }

/// "auto": a sixteenth of the width, rounded up.
double time_step_rank(HfReader& reader, std::string_view key, double d) {
    const HfReader::Json* given = reader.find(key);
    if (given == nullptr || *given == "auto") return std::ceil(d / 16);
    return real(number_of(reader, key, 1));
}

void mamba(HfReader& reader, LayerWriter& out) {
    const double d = real(needed_number(reader, "hidden_size"));
    const double vocab = real(needed_number(reader, "vocab_size"));
    const std::int64_t layers = needed_number(reader, "num_hidden_layers", most_layers);
    const double usual = d * real(number_of(reader, "expand", 2));
    const double inner =
        real(number_of(reader, "intermediate_size", static_cast<std::int64_t>(usual)));
    const Scan scan{.d = d,
                    .inner = inner,
                    .state = real(number_of(reader, "state_size", 16)),
                    .rank = time_step_rank(reader, "time_step_rank", d),
                    .taps = real(number_of(reader, "conv_kernel", 4)),
                    .conv_bias = reader.boolean("use_conv_bias").value_or(true),
                    .bias = reader.boolean("use_bias").value_or(false)};
    const double s = real(tokens_of(reader, 2048));
    const bool tied = reader.boolean("tie_word_embeddings").value_or(true);
    if (reader.error()) return;
    embedding(out, s, vocab, d);
    out.layer("mixer", layers, s * d);
    out.norm(s, d);
    scan.write(out, s);
    residual(out, s, d);
    head(out, s, vocab, d, tied);
}

Chunked chunked_of(HfReader& reader, double d, const std::array<std::string_view, 6>& keys,
                   std::int64_t heads, std::int64_t groups) {
    return {.d = d,
            .heads = real(number_of(reader, keys[0], heads)),
            .dim = real(number_of(reader, keys[1], 64)),
            .groups = real(number_of(reader, keys[2], groups)),
            .state = real(number_of(reader, keys[3], 128)),
            .taps = real(number_of(reader, keys[4], 4)),
            .chunk = real(number_of(reader, keys[5], 256))};
}

void mamba2(HfReader& reader, LayerWriter& out) {
    const double d = real(needed_number(reader, "hidden_size"));
    const double vocab = real(needed_number(reader, "vocab_size"));
    const std::int64_t layers = needed_number(reader, "num_hidden_layers", most_layers);
    Chunked mixer = chunked_of(
        reader, d, {"num_heads", "head_dim", "n_groups", "state_size", "conv_kernel", "chunk_size"},
        128, 8);
    mixer.conv_bias = reader.boolean("use_conv_bias").value_or(true);
    mixer.bias = reader.boolean("use_bias").value_or(false);
    const double s = real(tokens_of(reader, 2048));
    const bool tied = reader.boolean("tie_word_embeddings").value_or(false);
    if (reader.error()) return;
    if (mixer.heads * mixer.dim != d * real(number_of(reader, "expand", 2)))
        return reader.fail("num_heads", "times head_dim is not expand times hidden_size");
    embedding(out, s, vocab, d);
    out.layer("mixer", layers, s * d);
    out.norm(s, d);
    mixer.write(out, s);
    residual(out, s, d);
    head(out, s, vocab, d, tied);
}

/// Neighbours that are alike become one entry.
void each_run(std::size_t layers, const std::function<int(std::size_t)>& kind_of,
              const std::function<void(int kind, std::int64_t count)>& write) {
    for (std::size_t i = 0, next = 0; i < layers; i = next) {
        while (next < layers && kind_of(next) == kind_of(i)) ++next;
        write(kind_of(i), static_cast<std::int64_t>(next - i));
    }
}

/// layer_types, one of `known` for each layer, or what the library takes where there is none.
std::vector<std::string> layer_types_of(HfReader& reader, std::int64_t layers,
                                        const std::vector<std::string>& known,
                                        const std::function<std::string(std::int64_t)>& usual) {
    std::vector<std::string> types = reader.texts("layer_types");
    if (types.empty())
        for (std::int64_t i = 0; i < layers; ++i) types.push_back(usual(i));
    const bool are_known = std::all_of(types.begin(), types.end(), [&](const std::string& type) {
        return std::find(known.begin(), known.end(), type) != known.end();
    });
    if (!are_known || static_cast<std::int64_t>(types.size()) != layers)
        reader.fail("layer_types", fmt::format("must have a word for each of {} layers: {}", layers,
                                               fmt::join(known, " or ")));
    return types;
}

/// What the hybrids share: attention without biases, gated MLPs.
struct Hybrid {
    double d, vocab, heads, kv_heads, dim, width, s;
    std::int64_t layers;
    bool tied;

    static Hybrid of(HfReader& reader) {
        const double d = real(needed_number(reader, "hidden_size"));
        const std::int64_t heads = needed_number(reader, "num_attention_heads");
        const std::int64_t usual = std::max<std::int64_t>(1, static_cast<std::int64_t>(d) / heads);
        const std::string_view dim =
            reader.find("attention_head_dim") != nullptr ? "attention_head_dim" : "head_dim";
        const std::int64_t longest = number_of(reader, "max_position_embeddings", 4096);
        const std::int64_t keys = number_of(reader, "num_key_value_heads", heads);
        if (reader.find(dim) == nullptr)
            must_divide(reader, "num_attention_heads", real(heads), d, "hidden_size");
        must_divide(reader, "num_key_value_heads", real(keys), real(heads), "num_attention_heads");
        return {.d = d,
                .vocab = real(needed_number(reader, "vocab_size")),
                .heads = real(heads),
                .kv_heads = real(keys),
                .dim = real(number_of(reader, dim, usual)),
                .width = real(needed_number(reader, "intermediate_size")),
                .s = real(tokens_of(reader, std::min<std::int64_t>(longest, 8192))),
                .layers = needed_number(reader, "num_hidden_layers", most_layers),
                .tied = reader.boolean("tie_word_embeddings").value_or(false)};
    }
    void attention(LayerWriter& out) const {
        out.attention_block(s, d, heads, kv_heads, dim, true, false);
    }
    void mlp(LayerWriter& out) const {
        residual(out, s, d);
        out.norm(s, d);
        out.mlp(s, d, width, true, false);
        residual(out, s, d);
    }
    /// Each expert sees its share of the rows; `shared`: the width of those that see all.
    void experts(LayerWriter& out, double number, double best, double shared = 0) const {
        residual(out, s, d);
        out.norm(s, d);
        out.gemm(s, number, d, false);
        const double rows = std::max(1.0, std::ceil(s * best / number));
        out.pass(4 * s * best * d, s * best * d);
        out.gemm(rows, 2 * width, d, false, true, number);
        out.pass(3 * s * best * width, 2 * s * best * width);
        out.gemm(rows, d, width, false, true, number);
        if (shared > 0) out.mlp(s, d, shared, true, false);
        residual(out, s, d);
    }
};

/// Attention in each attn_layer_period-th layer, experts in each expert_layer_period-th.
void jamba(HfReader& reader, LayerWriter& out) {
    const Hybrid all = Hybrid::of(reader);
    const Scan scan{.d = all.d,
                    .inner = all.d * real(number_of(reader, "mamba_expand", 2)),
                    .state = real(number_of(reader, "mamba_d_state", 16)),
                    .rank = time_step_rank(reader, "mamba_dt_rank", all.d),
                    .taps = real(number_of(reader, "mamba_d_conv", 4)),
                    .conv_bias = reader.boolean("mamba_conv_bias").value_or(true),
                    .bias = reader.boolean("mamba_proj_bias").value_or(false),
                    .norms = true};
    const std::int64_t attention_every = number_of(reader, "attn_layer_period", 8);
    const std::int64_t attention_at = number_of(reader, "attn_layer_offset", 4, 0);
    const std::int64_t experts_every = number_of(reader, "expert_layer_period", 2);
    const std::int64_t experts_at = number_of(reader, "expert_layer_offset", 1, 0);
    const double experts = real(number_of(reader, "num_experts", 16));
    const double best = real(number_of(reader, "num_experts_per_tok", 2));
    if (reader.error()) return;
    embedding(out, all.s, all.vocab, all.d);
    const auto kind_of = [&](std::size_t at) {
        const auto i = static_cast<std::int64_t>(at);
        const int attends = i % attention_every == attention_at ? 1 : 0;
        return attends + (experts > 1 && i % experts_every == experts_at ? 2 : 0);
    };
    each_run(static_cast<std::size_t>(all.layers), kind_of, [&](int kind, std::int64_t count) {
        out.layer(fmt::format("{}{}", kind & 1 ? "attention" : "mixer", kind & 2 ? "-experts" : ""),
                  count, all.s * all.d);
        out.norm(all.s, all.d);
        kind & 1 ? all.attention(out) : scan.write(out, all.s);
        kind & 2 ? all.experts(out, experts, best) : all.mlp(out);
    });
    head(out, all.s, all.vocab, all.d, all.tied);
}

/// Attention where attn_layer_indices says so; an MLP in each layer.
void bamba(HfReader& reader, LayerWriter& out) {
    const Hybrid all = Hybrid::of(reader);
    Chunked mixer = chunked_of(reader, all.d,
                               {"mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state",
                                "mamba_d_conv", "mamba_chunk_size"},
                               128, 1);
    mixer.conv_bias = reader.boolean("mamba_conv_bias").value_or(true);
    mixer.bias = reader.boolean("mamba_proj_bias").value_or(false);
    const auto attending = numbers_of(reader, "attn_layer_indices", 10000, {}, 0, most_layers);
    if (reader.error()) return;
    embedding(out, all.s, all.vocab, all.d);
    const auto kind_of = [&](std::size_t i) {
        return std::count(attending.begin(), attending.end(), static_cast<std::int64_t>(i)) > 0;
    };
    each_run(static_cast<std::size_t>(all.layers), kind_of, [&](int kind, std::int64_t count) {
        out.layer(kind ? "attention" : "mixer", count, all.s * all.d);
        out.norm(all.s, all.d);
        kind ? all.attention(out) : mixer.write(out, all.s);
        all.mlp(out);
    });
    head(out, all.s, all.vocab, all.d, all.tied);
}

/// hybrid_override_pattern: a letter for each layer, M a mixer, * attention, - an MLP.
void nemotron_h(HfReader& reader, LayerWriter& out) {
    const Hybrid all = Hybrid::of(reader);
    Chunked mixer = chunked_of(reader, all.d,
                               {"mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size",
                                "conv_kernel", "chunk_size"},
                               128, 8);
    mixer.conv_bias = reader.boolean("use_conv_bias").value_or(true);
    const std::string pattern = reader.text("hybrid_override_pattern").value_or("");
    if (reader.error()) return;
    if (static_cast<std::int64_t>(pattern.size()) != all.layers ||
        pattern.find_first_not_of("M*-") != std::string::npos)
        return reader.fail(
            "hybrid_override_pattern",
            fmt::format("must have a letter for each of {} layers: M, * or -", all.layers));
    embedding(out, all.s, all.vocab, all.d);
    each_run(
        pattern.size(), [&](std::size_t i) { return pattern[i]; },
        [&](int kind, std::int64_t count) {
            out.layer(kind == 'M'   ? "mixer"
                      : kind == '*' ? "attention"
                                    : "mlp",
                      count, all.s * all.d);
            out.norm(all.s, all.d);
            if (kind == 'M') mixer.write(out, all.s);
            if (kind == '*') all.attention(out);
            if (kind == '-') out.mlp(all.s, all.d, all.width, false, false);
            residual(out, all.s, all.d);
        });
    head(out, all.s, all.vocab, all.d, all.tied);
}

/// "auto", or left out: what the heads have of the mixer's width.
double head_size(HfReader& reader, std::string_view key, std::string_view heads_key, double heads,
                 double inner) {
    const HfReader::Json* given = reader.find(key);
    if (given != nullptr && *given != "auto") return real(number_of(reader, key, 1));
    must_divide(reader, heads_key, heads, inner, "the mixer's width");
    return inner / heads;
}

constexpr std::array<std::string_view, 6> mixer_keys{"mamba_n_heads",  "mamba_d_head",
                                                     "mamba_n_groups", "mamba_d_state",
                                                     "mamba_d_conv",   "mamba_chunk_size"};

/// A mixer of `inner` channels whose head size may be "auto".
Chunked mixer_of(HfReader& reader, double d, double inner, std::int64_t usual_state) {
    Chunked mixer{.d = d,
                  .heads = real(number_of(reader, mixer_keys[0], 128)),
                  .dim = 1,
                  .groups = real(number_of(reader, mixer_keys[2], 1)),
                  .state = real(number_of(reader, mixer_keys[3], usual_state)),
                  .taps = real(number_of(reader, mixer_keys[4], 4)),
                  .chunk = real(number_of(reader, mixer_keys[5], 256))};
    mixer.dim = head_size(reader, mixer_keys[1], mixer_keys[0], mixer.heads, inner);
    mixer.conv_bias = reader.boolean("mamba_conv_bias").value_or(true);
    mixer.bias = reader.boolean("mamba_proj_bias").value_or(false);
    if (!reader.error() && mixer.heads * mixer.dim != inner)
        reader.fail(mixer_keys[0], fmt::format("times {} is not the mixer's width of {:.0f}",
                                               mixer_keys[1], inner));
    return mixer;
}

/// Attention and a mixer side by side in each layer, then an MLP. A mamba_d_ssm of null is expand
/// times the hidden size.
void falcon_h1(HfReader& reader, LayerWriter& out) {
    needed_number(reader, "num_key_value_heads");
    if (!reader.mentions("mamba_d_ssm")) needed_number(reader, "mamba_d_ssm");
    const Hybrid all = Hybrid::of(reader);
    const double usual = all.d * real(number_of(reader, "mamba_expand", 2));
    const double inner = real(number_of(reader, "mamba_d_ssm", static_cast<std::int64_t>(usual)));
    Chunked mixer = mixer_of(reader, all.d, inner, 256);
    mixer.norm = reader.boolean("mamba_rms_norm").value_or(false);
    if (reader.error()) return;
    embedding(out, all.s, all.vocab, all.d);
    out.layer("hybrid", all.layers, all.s * all.d);
    out.norm(all.s, all.d);
    mixer.write(out, all.s);
    all.attention(out);
    all.mlp(out);
    head(out, all.s, all.vocab, all.d, all.tied);
}

/// layer_types says "mamba" or "attention" of each layer; experts and an MLP for all tokens follow.
void granite_hybrid(HfReader& reader, LayerWriter& out) {
    Hybrid all = Hybrid::of(reader);
    const Chunked mixer =
        mixer_of(reader, all.d, all.d * real(number_of(reader, "mamba_expand", 2)), 256);
    const std::int64_t number = number_of(reader, "num_local_experts", 8, 0);
    const double experts = real(number);
    const double best =
        number == 0 ? 0 : real(number_of(reader, "num_experts_per_tok", 2, 1, number));
    const double shared = real(number_of(reader, "shared_intermediate_size", 1024, 0));
    const std::vector<std::string> types = layer_types_of(
        reader, all.layers, {"mamba", "attention"}, [](std::int64_t) { return "mamba"; });
    if (reader.error()) return;
    embedding(out, all.s, all.vocab, all.d);
    if (experts == 0) all.width = shared;
    const auto attends = [&](std::size_t i) { return types[i] == "attention"; };
    each_run(types.size(), attends, [&](int kind, std::int64_t count) {
        out.layer(kind ? "attention" : "mixer", count, all.s * all.d);
        out.norm(all.s, all.d);
        kind ? all.attention(out) : mixer.write(out, all.s);
        experts > 0 ? all.experts(out, experts, best, shared) : all.mlp(out);
    });
    head(out, all.s, all.vocab, all.d, all.tied);
}

/// Attention whose result a gate of the queries' width scales; queries and keys are normed.
void gated_attention(const Hybrid& all, LayerWriter& out) {
    const double queries = all.heads * all.dim;
    out.gemm(all.s, queries, all.d, false, false);
    all.attention(out);
    out.pass(4 * all.s * (queries + all.kv_heads * all.dim), all.s * queries);
    out.parameters(2 * all.dim);
}

/// The delta rule, gated attention in each full_attention_interval-th layer, experts in all.
void qwen3_next(HfReader& reader, LayerWriter& out) {
    for (const std::string_view key : {"num_key_value_heads", "head_dim"})
        needed_number(reader, key);
    Hybrid all = Hybrid::of(reader);
    const DeltaRule rule{.d = all.d,
                         .key_heads = real(number_of(reader, "linear_num_key_heads", 16)),
                         .key_dim = real(number_of(reader, "linear_key_head_dim", 128)),
                         .heads = real(number_of(reader, "linear_num_value_heads", 32)),
                         .dim = real(number_of(reader, "linear_value_head_dim", 128)),
                         .taps = real(number_of(reader, "linear_conv_kernel_dim", 4))};
    const std::int64_t every = number_of(reader, "full_attention_interval", 4);
    const std::int64_t number = number_of(reader, "num_experts", 512);
    const double experts = real(number);
    const double best = real(number_of(reader, "num_experts_per_tok", 10, 1, number));
    all.width = real(number_of(reader, "moe_intermediate_size", 512));
    const double shared = real(number_of(reader, "shared_expert_intermediate_size", 512, 0));
    must_divide(reader, "linear_num_key_heads", rule.key_heads, rule.heads,
                "linear_num_value_heads");
    const std::vector<std::string> types = layer_types_of(
        reader, all.layers, {"linear_attention", "full_attention"}, [&](std::int64_t i) {
            return (i + 1) % every == 0 ? "full_attention" : "linear_attention";
        });
    if (reader.error()) return;
    embedding(out, all.s, all.vocab, all.d);
    const auto attends = [&](std::size_t i) { return types[i] == "full_attention"; };
    each_run(types.size(), attends, [&](int kind, std::int64_t count) {
        out.layer(kind ? "attention" : "delta-rule", count, all.s * all.d);
        out.norm(all.s, all.d);
        kind ? gated_attention(all, out) : rule.write(out, all.s);
        all.experts(out, experts, best, shared);
        if (shared > 0) out.gemm(all.s, 1, all.d, false, false);  // gate of the shared expert
    });
    head(out, all.s, all.vocab, all.d, all.tied);
}

}  // namespace

bool write_sequence_layers(HfReader& reader, std::string_view model_type, LayerWriter& out) {
    constexpr std::array<std::pair<std::string_view, void (*)(HfReader&, LayerWriter&)>, 9> writers{
        {{"whisper", whisper},
         {"mamba", mamba},
         {"mamba2", mamba2},
         {"jamba", jamba},
         {"bamba", bamba},
         {"nemotron_h", nemotron_h},
         {"falcon_h1", falcon_h1},
         {"granitemoehybrid", granite_hybrid},
         {"qwen3_next", qwen3_next}}};
    if (model_type == "t5" || model_type == "mt5") {
        t5(reader, model_type == "mt5", out);
        return true;
    }
    for (const auto& [name, write] : writers)
        if (name == model_type) {
            write(reader, out);
            return true;
        }
    return false;
}

}  // namespace arena
