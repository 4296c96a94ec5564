// SPDX-License-Identifier: GPL-2.0-or-later
// The resolver of this host, asked for a bounded time only: one whose servers are gone keeps its
// caller for minutes.
#pragma once

#include <chrono>
#include <string>

namespace arena {

/// Whether other hosts could connect by this name: the resolver gives an address within the limit,
/// and one that is no loopback address (a host's own name often stands for 127.0.1.1 in /etc/hosts,
/// which tells nobody else anything). Of an address: true, nobody is asked.
bool resolves(const std::string& host, std::chrono::milliseconds limit);

}  // namespace arena
