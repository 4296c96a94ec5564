// SPDX-License-Identifier: GPL-2.0-or-later
// What the tests of arena-train share: a small GPT, a file of text to train on, and running a plan
// with its ranks as threads.
#pragma once

// The standard library before check.h, whose macros have names of its members.
// clang-format off
#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "base/hash.h"
#include "profiler/cpu/cpu_kernels.h"
#include "train/run/plan.h"
#include "train/checkpoint/checkpoint.h"
#include "train/core/ends.h"
#include "train/cpu/cpu_device.h"
#include "train/run/trainer.h"

#include "directory.h"
#include "suite.h"
#include "core/plan.h"
#include <stdlib.h>
// clang-format on

namespace arena::train::test {

using arena::test::Directory;
using arena::test::must;

inline void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

/// Bytes below 64, of which seven of eight follow from the byte before: something to learn.
inline std::string text(Index bytes) {
    std::string out(static_cast<std::size_t>(bytes), '\0');
    std::uint64_t state = 7;
    for (std::size_t i = 1; i < out.size(); ++i) {
        state = splitmix(state);
        const int noise = state % 8 == 0 ? static_cast<int>(state >> 32) & 63 : 0;
        out[i] = static_cast<char>(((out[i - 1] & 15) * 5 + 3 + noise) & 63);
    }
    return out;
}

inline GptShape small_gpt() {
    return {.layers = 4, .hidden = 16, .heads = 4, .ffn = 64, .vocab = 66, .seq = 12};
}

/// pp, dp, tp; stages as even as can be where `stage_layers` is empty; micro-batches of
/// `micro_batch`.
inline TrainPlan make_plan(Index pp, Index dp, Index tp, std::vector<Index> stage_layers = {},
                           Index micro_batch = 1, Recompute recompute = Recompute::none,
                           Index zero = 0) {
    PlanFlags flags;
    flags.pp = pp;
    flags.dp = dp;
    flags.tp = tp;
    flags.micro_batch = micro_batch;
    flags.zero = zero;
    const auto plan = must(plan_of_flags(flags, small_gpt(), 8, pp * dp * tp));
    TrainPlan made = plan;
    if (!stage_layers.empty()) made.stage_layers = std::move(stage_layers);
    made.recompute = recompute;
    const Status status = check_plan(made, small_gpt(), 8, pp * dp * tp);
    ck_assert_msg(status.ok(), "%s", status.ok() ? "" : status.error().message().c_str());
    return made;
}

inline TrainOptions options_of(const TrainPlan& plan, const std::string& data, Index steps) {
    TrainOptions o;
    o.shape = small_gpt();
    o.plan = plan;
    o.data = data;
    o.steps = steps;
    o.quiet = true;
    o.optimizer.rate = 1e-2F;
    return o;
}

/// Outcomes of all ranks, in their order.
inline std::vector<Outcome> train_all(const TrainOptions& options) {
    cpu::set_gemm_threads(1);
    std::vector<Outcome> outcomes(static_cast<std::size_t>(options.plan.layout.size()));
    run_threads(static_cast<int>(outcomes.size()), [&](Comm& world) {
        outcomes[static_cast<std::size_t>(world.rank())] =
            train(options, world, [](int threads, Comm&) { return make_cpu_device(threads); });
    });
    return outcomes;
}

/// Losses on rank 0; the run must have succeeded on all ranks.
inline std::vector<double> losses_of(const TrainOptions& options) {
    const auto outcomes = train_all(options);
    for (const Outcome& outcome : outcomes)
        ck_assert_msg(outcome.status.ok(), "%s",
                      outcome.status.ok() ? "" : outcome.status.error().message().c_str());
    return outcomes.front().losses;
}

/// Relative difference of at most `most` in every step.
inline void assert_same_losses(const std::vector<double>& got, const std::vector<double>& wanted,
                               double most, const std::string& who) {
    ck_assert_msg(got.size() == wanted.size(), "%s: %zu steps, not %zu", who.c_str(), got.size(),
                  wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i)
        ck_assert_msg(std::abs(got[i] - wanted[i]) <= most * std::abs(wanted[i]),
                      "%s: loss %.9g of step %zu is not %.9g", who.c_str(), got[i], i + 1,
                      wanted[i]);
}

}  // namespace arena::train::test
