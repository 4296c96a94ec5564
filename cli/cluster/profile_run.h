// SPDX-License-Identifier: GPL-2.0-or-later
// `arena profile run`, as add_profile() calls it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/common/cli.h"
#include "core/hardware.h"
#include "store/store.h"

namespace arena::cli {

struct RunOptions {
    std::vector<std::string> models;
    bool zoo = false;
    std::int64_t global_batch = 64, max_gpus = 8, gpus_per_node = 0, threads = 0;
    std::string hardware = "emulated-cpu", hardware_file, gpu_type, out_dir;
    double budget_s = 60;
    bool emulated = true;
};

/// Fills in what was not given, and refuses what cannot work before anything is measured.
Status complete(RunOptions&, const std::vector<GpuType>& hardware);
/// One run per model; into the store when there is one, else as files in out_dir, where each run
/// re-uses the one before. Returns the exit code.
int run_profiles(const Globals&, const RunOptions&, ProfileStore* store);

}  // namespace arena::cli
