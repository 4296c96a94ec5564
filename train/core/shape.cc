// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/core/shape.h"

#include <fmt/format.h>

namespace arena::train {
namespace {

/// What of the model is not a GPT's, for people; "" when all is.
std::string foreign_part(const Model& m) {
    if (m.family != Family::gpt) return fmt::format("family {}", to_string(m.family));
    if (!m.learned_positions) return "rotary positions";
    if (m.gated_mlp) return "a gated MLP";
    if (m.rms_norm || m.qk_norm) return "RMS or query-key norms";
    if (is_adapted(m)) return "adapters";
    if (!m.linear_bias) return "layers without biases";
    if (m.kv_heads != 0 && m.kv_heads != m.heads) return "grouped-query attention";
    if (m.head_dim != 0) return "a head_dim that is not hidden / heads";
    if (m.window != 0) return "windowed attention";
    return {};
}

}  // namespace

Result<GptShape> shape_of(const Model& m) {
    if (const std::string part = foreign_part(m); !part.empty())
        return usage_error(
            fmt::format("has {}; arena-train trains GPT-2 alone: learned positions, LayerNorm, "
                        "GELU MLP, biases, as many key as query heads",
                        part),
            m.name);
    if (m.hidden % m.heads != 0)
        return usage_error(fmt::format("hidden {} does not divide by {} heads", m.hidden, m.heads),
                           m.name);
    return GptShape{.layers = m.layers,
                    .hidden = m.hidden,
                    .heads = m.heads,
                    .ffn = m.ffn_hidden,
                    .vocab = m.vocab,
                    .seq = m.seq_length,
                    .tied = m.tied_embedding};
}

std::string describe(const GptShape& s) {
    return fmt::format(
        "{} layers, hidden {}, {} heads, ffn {}, vocabulary {}, {} tokens per sample, {}", s.layers,
        s.hidden, s.heads, s.ffn, s.vocab, s.seq, s.tied ? "tied" : "untied");
}

double parameter_count(const GptShape& s) {
    const auto h = static_cast<double>(s.hidden), f = static_cast<double>(s.ffn);
    const double block = 4 * h * h + 2 * h * f + 9 * h + f;
    const double tables =
        static_cast<double>(s.vocab) * (s.tied ? 1 : 2) + static_cast<double>(s.seq);
    return static_cast<double>(s.layers) * block + tables * h + 2 * h;
}

}  // namespace arena::train
