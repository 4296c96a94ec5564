// SPDX-License-Identifier: GPL-2.0-or-later
// What a running job says of itself: how long its iterations take. A report travels from the job's
// node as the text of `scontrol update Comment=...`, which every node can send and slurmctld
// authenticates; job_submit/arena takes it out before it becomes the comment. What comes of it is
// an Observation, which corrects offers (planner/search/offers.h) and lies in the profile store as
// an ObservedRun.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/cluster.h"

namespace arena {

/// What a running job reports of itself, for one model, global batch and launcher.
struct Observation {
    Grid grid;
    Plan plan;
    double iteration_s = 0;  ///< median over at least a few iterations, > 0
    double estimated_s = 0;  ///< the uncorrected estimate when it was made, > 0
    double spread = 0;       ///< relative, of the iterations
    bool operator==(const Observation&) const = default;
};

/// Positive, finite times, however far apart: a job that waits for its data is as slow as it says.
bool is_usable(const Observation&);

/// What a time is beside its estimate, both above 0: "5.6 times slower", "1.3 times faster"; within
/// half a percent "as estimated".
std::string off_words(double measured_s, double estimated_s);

/// Steps at the start of a run that warm caches and connections: they do not count.
inline constexpr std::size_t warm_up_steps = 2;
/// Of the steps after those, at least one; `seconds` in the order of the steps.
struct StepTimes {
    double median_s = 0;
    double spread = 0;  ///< interquartile range / median
};
StepTimes step_times(std::vector<double> seconds);

/// A median of so many steps, which fit into the time that the job has run (fits_run_time()), says
/// how fast that job is: it counts for its user at once.
inline constexpr std::int64_t enough_steps = 10;
/// Of fewer steps, ratios beyond this are believed when several jobs agree: one alone may have had
/// a slow disk, a neighbour, or a cold cache.
inline constexpr double max_single_ratio = 3;
/// So many jobs.
inline constexpr std::size_t outlier_jobs = 3;
/// Jobs agree whose ratios of observed to estimated time are within this factor.
inline constexpr double agreeing_ratio = 1.5;

inline constexpr std::int64_t unknown_user = -1;

/// A row of the profile store. Of one user, model, batch, launcher, grid and plan the latest stays.
/// It counts for its user's jobs; for everybody's once an administrator has said so.
struct ObservedRun {
    std::string model_fingerprint, model_name;
    std::int64_t global_batch = 1;
    std::string launcher;
    Observation observation;
    std::int64_t steps = 0;  ///< whose median it is
    JobId job = 0;           ///< 0 = measured by hand (`arena measure`)
    double at_s = 0;         ///< seconds since the epoch
    std::int64_t user =
        unknown_user;     ///< uid of the job's owner; unknown: kept by an earlier version
    bool shared = false;  ///< counts for everybody
    std::vector<JobId> agreeing = {};  ///< jobs that have reported much the same, the newest last
    bool operator==(const ObservedRun&) const = default;
};

/// The report, come in place of an earlier one of the same user, model, batch, launcher, grid and
/// plan, or (null) of none: whom it agrees with.
void note_agreeing(ObservedRun& run, const ObservedRun* before);
/// Whether offers are corrected by it, of whomever: of enough steps, no outlier, confirmed or
/// shared.
bool counts(const ObservedRun&);
/// Whether it would, confirmed by nobody: of enough steps, or no outlier.
bool counts_alone(const Observation&, std::int64_t steps);

/// Whether so many steps of so many seconds fit into the time that the job has run.
bool fits_run_time(double iteration_s, std::int64_t steps, double ran_s);

/// What `arena report` sends. Grid and plan in their short forms guard against a report of an
/// earlier life of the job, which ran in another shape.
struct IterationReport {
    double iteration_s = 0;  ///< (0, 86400]
    double spread = 0;       ///< 0..10: interquartile range over median
    std::int64_t steps = 0;  ///< 3..2^30
    std::string grid, plan;
    double trained_s = -1;  ///< 0..10^9: since the first step of this life was done; -1: not said
    bool operator==(const IterationReport&) const = default;
};

inline constexpr std::string_view report_prefix = "arena:observed;";
inline constexpr std::int64_t min_reported_steps = 3;

/// What a job says in its Comment, whichever prefix it has: the prefix, then KEY=VALUE with ';'
/// between, at most 512 bytes, every key once. `read` is false where it does not accept one.
Status parse_report_items(std::string_view text, std::string_view prefix,
                          const std::function<bool(std::string_view, std::string_view)>& read);

/// Ranges; the sentence names the option of `arena report`.
Status check_report(const IterationReport&);
/// "arena:observed;iteration_s=0.25;spread=0.01;steps=40;grid=2xa40;plan=pp2,dp1,tp1,mb4x2".
std::string format_report(const IterationReport&);
/// Untrusted: at most 512 bytes, every key once, values in range.
Result<IterationReport> parse_report(std::string_view);

}  // namespace arena
