// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/members/member_options.h"

#include <fmt/format.h>

namespace arena::train {

Status check_member(const MemberOptions& member, const ArrayLimits& limits) {
    if (member.shape != limits.shape)
        return usage_error(fmt::format("trains {}, but this array {}; siblings share one model",
                                       describe(member.shape), describe(limits.shape)),
                           "--model");
    if (member.shape.tied)
        return usage_error(
            "the head is the token table, which two stages would update at different times in an "
            "array; take a model with a head of its own (--untied, tie_word_embeddings: false)",
            "--model");
    if (member.optimizer.clip != 0)
        return usage_error(
            "the stages of an array update before the norm of all gradients is known; say --clip 0",
            "--clip");
    if (member.batch > limits.batch)
        return usage_error(
            fmt::format("{} samples; this array has memory for {}", member.batch, limits.batch),
            "--global-batch");
    return Done{};
}

}  // namespace arena::train
