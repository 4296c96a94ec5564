// SPDX-License-Identifier: GPL-2.0-or-later
// A day-night load of inference from nothing but a seed.
#pragma once

#include <cstdint>

#include "sim/loans/inference.h"

namespace arena::sim {

struct InferenceGeneratorOptions {
    std::string gpu_type;       ///< "" = the only one
    double gpus = 0;            ///< of inference, > 0; demand never exceeds them
    double days = 1;            ///< > 0, at most 1,000
    double low = 0.25;          ///< share of the GPUs in the deepest night, 0..1
    double high = 0.9;          ///< at the height of the day, low..1
    double noise = 0.05;        ///< sigma of each day's height and of each step, >= 0
    double spikes_per_day = 1;  ///< sudden rises by a tenth of the GPUs, half an hour long, >= 0
    double step_s = 300;        ///< > 0
    std::uint64_t seed = 1;
};

/// low + (high - low) sin^2 of the time of day (night at 0 h), times noise, plus spikes. Whole
/// GPUs. Errors: a value outside its range.
Result<InferenceCurve> generate_inference(const InferenceGeneratorOptions&);

}  // namespace arena::sim
