// SPDX-License-Identifier: GPL-2.0-or-later
// Past jobs of a site become a trace for the simulator. A job whose model somebody names is
// replayed as that model, of the work that its run did; any other as it ran: rigid, of unknown
// work.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/history/sacct.h"
#include "site/model_rules.h"

namespace arena::sim {

/// What became of the rows. Each GPU job is in exactly one of `jobs` and those left out.
struct ImportCounts {
    std::int64_t rows = 0;                         ///< allocations: no steps
    std::int64_t jobs = 0;                         ///< of the trace
    std::int64_t mapped = 0;                       ///< of them, those with a model
    std::int64_t requeued = 0;                     ///< of them, second and later lives
    std::int64_t still_running = 0;                ///< of them: taken to the last time of the file
    std::map<std::string, std::int64_t> states;    ///< of the rows
    std::map<std::string, std::int64_t> left_out;  ///< reason -> rows
};

struct Import {
    std::vector<TraceJob> jobs;  ///< by the time from which they could start
    ImportCounts counts;
};

struct ImportOptions {
    std::vector<ModelRule> models;
    bool hide_names = false;  ///< accounts are numbered; users and job names are in no trace
};

/// A job is submitted when it could start (Eligible): before, it waited for its own begin time or
/// for another job. Errors: nothing is left.
Result<Import> import_history(const std::vector<PastJob>&,
                              const std::map<std::string, PastNode>& nodes, const ImportOptions&,
                              const std::string& file);

}  // namespace arena::sim
