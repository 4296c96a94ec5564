// SPDX-License-Identifier: GPL-2.0-or-later
// What a chief says to a trainer between two steps; what is accepted says itself again, and a plan
// takes only what its ranks can obey.
// also: train/run/control.cc
#include <algorithm>

#include "fuzz.h"
#include "train/run/control.h"

using namespace arena::train;

FUZZ(text) {
    const auto word = parse_word(text);
    if (!word) return;
    const auto again = parse_word(to_text(*word));
    if (!again || to_text(*again) != to_text(*word)) std::abort();
    TrainPlan plan;
    plan.layout = {2, 2, 1};
    plan.micro_batches = {4, 4};
    const auto* const check = std::get_if<Check>(&*word);
    if (!check_word(*word, plan) || check == nullptr) return;
    for (const Check::Pass& pass : check->passes)
        if (std::ranges::any_of(pass, [](auto link) { return std::max(link.from, link.to) > 3; }))
            std::abort();
}
