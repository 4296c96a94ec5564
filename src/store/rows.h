// SPDX-License-Identifier: GPL-2.0-or-later
// Private to the profile store: what a row says, and whether it can be. Rows come from a file that
// another program may have written or a disk damaged: what was checked before it went in is checked
// again when it comes out, by the same functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/comm_table.h"
#include "core/observation.h"
#include "core/profile.h"
#include "store/sql.h"

namespace arena::sql {

/// Columns kind, pass, precision, d0..d3, variant from `first` on; nothing where they name no
/// operator.
std::optional<OpShape> shape_of(const Statement&, int first);
/// (0, 3600] seconds.
bool is_time(double seconds);

inline constexpr std::string_view select_comm =
    "SELECT gpu_type, op, ranks, nodes, groups, bytes, min_s, median_s, p95_s, span FROM comm ";
/// A row of select_comm; an error's text says what is wrong, its where which row.
Result<CommTime> comm_of(const Statement&);

inline constexpr std::string_view select_observed =
    "SELECT model_fingerprint, model_name, global_batch, launcher, gpu_type, nodes, gpus_per_node,"
    " stages, plan, iteration_s, estimated_s, spread, steps, job, at_s, seq, user, shared, agreeing"
    " FROM observed ";
/// A row of select_observed, likewise.
Result<ObservedRun> observed_of(const Statement&);
/// "7,12": the column agreeing.
std::string text_of(const std::vector<JobId>&);
/// What comm_of() or observed_of() says of a row that cannot be: which, and what is wrong with it.
std::string told(const Error& row);
/// Of a row that some other program wrote, or a failing disk.
Error bad_row(const std::string& path, const std::string& what);
/// At least one of each of grid and batch, usable times (is_usable()), a spread of 0 or more, a
/// plan of the grid's GPUs and stages.
Status check_observed(const ObservedRun&);

}  // namespace arena::sql
