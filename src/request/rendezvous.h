// SPDX-License-Identifier: GPL-2.0-or-later
// Where the ranks of a job or step meet: what MASTER_ADDR and a launcher's words name. The user's
// own host, else the first node: by its name, or by the address that Slurm has of it, where its
// name is none that others could connect by.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace arena {

/// The user's own host.
inline constexpr std::string_view rendezvous_variable = "ARENA_RDZV_HOST";

/// An error that names the variable, where its value is neither a host name nor an address.
Status check_rendezvous(std::string_view value);

/// What is asked of the host where this runs; each may take a moment, and is asked at need only.
struct HostQuestions {
    std::function<bool(const std::string& host)> resolves;
    /// NodeAddr of a node; "" where Slurm does not say.
    std::function<std::string(const std::string& node)> address_of;
};
/// The resolver, for a second at most.
bool resolves_soon(const std::string& host);

/// `wanted`: of the variable, "" = not set. `nodes`: as Slurm lists them. "" where the nodes are
/// not known. Errors: those of check_rendezvous().
Result<std::string> rendezvous_host(std::string_view wanted, std::string_view nodes,
                                    const HostQuestions& ask);

}  // namespace arena
