// SPDX-License-Identifier: GPL-2.0-or-later
// The metrics of a cluster, from what the scheduler plug-in says of itself (`stats` on its socket).
// Labels are of bounded sets: no job, no user, no account. Slurm's own numbers (jobs, nodes,
// partitions) are Slurm's to export.
#pragma once

#include <string>
#include <vector>

#include "cli/exporter/documents.h"
#include "cli/exporter/exposition.h"

namespace arena::cli {

struct ExporterCounts {
    DocumentCounts questions;
    std::uint64_t requests = 0;
};

/// Where the plug-in gave no answer, or none of its own: slurm_arena_up 0, and what is the
/// exporter's.
std::string metrics_text(const Document& stats, const ExporterCounts& counts, MetricsFormat format);
}  // namespace arena::cli
