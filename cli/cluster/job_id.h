// SPDX-License-Identifier: GPL-2.0-or-later
// A job as people name it: its id, or a task of a job array as squeue shows it.
#pragma once

#include <CLI/CLI.hpp>

namespace arena::cli {

/// For an option that holds a JobId: a number above 0 stands as it is; ARRAY_TASK ("152_1") becomes
/// the id that scontrol says it has. A task that has none of its own yet has its array's.
CLI::Validator job_id();

}  // namespace arena::cli
