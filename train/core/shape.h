// SPDX-License-Identifier: GPL-2.0-or-later
// What arena-train trains and how its ranks are laid out: the sizes of a GPT (pre-norm decoder,
// GELU MLP, learned positions) and the mapping between a rank and its place in the plan. Everything
// that the trainer cannot compute is refused here, so that no model is trained as another one.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "core/model.h"

namespace arena::train {

using Index = std::int64_t;
/// As a position in a container; not negative.
inline std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// Sizes of the whole model, in elements. heads divides hidden.
struct GptShape {
    Index layers = 0, hidden = 0, heads = 0, ffn = 0, vocab = 0, seq = 0;
    bool tied = true;  ///< the output head is the token embedding
    [[nodiscard]] Index head_dim() const { return hidden / heads; }
    bool operator==(const GptShape&) const = default;
};
/// The sizes of a model that the planner's readers gave; an error names what arena-train lacks.
Result<GptShape> shape_of(const Model&);
/// "2 layers, hidden 64, 4 heads, ffn 256, vocabulary 256, 32 tokens per sample, tied".
std::string describe(const GptShape&);
/// Trainable parameters.
double parameter_count(const GptShape&);

/// Where a rank stands: its pipeline stage, its replica (data parallel) and its shard (tensor
/// parallel).
struct Place {
    Index stage = 0, replica = 0, shard = 0;
    bool operator==(const Place&) const = default;
};
/// rank = (stage * dp + replica) * tp + shard: tp fastest, then dp, then pp, as the planner
/// assumes.
struct RankLayout {
    Index pp = 1, dp = 1, tp = 1;
    [[nodiscard]] Index size() const { return pp * dp * tp; }
    [[nodiscard]] Place place(Index rank) const {
        return {rank / tp / dp, rank / tp % dp, rank % tp};
    }
    [[nodiscard]] Index rank(const Place& p) const {
        return (p.stage * dp + p.replica) * tp + p.shard;
    }
    bool operator==(const RankLayout&) const = default;
};

/// The boundary between two stages that a place has to do with: those after even stages (parity 0)
/// and after odd ones (1) in turn, so that each place is in one pair at most.
struct StagePair {
    bool exists = false;
    Index lower = 0;  ///< stage before the boundary
    Index color = 0;  ///< the same in both places and nowhere else: for Comm::split()
    Place other;      ///< the neighbour
};
inline StagePair stage_pair(const RankLayout& layout, const Place& place, Index parity) {
    const Index lower = place.stage % 2 == parity ? place.stage : place.stage - 1;
    if (lower < 0 || lower + 1 >= layout.pp)
        return {
            .exists = false, .lower = 0, .color = layout.size() + layout.rank(place), .other = {}};
    const Index other = place.stage == lower ? lower + 1 : lower;
    return {.exists = true,
            .lower = lower,
            .color = layout.rank({lower, place.replica, place.shard}),
            .other = {other, place.replica, place.shard}};
}

/// [begin, end) of `total` things that the share `index` of `shares` has; sizes differ by 1 at
/// most.
struct Range {
    Index begin = 0, end = 0;
    [[nodiscard]] Index size() const { return end - begin; }
    bool operator==(const Range&) const = default;
};
inline Range share(Index total, Index shares, Index index) {
    return {total * index / shares, total * (index + 1) / shares};
}

}  // namespace arena::train
