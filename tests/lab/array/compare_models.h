// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-lab array compare` without a file: what arrays of models gain, in the planner's model. The
// setting that is not said is that of ArrayPipe (INFOCOM'25), whose percentages stand beside ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/cli.h"
#include "tests/lab/array/array_compare.h"

namespace arena::cli {

struct ModelComparison {
    std::vector<std::string> models;    ///< none: the paper's
    std::vector<std::int64_t> batches;  ///< none: the paper's
    std::string gpu_type = "A100-SXM-80GB";
    std::string hardware, calibration, profiles = "none", launcher = "any";
    std::int64_t stages = 8, members = 64, seq_length = 0;
    std::int64_t servers = 0;        ///< 0: as many as the type's nodes need
    double memory_gib = 0;           ///< 0: the type's
    double link_gb_per_s = 0;        ///< between neighbours on a server; 0: the type's
    double host_gb_per_s = 64;       ///< between a device and its host, each way
    std::optional<double> search_s;  ///< nothing: the list rule
    std::string axis;                ///< "": none
};

/// Of one model and one batch.
struct ComparedCell {
    std::string model;
    std::int64_t batch = 0;
    Comparison all;
};
/// One setting.
struct ComparedSetting {
    std::string axis, value;  ///< empty: the setting itself
    std::vector<ComparedCell> cells;
};

/// Exit code.
int compare_models(const Globals&, const ModelComparison&);

}  // namespace arena::cli
