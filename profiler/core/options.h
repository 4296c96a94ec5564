// SPDX-License-Identifier: GPL-2.0-or-later
// What the command line of arena-profiler said, and what its sub-commands share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/model.h"
#include "core/profile.h"
#include "profiler/core/prolog_help.h"

namespace arena {

struct Options {
    std::string request, request_env;
    std::string model, hardware = "emulated-cpu", hardware_file, gpu_type;
    std::int64_t batch = 0, max_gpus = 8, gpus_per_node = 8, threads = 0;
    std::string device = "auto", out = "-", node;
    std::vector<std::string> reuse;  ///< profile files of this device
    std::string progress;            ///< directory for NONCE.progress; "" = none
    double budget_s = 0;
    bool json = false, verbose = false;
    std::string config, slurm_conf;  ///< site
    RunEnd end;                      ///< finish
    std::string spool;
    std::string profile;  ///< direct
    std::int64_t layers = 4, tp = 1, micro_batch = 1, iterations = 20, seq_length = 0;
};

/// Says the error on standard error; the exit code that stands for it.
int fail(const Error&);
/// Whether a result can be written there: found out before a minute of the device is spent on it.
/// "-": standard output, which the lines of --json take.
Status check_output(const std::string& out, bool json);
/// A name of the zoo, or a file.
Result<Model> model_of(const std::string& word);
/// From --request, --request-env, or the flags that stand for one.
Result<ProfileRequest> request_of(const Options&);
/// The same, with a model that check_model() accepts: nothing is measured for others.
Result<ProfileRequest> checked_request_of(const Options&);

}  // namespace arena
