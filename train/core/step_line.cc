// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/core/step_line.h"

#include <fmt/format.h>

#include "base/json.h"

namespace arena::train {
namespace {

double tokens_per_s(const StepLine& line) {
    return static_cast<double>(line.tokens) / line.seconds;
}

}  // namespace

std::string text_of(const StepLine& line) {
    std::string text = fmt::format("step {} loss {:.6f} {:.4f} s {:.0f} tokens/s", line.step,
                                   line.loss, line.seconds, tokens_per_s(line));
    if (line.mfu > 0) text += fmt::format(" MFU {:.1f} %", 100 * line.mfu);
    return text;
}

nlohmann::json facts_of(const StepLine& line) {
    Json facts{{"step", line.step},           {"loss", line.loss},
               {"iteration_s", line.seconds}, {"tokens_per_s", tokens_per_s(line)},
               {"gradient_norm", line.norm},  {"learning_rate", line.rate}};
    if (line.mfu > 0) facts["mfu"] = line.mfu;
    return facts;
}

}  // namespace arena::train
