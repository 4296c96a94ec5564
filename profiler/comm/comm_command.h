// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-profiler comm`: times of collectives between the GPUs of one node, or of the nodes that an
// MPI launcher started it on, as the table that `arena profile import-comm` reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/comm/comm_bench.h"

namespace arena {

struct CommCommand {
    std::string gpu_type, out = "-";
    std::string device = "cuda";              ///< or cpu: host memory
    std::string config;                       ///< arena.yaml; "" = config_path(), if it is there
    std::vector<std::string> ops;             ///< empty = all
    std::string span;                         ///< of nodes; "": what Slurm's topology says
    std::vector<std::string> groups;          ///< RANKS[xNODES[xGROUPS]]; empty = all_placements()
    std::string min_bytes = "1K", max_bytes;  ///< max_bytes "": 1G, cpu: 64M
    std::int64_t factor = 2, gpus = 0;        ///< gpus: of this node; 0 = all, cpu: up to 8
    double budget_s = 600, timeout_s = 60;
    bool json = false, verbose = false;
};

/// "64", "1K", "32M", "1G": powers of 1024.
Result<std::int64_t> parse_size(std::string_view text, const std::string& where);
/// Checked against the world: "4" on one node, "8x2" on two, "2x1x4" four groups at once.
Result<CommPlacement> parse_placement(std::string_view text, const CommWorld&);
/// All that the command line says, checked; in a world of several ranks.
Result<CommQuery> query_of(const CommCommand&, const CommWorld&);

/// Returns the exit code: 0 all measured, 1 some missing, 2 usage, 3 environment.
int run_comm_command(const CommCommand&);

}  // namespace arena
