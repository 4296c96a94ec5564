// SPDX-License-Identifier: GPL-2.0-or-later
// What an array on one pipeline gains over each way in which pipelines are run today, in the model:
// the same members one after another by the same rule, and without parts of the array. Every way
// has its best number of micro-batches, and recomputes only where it must. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "array/search/solve.h"
#include "base/result.h"
#include "planner/search/query.h"
#include "tests/lab/array/pipelines.h"

namespace arena {

struct CompareQuery {
    Model model;
    std::int64_t batch = 1;  ///< of each member
    GpuPool pool;
    Capabilities can = {};  ///< of the launcher that members would run with alone
    std::int64_t stages = 8, members = 64;
    double host_bytes_per_s = 64e9;  ///< between a device and its host, each way (PCIe 4.0 x16)
    int buffers = 2;
    array::SolveOptions solve = {.solver = array::Solver::list};
};

/// One way to run one iteration of all members.
struct CompareRow {
    std::string way;
    bool is_array = false;  ///< members share the pipeline
    bool possible = false;
    std::string reason = {};
    std::int64_t micro_batches = 1;  ///< of a member's batch
    bool recomputes = false;
    std::int64_t together = 1;  ///< members that share it at a time
    std::int64_t buffers = 0;   ///< states on a device, where not all are there; else 0
    PipelineTime time = {};
};

struct Comparison {
    CompareRow model_parallel;                  ///< no micro-batches, one member after another
    std::vector<CompareRow> plain, with_array;  ///< in the order of all_pipeline_kinds
    /// ArrayPipe as this package schedules it: whole batches as blocks.
    CompareRow array, without_memory_manager, without_prefetch;
    CompareRow alone;  ///< members side by side on one device each
};

/// Errors (code no): array_stages(). A tied table is taken as two.
Result<Comparison> compare_array(const CompareQuery&);

}  // namespace arena
