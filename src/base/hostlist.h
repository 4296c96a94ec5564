// SPDX-License-Identifier: GPL-2.0-or-later
// Where the ranks of a Slurm step meet: the first node of its host list, and a port of its own.
// Only what a rendezvous needs; Slurm's own library reads host lists in full.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace arena {

/// "n1" of "n[1-4,7],m2"; brackets may come more than once. Nothing of what is no host list, is
/// longer than 1 MiB, or whose first host is longer than 255 bytes.
std::optional<std::string> parse_first_host(std::string_view hostlist);

/// 20000 to 29999, below the ports that Linux gives out; neighbouring jobs of a node, and the steps
/// of a job, have different ones.
std::int64_t master_port(std::int64_t job, std::int64_t step);

}  // namespace arena
