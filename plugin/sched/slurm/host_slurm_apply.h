// SPDX-License-Identifier: GPL-2.0-or-later
// Changing jobs in slurmctld: intake, rewrite, start, release, checkpoint. Each call takes the
// write locks itself, re-checks what it was planned on, and leaves the job held when anything
// fails.
#pragma once

#include <functional>

#include "plugin/common/slurm_compat.h"
#include "plugin/sched/host/host.h"

namespace arena {

std::size_t survey_jobs(const std::function<bool(const std::string&)>& asks_to_hold, HostMode mode,
                        std::int64_t slice_ms);
void write_reasons(const std::vector<Host::Reason>& reasons, std::int64_t slice_ms);
void write_ends(const std::vector<Host::EndWords>& ends, std::int64_t slice_ms);
void write_expected_starts(const std::vector<Host::Expected>& starts, std::int64_t slice_ms);
ApplyResult start_job(const Shape& shape, const std::vector<std::string>& nodes);
ApplyResult release_job(const Shape& shape);
ApplyResult rehold_job(JobId id, std::uint32_t restart);
ApplyResult opt_out_job(const Shape& shape, Phase left);
ApplyResult checkpoint_job(JobId id, std::uint32_t restart, int signal, std::int64_t done,
                           const Move& move);
ApplyResult stay_in_job(const Shape& shape, const std::vector<std::string>& nodes);
ApplyResult note_avoided_nodes(JobId id, std::uint32_t restart,
                               const std::vector<AvoidedNode>& nodes);
ApplyResult show_slowdown(JobId id, std::uint32_t restart, const std::string& words);
ApplyResult requeue_held_job(JobId id, std::uint32_t restart);
void note_job_progress(JobId id, double trained_s);

/// Slurm keeps the job, which runs, COMPLETING when it ends, with its nodes given back, until
/// settle_job_ends() has looked at its end: dependencies are not asked before. Under the write
/// locks.
void await_end(job_record_t* job);
std::vector<HostJobs::Left> settle_job_ends(const LeaveRules& rules, bool all);
/// Of an earlier life of the plug-in, whose jobs Slurm has read anew since.
void forget_awaited_ends();

}  // namespace arena
