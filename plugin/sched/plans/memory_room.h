// SPDX-License-Identifier: GPL-2.0-or-later
// How much memory a plan may take. slurmctld ends where an allocation of its own fails, so a limit
// on its address space (ulimit -v, LimitAS= of its unit) is looked at before each plan: a part
// stays for its threads, and planning gives up before malloc() does.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace arena {

/// Bytes that this process may still map under RLIMIT_AS; nothing where it has no such limit or the
/// kernel does not say how many it has.
std::optional<std::size_t> address_space_left();

/// What slurmctld's own threads may want while a plan is made: the stacks of a dozen of them, and
/// as much again. (An arena of malloc()'s own each would be 64 MiB, but where there is no room
/// malloc() does without.)
inline constexpr std::size_t left_for_slurm = std::size_t{128} << 20;
/// A plan is made with no less, in all, which does for ordinary models. An idle slurmctld 22.05.8
/// maps 532 MB with Arena, and 350 MB without: under `ulimit -v` of 700 MB there is as much.
inline constexpr std::size_t least_for_a_plan = std::size_t{16} << 20;
/// Tables of the planner that may each be as large as their limit at the same time.
inline constexpr std::size_t kinds_of_tables = 4;

/// Bytes of each kind of table: at most `own`; nothing where there is no room for a plan.
std::optional<std::size_t> table_bytes(std::size_t own, std::optional<std::size_t> left);

/// "no plan is made: ..."
std::string no_room_text(std::size_t left);

}  // namespace arena
