// SPDX-License-Identifier: GPL-2.0-or-later
// `arena slowdown report --from-health`: for a site's HealthCheckProgram, which runs as root on a
// node. What the node's tools say goes into the node's Comment, which slurmctld lets root,
// SlurmUser and operators alone change.
#pragma once

#include <string>
#include <vector>

#include "cli/common/cli.h"

namespace arena::cli {

struct HealthOptions {
    std::vector<std::string> files;  ///< "-" = standard input
    std::string node;                ///< "" = SLURMD_NODENAME, else this host's name
    bool dry_run = false;            ///< nothing is sent
};

int report_health(const Globals& globals, const HealthOptions& options);
/// `arena slowdown signs`: the table.
int show_signs(const Globals& globals);

}  // namespace arena::cli
