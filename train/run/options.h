// SPDX-License-Identifier: GPL-2.0-or-later
// The command line of arena-train.
#pragma once

#include <string>

#include "train/run/array_run.h"
#include "train/run/plan.h"
#include "train/run/trainer.h"

namespace arena::train {

/// As given; nothing is opened yet.
struct CommandLine {
    std::string model;  ///< a file or a built-in name; "" = the sizes below
    Index layers = 2, hidden = 128, heads = 4, ffn = 0, vocab = 256;
    Index seq = 0;  ///< 0 = the model's, or 128
    bool untied = false;
    Index ranks = 0;  ///< threads of this process; 0 = what the plan takes, or 1
    Index global_batch = 0;
    int stall_limit_s = 0;  ///< 0 = none
    std::string token_width = "u8";
    std::string device = "auto";
    PlanFlags plan;
    ArrayFlags array;
    TrainOptions run;  ///< shape and plan are filled by complete()
};

/// 0 and `out`, or the exit code after help, version or a usage error.
struct ParsedLine {
    bool go = false;
    int exit_code = 0;
};
ParsedLine parse_command_line(int argc, char** argv, CommandLine& out);

/// Of a run that an array trains: reads the model; the plan is the array's.
Result<MemberOptions> complete_member(const CommandLine&, const Environment&);
/// Reads the model and the plan, checks both against `ranks` (0 = as many as the plan takes).
Result<TrainOptions> complete(const CommandLine&, const Environment&, Index ranks);

}  // namespace arena::train
