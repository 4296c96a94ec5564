// SPDX-License-Identifier: GPL-2.0-or-later
// The training loop of one rank: batch, pipeline, optimizer, one line a step, checkpoints, and
// leaving when it is told to. All ranks decide the same at the end of each step: whether to go on,
// to leave, or to obey a word first (control.h) are values of the all-reduce that also sums the
// loss; in a watched job so is what each rank computed (train/core/compute_clock.h).
#pragma once

#include <atomic>
#include <string>

#include "train/comm/comm.h"
#include "train/core/data.h"
#include "train/core/optimizer.h"
#include "train/core/pipeline.h"
#include "train/run/control.h"
#include "train/run/device_choice.h"

namespace arena::train {

/// What the environment says of the chief that watches this job.
struct WatchOptions {
    std::string key;       ///< ARENA_WATCH_KEY; "" = nobody watches
    bool precheck = true;  ///< ARENA_WATCH_PRECHECK is not 0
    bool elastic = false;  ///< ARENA_WATCH_ELASTIC: Slurm may restart the job elsewhere
};

struct TrainOptions {
    GptShape shape;
    TrainPlan plan;
    OptimizerOptions optimizer;
    std::string data;
    TokenWidth width = TokenWidth::u8;
    std::uint64_t seed = 1;
    Index steps = 0;          ///< the run ends when so many are done, over all its lives
    std::string checkpoints;  ///< directory that exists; "" = none is read or written
    Index save_every = 0;     ///< steps; 0 = at the end and when told to leave
    std::string control;      ///< script of words to obey (control.h); "" = none
    WatchOptions watch;       ///< where there is no script
    double check_limit_s = longest_check_s;  ///< of a check of devices and links
    /// Of this process: what Slurm calls its node and GPU.
    Environment environment = [](std::string_view) { return std::optional<std::string>(); };
    std::string log;          ///< file of JSON lines, appended to; "" = none
    bool quiet = false;       ///< no lines on stdout
    int requeue_code = 99;    ///< exit code after a signal, where checkpoints are written
    int threads = 1;          ///< of each rank
    std::string device_note;  ///< why it is this device, for the first line; "" = nothing to say
    double flops_per_sample = 0;  ///< of the model, forward and backward: for the share of the peak
    bool report = true;           ///< tell Arena how long the steps take, in a job that it started
};

/// Set by the signal handlers: finish the step, save, leave.
extern std::atomic<bool> told_to_leave;

/// What a run leaves behind, on rank 0 complete.
struct Outcome {
    Status status = Done{};  ///< the same kind on all ranks
    bool requeue = false;    ///< left because it was told to, and saved
    std::vector<double>
        losses;          ///< of the steps of this life: mean over the tokens of the global batch
    double seconds = 0;  ///< median seconds of one step, the first left out where there are more
    double activation_bytes = 0;  ///< of this rank
};

/// Runs one rank. The plan has been checked against the size of `world`.
Outcome train(const TrainOptions&, Comm& world, const DeviceMaker&);

/// 0, the requeue code, or what the error's code stands for: 1 no, 2 usage, 3 environment.
int exit_code(const Outcome&, const TrainOptions&);

}  // namespace arena::train
