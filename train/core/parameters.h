// SPDX-License-Identifier: GPL-2.0-or-later
// The tensors of a GPT, whole and as one rank holds them. A tensor is [outer, axis, inner]; tensor
// parallelism deals out `axis` (heads, MLP columns, vocabulary rows). Names are GPT-2's, matrices
// are [out, in]. Initial values depend on seed, name and position in the whole tensor alone, never
// on the plan.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "train/core/shape.h"

namespace arena::train {

struct TensorSpec {
    std::string name;  ///< "h.3.attn.c_attn.weight"
    Index outer = 1, axis = 1, inner = 1;
    bool sharded = false;  ///< along axis, over the tensor-parallel ranks
    bool decayed = false;  ///< by AdamW's weight decay: matrices and tables
    float deviation = 0;   ///< of the initial normal values; 0 = all equal to `value`
    float value = 0;
    [[nodiscard]] Index size() const { return outer * axis * inner; }
};

/// The tensors of one block, in this order.
enum BlockTensor {
    ln_1_weight,
    ln_1_bias,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    ln_2_weight,
    ln_2_bias,
    up_weight,
    up_bias,
    down_weight,
    down_bias,
    block_tensors
};
std::vector<TensorSpec> block_specs(const GptShape&, Index layer);
TensorSpec token_table(const GptShape&);     ///< wte.weight [vocab, hidden]
TensorSpec position_table(const GptShape&);  ///< wpe.weight [seq, hidden]
std::vector<TensorSpec> final_norm(const GptShape&);
TensorSpec untied_head(const GptShape&);  ///< lm_head.weight [vocab, hidden]
/// All of them, embeddings first, the head last: the order of a checkpoint.
std::vector<TensorSpec> all_specs(const GptShape&);

/// A tensor as one rank holds it: `range` of the axis, at `offset` of the rank's flat arrays.
struct LocalTensor {
    TensorSpec spec;
    Range range;
    Index offset = 0;
    bool shadow = false;  ///< the last stage's copy of a tied token table: trained, never saved
    [[nodiscard]] Index size() const { return spec.outer * range.size() * spec.inner; }
};
/// Copies between the whole tensor and this rank's part of it.
void take_part(const LocalTensor&, std::span<const float> whole, float* part);
void put_part(const TensorSpec&, Range, const float* part, std::span<float> whole);

/// The tensors of a rank in one array, whose length is a multiple of dp (what is left stays 0).
struct TensorLayout {
    std::vector<LocalTensor> tensors;
    std::size_t size = 0;  ///< elements of the array
};
/// `alignment`: each tensor begins at a multiple of it; what lies between stays 0.
TensorLayout layout_tensors(const GptShape&, const RankLayout&, const Place&, Range layers,
                            Index alignment = 1);
/// Index of a tensor by name, -1 where there is none.
Index find_tensor(const std::vector<LocalTensor>&, const std::string& name);

/// The weights of a rank.
class Parameters {
  public:
    Parameters(const GptShape&, const RankLayout&, const Place&, Range layers, Index alignment = 1);
    void initialize(std::uint64_t seed);

    [[nodiscard]] const std::vector<LocalTensor>& tensors() const { return layout_.tensors; }
    /// Index into tensors() by name, -1 when this rank has none.
    [[nodiscard]] Index find(const std::string& name) const { return find_tensor(tensors(), name); }
    [[nodiscard]] std::span<float> weights() { return weights_; }

  private:
    TensorLayout layout_;
    std::vector<float> weights_;
};

/// Part `index` of the initial values of a whole tensor; the same on every machine up to rounding
/// of log and cos.
float initial_value(const TensorSpec&, std::uint64_t seed, Index index);

}  // namespace arena::train
