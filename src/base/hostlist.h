// SPDX-License-Identifier: GPL-2.0-or-later
// What Slurm writes: host lists, the nodes of one, and where the ranks of a step meet: its first
// node, and a port of its own; how long something lasts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena {

/// "n1" of "n[1-4,7],m2"; brackets may come more than once. Nothing of what is no host list, is
/// longer than 1 MiB, or whose first host is longer than 255 bytes.
std::optional<std::string> parse_first_host(std::string_view hostlist);

/// All nodes of "n[1-4,7],m2" in their order; "n[08-10]" has as many digits. At most `most` nodes
/// and 64 KiB. Errors: what is no host list, an empty or falling range, a node that is there twice.
Result<std::vector<std::string>> parse_hostlist(std::string_view hostlist, std::size_t most);

/// IPv4 or IPv6, no name.
bool is_address(const std::string& host);
/// A host name (letters, digits, '-', '.', '_'; the first no '-' or '.'; at most 255 bytes) or an
/// IPv4 or IPv6 address, as programs take it in an argument or a variable.
bool is_host(std::string_view text);

/// 20000 to 29999, below the ports that Linux gives out; neighbouring jobs of a node, and the steps
/// of a job, have different ones.
std::int64_t master_port(std::int64_t job, std::int64_t step);

/// "[D-]HH:MM:SS" or "MM:SS", how long something lasts: seconds. Nothing for anything else, and
/// beyond 100,000 days. Untrusted.
std::optional<double> parse_elapsed(std::string_view text);

}  // namespace arena
