// SPDX-License-Identifier: GPL-2.0-or-later
// Parameters and FLOPs of a transformer from its dimensions; sources: planner.md sections 1 and 2.
#include "planner/model.h"

namespace arena {

namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

/// gpt and bert add a bias to every matrix and to their layer norms; llama has RMS norms, no bias.
bool has_biases(const Model& model) { return model.family != Family::llama; }

double norm_parameters(const Model& model) {
    return (has_biases(model) ? 2 : 1) * real(model.hidden);
}

double mlp_matrices(const Model& model) { return is_gated(model) ? 3 : 2; }

/// Outside the blocks and the token table: final norm; bert: token types, embedding norm, and the
/// language-model transform (dense, norm, output bias).
double extra_parameters(const Model& model) {
    const double h = real(model.hidden);
    if (model.family == Family::bert) return 2 * h + 2 * h + h * h + h + 2 * h + real(model.vocab);
    return norm_parameters(model);
}

}  // namespace

bool is_gated(const Model& model) { return model.gated_mlp; }

double qkv_width(const Model& model) {
    return real(model.hidden) * (1 + 2 * real(model.kv_heads) / real(model.heads));
}

double layer_parameters(const Model& model) {
    const double h = real(model.hidden), f = real(model.ffn_hidden), qkv = qkv_width(model);
    const double matrices = h * qkv + h * h + mlp_matrices(model) * h * f;
    const double biases = has_biases(model) ? qkv + h + (mlp_matrices(model) - 1) * f + h : 0;
    return matrices + biases + 2 * norm_parameters(model);
}

double parameter_count(const Model& model) {
    const double h = real(model.hidden), table = h * real(model.vocab);
    const double positions = model.learned_positions ? h * real(model.seq_length) : 0;
    return real(model.layers) * layer_parameters(model) + table * (model.tied_embedding ? 1 : 2) +
           positions + extra_parameters(model);
}

double forward_flops(const Model& model) {
    const double h = real(model.hidden), s = real(model.seq_length);
    const double matrices =
        h * qkv_width(model) + h * h + mlp_matrices(model) * h * real(model.ffn_hidden);
    const double transform = model.family == Family::bert ? 2 * s * h * h : 0;
    return real(model.layers) * (2 * s * matrices + 4 * s * s * h) + 2 * s * h * real(model.vocab) +
           transform;
}

}  // namespace arena
