// SPDX-License-Identifier: GPL-2.0-or-later
// What a run says of a step, the same whoever trained it: text for people, facts for the log.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "train/core/shape.h"

namespace arena::train {

struct StepLine {
    Index step = 0;  ///< from 1
    double loss = 0, seconds = 0;
    Index tokens = 0;
    double norm = 0;  ///< of all gradients before clipping
    float rate = 0;
    double mfu = 0;  ///< share of the devices' peak; 0 = not known
};
std::string text_of(const StepLine&);
/// A JSON object.
nlohmann::json facts_of(const StepLine&);

}  // namespace arena::train
