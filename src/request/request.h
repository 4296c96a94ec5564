// SPDX-License-Identifier: GPL-2.0-or-later
// Request: what a user asked of Arena at submit. SPANK options and `#ARENA` lines both become one
// Request; its text form (the record) travels in the job's environment for Slurm's plug-ins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/model.h"
#include "core/plan.h"
#include "reports/slowdown_mode.h"

namespace arena {

inline constexpr std::size_t max_record_bytes = 32 * 1024;
inline constexpr std::size_t max_model_file_bytes = 128 * 1024;
inline constexpr std::size_t max_directives = 64;
inline constexpr std::string_view record_variable = "ARENA_RECORD";
/// The record of an ordinary job, made of what its script says, which only an observing Arena
/// reads.
inline constexpr std::string_view observed_variable = "ARENA_OBSERVED";
inline constexpr std::int64_t max_steps = std::int64_t{1} << 40;
inline constexpr std::int64_t max_memory_mb = 1 << 30;
inline constexpr double max_iteration_s = 1e12;

struct Request {
    Model model;  ///< normalised: every field checked
    /// Words of the model's text that it was read without: the user's, and what is always left out.
    std::vector<std::string> model_ignore;
    std::int64_t lora_rank = 0;     ///< of adapters that the option asks for; the model has it too
    std::int64_t global_batch = 0;  ///< samples per iteration, 1..limits::batch
    std::int64_t min_gpus = 1;      ///< 1..limits::gpus
    std::int64_t max_gpus = 0;      ///< 0 = not given: whatever the cluster has
    std::vector<std::string> gpu_types;  ///< GRES types in the user's order; empty = any
    PlanPin pin;                         ///< all zero = free
    std::string launcher = "ddp";        ///< a name of request/launchers.h
    std::string launcher_version;        ///< "" = the one that its table means
    bool launcher_by_default = true;     ///< the user named none
    bool elastic = false;
    bool inplace =
        false;           ///< its script asks for its next plan inside the job; elastic is set, too
    bool array = false;  ///< the job is an array, and each of its tasks is to be an Arena job
    std::int64_t array_size = 0;  ///< so many of them share one pipeline at most; 0 = not given
    std::optional<SlowdownMode> slowdown;  ///< not given: the site's slowdown.default
    bool loan = false;                     ///< may have lent nodes; only of an elastic job
    std::int64_t steps = 0;  ///< iterations to do; 0 = not given, the time limit stands for it
    /// Seconds of an iteration by which job_submit/arena judged the time limit against the steps; 0
    /// = it did not. By what its submitter told: see plugin/sched/belief/belief.h.
    double iteration_s = 0;
    bool user_hold = false;            ///< sbatch --hold: stay away until released
    std::int64_t cpus_per_gpu = 0;     ///< by an option of ours or of sbatch's; 0 = not given
    std::int64_t mem_per_gpu_mb = 0;   ///< the same
    std::int64_t mem_per_node_mb = 0;  ///< --mem, of each node of whatever shape; 0 = not given
    std::int64_t mem_per_cpu_mb = 0;   ///< --mem-per-cpu; 0 = not given
    bool whole_memory = false;         ///< --mem=0: all that each node has
    bool operator==(const Request&) const = default;
};

/// One `key=value` as given by the user, in whatever channel; setting_keys() are the keys.
using Setting = std::pair<std::string, std::string>;

/// `#ARENA key=value` lines in the first 64 KiB of a script, before the first line that is neither
/// blank nor a comment (as sbatch reads #SBATCH). Values match [A-Za-z0-9_.,:=x+@-]+. Never
/// evaluated. Errors: more than 64 directives, binary bytes, a line without '=', unknown key, key
/// given twice.
Result<std::vector<Setting>> parse_directives(std::string_view script);

/// Whether the job may have GPUs of this GRES type.
bool allows_type(const Request&, std::string_view gpu_type);
/// "megatron@0.13": what parse_launcher() takes.
std::string launcher_of(const Request&);

/// Why no pipeline can train tasks of an array together; "" = one can, where that gains.
std::string why_not_shared(const Request&);

inline constexpr std::string_view comment_prefix = "arena:";

/// The record: one line of JSON {"v":2,"model":{...},KEY:"VALUE",...} with the values of options as
/// text, at most max_record_bytes, equal custom layers run-length encoded by their count. Unknown
/// keys are ignored on reading, every value is checked again as one that a user gives.
Result<std::string> format_record(const Request&);
Result<Request> parse_record(std::string_view text);
/// An error about a request, as one about the record that it came in.
Error in_record(Error);

}  // namespace arena
