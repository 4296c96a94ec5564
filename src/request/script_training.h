// SPDX-License-Identifier: GPL-2.0-or-later
// What a batch script says of the model that it trains, in the arguments of torchrun, DeepSpeed,
// Accelerate or Megatron-LM: for an observing Arena, which plans ordinary jobs as if they had asked
// for it. The script is a stranger's: it is read in its first 64 KiB, never evaluated. Variables
// that the script itself sets to plain words or lists are put in; what commands, files and loops
// make of them is not known, and such a script says nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/limits.h"
#include "request/request.h"

namespace arena {

/// What one program of the script is told.
struct ScriptTraining {
    std::string launcher;       ///< a name of request/launchers.h
    std::string model;          ///< as published, or Megatron-LM's own arguments
    bool by_arguments = false;  ///< the second
    std::int64_t batch = 0;     ///< samples of an iteration; 0 = it says those of a device
    std::int64_t device_batch = 0, accumulation = 1;
    /// Of a job with so many GPUs; 0 = the script does not say.
    [[nodiscard]] std::int64_t batch_on(std::int64_t gpus) const {
        if (batch > 0) return batch;
        return std::min(device_batch * accumulation, limits::batch) * std::min(gpus, limits::gpus);
    }
    bool operator==(const ScriptTraining&) const = default;
};

/// The last that names a model, which is what a launcher before it starts; without a model where
/// none does.
ScriptTraining parse_script_training(std::string_view script);

/// A script with the variables put in that it sets itself: NAME=word, NAME="words", NAME=(words).
/// What is put in, in all, has at most four times the length that is read of a script; a reference
/// for which that is too little stays.
std::string with_own_variables(std::string_view script);

}  // namespace arena
