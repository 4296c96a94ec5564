// SPDX-License-Identifier: GPL-2.0-or-later
// See send_report.h.
#include "cli/cluster/send_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/text.h"
#include "cli/common/ask.h"

namespace arena::cli {
namespace {

/// What slurmctld answers to a report that it does not take, in Slurm's words. 24.11 asks
/// whose job it is before it asks the plug-in.
constexpr std::array<std::string_view, 7> refusals{"Requested operation not supported",
                                                   "denied",
                                                   "Invalid user id",
                                                   "not running",
                                                   "Invalid job id",
                                                   "already completing",
                                                   "already finished"};
constexpr std::string_view too_many = "temporarily unavailable";

bool has(std::string_view text, std::string_view words) {
    return text.find(words) != std::string_view::npos;
}

}  // namespace

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

Result<JobId> reporting_job(JobId given) {
    if (given != 0) return given;
    const std::string text = environment("SLURM_JOB_ID");
    if (text.empty()) return usage_error("is needed outside a job", "--job");
    const auto id = parse_integer(text, 1, UINT32_MAX);
    if (!id)
        return usage_error(fmt::format("\"{}\" is no job id", printable(text)), "SLURM_JOB_ID");
    return static_cast<JobId>(*id);
}

Status send_report(JobId job, const std::string& text) {
    const auto sent =
        run_program({"scontrol", "update", fmt::format("JobId={}", job), "Comment=" + text});
    if (!sent) return sent.error();
    if (sent->status == 0) return Done{};
    const std::string said(trim(sent->err.empty() ? sent->out : sent->err));
    if (has(said, too_many))
        return no_error(
            fmt::format("JobId={}: too many reports; slurmctld takes no more for a while", job));
    const bool refused = std::any_of(refusals.begin(), refusals.end(),
                                     [&](std::string_view words) { return has(said, words); });
    if (refused)
        return usage_error(
            fmt::format("JobId={}: slurmctld refuses the report ({}); its log says why", job,
                        printable(said, 160)));
    return environment_error(printable(said, 200), "scontrol update");
}

}  // namespace arena::cli
