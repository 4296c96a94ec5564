// SPDX-License-Identifier: GPL-2.0-or-later
// Whether the slurmctld that a job goes to runs Arena. The SPANK part works from the moment it is
// installed, slurmctld's parts from a restart on: in between, and after they are taken out, a
// request for Arena would silently become an ordinary job without a GPU.
#pragma once

#include <string>

#include "base/result.h"

namespace arena {

/// Of the running slurmctld's configuration.
struct ControllerFacts {
    std::string job_submit_plugins, scheduler_type, plugin_dir;
};

/// Asks slurmctld: one request, as `scontrol show config` makes it.
Result<ControllerFacts> ask_controller();

/// An error that says what is missing and what to do, where --arena-* options would come to
/// nothing.
Status check_controller(const ControllerFacts&);

}  // namespace arena
