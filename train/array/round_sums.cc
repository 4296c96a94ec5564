// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/array/round_sums.h"

namespace arena::train {

void RoundSums::add(std::size_t who, Index stage, const BlockTimes& t) {
    const auto to = times(who, at(stage));
    const double values[fields] = {t.forward, t.recompute, t.backward, t.update, t.wait};
    for (std::size_t i = 0; i < fields; ++i) to[i] += values[i];
}

std::vector<BlockTimes> RoundSums::means(std::size_t who) {
    std::vector<BlockTimes> all;
    const auto n = static_cast<double>(iterations_);
    for (std::size_t stage = 0; stage < stages_; ++stage) {
        const auto t = times(who, stage);
        all.push_back({t[0] / n, t[1] / n, t[2] / n, t[3] / n, t[4] / (2 * n)});
    }
    return all;
}

}  // namespace arena::train
