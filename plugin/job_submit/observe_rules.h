// SPDX-License-Identifier: GPL-2.0-or-later
// A submission while Arena only observes: Slurm schedules the job as it was asked for, and what the
// plan says is advice. Pure rules.
#pragma once

#include <optional>
#include <string>

#include "plugin/common/quick_estimate.h"
#include "plugin/job_submit/submit_rules.h"
#include "site/model_rules.h"

namespace arena {

/// GPUs that a job gets which asks Slurm for none.
struct PlainRequest {
    std::string gpu_type;  ///< "" = any
    std::int64_t nodes = 1, gpus_per_node = 1, tasks_per_node = 1;
    std::int64_t cpus_per_task = 0;       ///< 0 = Slurm's default
    std::int64_t memory_per_node_mb = 0;  ///< the same
};

/// As few GPUs as one of sbatch's shapes has, of those with as few the fastest; without shapes its
/// least count, of the first type that it names.
PlainRequest plain_request(const Request& request, const std::optional<QuickEstimate>& estimate);

/// The value of ARENA_ADVICE: of the shapes with so many GPUs (0: any number) the best, else of
/// all; "" where sbatch found none.
std::string advice(const std::optional<QuickEstimate>& estimate, const std::string& gpu_type,
                   std::int64_t gpus);

/// What sbatch shows. `filled`: the GPUs that the job got; nothing of one that asked for its own.
std::string observed_note(const std::optional<PlainRequest>& filled, const std::string& advice);
/// The same of a job that an acting Arena would refuse, for this reason.
std::string would_refuse_note(const std::string& why);

/// What an ordinary job with GPUs seems to train, as a request for whatever GPUs suit it: by the
/// site's rules, else by its script's own words. Nothing where neither says so, or nobody can plan
/// it.
std::optional<Request> seen_request(std::string_view script, const std::vector<ModelRule>& rules,
                                    const RuledJob& job);

/// Variables that another Arena job handed down.
bool is_other_jobs_variable(std::string_view entry);

}  // namespace arena
